//! The bytes of deltas and of rules files: little-endian numbers, texts behind their lengths.
//!
//! Whatever is read may be anything: nothing here panics, and nothing is allocated by a length that was only
//! claimed. There is one way to write a value, and nothing else is read.

use crate::bounds::{KEY_PARTS_MAX, NAME_CHARS_MAX, VALUE_CHARS_MAX};
use crate::change::{DocumentName, OverrideName};
use crate::overrides::{Override, OverrideEffect};
use crate::rule::Mode;
use std::sync::Arc;
use tidegate_core::{Burst, Limit, Nanos, Rate};

/// What is wrong with some bytes, or with a value that was to become some.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub(crate) &'static str);

pub(crate) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What hasn't been read yet.
    pub(crate) fn rest(&self) -> &'b [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'b [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DecodeError("it is cut off"))?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError("it is cut off"))?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, DecodeError> {
        self.array().map(u128::from_le_bytes)
    }

    /// A text behind two bytes of length.
    #[inline]
    pub(crate) fn short_text(&mut self) -> Result<&'b str, DecodeError> {
        let length = self.u16()?;
        utf8(self.take(usize::from(length))?)
    }

    /// A text behind four bytes of length.
    pub(crate) fn long_text(&mut self) -> Result<&'b str, DecodeError> {
        let length = self.u32()?;
        utf8(self.take(usize::try_from(length).map_err(|_| DecodeError("a text is too long"))?)?)
    }

    pub(crate) fn name(&mut self) -> Result<&'b str, DecodeError> {
        let name = self.short_text()?;
        check_name(name)?;
        Ok(name)
    }

    pub(crate) fn document_name(&mut self) -> Result<DocumentName, DecodeError> {
        Ok(DocumentName { tenant: self.name()?.into(), namespace: self.name()?.into() })
    }

    pub(crate) fn override_name(&mut self) -> Result<OverrideName, DecodeError> {
        let [tenant, namespace, rule] = [self.name()?, self.name()?, self.name()?].map(Arc::from);
        let parts = self.parts()?.iter().map(Box::from).collect();
        Ok(OverrideName { tenant, namespace, rule, parts })
    }

    /// The parts of a caller's name, checked.
    #[inline]
    pub(crate) fn parts(&mut self) -> Result<Parts<'b>, DecodeError> {
        let before = self.rest;
        let count = usize::from(self.u8()?);
        if count > KEY_PARTS_MAX {
            return Err(DecodeError("a caller has too many parts"));
        }
        for _ in 0..count {
            check_part(self.short_text()?)?;
        }
        let (encoded, _) = before.split_at(before.len() - self.rest.len());
        Ok(Parts(encoded))
    }

    pub(crate) fn applied(&mut self) -> Result<Override, DecodeError> {
        let tag = self.u8()?;
        let until = Nanos::new(self.u64()?);
        let out_of_range = |_| DecodeError("a number is out of its range");
        let change = match tag & !HOT {
            KEEP => OverrideEffect::Keep,
            UNLIMITED => OverrideEffect::Unlimited,
            LIMIT => OverrideEffect::Limit(Limit::new(self.u64()?).map_err(out_of_range)?),
            RATE => OverrideEffect::Rate {
                rate: Rate::from_interval(self.u64()?, self.u64()?).map_err(out_of_range)?,
                burst: Burst::new(self.u64()?).map_err(out_of_range)?,
            },
            _ => return Err(DecodeError("an override is of no known kind")),
        };
        let applied = Override { change, hot: tag & HOT != 0, until };
        check_override(&applied)?;
        Ok(applied)
    }

    pub(crate) fn mode(&mut self) -> Result<Mode, DecodeError> {
        mode_of(u32::from(self.u8()?))
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError("a text isn't UTF-8"))
}

/// The parts of a caller's name as they are written: their number, then each behind its length. Checked before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'b>(&'b [u8]);

