//! Bounds how much of a shared control plane one tenant may use, and which errors it is shown.
//!
//! A tenant may grow up to a quarter of what the others leave free, so that however many tenants take all they can,
//! there is room for one more. Operators, who have no tenant, are bound by the caps of the whole set only.

use super::PlaneError;
use super::rule_state::{RuleState, Size};
use tidegate_rules::{RULES_MAX, RuleErrors, SOURCES_BYTES_MAX};

/// One in so many of what is free.
const SHARE: usize = 4;

/// Refuses a push by which a tenant outgrows its share. One that has more already may keep it, and shrink.
pub(super) fn check(before: &RuleState, after: &RuleState, tenant: &str) -> Result<(), PlaneError> {
    let (had, has, all) = (before.size_of(tenant), after.size_of(tenant), after.size());
    let is_beyond = |of: fn(&Size) -> usize, cap: usize| {
        let others = of(&all) - of(&has);
        of(&has) > of(&had) && of(&has) > cap.saturating_sub(others) / SHARE
    };
    if is_beyond(|size| size.rules, RULES_MAX) {
        let message = format!("tenant {tenant} would have {} rules, more than its share", has.rules);
        return Err(PlaneError::refused(message, "use overrides for single callers, or ask the operators"));
    }
    if is_beyond(|size| size.bytes, SOURCES_BYTES_MAX) {
        let kibibytes = has.bytes.div_ceil(1 << 10);
        let message = format!("tenant {tenant} would have {kibibytes} KiB of rules, more than its share");
        return Err(PlaneError::refused(message, "remove rules that aren't used, or ask the operators"));
    }
    Ok(())
}

/// Keeps only the errors of a tenant's own documents: others' names and lines are theirs.
pub(super) fn own_errors(errors: &RuleErrors, tenant: &str) -> PlaneError {
    match errors.of_files(&format!("{tenant}/")) {
        Some(own) => PlaneError::Invalid(own),
        None => PlaneError::refused(
            "the rules are valid, but don't fit beside those of others",
            "push less, or ask the operators",
        ),
    }
}
