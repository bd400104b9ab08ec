//! The end of a segment that is complete: which blocks it has, and which terms are in which of them.
//!
//! A term is 32 bits of a hash: of a key, of a request's id, of a rule, or one for each kind of block that is looked
//! for as such. Sorted pairs of a term and a block's number, in pages of 4 KiB with a checksum each, and before them
//! nothing: a look-up reads the directory (blocks, and the first term of each page) and a page or two. Two hashes that
//! meet cost a look into a block.
//!
//! ```text
//! pages … | directory | offset of the pages 8, length of the directory 4, its CRC-32 4, mark 8
//! ```

use crate::block::BlockPosition;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use tidegate_core::Nanos;

const MARK: [u8; 8] = *b"\xd4TGINDEX";
const TAIL_BYTES: usize = 24;
const PAGE_TERMS: usize = 511;
const PAGE_BYTES: usize = PAGE_TERMS * 8 + 4;
/// No segment has a larger directory.
const DIRECTORY_MAX: usize = 64 << 20;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Term(u32);

impl Term {
    /// Blocks with names, blocks with events, and blocks with callers.
    pub(crate) const NAMES: Term = Term(0);
    pub(crate) const EVENTS: Term = Term(1);
    pub(crate) const CALLERS: Term = Term(2);

    /// Of a key, a part of a caller, a request or a rule: hashes all of them.
    pub(crate) fn of(hash: u64) -> Self {
        let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let [.., a, b, c, d] = mixed.to_le_bytes();
        Term(u32::from_le_bytes([a, b, c, d]).max(2))
    }

    /// With a block's number: sorts by term.
    pub(crate) fn in_block(self, block: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(block)
    }
}

fn split(pair: u64) -> (Term, u32) {
    let [a, b, c, d, e, f, g, h] = pair.to_be_bytes();
    (Term(u32::from_be_bytes([a, b, c, d])), u32::from_be_bytes([e, f, g, h]))
}

/// The index as bytes, to follow the last block at `offset`.
pub(crate) fn encode(offset: u64, blocks: &[BlockPosition], pairs: &mut Vec<u64>) -> Vec<u8> {
    pairs.sort_unstable();
    pairs.dedup();
    let mut out = Vec::with_capacity(pairs.len() * 8 + blocks.len() * 20 + PAGE_BYTES);
    for page in pairs.chunks(PAGE_TERMS) {
        let begun = out.len();
        let filled = page.iter().copied().chain(std::iter::repeat(u64::MAX)).take(PAGE_TERMS);
        filled.for_each(|pair| out.extend_from_slice(&pair.to_le_bytes()));
        let checksum = crc32fast::hash(&out[begun..]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }
    let directory = out.len();
    out.extend_from_slice(&u32::try_from(blocks.len()).unwrap_or(u32::MAX).to_le_bytes());
    for block in blocks {
        out.extend_from_slice(&block.offset.to_le_bytes());
        out.extend_from_slice(&block.first.get().to_le_bytes());
        out.extend_from_slice(&block.last.get().to_le_bytes());
    }
    for page in pairs.chunks(PAGE_TERMS) {
        out.extend_from_slice(&split(page[0]).0.0.to_le_bytes());
    }
    let checksum = crc32fast::hash(&out[directory..]);
    let length = u32::try_from(out.len() - directory).unwrap_or(u32::MAX);
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&MARK);
    out
}

/// Which blocks a segment has, and where terms are looked up.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) blocks: Vec<BlockPosition>,
    terms: Terms,
}

#[derive(Debug)]
enum Terms {
    /// In the file's pages, which are read when they are asked for; the first term of each.
    Paged { firsts: Vec<Term>, offset: u64 },
    /// Of a segment that isn't complete: made of its blocks.
    Made(Vec<u64>),
}

impl Index {
    /// `None` when there is none, or none that is whole: the blocks are still there to be walked through.
    pub(crate) fn read(file: &File, length: u64) -> Option<Self> {
        let tail_at = length.checked_sub(TAIL_BYTES as u64)?;
        let mut tail = [0; TAIL_BYTES];
        file.read_exact_at(&mut tail, tail_at).ok()?;
        let mut fields = Fields(&tail);
        let (pages_offset, directory_length) = (fields.word()?, fields.half()?);
        let (checksum, mark) = (fields.half()?, fields.0);
        let directory_length = usize::try_from(directory_length).ok()?;
        let directory_at = tail_at.checked_sub(directory_length as u64)?;
        if mark != MARK || directory_length > DIRECTORY_MAX || directory_at < pages_offset {
            return None;
        }
        let mut directory = vec![0; directory_length];
        file.read_exact_at(&mut directory, directory_at).ok()?;
        if crc32fast::hash(&directory) != checksum {
            return None;
        }
        let mut fields = Fields(&directory);
        let count = usize::try_from(fields.half()?).ok().filter(|count| *count <= directory_length / 20)?;
        let place = |fields: &mut Fields<'_>| {
            let offset = fields.half()?;
            Some(BlockPosition {
                offset,
                first: Nanos::new(fields.word()?),
                last: Nanos::new(fields.word()?),
            })
        };
        let blocks = (0..count).map(|_| place(&mut fields)).collect::<Option<_>>()?;
        let pages = (directory_at - pages_offset) / PAGE_BYTES as u64;
        let firsts = (0..pages).map(|_| fields.half().map(Term)).collect::<Option<_>>()?;
        Some(Index { blocks, terms: Terms::Paged { firsts, offset: pages_offset } })
    }

    /// Of blocks with the terms that are in them.
    pub(crate) fn made(blocks: Vec<BlockPosition>, pairs: Vec<u64>) -> Self {
        Index { blocks, terms: Terms::Made(pairs) }
    }

    /// The numbers of the blocks that may have a term.
    pub(crate) fn blocks_with(&self, file: &File, term: Term) -> io::Result<Vec<u32>> {
        let block = |pair: u64| {
            let (of, block) = split(pair);
            let is_one = of == term && usize::try_from(block).is_ok_and(|block| block < self.blocks.len());
            is_one.then_some(block)
        };
        let (firsts, offset) = match &self.terms {
            Terms::Made(pairs) => return Ok(pairs.iter().filter_map(|pair| block(*pair)).collect()),
            Terms::Paged { firsts, offset } => (firsts, *offset),
        };
        let mut found = Vec::new();
        // A term may begin in the page before the first that begins with it.
        let first = firsts.partition_point(|first| *first < term).saturating_sub(1);
        let pages = firsts.iter().enumerate().skip(first).take_while(|(_, first)| **first <= term);
        for (page, _) in pages {
            let bytes = read_page(file, offset + page as u64 * PAGE_BYTES as u64)?;
            let pairs = bytes[..PAGE_TERMS * 8].chunks_exact(8);
            found.extend(pairs.filter_map(|pair| block(u64::from_le_bytes(pair.try_into().ok()?))));
        }
        Ok(found)
    }
}

fn read_page(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE_BYTES];
    file.read_exact_at(&mut bytes, offset)?;
    let (pairs, checksum) = bytes.split_at(PAGE_TERMS * 8);
    if crc32fast::hash(pairs).to_le_bytes() != *checksum {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a page of the index is damaged"));
    }
    Ok(bytes)
}

struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn half(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}
