//! Whatever becomes of the bytes: no panic, no hang, and what wasn't touched is found.

use crate::fixture::{Fixture, event, key};
use tidegate_core::Nanos;
use tidegate_decisions::{EventKind, RuleFilter};

/// SplitMix64.
fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Twenty blocks of a hundred denials, one of them of key 7.
fn filled(test: &str) -> Fixture {
    let mut fixture = Fixture::new(test);
    for block in 0..20 {
        fixture.recorder.event(event(EventKind::Breaker, block % 2 == 0, block));
        for number in 0..100 {
            let of = if number == 50 { 7 } else { 1000 + block * 100 + number };
            fixture.deny(of, 1, Nanos::from_secs(block));
        }
        fixture.write();
    }
    fixture
}

#[test]
fn a_damaged_block_costs_its_own_records_only() {
    for is_complete in [true, false] {
        let mut fixture = filled(if is_complete { "block-complete" } else { "block-open" });
        if is_complete {
            fixture.close();
        }
        let path = fixture.segments().pop().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let asked = |fixture: &Fixture| fixture.read(&|_| RuleFilter::Keys(vec![key(7)])).records.len();
        assert_eq!(asked(&fixture), 20);
        let mut seed = 1;
        for _ in 0..200 {
            let mut bytes = whole.clone();
            // Past the names, which are at the beginning; before the index.
            let place = 2000 + usize::try_from(random(&mut seed)).unwrap() % (80_000 - 2000);
            bytes[place] ^= 1 << (random(&mut seed) % 8);
            std::fs::write(&path, &bytes).unwrap();
            assert!(asked(&fixture) >= 19, "one byte at {place} cost more than a block");
        }
    }
}

#[test]
fn no_bytes_make_it_panic_or_hang() {
    for is_complete in [true, false] {
        let mut fixture = filled(if is_complete { "fuzz-complete" } else { "fuzz-open" });
        if is_complete {
            fixture.close();
        }
        fixture.log = None;
        let path = fixture.segments().pop().unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut seed = 7;
        for round in 0..600 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random(&mut seed) % 64 {
                let place = usize::try_from(random(&mut seed)).unwrap() % bytes.len();
                // The directory and the tail are small, and where lengths are: met as often as all else.
                let place = if round % 2 == 0 { bytes.len() - 1 - place % 600 } else { place };
                bytes[place] = random(&mut seed).to_le_bytes()[0];
            }
            if round % 3 == 0 {
                bytes.truncate(usize::try_from(random(&mut seed)).unwrap() % bytes.len());
            }
            std::fs::write(&path, &bytes).unwrap();
            let found = fixture.read(&|_| RuleFilter::All);
            assert!(found.records.len() <= 1000);
            if round % 50 == 0 {
                // The next process completes it, whatever it is.
                fixture.open();
                fixture.log = None;
                fixture.read(&|_| RuleFilter::All);
            }
        }
        for bytes in [&b""[..], b"TGDECIS\x01", b"TGDECIS\x02 of a later version", &[0xd4; 100_000]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(fixture.read(&|_| RuleFilter::All).records.is_empty());
        }
    }
}
