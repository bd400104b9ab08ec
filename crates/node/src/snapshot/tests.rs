//! Counts written and read again: nothing is lost, nothing is made up, and no byte of a file is trusted.

mod disk;

use super::file::{read, write};
use super::*;
use std::io::Cursor;
use tidegate_core::{
    Burst, Calendar, CalendarUnit, Cost, Decision, FleetSecret, Item, KeyId, Limit, Moment, Period, Rate,
    Spec, StepId,
};

const NOW: Nanos = Nanos::from_secs(1_800_000_000);
const SECRET: FleetSecret = FleetSecret::BUILT_IN;

fn at(seconds: u64) -> Moment {
    Moment::at(NOW.plus(Nanos::from_secs(seconds)))
}

fn table() -> Table<LocalState> {
    Table::new(10_000)
}

/// Keys in all corners of the table.
fn key(number: u64) -> KeyId {
    KeyId::from_hash(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// Five per hour, in each way to count that there is.
fn specs(now: Nanos) -> [Spec; 4] {
    let (limit, hour) = (Limit::new(5).unwrap(), Nanos::from_secs(3600));
    let period = Period::new(hour).unwrap();
    let cell = Calendar::new(CalendarUnit::Hour, "UTC").unwrap().cell_at(now);
    [
        Spec::Sliding { limit, period },
        Spec::Fixed { limit, period },
        Spec::Calendar { limit, unit: CalendarUnit::Hour, cell },
        Spec::Gcra { rate: Rate::new(5, hour).unwrap(), burst: Burst::new(5).unwrap() },
    ]
}

fn ask(table: &Table<LocalState>, number: u64, spec: Spec, moment: Moment) -> Decision {
    table.decide(&Item::new(key(number), spec, Cost::ONE), moment).unwrap()
}

fn ask_each(table: &Table<LocalState>, moment: Moment) -> Vec<Decision> {
    (0..).zip(specs(moment.now)).map(|(number, spec)| ask(table, number, spec, moment)).collect()
}

fn written(table: &Table<LocalState>, moment: Moment, extent: Extent) -> Vec<u8> {
    write(table, &SECRET, Vec::new(), moment, extent).unwrap().1
}

fn restored(bytes: &[u8], moment: Moment) -> (Table<LocalState>, Result<LoadReport, SnapshotProblem>) {
    let table = table();
    let loaded = read(&table, &SECRET, Cursor::new(bytes), moment);
    (table, loaded)
}

#[test]
fn every_kind_of_limit_goes_on_as_if_there_had_been_no_restart() {
    let first = table();
    for second in 0..5 {
        assert!(ask_each(&first, at(second)).iter().all(Decision::is_admitted));
    }
    let (second, loaded) = restored(&written(&first, at(5), Extent::Lasting), at(7));
    assert_eq!(loaded.unwrap().restored, 4);
    for seconds in [8, 9, 800, 4000, 9000] {
        let (there, here) = (ask_each(&first, at(seconds)), ask_each(&second, at(seconds)));
        assert_eq!(there, here, "after {seconds} s");
        assert_eq!(there.iter().any(Decision::is_admitted), seconds >= 800);
    }
}

#[test]
fn what_is_over_within_a_minute_is_written_only_at_the_end() {
    let table = table();
    let window = |seconds| Spec::Fixed {
        limit: Limit::new(5).unwrap(),
        period: Period::new(Nanos::from_secs(seconds)).unwrap(),
    };
    for (number, seconds) in [(1, 10), (2, 60), (3, 600), (4, 3600)] {
        ask(&table, number, window(seconds), at(1));
    }
    let counts = |extent, seconds| write(&table, &SECRET, Vec::new(), at(seconds), extent).unwrap().0;
    assert_eq!((counts(Extent::Live, 1), counts(Extent::Lasting, 1)), (4, 2));
    assert_eq!(
        (counts(Extent::Live, 11), counts(Extent::Lasting, 11)),
        (3, 2),
        "what is over is never written"
    );
    assert_eq!((counts(Extent::Live, 545), counts(Extent::Lasting, 545)), (2, 1));
}

#[test]
fn what_is_over_when_the_node_starts_is_not_restored() {
    let first = table();
    ask_each(&first, at(0));
    let (second, loaded) = restored(&written(&first, at(0), Extent::Live), at(4000));
    let loaded = loaded.unwrap();
    assert_eq!((loaded.restored, loaded.expired, second.len()), (1, 3, 1));
}

#[test]
fn a_clock_step_before_the_restart_refills_nothing() {
    for delta_s in [-86_400, -100, 100, 86_400_i64] {
        let first = table();
        (0..5).for_each(|_| drop(ask_each(&first, at(0))));
        let lands_at = at(1).now.shifted(delta_s * 1_000_000_000);
        let step = first.clock_stepped(delta_s * 1_000_000_000, lands_at);
        let moment = Moment { now: lands_at, step };
        let (second, loaded) = restored(&written(&first, moment, Extent::Lasting), Moment::at(lands_at));
        assert_eq!(loaded.unwrap().restored, 4, "{delta_s}");
        let there = ask_each(&first, moment);
        assert!(!there.iter().any(Decision::is_admitted), "{delta_s}");
        assert_eq!(there, ask_each(&second, Moment::at(lands_at)), "{delta_s}");
    }
}

#[test]
fn a_clock_that_was_set_back_during_the_restart_neither_refills_nor_denies_for_days() {
    let first = table();
    (0..5).for_each(|_| drop(ask_each(&first, at(200_000))));
    let bytes = written(&first, at(200_000), Extent::Lasting);
    let (second, loaded) = restored(&bytes, at(0));
    let loaded = loaded.unwrap();
    assert_eq!((loaded.restored, loaded.set_back), (4, Some(Nanos::from_secs(200_000))));
    assert!(!ask_each(&second, at(1)).iter().any(Decision::is_admitted));
    assert!(
        ask_each(&second, at(7200)).iter().all(Decision::is_admitted),
        "not before the clock has caught up"
    );
    assert_eq!(restored(&bytes, at(199_970)).1.unwrap().set_back, None);
}

#[test]
fn a_snapshot_of_a_restored_table_is_a_snapshot_of_the_first() {
    let first = table();
    ask_each(&first, at(0));
    let lands_at = at(50).now;
    let step = first.clock_stepped(50_000_000_000, lands_at);
    ask(&first, 9, specs(lands_at)[0], Moment { now: lands_at, step });
    let bytes = written(&first, Moment { now: lands_at, step }, Extent::Lasting);
    let (second, _) = restored(&bytes, Moment::at(lands_at));
    assert_eq!(written(&second, Moment::at(lands_at), Extent::Lasting), bytes);
}

#[test]
fn a_clock_step_during_the_walk_is_noticed() {
    let table = table();
    table.clock_stepped(1, NOW);
    let outcome = write(&table, &SECRET, Vec::new(), at(0), Extent::Live);
    assert!(matches!(outcome, Err(SaveError::ClockStepped)));
    assert!(write(&table, &SECRET, Vec::new(), Moment { now: NOW, step: StepId(1) }, Extent::Live).is_ok());
}

/// A few entries and a clock step: every part of the format is in it.
fn small_file() -> Vec<u8> {
    let table = table();
    table.clock_stepped(7, NOW);
    let moment = Moment { now: NOW, step: StepId(1) };
    ask_each(&table, moment);
    let bytes = written(&table, moment, Extent::Live);
    assert_eq!(bytes.len(), 32 + 16 + 4 * 48 + 12);
    bytes
}

#[test]
fn a_byte_changed_anywhere_is_noticed_and_nothing_is_restored() {
    let good = small_file();
    assert_eq!(restored(&good, at(0)).1.unwrap().restored, 4);
    for offset in 0..good.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[offset] ^= change;
            let (table, loaded) = restored(&bytes, at(0));
            assert!(loaded.is_err() && table.is_empty(), "byte {offset}: {loaded:?}");
        }
    }
}

