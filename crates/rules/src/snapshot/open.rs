//! Opens a rules file: maps it, and checks all of it before any of it is used.

use super::head::{HEAD_BYTES, Head, Section};
use super::table::{self, Places};
use super::{Bytes, Exact, RuleWithExact, Snapshot, SnapshotError};
use crate::bytes::{DecodeError, Reader};
use memmap2::{Advice, Mmap, MmapMut};
use std::fs::File;
use std::io;
use std::path::Path;

/// The caches of addresses that processors have reach as far.
const LARGE_BYTES_MIN: usize = 4 << 20;

impl Snapshot {
    /// Maps a file, which nobody may write to any more: a rules file is written under another name, synced and
    /// renamed, and later only ever removed.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(SnapshotError::Io(io::Error::other("it isn't a regular file")));
        }
        Self::checked(Bytes::Mapped(map(&file)?))
    }

    /// The same for bytes that are in memory, for tests and small sets.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, SnapshotError> {
        Self::checked(Bytes::Owned(bytes))
    }

    fn checked(bytes: Bytes) -> Result<Self, SnapshotError> {
        let head = Head::decode(bytes.get())?;
        for section in Section::ALL {
            let checksum = crc32fast::hash(bytes.get().get(head.range(section)).unwrap_or(&[]));
            if checksum != head.section(section).checksum {
                return Err(SnapshotError::Damaged { section: section.name() });
            }
        }
        let rules = read_rules(&head, &bytes)?;
        let mut snapshot = Snapshot {
            bytes,
            large: None,
            table: head.range(Section::Table),
            wide: head.range(Section::Wide),
            lines: table::home_lines(head.exact),
            head,
            rules,
            prefixes: Vec::new(),
        };
        let seed = snapshot.seed();
        let prefixes =
            snapshot.rules.iter().map(|rule| seed.prefix(&rule.tenant, &rule.namespace, &rule.rule));
        snapshot.prefixes = prefixes.collect();
        snapshot.check_documents()?;
        snapshot.check_patterns()?;
        snapshot.check_wide()?;
        snapshot.check_exact()?;
        snapshot.large = in_large_pages(snapshot.section(Section::Table));
        Ok(snapshot)
    }

    fn check_documents(&self) -> Result<(), DecodeError> {
        let mut reader = Reader::new(self.section(Section::Documents));
        let mut before = None;
        for _ in 0..self.head.documents {
            let name = Some(reader.document_name()?);
            reader.long_text()?;
            in_order(&mut before, name)?;
        }
        at_end(&reader)
    }

    fn check_patterns(&self) -> Result<(), DecodeError> {
        let mut reader = Reader::new(self.section(Section::Patterns));
        let mut before = None;
        for _ in 0..self.head.patterns {
            let name = reader.override_name()?;
            reader.applied()?;
            if name.is_exact() {
                return Err(DecodeError("a pattern has no `*`"));
            }
            in_order(&mut before, Some(name))?;
        }
        at_end(&reader)
    }

    fn check_wide(&self) -> Result<(), DecodeError> {
        let wide = self.section(Section::Wide);
        (0..self.head.wide).try_for_each(|index| table::check(table::wide_word(index), wide))
    }

    fn check_exact(&self) -> Result<(), DecodeError> {
        let mut counts = vec![0_u64; self.rules.len()];
        let mut walk = Walk::new(self);
        while let Some(exact) = walk.next()? {
            if let Some(count) = usize::try_from(exact.rule).ok().and_then(|rule| counts.get_mut(rule)) {
                *count += 1;
            }
        }
        let as_said = self.rules.iter().map(|rule| rule.exact).eq(counts);
        if as_said { Ok(()) } else { Err(DecodeError("a rule has another number of overrides than it says")) }
    }
}

#[expect(unsafe_code, reason = "mapping a file; the argument is beside the call")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: a mapping is a slice only as long as nobody writes to the file or cuts it off. Rules files lie in a
    // directory of the process's own that others can't look into, are complete and synced before they get the name
    // that is opened, and are never opened for writing under it; removing one leaves its mapping whole. Who does
    // write to one as the same user can as well write to the process's memory. What the bytes are doesn't matter:
    // they are read as bytes, with every bound checked.
    unsafe { Mmap::map(file) }
}

/// `None` where it isn't worth it, or can't be had.
fn in_large_pages(table: &[u8]) -> Option<MmapMut> {
    if table.len() < LARGE_BYTES_MIN {
        return None;
    }
    let mut large = MmapMut::map_anon(table.len()).ok()?;
    large.advise(Advice::HugePage).ok()?;
    large.copy_from_slice(table);
    Some(large)
}

