//! redis-cell's documented examples and its own table of cases, and what is refused.

use super::*;
use tidegate_core::identity::Shape;
use tidegate_core::{FleetSecret, LocalState, Moment, Table};

const START: Nanos = Nanos::from_secs(1_800_000_000);

fn keys() -> KeyPrefix {
    KeyPrefix::new(&FleetSecret::BUILT_IN, "default", NAMESPACE, "", Shape::Gcra)
}

fn read<'a>(line: &'a str) -> Result<Throttle<'a>, Wrong> {
    let words: Vec<&'a [u8]> = line.split(' ').map(str::as_bytes).collect();
    Throttle::read(&words, &mut LastLimit::default())
}

struct Limiter(Table<LocalState>);

impl Limiter {
    fn new() -> Self {
        Limiter(Table::new(10_000))
    }

    /// The five numbers of a reply.
    fn ask(&self, line: &str, now: Nanos) -> Vec<i64> {
        let item = read(line).unwrap().item(&keys());
        let decision = self.0.decide(&item, Moment::at(now)).unwrap();
        let mut out = Vec::new();
        answer(&mut out, &decision, now);
        let text = String::from_utf8(out).unwrap();
        text.split("\r\n").filter_map(|line| line.strip_prefix(':')?.parse().ok()).collect()
    }
}

#[test]
fn the_example_of_its_readme() {
    let limiter = Limiter::new();
    assert_eq!(limiter.ask("CL.THROTTLE user123 15 30 60", START), [0, 16, 15, -1, 2]);
    assert_eq!(limiter.ask("CL.THROTTLE user123 15 30 60 1", START), [0, 16, 14, -1, 4]);
    assert_eq!(limiter.ask("throttle user123 15 30 60 0", START), [0, 16, 14, -1, 4]);
}

#[test]
fn the_example_of_its_end_to_end_test() {
    let limiter = Limiter::new();
    let line = "CL.THROTTLE user123 0 1 2 1";
    assert_eq!(limiter.ask(line, START), [0, 1, 0, -1, 2]);
    assert_eq!(limiter.ask(line, START), [1, 1, 0, 2, 2]);
    assert_eq!(limiter.ask(line, START.plus(Nanos::from_secs(2))), [0, 1, 0, -1, 2]);
}

/// Its unit test's table, with seconds as its command rounds them: from a millisecond on, up.
#[test]
fn the_cases_of_its_unit_test() {
    let limiter = Limiter::new();
    for (case, (now_ms, volume, limited, remaining, retry_after, reset_after)) in [
        (0, 6, 1, 5, -1, 0),
        (0, 1, 0, 4, -1, 1),
        (0, 1, 0, 3, -1, 2),
        (0, 1, 0, 2, -1, 3),
        (0, 1, 0, 1, -1, 4),
        (0, 1, 0, 0, -1, 5),
        (0, 1, 1, 0, 1, 5),
        (3_000, 1, 0, 2, -1, 3),
        (3_100, 1, 0, 1, -1, 4),
        (4_000, 1, 0, 1, -1, 4),
        (8_000, 1, 0, 4, -1, 1),
        (9_500, 1, 0, 4, -1, 1),
        (9_500, 0, 0, 4, -1, 1),
        (9_500, 2, 0, 2, -1, 3),
        (9_500, 5, 1, 2, 3, 3),
    ]
    .into_iter()
    .enumerate()
    {
        let reply =
            limiter.ask(&format!("CL.THROTTLE foo 4 1 1 {volume}"), START.plus(Nanos::from_millis(now_ms)));
        assert_eq!(reply, [limited, 5, remaining, retry_after, reset_after], "case {case}");
    }
}

#[test]
fn a_rest_below_a_millisecond_is_no_second() {
    for (nanos, expected) in
        [(0, 0), (999_999, 0), (1_000_000, 1), (1_000_000_000, 1), (1_000_999_999, 1), (1_001_000_000, 2)]
    {
        assert_eq!(seconds(Nanos::new(nanos)), expected, "{nanos}");
    }
}

#[test]
fn a_burst_of_nothing_limits_everything_and_lets_look() {
    let limiter = Limiter::new();
    assert_eq!(limiter.ask("CL.THROTTLE k -1 1 1", START), [1, 0, 0, -1, 0]);
    assert_eq!(limiter.ask("CL.THROTTLE k -1 1 1 0", START), [0, 0, 0, -1, 0]);
}

