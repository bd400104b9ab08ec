//! `replaces`: a limit that a request meets may take others of the same request out of force.
//!
//! Looks at all descriptors of a request at once and at nothing else. A replaced limit is as if its descriptor had
//! met none. What replaces may be replaced itself, and an unlimited one replaces but isn't replaced: both as there.

use super::find::EnvoyMatch;

/// Takes out what others replace.
pub fn drop_replaced(matches: &mut [Option<EnvoyMatch<'_, '_>>]) {
    let replacing = |found: &&EnvoyMatch<'_, '_>| found.limit.is_some_and(|limit| !limit.replaces.is_empty());
    // Rare: a request without it pays for one look at each limit.
    let names: Vec<&str> = matches
        .iter()
        .flatten()
        .filter(replacing)
        .filter_map(|found| found.limit)
        .flat_map(|limit| limit.replaces.iter().map(|name| &**name))
        .collect();
    if names.is_empty() {
        return;
    }
    let is_replaced = |found: &EnvoyMatch<'_, '_>| {
        !found.is_unlimited() && found.name().is_some_and(|name| names.contains(&name))
    };
    for found in matches.iter_mut() {
        if found.as_ref().is_some_and(is_replaced) {
            *found = None;
        }
    }
}
