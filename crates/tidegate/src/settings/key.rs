//! How one key is spelt: `origin.timeout_ms`, `TIDEGATE_ORIGIN_TIMEOUT_MS`, `--origin-timeout-ms`.
//!
//! Spelling only; what the keys are is the table's.

pub(super) const ENVIRONMENT_PREFIX: &str = "TIDEGATE_";

pub(crate) fn flag(key: &str) -> String {
    format!("--{}", long_flag(key))
}

pub(crate) fn long_flag(key: &str) -> String {
    key.replace(['.', '_'], "-")
}

pub(super) fn environment(key: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}

/// The candidate that was most likely meant, whatever its case.
pub(super) fn nearest(given: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    let candidates: Vec<String> = candidates.collect();
    let lower: Vec<String> = candidates.iter().map(|candidate| candidate.to_ascii_lowercase()).collect();
    let found = tidegate_rules::suggest::nearest(given, lower.iter().map(String::as_str))?;
    candidates.into_iter().find(|candidate| candidate.eq_ignore_ascii_case(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_three_spellings() {
        assert_eq!(flag("origin.timeout_ms"), "--origin-timeout-ms");
        assert_eq!(environment("origin.timeout_ms"), "TIDEGATE_ORIGIN_TIMEOUT_MS");
    }

    #[test]
    fn a_slip_of_the_pen_is_recognised_and_a_guess_is_not_made() {
        let keys = || ["listen.http", "listen.admin"].map(str::to_owned).into_iter();
        assert_eq!(nearest("listen.htpt", keys()).as_deref(), Some("listen.http"));
        assert_eq!(nearest("listen.grpc", keys()), None);
    }
}
