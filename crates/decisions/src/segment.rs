//! A segment being written: blocks one after the other, and the index when it is complete.
//!
//! A block is handed to the system whole, in one write: a process that is killed loses none that was written. A
//! segment without an index (its process was killed) is read by walking through it, until it is given one.

use crate::block::{self, BlockPosition, HEAD_BYTES, Head};
use crate::entry::{BlockEntry, Entries};
use crate::index::{self, Term};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use tidegate_core::Nanos;

/// What every segment begins with; the last byte is the version of the format.
pub(crate) const FILE_MARK: [u8; 8] = *b"TGDECIS\x01";
pub(crate) const EXTENSION: &str = "decisions";
/// The largest that a segment may be set to; one that is twice as large isn't ours.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    pub(crate) length: u64,
    blocks: Vec<BlockPosition>,
    /// Terms with their blocks.
    pairs: Vec<u64>,
}

impl Segment {
    /// Files sort by their names as they were begun.
    pub(crate) fn create(directory: &Path, now: Nanos) -> io::Result<Self> {
        for later in 0..1000 {
            let path = directory.join(format!("{:020}.{EXTENSION}", now.get().saturating_add(later)));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.write_all(&FILE_MARK)?;
                    let length = FILE_MARK.len() as u64;
                    return Ok(Segment { file, length, blocks: Vec::new(), pairs: Vec::new() });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "a thousand segments of one instant"))
    }

    /// Appends a block, which has these terms.
    pub(crate) fn append(
        &mut self,
        payload: &[u8],
        (first, last): (Nanos, Nanos),
        terms: &mut Vec<Term>,
    ) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
        Head::of(payload, first, last).write(&mut bytes);
        bytes.extend_from_slice(payload);
        self.file.write_all(&bytes)?;
        let offset = u32::try_from(self.length).map_err(io::Error::other)?;
        let number = u32::try_from(self.blocks.len()).map_err(io::Error::other)?;
        self.blocks.push(BlockPosition { offset, first, last });
        terms.sort_unstable();
        terms.dedup();
        self.pairs.extend(terms.drain(..).map(|term| term.in_block(number)));
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Gives it its index. Nothing is written to it any more.
    pub(crate) fn seal(mut self) -> io::Result<u64> {
        let index = index::encode(self.length, &self.blocks, &mut self.pairs);
        self.file.write_all(&index)?;
        self.file.sync_data()?;
        Ok(self.length + index.len() as u64)
    }

    /// Gives a segment an index whose process ended before it could.
    pub(crate) fn seal_left_behind(path: &Path) -> io::Result<()> {
        let length = fs::metadata(path)?.len();
        if length > 2 * SEGMENT_BYTES_MAX || index::Index::read(&File::open(path)?, length).is_some() {
            return Ok(());
        }
        let bytes = fs::read(path)?;
        if !bytes.starts_with(&FILE_MARK) {
            return Ok(());
        }
        let (blocks, mut pairs) = walk(&bytes);
        let index = index::encode(length, &blocks, &mut pairs);
        OpenOptions::new().append(true).open(path)?.write_all(&index)
    }
}

/// The blocks of a segment in memory, and the terms that are in them.
pub(crate) fn walk(bytes: &[u8]) -> (Vec<BlockPosition>, Vec<u64>) {
    let blocks = block::scan(bytes, FILE_MARK.len());
    let (mut pairs, mut terms) = (Vec::new(), Vec::new());
    for (number, place) in (0..).zip(&blocks) {
        let Some(payload) = payload_at(bytes, place) else { continue };
        let entries = Entries::new(payload);
        terms.extend(entries.flat_map(|entry| terms_of(&entry).collect::<Vec<_>>()));
        // A rule is in nearly every entry of its block.
        terms.sort_unstable();
        terms.dedup();
        pairs.extend(terms.drain(..).map(|term| term.in_block(number)));
    }
    (blocks, pairs)
}

/// What a block in memory has after its head, if that is whole.
fn payload_at<'b>(bytes: &'b [u8], place: &BlockPosition) -> Option<&'b [u8]> {
    let at = usize::try_from(place.offset).ok()?;
    let head = Head::read(bytes.get(at..)?)?;
    head.checked(bytes.get(at + HEAD_BYTES..)?)
}

/// By what an entry is found.
pub(crate) fn terms_of(entry: &BlockEntry) -> impl Iterator<Item = Term> + '_ {
    let terms = match entry {
        BlockEntry::Record(record) => [
            Some(Term::of(record.key.high)),
            Some(Term::of(record.rule.0)),
            Some(Term::of(record.request.0)).filter(|_| record.request.0 != 0),
        ],
        BlockEntry::Count(count) => [Some(Term::of(count.rule.0)), None, None],
        BlockEntry::Event(_) => [Some(Term::EVENTS), None, None],
        BlockEntry::Caller(key, _) => [Some(Term::CALLERS), Some(Term::of(key.high)), None],
        BlockEntry::Rule(..) | BlockEntry::Shard(..) | BlockEntry::Writer { .. } => {
            [Some(Term::NAMES), None, None]
        }
    };
    let parts = match entry {
        BlockEntry::Caller(_, caller) => &caller.parts[..],
        _ => &[],
    };
    terms.into_iter().flatten().chain(parts.iter().map(|part| Term::of(part.0)))
}
