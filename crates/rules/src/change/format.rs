//! A delta as bytes: what streams carry and logs keep.
//!
//! Everything is little-endian; texts come behind their lengths (two bytes; four for a document).
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `tidedelt` |
//! | 4 | format |
//! | 4 | number of changes |
//! | 8 | version |
//! | … | changes: a byte that says which, then what `bytes.rs` writes for its parts |
//! | 4 | CRC-32 of all bytes before it |
//!
//! Whatever is read is what [`Delta::encode`] would write for it, to the byte; anything else is refused whole.

use super::{Delta, RuleChange};
use crate::bytes::{
    DecodeError, Reader, check_override, mode_number, put_applied, put_document_name, put_long_text,
    put_override_name,
};
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"tidedelt";
const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 4;
/// Of a delta as bytes.
pub const DELTA_BYTES_MAX: usize = 16 << 20;
pub const DELTA_CHANGES_MAX: usize = 100_000;

const DOCUMENT: u8 = 1;
const DOCUMENT_GONE: u8 = 2;
const OVERRIDE: u8 = 3;
const OVERRIDE_GONE: u8 = 4;
const FLEET_MODE: u8 = 5;
const RESET: u8 = 6;

/// Why a delta can't be written, or isn't one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DeltaError {
    #[error(
        "a delta has at most {DELTA_CHANGES_MAX} changes and {DELTA_BYTES_MAX} bytes; make several of it"
    )]
    TooLarge,
    #[error("it isn't a delta of rules")]
    Foreign,
    #[error("the delta is in format {format}; this version of Tidegate knows format {FORMAT}")]
    OtherFormat { format: u32 },
    #[error("the delta is damaged: its checksum differs")]
    Damaged,
    #[error("the delta isn't valid: {0}")]
    Malformed(#[from] DecodeError),
}

impl Delta {
    /// As bytes. Fails where it is larger than a delta may be, or has a text or a number that rules can't have.
    pub fn encode(&self) -> Result<Vec<u8>, DeltaError> {
        if self.changes.len() > DELTA_CHANGES_MAX {
            return Err(DeltaError::TooLarge);
        }
        check_version(self.version)?;
        let mut out = Vec::with_capacity(HEAD_BYTES + 64 * self.changes.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.changes.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        for change in &self.changes {
            put_change(&mut out, change)?;
            if out.len() > DELTA_BYTES_MAX - CHECKSUM_BYTES {
                return Err(DeltaError::TooLarge);
            }
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        Ok(out)
    }

    /// From bytes that may be anything.
    pub fn decode(bytes: &[u8]) -> Result<Delta, DeltaError> {
        let mut reader = opened(bytes)?;
        let count = reader.u32()?;
        let version = reader.u64()?;
        check_version(version)?;
        if usize::try_from(count).map_or(true, |count| count > DELTA_CHANGES_MAX) {
            return Err(DeltaError::TooLarge);
        }
        let mut changes = Vec::new();
        for _ in 0..count {
            changes.push(read_change(&mut reader)?);
        }
        if !reader.is_empty() {
            return Err(DecodeError("there is more than it says").into());
        }
        Ok(Delta { version, changes })
    }
}

/// The version that some bytes claim, where they begin like a delta.
pub(crate) fn claimed_version(bytes: &[u8]) -> Option<u64> {
    let mut reader = Reader::new(bytes);
    let is_delta = reader.take(MAGIC.len()) == Ok(&MAGIC) && reader.u32() == Ok(FORMAT);
    let _count = reader.u32().ok()?;
    reader.u64().ok().filter(|_| is_delta)
}

/// Past the kind, with the checksum found right and left out.
fn opened(bytes: &[u8]) -> Result<Reader<'_>, DeltaError> {
    if bytes.len() > DELTA_BYTES_MAX {
        return Err(DeltaError::TooLarge);
    }
    let mut reader = Reader::new(bytes);
    if reader.take(MAGIC.len()) != Ok(&MAGIC) {
        return Err(DeltaError::Foreign);
    }
    // Before the checksum, which another format may keep elsewhere.
    match reader.u32()? {
        FORMAT => {}
        format => return Err(DeltaError::OtherFormat { format }),
    }
    let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(DeltaError::Damaged)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
        return Err(DeltaError::Damaged);
    }
    Ok(Reader::new(body.get(MAGIC.len() + 4..).ok_or(DeltaError::Damaged)?))
}

/// Rules that nobody pushed have version 0.
fn check_version(version: u64) -> Result<(), DecodeError> {
    if version == 0 { Err(DecodeError("no change has version 0")) } else { Ok(()) }
}

fn put_change(out: &mut Vec<u8>, change: &RuleChange) -> Result<(), DeltaError> {
    match change {
        RuleChange::Document { name, text } => {
            name.check()?;
            out.push(if text.is_some() { DOCUMENT } else { DOCUMENT_GONE });
            put_document_name(out, name);
            if let Some(text) = text {
                if text.len() > DELTA_BYTES_MAX {
                    return Err(DeltaError::TooLarge);
                }
                put_long_text(out, text);
            }
        }
        RuleChange::Override { name, value } => {
            name.check()?;
            out.push(if value.is_some() { OVERRIDE } else { OVERRIDE_GONE });
            put_override_name(out, name);
            if let Some(applied) = value {
                check_override(applied)?;
                put_applied(out, applied);
            }
        }
        RuleChange::FleetMode(mode) => out.extend_from_slice(&[FLEET_MODE, mode_number(*mode)]),
        RuleChange::Reset { name, epoch } => {
            name.check()?;
            out.push(RESET);
            put_override_name(out, name);
            out.extend_from_slice(&epoch.to_le_bytes());
        }
    }
    Ok(())
}

fn read_change(reader: &mut Reader<'_>) -> Result<RuleChange, DeltaError> {
    Ok(match reader.u8()? {
        DOCUMENT => {
            RuleChange::Document { name: reader.document_name()?, text: Some(Arc::from(reader.long_text()?)) }
        }
        DOCUMENT_GONE => RuleChange::Document { name: reader.document_name()?, text: None },
        OVERRIDE => RuleChange::Override { name: reader.override_name()?, value: Some(reader.applied()?) },
        OVERRIDE_GONE => RuleChange::Override { name: reader.override_name()?, value: None },
        FLEET_MODE => RuleChange::FleetMode(reader.mode()?),
        RESET => RuleChange::Reset { name: reader.override_name()?, epoch: reader.u32()? },
        _ => return Err(DecodeError("a change is of no known kind").into()),
    })
}
