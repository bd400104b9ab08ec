//! Which siblings of a descriptor are picked before it.
//!
//! May name one too many, never one too few: lifting a rule from callers that it isn't for changes nothing.

use crate::envoy::descriptor::{Descriptor, Level, Wildcard};
use crate::pattern::Pattern;

/// For a key alone, all its values; for a pattern, the values that it matches and the patterns before it. An
/// exact value has none.
pub(crate) fn rivals<'d>(level: &'d Level, descriptor: &'d Descriptor) -> Vec<&'d Descriptor> {
    if descriptor.value.is_empty() {
        return level.of_key(&descriptor.key).filter(|rival| !rival.value.is_empty()).collect();
    }
    let Some(Wildcard::InValue(own)) = &descriptor.wildcard else { return Vec::new() };
    let exact = level
        .of_key(&descriptor.key)
        .filter(|rival| rival.wildcard.is_none() && !rival.value.is_empty() && own.matches(&rival.value));
    let earlier = level
        .wildcards()
        .take_while(|rival| !std::ptr::eq(*rival, descriptor))
        .filter(|rival| rival.key == descriptor.key && may_meet(own, &rival.wildcard));
    exact.chain(earlier).collect()
}

/// Whether some value could match both: not when their beginnings or their ends contradict each other.
fn may_meet(own: &Pattern, other: &Option<Wildcard>) -> bool {
    let Some(Wildcard::InValue(other)) = other else { return true };
    let (a, b) = (own.text(), other.text());
    let begin = |text: &'_ str| text.split('*').next().unwrap_or_default().to_owned();
    let end = |text: &'_ str| text.rsplit('*').next().unwrap_or_default().to_owned();
    let (a_begin, b_begin, a_end, b_end) = (begin(a), begin(b), end(a), end(b));
    (a_begin.starts_with(&b_begin) || b_begin.starts_with(&a_begin))
        && (a_end.ends_with(&b_end) || b_end.ends_with(&a_end))
}