impl<'b> Parts<'b> {
    /// Of bytes that [`put_parts`] wrote or [`Reader::parts`] read.
    pub(crate) fn of_checked(encoded: &'b [u8]) -> Self {
        Parts(encoded)
    }

    pub(crate) fn encoded(&self) -> &'b [u8] {
        self.0
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'b str> + use<'b> {
        let mut reader = Reader::new(self.0);
        let count = reader.u8().unwrap_or(0);
        (0..count).map(move |_| reader.short_text().unwrap_or(""))
    }

    /// Whether no part is a pattern.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.iter().all(|part| !part.contains('*'))
    }
}

const KEEP: u8 = 0;
const UNLIMITED: u8 = 1;
const LIMIT: u8 = 2;
const RATE: u8 = 3;
const HOT: u8 = 0x80;

pub(crate) fn mode_number(mode: Mode) -> u8 {
    match mode {
        Mode::Enforce => 0,
        Mode::Shadow => 1,
        Mode::Off => 2,
    }
}

pub(crate) fn mode_of(number: u32) -> Result<Mode, DecodeError> {
    match number {
        0 => Ok(Mode::Enforce),
        1 => Ok(Mode::Shadow),
        2 => Ok(Mode::Off),
        _ => Err(DecodeError("a mode is none that is known")),
    }
}

/// A text that is short enough, which whoever calls has checked.
pub(crate) fn put_short_text(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_long_text(out: &mut Vec<u8>, text: &str) {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn put_document_name(out: &mut Vec<u8>, name: &DocumentName) {
    put_short_text(out, &name.tenant);
    put_short_text(out, &name.namespace);
}

pub(crate) fn put_override_name(out: &mut Vec<u8>, name: &OverrideName) {
    [&name.tenant, &name.namespace, &name.rule].into_iter().for_each(|text| put_short_text(out, text));
    put_parts(out, &name.parts);
}

pub(crate) fn put_parts(out: &mut Vec<u8>, parts: &[Box<str>]) {
    out.push(u8::try_from(parts.len()).unwrap_or(u8::MAX));
    parts.iter().for_each(|part| put_short_text(out, part));
}

pub(crate) fn put_applied(out: &mut Vec<u8>, applied: &Override) {
    let kind = match applied.change {
        OverrideEffect::Keep => KEEP,
        OverrideEffect::Unlimited => UNLIMITED,
        OverrideEffect::Limit(_) => LIMIT,
        OverrideEffect::Rate { .. } => RATE,
    };
    out.push(if applied.hot { kind | HOT } else { kind });
    out.extend_from_slice(&applied.until.get().to_le_bytes());
    match applied.change {
        OverrideEffect::Keep | OverrideEffect::Unlimited => {}
        OverrideEffect::Limit(limit) => out.extend_from_slice(&limit.get().to_le_bytes()),
        OverrideEffect::Rate { rate, burst } => {
            for number in [rate.interval_numerator_ns(), rate.interval_denominator(), burst.get()] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

/// Of a tenant, a namespace or a rule: as a rules file may name them.
pub(crate) fn check_name(name: &str) -> Result<(), DecodeError> {
    if name.is_empty() || !fits(name, NAME_CHARS_MAX) {
        return Err(DecodeError("a name isn't 1 to 128 characters without control characters"));
    }
    Ok(())
}

#[inline]
pub(crate) fn check_part(part: &str) -> Result<(), DecodeError> {
    if !fits(part, VALUE_CHARS_MAX) {
        return Err(DecodeError("a caller's name has more than 512 characters, or control characters"));
    }
    Ok(())
}

pub(crate) fn check_override(applied: &Override) -> Result<(), DecodeError> {
    if applied.change == OverrideEffect::Keep && !applied.hot {
        return Err(DecodeError("an override changes nothing"));
    }
    Ok(())
}

/// Most names are ASCII, and need no look at their characters.
#[inline]
fn fits(text: &str, chars_max: usize) -> bool {
    if text.len() <= chars_max && text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return true;
    }
    text.len() <= 4 * chars_max && text.chars().count() <= chars_max && !text.chars().any(char::is_control)
}
