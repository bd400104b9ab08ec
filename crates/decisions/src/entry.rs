//! Entries as bytes: numbers as LEB128, hashes as they are, texts with their length before them.
//!
//! What is read was checked against a checksum before; it is still bytes from a disk: whatever they are, reading them
//! ends, and says `None` for what was never written.

use crate::caller::{CALLER_PARTS_MAX, Caller, PartTag};
use crate::event::{Event, EventKind};
use crate::name::{Algorithm, KeyForm, PARTS_MAX, RuleName, TEXT_MAX};
use crate::record::{
    KeyHash, Record, RecordOutcome, RecordPath, RequestTag, RuleCount, RuleId, ShardTag, Trace,
};
use tidegate_core::{CalendarUnit, Nanos, Period, TierCounts};

/// One entry of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BlockEntry {
    Record(Record),
    Count(RuleCount),
    Event(Event),
    Rule(RuleId, RuleName),
    Shard(ShardTag, String),
    Caller(KeyHash, Caller),
    /// Which node of which region wrote the segment.
    Writer {
        region: String,
        node: String,
    },
}

const RECORD: u8 = 1;
const COUNT: u8 = 2;
const EVENT: u8 = 3;
const RULE: u8 = 4;
const SHARD: u8 = 5;
const WRITER: u8 = 6;
/// A record, and the trace that it belongs to.
const TRACED: u8 = 7;
/// In blocks of their own: a release that doesn't know them reads the others.
const CALLER: u8 = 8;

const UNITS: [CalendarUnit; 4] =
    [CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month];

/// Times within a block are written as what has passed since its base, which it begins with.
pub(crate) fn encode(entry: &BlockEntry, base: Nanos, out: &mut Vec<u8>) {
    match entry {
        BlockEntry::Record(record) => encode_record(record, base, out),
        BlockEntry::Count(count) => {
            out.push(COUNT);
            out.extend_from_slice(&count.rule.0.to_le_bytes());
            put_time(out, count.first, base);
            put_number(out, count.last.minus(count.first).get());
            put_number(out, count.count);
        }
        BlockEntry::Event(event) => {
            out.extend_from_slice(&[EVENT, place(&EventKind::ALL, event.kind), u8::from(event.is_unwell)]);
            put_number(out, event.at.get());
            put_number(out, zigzag(event.value));
            put_text(out, &event.subject);
            put_text(out, &event.text);
        }
        BlockEntry::Rule(id, name) => {
            out.push(RULE);
            out.extend_from_slice(&id.0.to_le_bytes());
            encode_rule(name, out);
        }
        BlockEntry::Shard(tag, address) => {
            out.push(SHARD);
            out.extend_from_slice(&tag.0.to_le_bytes());
            put_text(out, address);
        }
        BlockEntry::Caller(key, caller) => {
            out.push(CALLER);
            out.extend_from_slice(&key.high.to_le_bytes());
            out.extend_from_slice(&key.low.to_le_bytes());
            out.extend_from_slice(&caller.rule.0.to_le_bytes());
            let parts = &caller.parts[..caller.parts.len().min(CALLER_PARTS_MAX)];
            put_number(out, parts.len() as u64);
            parts.iter().for_each(|part| out.extend_from_slice(&part.0.to_le_bytes()));
            out.push(u8::from(caller.name.is_some()));
            caller.name.iter().for_each(|name| put_text(out, name));
        }
        BlockEntry::Writer { region, node } => {
            out.push(WRITER);
            put_text(out, region);
            put_text(out, node);
        }
    }
}

pub(crate) fn encode_record(record: &Record, base: Nanos, out: &mut Vec<u8>) {
    let kinds = place(&RecordOutcome::ALL, record.outcome) << 4 | place(&RecordPath::ALL, record.path);
    let kind = if record.trace == Trace::NONE { RECORD } else { TRACED };
    out.extend_from_slice(&[kind, kinds]);
    put_time(out, record.at, base);
    out.extend_from_slice(&record.key.high.to_le_bytes());
    out.extend_from_slice(&record.key.low.to_le_bytes());
    out.extend_from_slice(&record.rule.0.to_le_bytes());
    out.extend_from_slice(&record.shard.0.to_le_bytes());
    out.extend_from_slice(&record.request.0.to_le_bytes());
    let TierCounts { own, others, world, previous } = record.counts;
    for number in [record.rule_version, record.cost, record.limit, own, others, world, previous] {
        put_number(out, number);
    }
    put_number(out, record.retry_after.map_or(0, |wait| wait.as_millis_ceil().saturating_add(1)));
    put_number(out, u64::from(record.more));
    if record.more > 0 {
        put_number(out, record.last.minus(record.at).get());
    }
    if kind == TRACED {
        let Trace { high, low, span } = record.trace;
        [high, low, span].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

fn encode_rule(name: &RuleName, out: &mut Vec<u8>) {
    for text in [&name.tenant, &name.namespace, &name.rule] {
        put_text(out, text);
    }
    match &name.algorithm {
        Algorithm::Gcra => out.push(0),
        Algorithm::Sliding(period) => {
            out.push(1);
            put_number(out, period.length().get());
        }
        Algorithm::Fixed(period) => {
            out.push(2);
            put_number(out, period.length().get());
        }
        Algorithm::Calendar { unit, time_zone } => {
            out.extend_from_slice(&[3, place(&UNITS, *unit)]);
            put_text(out, time_zone);
        }
    }
    match &name.key {
        KeyForm::Identifier => out.push(0),
        KeyForm::Entries => out.push(1),
        KeyForm::Attributes(names) => {
            out.push(2);
            let names = &names[..names.len().min(PARTS_MAX)];
            put_number(out, names.len() as u64);
            names.iter().for_each(|name| put_text(out, name));
        }
    }
}

/// The entries of a block, as far as they can be read.
pub(crate) struct Entries<'b> {
    bytes: Bytes<'b>,
    base: Nanos,
}

impl<'b> Entries<'b> {
    /// Of a payload: what its times are relative to, and the entries.
    pub(crate) fn new(payload: &'b [u8]) -> Self {
        let mut bytes = Bytes(payload);
        let base = Nanos::new(bytes.word().unwrap_or(0));
        Entries { bytes, base }
    }
}

impl Iterator for Entries<'_> {
    type Item = BlockEntry;

    fn next(&mut self) -> Option<BlockEntry> {
        let entry = self.bytes.entry(self.base);
        if entry.is_none() {
            // What follows can't be told apart any more.
            self.bytes = Bytes(&[]);
        }
        entry
    }
}

struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn entry(&mut self, base: Nanos) -> Option<BlockEntry> {
        match self.byte()? {
            RECORD => self.record(base).map(BlockEntry::Record),
            TRACED => {
                let record = self.record(base)?;
                let trace = Trace { high: self.word()?, low: self.word()?, span: self.word()? };
                Some(BlockEntry::Record(Record { trace, ..record }))
            }
            COUNT => {
                let rule = RuleId(self.word()?);
                let first = self.time(base)?;
                let last = first.plus(Nanos::new(self.number()?));
                Some(BlockEntry::Count(RuleCount { rule, first, last, count: self.number()? }))
            }
            EVENT => self.event().map(BlockEntry::Event),
            RULE => Some(BlockEntry::Rule(RuleId(self.word()?), self.rule()?)),
            SHARD => Some(BlockEntry::Shard(ShardTag(self.half()?), self.text()?)),
            CALLER => self.caller(),
            WRITER => Some(BlockEntry::Writer { region: self.text()?, node: self.text()? }),
            _ => None,
        }
    }

    fn record(&mut self, base: Nanos) -> Option<Record> {
        let kinds = self.byte()?;
        let outcome = *RecordOutcome::ALL.get(usize::from(kinds >> 4))?;
        let path = *RecordPath::ALL.get(usize::from(kinds & 15))?;
        let at = self.time(base)?;
        let key = KeyHash { high: self.word()?, low: self.half()? };
        let (rule, shard) = (RuleId(self.word()?), ShardTag(self.half()?));
        let request = RequestTag(self.word()?);
        let (rule_version, cost, limit) = (self.number()?, self.number()?, self.number()?);
        let counts = TierCounts {
            own: self.number()?,
            others: self.number()?,
            world: self.number()?,
            previous: self.number()?,
        };
        let retry_after = self.number()?.checked_sub(1).map(Nanos::from_millis);
        let more = u32::try_from(self.number()?).ok()?;
        let last = if more > 0 { at.plus(Nanos::new(self.number()?)) } else { at };
        Some(Record {
            at,
            key,
            rule,
            rule_version,
            outcome,
            path,
            shard,
            request,
            trace: Trace::NONE,
            cost,
            limit,
            counts,
            retry_after,
            more,
            last,
        })
    }

    fn caller(&mut self) -> Option<BlockEntry> {
        let key = KeyHash { high: self.word()?, low: self.half()? };
        let rule = RuleId(self.word()?);
        let count = usize::try_from(self.number()?).ok().filter(|count| *count <= CALLER_PARTS_MAX)?;
        let parts = (0..count).map(|_| self.word().map(PartTag)).collect::<Option<_>>()?;
        let name = if self.byte()? == 1 { Some(self.text()?) } else { None };
        Some(BlockEntry::Caller(key, Caller { rule, parts, name }))
    }

    fn event(&mut self) -> Option<Event> {
        let kind = *EventKind::ALL.get(usize::from(self.byte()?))?;
        let is_unwell = self.byte()? == 1;
        let at = Nanos::new(self.number()?);
        let value = unzigzag(self.number()?);
        Some(Event { at, kind, is_unwell, value, subject: self.text()?, text: self.text()? })
    }

    fn rule(&mut self) -> Option<RuleName> {
        let (tenant, namespace, rule) = (self.text()?, self.text()?, self.text()?);
        let algorithm = match self.byte()? {
            0 => Algorithm::Gcra,
            1 => Algorithm::Sliding(self.period()?),
            2 => Algorithm::Fixed(self.period()?),
            3 => {
                let unit = *UNITS.get(usize::from(self.byte()?))?;
                Algorithm::Calendar { unit, time_zone: self.text()? }
            }
            _ => return None,
        };
        let key = match self.byte()? {
            0 => KeyForm::Identifier,
            1 => KeyForm::Entries,
            2 => {
                let count = usize::try_from(self.number()?).ok().filter(|count| *count <= PARTS_MAX)?;
                KeyForm::Attributes((0..count).map(|_| self.text()).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        Some(RuleName { tenant, namespace, rule, algorithm, key })
    }

    fn period(&mut self) -> Option<Period> {
        Period::new(Nanos::new(self.number()?)).ok()
    }

    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn half(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn time(&mut self, base: Nanos) -> Option<Nanos> {
        Some(Nanos::new(base.get().wrapping_add(unzigzag(self.number()?).cast_unsigned())))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok().filter(|length| *length <= TEXT_MAX)?;
        Some(String::from_utf8_lossy(self.take(length)?).into_owned())
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        let [low, ..] = number.to_le_bytes();
        out.push(low | 0x80);
        number >>= 7;
    }
    let [low, ..] = number.to_le_bytes();
    out.push(low);
}

/// A clock may have been set back since the block began.
fn put_time(out: &mut Vec<u8>, time: Nanos, base: Nanos) {
    put_number(out, zigzag(time.get().wrapping_sub(base.get()).cast_signed()));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(TEXT_MAX)];
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

const fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

/// Where a variant stands among all of them.
fn place<T: PartialEq + Copy>(all: &[T], one: T) -> u8 {
    all.iter().position(|other| *other == one).and_then(|place| u8::try_from(place).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            at: Nanos::from_secs(1_800_000_000),
            key: KeyHash { high: u64::MAX - 5, low: 77 },
            rule: RuleId(9),
            rule_version: 3,
            outcome: RecordOutcome::Denied,
            path: RecordPath::Unverified,
            shard: ShardTag(4),
            request: RequestTag(u64::MAX),
            trace: Trace::NONE,
            cost: 1,
            limit: 100,
            counts: TierCounts { own: 60, others: 30, world: 5, previous: 5 },
            retry_after: Some(Nanos::from_millis(412)),
            more: 3,
            last: Nanos::from_secs(1_800_000_001),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let name = RuleName {
            tenant: "default".into(),
            namespace: "api".into(),
            rule: "per-user".into(),
            algorithm: Algorithm::Calendar { unit: CalendarUnit::Week, time_zone: "Europe/Paris".into() },
            key: KeyForm::Attributes(vec!["user".into(), "ip/64".into()]),
        };
        let event = Event {
            at: Nanos::from_secs(7),
            kind: EventKind::ClockStep,
            is_unwell: false,
            value: -4000,
            subject: String::new(),
            text: "é".repeat(10),
        };
        let (first, last) = (Nanos::from_secs(1), Nanos::from_secs(2));
        let entries = [
            BlockEntry::Record(record()),
            BlockEntry::Record(Record { trace: Trace { high: 1, low: 2, span: 3 }, ..record() }),
            BlockEntry::Record(Record { more: 0, last: record().at, retry_after: None, ..record() }),
            BlockEntry::Rule(
                RuleId(3),
                RuleName { algorithm: Algorithm::Gcra, key: KeyForm::Entries, ..name.clone() },
            ),
            BlockEntry::Rule(RuleId(4), name),
            BlockEntry::Event(event),
            BlockEntry::Count(RuleCount { rule: RuleId(5), first, last, count: u64::MAX }),
            BlockEntry::Shard(ShardTag(8), "127.0.0.1:6379".into()),
            BlockEntry::Caller(
                KeyHash { high: 1, low: 2 },
                Caller { rule: RuleId(3), parts: vec![PartTag(4), PartTag(5)], name: None },
            ),
            BlockEntry::Caller(
                KeyHash { high: 1, low: 2 },
                Caller { rule: RuleId(3), parts: Vec::new(), name: Some("alice,/search".into()) },
            ),
            BlockEntry::Writer { region: "eu".into(), node: "a".into() },
        ];
        for base in [Nanos::ZERO, Nanos::from_secs(1_799_999_999), Nanos::MAX] {
            let mut bytes = base.get().to_le_bytes().to_vec();
            entries.iter().for_each(|entry| encode(entry, base, &mut bytes));
            assert_eq!(Entries::new(&bytes).collect::<Vec<_>>(), entries);
        }
    }

    #[test]
    fn a_record_is_small() {
        let mut bytes = Vec::new();
        encode_record(&record(), Nanos::from_secs(1_800_000_000), &mut bytes);
        assert!(bytes.len() <= 60, "{} bytes", bytes.len());
    }

    #[test]
    fn texts_are_cut_off_at_a_character() {
        let mut bytes = vec![0; 8];
        let entry = BlockEntry::Shard(ShardTag(1), "é".repeat(TEXT_MAX));
        encode(&entry, Nanos::ZERO, &mut bytes);
        let read: Vec<BlockEntry> = Entries::new(&bytes).collect();
        assert_eq!(read, [BlockEntry::Shard(ShardTag(1), "é".repeat(TEXT_MAX / 2))]);
    }
}
