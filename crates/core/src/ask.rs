//! Must this admission first ask the region, and why? One pure function (docs/design.md, "Asking the region").
//!
//! A denial on the local view is always right (INV-3), so it asks nobody; but for one whose key may have been reset
//! without this node hearing of it, which asks once. A peek asks where its answer would be a guess.

use crate::time::Nanos;

/// When an admission asks its region first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Accuracy {
    /// No credit check: a burst over many nodes can overshoot.
    Fast,
    #[default]
    Bounded,
    /// Every admission asks.
    Exact,
    /// Decide on the cached view, publish behind, never wait: for billing.
    Async,
}

/// Decides what becomes of an admission that needed to ask and couldn't, and which N its credit divides by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Class {
    #[default]
    Paid,
    Free,
    Abuse,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskReason {
    Cold,
    Stale,
    Strict,
    Credit,
    Exact,
}

/// What a node knows about its own view of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// The origin has answered for the current or the previous cell.
    pub is_owner: bool,
    /// The last reply isn't too old.
    pub is_fresh: bool,
    /// A denial isn't long ago.
    pub is_strict: bool,
    /// Owners of the cell, as the origin last counted them: of the previous cell until the first sync.
    pub owners: u32,
    pub live_nodes: u32,
    /// Regions that share the credit.
    pub regions: u32,
    /// The region had no world credit left when it was last heard.
    pub is_world_spent: bool,
    /// The key is hot: only what was granted is spent.
    pub is_leased: bool,
    /// Granted, not yet spent: needs no asking.
    pub prepaid: u64,
    /// Admitted since the last sync.
    pub spent: u64,
    /// Limit minus what is in use.
    pub headroom: u64,
}

/// A quarter of the headroom may be spent unseen, over all nodes together.
const CREDIT_DIVISOR: u64 = 4;

/// Whether `amount` is more than may be admitted between two syncs: `amount > δ·H/N`.
#[inline]
pub fn exceeds_credit(view: &View, class: Class, amount: u64) -> bool {
    // Without a division. It saturates far above any headroom.
    amount.saturating_mul(CREDIT_DIVISOR * u64::from(sharers(view, class))) > view.headroom
}

/// Returns how many nodes share what is left of a limit: the N of docs/design.md, "Credit".
#[inline]
pub fn sharers(view: &View, class: Class) -> u32 {
    let live = view.live_nodes.max(1);
    match class {
        Class::Abuse => live.saturating_mul(view.regions.max(1)),
        Class::Paid | Class::Free => live.min(view.owners.saturating_add(1)),
    }
}

/// Whether an admission, already counted in `spent`, is to be published at once: half of the credit is spent.
#[inline]
pub fn must_publish(view: &View, class: Class) -> bool {
    exceeds_credit(view, class, view.spent.saturating_mul(2))
}

/// Why an admission of `cost` must ask before it is given; `None` when it needn't.
#[inline]
pub fn must_ask(accuracy: Accuracy, class: Class, view: &View, cost: u64) -> Option<AskReason> {
    if accuracy == Accuracy::Async {
        return None;
    }
    if cost == 0 {
        return must_ask_to_peek(view);
    }
    // Also before what was granted is spent: a key that has to be confirmed again is nobody's.
    if !view.is_owner {
        return Some(AskReason::Cold);
    }
    if cost <= view.prepaid {
        return None;
    }
    if accuracy == Accuracy::Exact {
        return Some(AskReason::Exact);
    }
    if view.is_leased {
        return Some(AskReason::Credit);
    }
    if !view.is_fresh {
        return Some(AskReason::Stale);
    }
    // Nobody but the region knows whether the other regions have heard of what was admitted.
    if view.is_world_spent && view.regions > 1 {
        return Some(AskReason::Credit);
    }
    match accuracy {
        Accuracy::Fast => view.is_strict.then_some(AskReason::Strict),
        Accuracy::Bounded => {
            exceeds_credit(view, class, view.spent.saturating_add(cost)).then_some(AskReason::Credit)
        }
        Accuracy::Exact | Accuracy::Async => None,
    }
}

/// Why a peek must ask: the node knows nothing of the key, or only something old.
#[cold]
fn must_ask_to_peek(view: &View) -> Option<AskReason> {
    let reason = if view.is_owner { AskReason::Stale } else { AskReason::Cold };
    (!view.is_fresh).then_some(reason)
}

