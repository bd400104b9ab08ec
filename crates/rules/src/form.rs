//! What the values of an attribute are, in one namespace: addresses, paths, words without case, or any text.
//!
//! A request's values are brought into their forms once, before any rule sees them, so that conditions, keys,
//! overrides and `place_by` all see the same text. A value that should be an address and isn't is *malformed*, which
//! differs from absent: whoever sends one must not escape a rule by it. Nothing is allocated for values that are in
//! their form already.

use crate::address::{AddressText, Canonical, canonical};
use crate::attributes::Attributes;
use crate::normal;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// The name of the attribute whose values are addresses unless the namespace says otherwise.
pub(crate) const ADDRESS_NAME: &str = "ip";
/// What malformed values of an attribute are counted as, all together. No address has this text.
pub(crate) const MALFORMED: &str = "malformed";
/// More than a request may have; what comes after them isn't seen.
const ATTRIBUTES_MAX: usize = u64::BITS as usize;

/// What the values of one attribute are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Taken as it is written.
    Text,
    Address,
    Normal {
        is_path: bool,
        is_lower: bool,
    },
}

impl Form {
    /// A value in its form; `None` when it can't be.
    fn apply(self, value: &str) -> Option<Applied> {
        let of_text = |text: Cow<'_, str>| match text {
            Cow::Borrowed(text) if text.len() == value.len() => Applied::AsWritten,
            Cow::Borrowed(text) => Applied::Cut(text.len()),
            Cow::Owned(text) => Applied::Text(text.into_boxed_str()),
        };
        match self {
            Form::Text => Some(Applied::AsWritten),
            Form::Address => match canonical(value)? {
                Canonical::AsWritten => Some(Applied::AsWritten),
                Canonical::Rewritten(text) => Some(Applied::Address(text)),
            },
            Form::Normal { is_path, is_lower } => {
                let text = if is_path { normal::path(value) } else { Cow::Borrowed(value) };
                Some(of_text(if is_lower { normal::lower(text) } else { text }))
            }
        }
    }

    /// A value of a rules file in its form; as it is where it can't be.
    pub(crate) fn normal(self, value: &str) -> Box<str> {
        match self.apply(value) {
            None => value.into(),
            Some(applied) => applied.text(value).into(),
        }
    }

    /// A `*` pattern of a rules file, as values in their form can match it.
    pub(crate) fn pattern(self, pattern: &str) -> Cow<'_, str> {
        match self {
            Form::Normal { is_lower: true, .. } => normal::lower(Cow::Borrowed(pattern)),
            Form::Text | Form::Address | Form::Normal { .. } => Cow::Borrowed(pattern),
        }
    }
}

/// As a rules file has it.
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Text => "text",
            Form::Address => "address",
            Form::Normal { is_path: true, is_lower: false } => "path",
            Form::Normal { is_path: false, .. } => "lower",
            Form::Normal { is_path: true, is_lower: true } => "[path, lower]",
        })
    }
}

/// What became of a value.
#[derive(Debug)]
enum Applied {
    AsWritten,
    /// Its first bytes.
    Cut(usize),
    Address(AddressText),
    Text(Box<str>),
}

impl Applied {
    fn text<'v>(&'v self, value: &'v str) -> &'v str {
        match self {
            Applied::AsWritten => value,
            Applied::Cut(length) => &value[..*length],
            Applied::Address(text) => text.as_str(),
            Applied::Text(text) => text,
        }
    }
}

/// The forms of a namespace's attributes; those that aren't here are any text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Forms(pub(crate) Vec<(Box<str>, Form)>);

impl Forms {
    pub(crate) fn of(&self, attribute: &str) -> Form {
        self.0.iter().find(|(name, _)| **name == *attribute).map_or(Form::Text, |(_, form)| *form)
    }

    /// Calls `look` with a request's values in their forms.
    #[inline]
    pub(crate) fn with<R>(&self, attributes: Attributes<'_>, look: impl FnOnce(Values<'_>) -> R) -> R {
        if self.0.is_empty() {
            return look(Values::as_written(attributes));
        }
        let FormedValues { texts, malformed } = self.changed(attributes);
        if texts.is_empty() {
            return look(Values { attributes, malformed });
        }
        let mut list: SmallVec<[(&str, &str); 8]> = SmallVec::from_slice(attributes.0);
        for (index, applied) in &texts {
            let (_, value) = &mut list[*index];
            *value = applied.text(value);
        }
        look(Values { attributes: Attributes(&list), malformed })
    }

    fn changed(&self, attributes: Attributes<'_>) -> FormedValues {
        let mut changed = FormedValues::default();
        for (attribute, form) in &self.0 {
            let mut places = attributes.0.iter().take(ATTRIBUTES_MAX);
            let Some(index) = places.position(|(name, _)| **name == **attribute) else { continue };
            let (_, value) = attributes.0[index];
            match form.apply(value) {
                Some(Applied::AsWritten) => {}
                Some(applied) => changed.texts.push((index, applied)),
                None => changed.malformed |= 1 << index,
            }
        }
        changed
    }
}

/// The values of a request that its forms change.
#[derive(Debug, Default)]
struct FormedValues {
    texts: SmallVec<[(usize, Applied); 1]>,
    malformed: u64,
}

/// A request's values, in their forms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    attributes: Attributes<'a>,
    /// A bit for each that is malformed.
    malformed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value<'a> {
    Formed(&'a str),
    /// It should be an address and isn't: as it was written.
    Malformed(&'a str),
}

impl<'a> Values<'a> {
    /// Without any forms.
    pub(crate) const fn as_written(attributes: Attributes<'a>) -> Self {
        Values { attributes, malformed: 0 }
    }

    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<Value<'a>> {
        if self.malformed == 0 {
            return self.attributes.get(name).map(Value::Formed);
        }
        let index = self.attributes.0.iter().position(|(candidate, _)| *candidate == name)?;
        let (_, value) = self.attributes.0[index];
        let is_malformed = index < ATTRIBUTES_MAX && self.malformed >> index & 1 == 1;
        Some(if is_malformed { Value::Malformed(value) } else { Value::Formed(value) })
    }
}
