//! Where a namespace's keys are kept: together, by the value of one attribute (`place_by`).
//!
//! Keys of one place can be granted by one call to the region's store, all or none. The place is a part of
//! the key, so a rule that is placed counts each value of the attribute apart. Never allocates per request.

use crate::form::{MALFORMED, Value, Values};
use crate::identifier::KeyPart;
use tidegate_core::identity::Shape;
use tidegate_core::{FleetSecret, KeyId, KeyPrefix};

/// No rule's name has a control character, so no rule's keys are hashed from this.
const MARK: char = '\0';

#[derive(Debug)]
pub struct PlaceBy {
    attribute: Box<str>,
    /// The hash of everything but the attribute's value.
    prefix: KeyPrefix,
}

impl PlaceBy {
    pub(crate) fn new(secret: &FleetSecret, tenant: &str, namespace: &str, attribute: Box<str>) -> Self {
        let name = format!("{MARK}{attribute}");
        let prefix = KeyPrefix::new(secret, tenant, namespace, &name, Shape::Gcra);
        PlaceBy { attribute, prefix }
    }

    pub fn attribute(&self) -> &str {
        &self.attribute
    }

    /// `None` when the request lacks the attribute: its keys keep their own places.
    #[inline]
    pub(crate) fn place(&self, values: Values<'_>) -> Option<KeyPlacement> {
        let value = match values.get(&self.attribute)? {
            Value::Formed(value) => value,
            Value::Malformed(_) => MALFORMED,
        };
        Some(KeyPlacement(self.prefix.key(value).place()))
    }

    /// Whether a rule of this key counts more finely than its key says.
    pub(crate) fn splits(&self, key: &[KeyPart]) -> bool {
        !key.iter().any(|part| part.attribute == self.attribute && part.group_prefix.is_none())
    }
}

/// The placement bits of one request's keys.
#[derive(Clone, Copy)]
pub(crate) struct KeyPlacement(u32);

impl KeyPlacement {
    #[inline]
    pub(crate) fn of(self, key: KeyId) -> KeyId {
        key.placed(self.0)
    }
}
