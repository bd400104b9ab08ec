//! The bytes of a snapshot: a head, entries of 48 bytes, and a checksum over all of it.
//!
//! Everything is little-endian. Whatever is read is checked before anything of it is used: bytes from a disk
//! never panic and never become an entry that wasn't written.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `tidesnap` |
//! | 4 | version |
//! | 4 | number of clock steps |
//! | 8 | fingerprint of the fleet's secret |
//! | 8 | when it was written, in nanoseconds since 1970 |
//! | 16 each | clock steps, the latest first: by how much (signed), where it landed; both in nanoseconds |
//! | 48 each | entries: key (16), state (4 words of 8, the step in it being how many steps ago it was written) |
//! | 8 | number of entries |
//! | 4 | CRC-32 of all bytes before it |

use crc32fast::Hasher;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use tidegate_core::table::STEPS_HANDED_ON_MAX;
use tidegate_core::{ClockStep, KeyId, Nanos};

const MAGIC: [u8; 8] = *b"tidesnap";
const VERSION: u32 = 1;
const HEAD_BYTES: u64 = 32;
const STEP_BYTES: u64 = 16;
const ENTRY_BYTES: usize = 48;
const CHECKSUM_BYTES: u64 = 4;
const COUNT_BYTES: u64 = 8;
/// How much is read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What holds for all entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) fingerprint: u64,
    pub(super) saved_at: Nanos,
    /// The latest first.
    pub(super) steps: Vec<ClockStep>,
}

/// Why a file isn't a snapshot that can be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotProblem {
    #[error("it can't be read: {0}")]
    Io(#[from] io::Error),
    #[error("it isn't a snapshot of counts")]
    Foreign,
    #[error("it is in format {version}, of a newer version of Tidegate; this one knows format {VERSION}")]
    Newer { version: u32 },
    #[error("it is damaged or cut off")]
    Damaged,
    #[error("it was written with another secret")]
    OtherSecret,
}

/// Writes a snapshot, entry by entry.
pub(super) struct Writer<W> {
    out: W,
    checksum: Hasher,
    count: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W, head: &Head) -> io::Result<Self> {
        let mut writer = Writer { out, checksum: Hasher::new(), count: 0 };
        let step_count = u32::try_from(head.steps.len()).unwrap_or(u32::MAX);
        writer.put(&MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        writer.put(&step_count.to_le_bytes())?;
        writer.put(&head.fingerprint.to_le_bytes())?;
        writer.put(&head.saved_at.get().to_le_bytes())?;
        for step in &head.steps {
            writer.put(&step.delta_ns.to_le_bytes())?;
            writer.put(&step.lands_at.get().to_le_bytes())?;
        }
        Ok(writer)
    }

    pub(super) fn entry(&mut self, key: KeyId, words: [u64; 4]) -> io::Result<()> {
        let mut entry = [0; ENTRY_BYTES];
        let (key_bytes, word_bytes) = entry.split_at_mut(16);
        key_bytes.copy_from_slice(&key.get().to_le_bytes());
        for (bytes, word) in word_bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.count += 1;
        self.put(&entry)
    }

    /// Gives the number of entries, and what was written to.
    pub(super) fn finish(mut self) -> io::Result<(u64, W)> {
        self.put(&self.count.to_le_bytes())?;
        let checksum = self.checksum.clone().finalize();
        self.out.write_all(&checksum.to_le_bytes())?;
        Ok((self.count, self.out))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.out.write_all(bytes)
    }
}

/// The entries of a snapshot that was checked.
#[derive(Debug)]
pub(super) struct Entries<F> {
    file: BufReader<F>,
    left: u64,
}

/// Checks a whole snapshot, then gives its head and its entries.
pub(super) fn open<F: Read + Seek>(
    mut file: F,
    fingerprint: u64,
) -> Result<(Head, Entries<F>), SnapshotProblem> {
    let length_bytes = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let mut file = BufReader::with_capacity(PIECE_BYTES, file);
    check_kind(&mut file, length_bytes)?;
    file.rewind()?;
    check_sum(&mut file, length_bytes)?;
    file.rewind()?;
    let (head, entries) = read_head(file, length_bytes)?;
    if head.fingerprint != fingerprint {
        return Err(SnapshotProblem::OtherSecret);
    }
    Ok((head, entries))
}