fn read_rules(head: &Head, bytes: &Bytes) -> Result<Vec<RuleWithExact>, DecodeError> {
    let mut reader = Reader::new(bytes.get().get(head.range(Section::Rules)).unwrap_or(&[]));
    let mut rules: Vec<RuleWithExact> = Vec::new();
    for _ in 0..head.rules {
        let [tenant, namespace, rule] = [reader.name()?, reader.name()?, reader.name()?].map(Into::into);
        let read = RuleWithExact { tenant, namespace, rule, exact: reader.u64()? };
        let name = |rule: &RuleWithExact| (rule.tenant.clone(), rule.namespace.clone(), rule.rule.clone());
        if read.exact == 0 || rules.last().is_some_and(|before| name(before) >= name(&read)) {
            return Err(DecodeError("its rules are not in order, or one has no overrides"));
        }
        rules.push(read);
    }
    at_end(&reader)?;
    let sum = rules.iter().try_fold(0_u64, |sum, rule| sum.checked_add(rule.exact));
    if sum == Some(head.exact) {
        Ok(rules)
    } else {
        Err(DecodeError("its rules have another number of overrides"))
    }
}

fn in_order<T: PartialOrd>(before: &mut Option<T>, next: Option<T>) -> Result<(), DecodeError> {
    if before.is_some() && *before >= next {
        return Err(DecodeError("names come twice or not in order"));
    }
    *before = next;
    Ok(())
}

fn at_end(reader: &Reader<'_>) -> Result<(), DecodeError> {
    if reader.is_empty() { Ok(()) } else { Err(DecodeError("a section has more in it than it says")) }
}

impl Section {
    fn name(self) -> &'static str {
        match self {
            Section::Table => "table",
            Section::Records => "records",
            Section::Rules => "rules",
            Section::Documents => "documents",
            Section::Patterns => "patterns",
            Section::Wide => "wide values",
        }
    }
}

/// Goes through records and table side by side. They must agree to the slot: what is looked up is what is listed.
pub(super) struct Walk<'s> {
    snapshot: &'s Snapshot,
    records: Reader<'s>,
    table: &'s [u8],
    wide: &'s [u8],
    places: Places,
    left: u64,
    next_slot: u64,
    next_wide: u64,
    last_hash: Option<u128>,
}

impl<'s> Walk<'s> {
    pub(super) fn new(snapshot: &'s Snapshot) -> Self {
        Walk {
            snapshot,
            records: Reader::new(snapshot.section(Section::Records)),
            table: snapshot.section(Section::Table),
            wide: snapshot.section(Section::Wide),
            places: Places::new(snapshot.head.exact),
            left: snapshot.head.exact,
            next_slot: 0,
            next_wide: 0,
            last_hash: None,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Exact<'s>>, DecodeError> {
        let Some(left) = self.left.checked_sub(1) else { return self.end().map(|()| None) };
        self.left = left;
        let rule = self.records.u32()?;
        let parts = self.records.parts()?;
        let prefix = usize::try_from(rule).ok().and_then(|rule| self.snapshot.prefixes.get(rule));
        let prefix = prefix.ok_or(DecodeError("an override is of no rule"))?;
        if !parts.is_exact() {
            return Err(DecodeError("an exact override has a `*`"));
        }
        let hash = prefix.hash_of_parts(parts.iter());
        if self.last_hash.is_some_and(|last| last >= hash) {
            return Err(DecodeError("overrides come twice or not in order"));
        }
        self.last_hash = Some(hash);
        let applied = self.look(hash)?;
        Ok(Some(Exact { hash, rule, parts, applied }))
    }

    /// What the table says where this hash belongs.
    fn look(&mut self, hash: u128) -> Result<crate::overrides::Override, DecodeError> {
        let differs = DecodeError("the table differs from the records");
        let slot = self.places.next(hash).ok_or(differs)?;
        self.skip_to(slot)?;
        let (fingerprint, word) = table::slot(self.table, slot).ok_or(differs)?;
        self.next_slot = slot + 1;
        if fingerprint != table::fingerprint(hash) {
            return Err(differs);
        }
        match table::wide_index(word) {
            None => table::check(word, self.wide)?,
            // Written when it is first needed; checked before, all of them.
            Some(index) if index == self.next_wide => self.next_wide += 1,
            Some(index) if index < self.next_wide && word == table::wide_word(index) => {}
            Some(_) => return Err(differs),
        }
        table::read(word, || self.wide).ok_or(differs)
    }

    /// All slots before this one must be free.
    fn skip_to(&mut self, slot: u64) -> Result<(), DecodeError> {
        while self.next_slot < slot {
            if table::slot(self.table, self.next_slot) != Some((0, 0)) {
                return Err(DecodeError("the table differs from the records"));
            }
            self.next_slot += 1;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), DecodeError> {
        at_end(&self.records)?;
        self.skip_to((self.table.len() / table::LINE_BYTES) as u64 * table::SLOTS_PER_LINE)?;
        if self.next_wide == self.snapshot.head.wide {
            Ok(())
        } else {
            Err(DecodeError("a wide value is nobody's"))
        }
    }
}

const _: () = assert!(HEAD_BYTES.is_multiple_of(table::LINE_BYTES), "the table's lines are the processor's");