#[test]
fn the_ends_of_every_range_neither_panic_nor_wrap() {
    let limiter = Limiter::new();
    let most = (1_u64 << 53) - 1;
    // The slowest rate, and the largest burst that comes back at it within a hundred years.
    let slow = limiter.ask("CL.THROTTLE a 98 1 31622400", START);
    assert_eq!(&slow[..4], [0, 99, 98, -1]);
    let fast = limiter.ask(&format!("CL.THROTTLE b {most} 1000000000 1 {}", 1_u64 << 53), START);
    assert_eq!(fast, [0, 1 << 53, 0, -1, 9_007_200]);
    assert_eq!(limiter.ask("CL.THROTTLE c 0 1 1 9007199254740992", START), [1, 1, 1, -1, 0]);
}

#[test]
fn what_is_wrong_is_said() {
    let long = "x".repeat(ATTRIBUTE_VALUE_BYTES_MAX + 1);
    for (line, wrong) in [
        ("CL.THROTTLE", Wrong::WordCount(true)),
        ("THROTTLE k 1 1", Wrong::WordCount(false)),
        ("CL.THROTTLE k 1 1 1 1 1", Wrong::WordCount(true)),
        ("CL.THROTTLE k x 1 1", Wrong::Integer),
        ("CL.THROTTLE k 1 1.5 1", Wrong::Integer),
        ("CL.THROTTLE k 1 1 9223372036854775808", Wrong::Integer),
        ("CL.THROTTLE k 1 1 1 ", Wrong::Integer),
        ("CL.THROTTLE  1 1 1", Wrong::KeyLength),
        (&format!("CL.THROTTLE {long} 1 1 1"), Wrong::KeyLength),
        ("CL.THROTTLE k -2 1 1", Wrong::MaxBurst),
        ("CL.THROTTLE k 9007199254740992 1 1", Wrong::MaxBurst),
        ("CL.THROTTLE k 9223372036854775807 1 1", Wrong::MaxBurst),
        ("CL.THROTTLE k 9007199254740991 1 1", Wrong::Refill),
        ("CL.THROTTLE k 99 1 31622400", Wrong::Refill),
        ("CL.THROTTLE k 1 0 1", Wrong::ZeroRate),
        ("CL.THROTTLE k 1 1 0", Wrong::ZeroRate),
        ("CL.THROTTLE k 1 -1 1", Wrong::Rate),
        ("CL.THROTTLE k 1 1 -1", Wrong::Rate),
        ("CL.THROTTLE k 1 1000000001 1", Wrong::Rate),
        ("CL.THROTTLE k 1 1 31622401", Wrong::Rate),
        ("CL.THROTTLE k 4000000000 1 10000000000000", Wrong::Rate),
        ("CL.THROTTLE k 1 1 1 -1", Wrong::Quantity),
        ("CL.THROTTLE k 1 1 1 9007199254740993", Wrong::Quantity),
    ] {
        assert_eq!(read(line), Err(wrong), "{line:.60}");
    }
    let words: [&[u8]; 5] = [b"CL.THROTTLE", b"\xff", b"1", b"1", b"1"];
    assert_eq!(Throttle::read(&words, &mut LastLimit::default()), Err(Wrong::KeyText));
    let fits = "é".repeat(ATTRIBUTE_VALUE_BYTES_MAX / 2);
    assert!(read(&format!("CL.THROTTLE {fits} 1 1 1")).is_ok());
    assert_eq!(Wrong::WordCount(true).to_string(), "wrong number of arguments for 'cl.throttle' command");
}

#[test]
fn the_limit_before_is_taken_only_for_the_same_numbers() {
    let mut last = LastLimit::default();
    let mut read = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        Throttle::read(&words, &mut last).map(|throttle| throttle.burst.get())
    };
    assert_eq!(read("CL.THROTTLE k 4 1 1"), Ok(5));
    assert_eq!(read("CL.THROTTLE k 4 1 1 0"), Ok(5));
    assert_eq!(read("CL.THROTTLE k 5 1 1"), Ok(6));
    assert_eq!(read("CL.THROTTLE k 5 0 1"), Err(Wrong::ZeroRate));
    assert_eq!(read("CL.THROTTLE k 5 1 1"), Ok(6));
}
