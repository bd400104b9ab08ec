//! Who is limited: the values of a rule's key attributes, in order.
//!
//! Values are borrowed from the request; a grouped address is written on the stack. Nothing is allocated.

use crate::address::{AddressText, group_of};
use crate::attributes::Attributes;
use crate::bounds::KEY_PARTS_MAX;
use crate::form::{MALFORMED, Value, Values};
use crate::rule::Rule;
use crate::shown::shown;
use smallvec::SmallVec;
use std::fmt;
use tidegate_core::{KeyId, KeyPrefix};

/// One attribute of a rule's `key`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyPart {
    pub attribute: Box<str>,
    /// `64` for `ip/64`: IPv6 addresses that share as many first bits are one caller.
    pub group_prefix: Option<u8>,
}

impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.attribute)?;
        self.group_prefix.map_or(Ok(()), |length| write!(f, "/{length}"))
    }
}

impl KeyPart {
    /// The value to count by; `None` when the attribute is absent. All values that should be an address and aren't
    /// are one caller: a counter for each would let callers escape their own.
    #[inline]
    fn value<'a>(&self, values: Values<'a>) -> Option<PartValue<'a>> {
        let given = match values.get(&self.attribute)? {
            Value::Formed(given) => given,
            Value::Malformed(_) => return Some(PartValue::Malformed),
        };
        match self.group_prefix {
            None => Some(PartValue::Given(given)),
            Some(length) => Some(group_of(given, length).map_or(PartValue::Malformed, PartValue::Group)),
        }
    }
}

pub(crate) enum PartValue<'a> {
    Given(&'a str),
    Group(AddressText),
    Malformed,
}

impl PartValue<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            PartValue::Given(value) => value,
            PartValue::Group(group) => group.as_str(),
            PartValue::Malformed => MALFORMED,
        }
    }
}

pub(crate) struct Identifier<'a>(SmallVec<[PartValue<'a>; KEY_PARTS_MAX]>);

impl<'a> Identifier<'a> {
    pub(crate) fn new() -> Self {
        Identifier(SmallVec::new())
    }

    /// Takes the key's values, or tells which attribute is missing. Filled in place: it is too large to be
    /// handed around on the path of a decision.
    #[inline]
    pub(crate) fn fill<'s>(&mut self, key: &'s [KeyPart], values: Values<'a>) -> Result<(), &'s str> {
        for part in key {
            self.0.push(part.value(values).ok_or(&*part.attribute)?);
        }
        Ok(())
    }

    /// The first attribute of the key that it was filled by whose value is malformed.
    #[inline]
    pub(crate) fn malformed<'s>(&self, key: &'s [KeyPart]) -> Option<&'s str> {
        let place = self.0.iter().position(|part| matches!(part, PartValue::Malformed))?;
        key.get(place).map(|part| &*part.attribute)
    }

    pub(crate) fn parts(&self) -> &[PartValue<'a>] {
        &self.0
    }

    /// By which its overrides are found.
    #[inline]
    pub(crate) fn hash(&self, prefix: &KeyPrefix) -> u128 {
        match self.0.as_slice() {
            [only] => prefix.hash_of_parts([only.as_str()]),
            parts => prefix.hash_of_parts(parts.iter().map(PartValue::as_str)),
        }
    }

    #[inline]
    pub(crate) fn key(&self, prefix: &KeyPrefix) -> KeyId {
        match self.0.as_slice() {
            [only] => prefix.key(only.as_str()),
            parts => prefix.key_of_parts(parts.iter().map(PartValue::as_str)),
        }
    }
}

/// The key that no caller has: it has more parts than any rule's `key` may name.
pub(crate) fn overflow_key(prefix: &KeyPrefix) -> KeyId {
    prefix.key_of_parts(["overflow"; KEY_PARTS_MAX + 1])
}

/// The key of a caller by its attributes as answers show them, where no `place_by` says where it is kept; `None` when
/// one is missing. For those who look a caller up, not for decisions.
pub fn caller_key(prefix: &KeyPrefix, key: &[KeyPart], attributes: Attributes<'_>) -> Option<KeyId> {
    let mut shown: SmallVec<[(&str, &str); KEY_PARTS_MAX]> = SmallVec::new();
    for part in key {
        let value = attributes.get(&part.attribute)?;
        // A group is shown with its prefix length, and may be named by any of its addresses.
        let suffix = part.group_prefix.map(|length| format!("/{length}"));
        let address = suffix.and_then(|suffix| value.strip_suffix(&*suffix)).unwrap_or(value);
        if part.group_prefix.is_some() && address != MALFORMED && group_of(address, 128).is_none() {
            return None;
        }
        shown.push((&part.attribute, address));
    }
    let mut identifier = Identifier::new();
    identifier.fill(key, Values::as_written(Attributes(&shown))).ok()?;
    Some(identifier.key(prefix))
}

/// The texts that answers may show for an address: itself, and the groups that it is in. Empty for what is no address.
pub fn address_values(text: &str) -> Vec<String> {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    let groups = (1..=128).filter_map(|length| group_of(address, length));
    let mut values: Vec<String> = groups.map(|group| group.as_str().to_owned()).collect();
    values.dedup();
    values
}

/// The values of a caller's key, in order; `None` when one is absent. For those who look a caller up, not for decisions.
pub fn identifier_values(rule: &Rule, attributes: Attributes<'_>) -> Option<Vec<Box<str>>> {
    rule.forms.with(attributes, |values| {
        let value = |part: &KeyPart| part.value(values).map(|value| value.as_str().into());
        rule.key.iter().map(value).collect()
    })
}

/// A caller's identifier for people to read: parts joined by `,`, an absent one as `?`. Two callers may have
/// the same text; never count by it.
pub fn identifier_text(rule: &Rule, attributes: Attributes<'_>) -> String {
    rule.forms.with(attributes, |values| {
        let mut text = String::new();
        for (index, part) in rule.key.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            match part.value(values) {
                Some(value) => text.push_str(&shown(value.as_str())),
                None => text.push('?'),
            }
        }
        text
    })
}
