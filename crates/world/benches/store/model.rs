//! Whose counts grow, and how: a function of the caller and the time, the same for every scheme.
//!
//! Windows of callers begin at different times, as they do where rules have different durations.

pub(crate) const REGIONS: u32 = 10;
/// With 1.4 rows each, 45,000 rows are alive at any time.
pub(crate) const CALLERS: u32 = 31_500;
pub(crate) const LIMIT: u64 = 1000;
pub(crate) const WINDOW_S: f64 = 300.0;
/// Count sharing's: what is below isn't published.
pub(crate) const FLOOR: f64 = 0.5;
/// Every so many callers come to two regions.
const IN_TWO_REGIONS: u32 = 20;

/// A caller's window in one region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) caller: u32,
    pub(crate) region: u32,
    /// How much of the limit it uses in a window: half to all of it, divided among its regions.
    part: f64,
    begins_s: f64,
}

/// Of one window: which, and how much was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    pub(crate) sequence: u64,
    pub(crate) count: u64,
}

/// A number between 0 and 1 that follows from two.
fn chance(caller: u32, salt: u64) -> f64 {
    let mut mixed = (u64::from(caller) << 8 | salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    f64::from(u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

/// Everything that counts, region by region.
pub(crate) fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for caller in 0..CALLERS {
        // Half to twice the limit is asked for; a sliding window admits the limit at most, evenly.
        let asked = 0.5 * 4_f64.powf(chance(caller, 1));
        let source = Source {
            caller,
            region: caller % REGIONS,
            part: asked.min(1.0),
            begins_s: chance(caller, 2) * WINDOW_S,
        };
        if source.is_in_two_regions() {
            // The limit is one for both.
            let source = Source { part: source.part / 2.0, ..source };
            sources.push(source);
            sources.push(Source { region: (caller / IN_TWO_REGIONS + 1 + caller) % REGIONS, ..source });
        } else {
            sources.push(source);
        }
    }
    sources
}

impl Source {
    pub(crate) fn is_in_two_regions(&self) -> bool {
        self.caller.is_multiple_of(IN_TWO_REGIONS)
    }

    /// In the window of that time.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
    pub(crate) fn at(&self, time_s: f64) -> Counted {
        let since = time_s + self.begins_s + 10.0 * WINDOW_S;
        let sequence = (since / WINDOW_S) as u64;
        let into = since % WINDOW_S / WINDOW_S;
        Counted { sequence: FIRST_SEQUENCE + sequence, count: (self.part * into * LIMIT_F) as u64 }
    }

    /// What the window before ended with.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
    pub(crate) fn before(&self, time_s: f64) -> Counted {
        let Counted { sequence, .. } = self.at(time_s);
        Counted { sequence: sequence - 1, count: (self.part * LIMIT_F) as u64 }
    }

    /// When the row of a window ends, in seconds from the beginning of the run.
    #[expect(clippy::cast_precision_loss, reason = "small")]
    pub(crate) fn expires_s(&self, sequence: u64) -> f64 {
        (sequence - FIRST_SEQUENCE + 2) as f64 * WINDOW_S - self.begins_s - 10.0 * WINDOW_S
    }
}

/// Windows of five minutes since 1970, about.
const FIRST_SEQUENCE: u64 = 5_900_000;
const LIMIT_F: f64 = 1000.0;
const FLOOR_COUNT: u64 = 500;

pub(crate) fn is_hot(count: u64) -> bool {
    count >= FLOOR_COUNT
}

/// When a node flushes the next time: nodes are spread over the interval from the first, and each flush by ±20 %
/// around its target, but none over the end of an interval, so that all schemes flush as often.
pub(crate) fn flush_s(of_all: f64, flushes: u32, interval_s: f64) -> f64 {
    let jitter = (chance(flushes, 3) - 0.5) * 0.4;
    (f64::from(flushes) + (of_all + jitter).clamp(0.0, 0.99)) * interval_s
}

/// How many rows the table has at that time, with the floor.
pub(crate) fn rows_alive(time_s: f64) -> usize {
    let alive = |source: &Source| 1 + usize::from(is_hot(source.at(time_s).count));
    sources().iter().map(alive).sum()
}