/// How long strict mode lasts after a denial: min(period, 60 s).
pub fn strict_for(period: Nanos) -> Nanos {
    period.min(Nanos::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warm() -> View {
        View {
            is_owner: true,
            is_fresh: true,
            is_strict: false,
            owners: 2,
            live_nodes: 9,
            regions: 1,
            is_world_spent: false,
            is_leased: false,
            prepaid: 0,
            spent: 0,
            headroom: 120,
        }
    }

    fn ask(accuracy: Accuracy, view: View, cost: u64) -> Option<AskReason> {
        must_ask(accuracy, Class::Paid, &view, cost)
    }

    #[test]
    fn each_reason_in_its_case() {
        let warm = warm();
        assert_eq!(ask(Accuracy::Bounded, warm, 10), None);
        assert_eq!(ask(Accuracy::Bounded, warm, 11), Some(AskReason::Credit));
        assert_eq!(ask(Accuracy::Bounded, View { spent: 10, ..warm }, 1), Some(AskReason::Credit));
        assert_eq!(ask(Accuracy::Fast, warm, 11), None);
        assert_eq!(ask(Accuracy::Fast, View { is_strict: true, ..warm }, 1), Some(AskReason::Strict));
        assert_eq!(ask(Accuracy::Bounded, View { is_fresh: false, ..warm }, 1), Some(AskReason::Stale));
        assert_eq!(ask(Accuracy::Bounded, View { is_owner: false, ..warm }, 1), Some(AskReason::Cold));
        assert_eq!(ask(Accuracy::Exact, warm, 1), Some(AskReason::Exact));
        assert_eq!(ask(Accuracy::Async, View { is_owner: false, ..warm }, 1), None);
    }

    #[test]
    fn prepaid_is_spent_without_asking() {
        let view = View { prepaid: 5, is_fresh: false, ..warm() };
        assert_eq!(ask(Accuracy::Exact, view, 5), None);
        assert_eq!(ask(Accuracy::Exact, view, 6), Some(AskReason::Exact));
        let unconfirmed = View { is_owner: false, ..view };
        assert_eq!(ask(Accuracy::Bounded, unconfirmed, 5), Some(AskReason::Cold));
    }

    #[test]
    fn a_peek_asks_where_it_would_have_to_guess() {
        for accuracy in [Accuracy::Exact, Accuracy::Bounded, Accuracy::Fast] {
            assert_eq!(ask(accuracy, warm(), 0), None);
            assert_eq!(ask(accuracy, View { is_fresh: false, ..warm() }, 0), Some(AskReason::Stale));
            let cold = View { is_fresh: false, is_owner: false, ..warm() };
            assert_eq!(ask(accuracy, cold, 0), Some(AskReason::Cold));
            assert_eq!(ask(accuracy, View { is_fresh: true, ..cold }, 0), None, "it peeked a moment ago");
        }
        assert_eq!(ask(Accuracy::Async, View { is_fresh: false, ..warm() }, 0), None);
    }

    #[test]
    fn a_leased_key_spends_only_what_was_granted() {
        let leased = View { is_leased: true, prepaid: 5, ..warm() };
        for accuracy in [Accuracy::Bounded, Accuracy::Fast] {
            assert_eq!(ask(accuracy, leased, 5), None);
            assert_eq!(ask(accuracy, leased, 6), Some(AskReason::Credit), "however much credit there is");
        }
        assert_eq!(ask(Accuracy::Async, leased, 6), None, "what never waits doesn't wait for a lease");
    }

    #[test]
    fn abuse_divides_the_credit_by_all_live_nodes() {
        let credit =
            |view: &View, class| (0..1000).find(|spent| exceeds_credit(view, class, spent + 1)).unwrap();
        assert_eq!(credit(&warm(), Class::Paid), 10);
        assert_eq!(credit(&warm(), Class::Abuse), 3);
        assert_eq!(credit(&View { live_nodes: 0, owners: 0, ..warm() }, Class::Abuse), 30);
        assert_eq!(
            credit(&View { regions: 3, live_nodes: 2, ..warm() }, Class::Abuse),
            5,
            "over all regions"
        );
        let spent = View { is_world_spent: true, ..warm() };
        assert_eq!(must_ask(Accuracy::Bounded, Class::Abuse, &spent, 1), None, "nobody shares it");
        let spent = View { regions: 3, ..spent };
        assert_eq!(must_ask(Accuracy::Bounded, Class::Abuse, &spent, 1), Some(AskReason::Credit));
        assert!(!must_publish(&View { spent: 5, ..warm() }, Class::Paid));
        assert!(must_publish(&View { spent: 6, ..warm() }, Class::Paid));
    }
}
