//! What a key costs in governor, a library in process: resident bytes beyond an empty limiter's.
//!
//! `governor --keys N` prints `bytes_per_key=…`; `cargo xtask bench peers memory` reads it. Keys are the text that a
//! server's callers send. Without a number of keys there is nothing to measure.

use governor::{Quota, RateLimiter};
use std::num::NonZeroU32;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let Some(at) = words.iter().position(|word| word == "--keys") else { return };
    let keys: u32 = words[at + 1].parse().expect("--keys N");
    let limiter = RateLimiter::keyed(Quota::per_hour(NonZeroU32::new(100_000).expect("not zero")));
    let before = resident_bytes();
    for number in 0..keys {
        let _ = limiter.check_key(&format!("{number:012}"));
    }
    let bytes = (resident_bytes() - before) / f64::from(keys);
    assert_eq!(limiter.len(), keys as usize);
    println!("governor keys={keys} bytes_per_key={bytes:.1}");
}

fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u32 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    f64::from(pages) * 4096.0
}