/// Before the checksum, which another version may keep elsewhere.
fn check_kind(file: &mut impl Read, length_bytes: u64) -> Result<(), SnapshotProblem> {
    if length_bytes == 0 {
        return Err(SnapshotProblem::Damaged);
    }
    let mut magic = Vec::new();
    file.take(8).read_to_end(&mut magic)?;
    if !MAGIC.starts_with(&magic) {
        return Err(SnapshotProblem::Foreign);
    }
    if length_bytes < HEAD_BYTES + COUNT_BYTES + CHECKSUM_BYTES {
        return Err(SnapshotProblem::Damaged);
    }
    match u32::from_le_bytes(array(file)?) {
        VERSION => Ok(()),
        version if version > VERSION => Err(SnapshotProblem::Newer { version }),
        _ => Err(SnapshotProblem::Damaged),
    }
}

fn check_sum(file: &mut impl Read, length_bytes: u64) -> Result<(), SnapshotProblem> {
    let mut checksum = Hasher::new();
    let mut left = length_bytes - CHECKSUM_BYTES;
    let mut piece = vec![0; PIECE_BYTES];
    while left > 0 {
        let taken = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut piece[..taken])?;
        checksum.update(&piece[..taken]);
        left -= taken as u64;
    }
    let written = u32::from_le_bytes(array(file)?);
    if checksum.finalize() == written { Ok(()) } else { Err(SnapshotProblem::Damaged) }
}

fn read_head<F: Read + Seek>(
    mut file: BufReader<F>,
    length_bytes: u64,
) -> Result<(Head, Entries<F>), SnapshotProblem> {
    let _magic_and_version: [u8; 12] = array(&mut file)?;
    let step_count = u32::from_le_bytes(array(&mut file)?);
    let fingerprint = u64::from_le_bytes(array(&mut file)?);
    let saved_at = Nanos::new(u64::from_le_bytes(array(&mut file)?));
    let steps_bytes = u64::from(step_count) * STEP_BYTES;
    let around_entries = HEAD_BYTES + steps_bytes + COUNT_BYTES + CHECKSUM_BYTES;
    let too_many = usize::try_from(step_count).map_or(true, |count| count > STEPS_HANDED_ON_MAX);
    if too_many || length_bytes < around_entries {
        return Err(SnapshotProblem::Damaged);
    }
    let mut steps = Vec::new();
    for _ in 0..step_count {
        let delta_ns = i64::from_le_bytes(array(&mut file)?);
        let lands_at = Nanos::new(u64::from_le_bytes(array(&mut file)?));
        steps.push(ClockStep { delta_ns, lands_at });
    }
    let entries_bytes = length_bytes - around_entries;
    let left = entries_bytes / ENTRY_BYTES as u64;
    let first_entry = file.stream_position()?;
    file.seek(SeekFrom::Start(length_bytes - CHECKSUM_BYTES - COUNT_BYTES))?;
    let count = u64::from_le_bytes(array(&mut file)?);
    if count != left || !entries_bytes.is_multiple_of(ENTRY_BYTES as u64) {
        return Err(SnapshotProblem::Damaged);
    }
    file.seek(SeekFrom::Start(first_entry))?;
    Ok((Head { fingerprint, saved_at, steps }, Entries { file, left }))
}

impl<F: Read> Entries<F> {
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    pub(super) fn next(&mut self) -> io::Result<Option<(KeyId, [u64; 4])>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let key = KeyId::from_hash(u128::from_le_bytes(array(&mut self.file)?));
        let mut words = [0; 4];
        for word in &mut words {
            *word = u64::from_le_bytes(array(&mut self.file)?);
        }
        Ok(Some((key, words)))
    }
}

fn array<const N: usize>(file: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