#[test]
fn a_file_cut_or_grown_anywhere_is_noticed_and_nothing_is_restored() {
    let good = small_file();
    for length in 0..good.len() {
        let (table, loaded) = restored(&good[..length], at(0));
        assert!(
            matches!(loaded, Err(SnapshotProblem::Damaged)) && table.is_empty(),
            "{length} bytes: {loaded:?}"
        );
    }
    for more in [1, 4, 16, 48, 100_000] {
        let (table, loaded) = restored(&[good.as_slice(), &vec![0; more]].concat(), at(0));
        assert!(
            matches!(loaded, Err(SnapshotProblem::Damaged)) && table.is_empty(),
            "{more} bytes more: {loaded:?}"
        );
    }
}

/// Sound by its checksum, whatever is in it.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 4;
    let checksum = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn even_a_byte_changed_on_purpose_never_panics() {
    let good = small_file();
    for offset in 12..good.len() - 4 {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[offset] = value;
            let (table, _) = restored(&sealed(bytes), at(0));
            ask_each(&table, at(1));
        }
    }
}

#[test]
fn each_file_that_is_not_ours_is_told_by_its_kind() {
    let good = small_file();
    let changed = |offset: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[offset] = value;
        restored(&sealed(bytes), at(0)).1.unwrap_err()
    };
    assert!(matches!(changed(0, b'X'), SnapshotProblem::Foreign));
    assert!(matches!(changed(8, 2), SnapshotProblem::Newer { version: 2 }));
    assert!(matches!(changed(8, 0), SnapshotProblem::Damaged));
    assert!(matches!(changed(12, 200), SnapshotProblem::Damaged), "more steps than there can be");
    assert!(matches!(changed(16, 0), SnapshotProblem::OtherSecret));
    assert!(matches!(restored(b"#!/bin/sh\necho hello\n", at(0)).1, Err(SnapshotProblem::Foreign)));
    let other = FleetSecret::from_bytes(b"another secret altogether");
    let loaded = read(&table(), &other, Cursor::new(&good), at(0));
    assert!(matches!(loaded, Err(SnapshotProblem::OtherSecret)));
}

#[test]
fn what_finds_no_room_is_counted() {
    let first = table();
    let spec = specs(NOW)[0];
    for number in 0..5000 {
        ask(&first, number, spec, at(0));
    }
    let small = Table::new(1000);
    let loaded = read(&small, &SECRET, Cursor::new(written(&first, at(0), Extent::Live)), at(0)).unwrap();
    assert_eq!(loaded.restored + loaded.without_room, 5000);
    assert!(loaded.without_room >= 3900 && small.len() as u64 == loaded.restored, "{loaded:?}");
}
