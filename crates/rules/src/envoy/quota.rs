//! `quota_mode`: what the limits of a request say together.
//!
//! A limit denies by itself; quotas deny only when every one of them is used up. Both as there.

/// One limit of a request: whether it is a quota, and whether it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    pub is_quota: bool,
    pub is_over: bool,
}

/// Whether a request with these limits is denied. Limits that are unlimited, replaced or in the shadow don't belong
/// to them.
pub fn is_denied(limits: impl IntoIterator<Item = Standing>) -> bool {
    let (mut quotas, mut quotas_over) = (0_usize, 0_usize);
    for Standing { is_quota, is_over } in limits {
        if is_over && !is_quota {
            return true;
        }
        quotas += usize::from(is_quota);
        quotas_over += usize::from(is_quota && is_over);
    }
    quotas > 0 && quotas == quotas_over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_denies_alone_and_quotas_only_together() {
        let [limit_ok, limit_over, quota_ok, quota_over] =
            [(false, false), (false, true), (true, false), (true, true)]
                .map(|(is_quota, is_over)| Standing { is_quota, is_over });
        for (limits, denied) in [
            (&[][..], false),
            (&[limit_ok], false),
            (&[limit_ok, limit_over], true),
            (&[quota_over], true),
            (&[quota_over, quota_ok], false),
            (&[quota_over, quota_over], true),
            (&[quota_over, limit_ok], true),
            (&[quota_ok, limit_over], true),
            (&[quota_ok, limit_ok], false),
        ] {
            assert_eq!(is_denied(limits.iter().copied()), denied, "{limits:?}");
        }
    }
}
