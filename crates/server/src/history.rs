//! The last fifteen minutes of a node, second by second: what a freshly opened dashboard shows as the past.
//!
//! Differences of counts that are kept anyway, taken once a second: a decision pays nothing for it. A ring with a fixed
//! number of places; it must never grow, whoever asks how often.

use crate::App;
use crate::access::Caller;
use crate::control::decoded;
use crate::json::write;
use crate::refusal::{Code, Refusal, excerpt};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_node::region_driver::BreakerState;
use tokio::time::MissedTickBehavior;

/// Fifteen minutes.
const SECONDS_MAX: usize = 900;
const EVERY: Duration = Duration::from_secs(1);
/// The largest integer that JavaScript holds.
const MILLIS_MAX: u64 = (1 << 53) - 1;

/// What was counted since the second before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Second {
    at: Nanos,
    admitted: u64,
    denied: u64,
    /// Of the region's store, at that time.
    open_breakers: u32,
}

/// What a node has counted since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Totals {
    admitted: u64,
    denied: u64,
}

#[derive(Debug, Default)]
pub struct History(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    seconds: VecDeque<Second>,
    last: Option<Totals>,
}

impl Ring {
    fn note(&mut self, at: Nanos, totals: Totals, open_breakers: u32) {
        let Some(last) = self.last.replace(totals) else { return };
        // A clock that was set back: what follows must not stand among what was before.
        while self.seconds.back().is_some_and(|second| second.at >= at) {
            self.seconds.pop_back();
        }
        if self.seconds.len() >= SECONDS_MAX {
            self.seconds.pop_front();
        }
        self.seconds.push_back(Second {
            at,
            admitted: totals.admitted.saturating_sub(last.admitted),
            denied: totals.denied.saturating_sub(last.denied),
            open_breakers,
        });
    }

    fn after(&self, after: Nanos) -> Vec<Second> {
        let from = self.seconds.partition_point(|second| second.at <= after);
        self.seconds.range(from..).copied().collect()
    }
}

/// Notes each second what the node has counted, until the future is dropped.
pub async fn keep_history(app: Arc<App>) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        app.history.0.lock().note(app.clock.now().now, totals(&app), open_breakers(&app));
    }
}

fn totals(app: &App) -> Totals {
    let named = app.engine.stats().named();
    let count = |wanted: &str| named.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, count)| *count);
    Totals { admitted: count("requests_admitted"), denied: count("requests_denied") }
}

fn open_breakers(app: &App) -> u32 {
    let Some(sharing) = app.engine.shared() else { return 0 };
    let is_open = |state: &BreakerState| matches!(state, BreakerState::Open { .. });
    let open = sharing.region.breakers().iter().filter(|(_, state, _)| is_open(state)).count();
    u32::try_from(open).unwrap_or(u32::MAX)
}

/// `GET /v1/history`: `[at_ms, admitted, denied, open breakers]` for each second, the oldest first. All tenants together,
/// so the operators' alone.
pub(crate) fn answer(app: &App, caller: &Caller, query: Option<&str>) -> Result<Vec<u8>, Refusal> {
    caller.require_operator()?;
    let after = after(query.unwrap_or_default())?;
    let seconds = app.history.0.lock().after(after);
    let mut out = Vec::with_capacity(64 + 32 * seconds.len());
    out.extend_from_slice(b"{\"now_ms\":");
    write::number(&mut out, millis(app.clock.now().now));
    out.extend_from_slice(b",\"seconds\":[");
    for (index, second) in seconds.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let Second { at, admitted, denied, open_breakers } = *second;
        for (opening, number) in
            [(b'[', millis(at)), (b',', admitted), (b',', denied), (b',', u64::from(open_breakers))]
        {
            out.push(opening);
            write::number(&mut out, number);
        }
        out.push(b']');
    }
    out.extend_from_slice(b"]}\n");
    Ok(out)
}

/// Rounded down, so that who asks for what came after it isn't told the same second twice.
fn millis(at: Nanos) -> u64 {
    at.get() / 1_000_000
}

/// `after_ms=…`, and nothing else.
fn after(query: &str) -> Result<Nanos, Refusal> {
    let mut after = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "after_ms" || after.is_some() {
            let message = format!("`{}` isn't known here, or is given twice", excerpt(name));
            return Err(Refusal::of_field(Code::UnknownField, excerpt(name), message, "known: after_ms"));
        }
        let fix = "give milliseconds since 1970, such as 1763230020000";
        let refused = |code, message| Refusal::of_field(code, name, message, fix);
        let number = decoded(value).and_then(|value| value.parse().ok());
        let number: u64 = number.ok_or_else(|| refused(Code::NotAnInteger, "isn't a whole number"))?;
        if number > MILLIS_MAX {
            return Err(refused(Code::OutOfRange, "is too far in the future"));
        }
        // The whole millisecond was told.
        after = Some(Nanos::from_millis(number).plus(Nanos::new(999_999)));
    }
    Ok(after.unwrap_or(Nanos::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Nanos {
        Nanos::from_secs(second)
    }

    fn noted(ring: &mut Ring, second: u64, admitted: u64) {
        ring.note(at(second), Totals { admitted, denied: 2 * admitted }, 0);
    }

    #[test]
    fn a_second_has_what_was_counted_since_the_one_before() {
        let mut ring = Ring::default();
        for (second, admitted) in [(10, 100), (11, 103), (12, 103)] {
            noted(&mut ring, second, admitted);
        }
        let seconds: Vec<_> = ring.seconds.iter().map(|second| (second.admitted, second.denied)).collect();
        assert_eq!(seconds, [(3, 6), (0, 0)], "the first look has nothing to compare with");
        assert_eq!(ring.after(at(11)).len(), 1);
        assert_eq!(ring.after(at(12)).len(), 0);
    }

    #[test]
    fn an_hour_takes_the_room_of_fifteen_minutes() {
        let mut ring = Ring::default();
        for second in 0..SECONDS_MAX as u64 {
            noted(&mut ring, second, second);
        }
        let room = ring.seconds.capacity();
        for second in SECONDS_MAX as u64..3600 {
            noted(&mut ring, second, second);
        }
        assert_eq!((ring.seconds.len(), ring.seconds.capacity()), (SECONDS_MAX, room));
        assert_eq!(ring.seconds.back().map(|second| second.at), Some(at(3599)));
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_seconds_in_order() {
        let mut ring = Ring::default();
        for second in [10, 11, 12, 13, 11, 12] {
            noted(&mut ring, second, second);
        }
        let seconds: Vec<_> = ring.seconds.iter().map(|second| second.at).collect();
        assert_eq!(seconds, [at(11), at(12)]);
    }

    #[test]
    fn a_wrong_question_is_told_what_is_wrong() {
        assert!(after("").is_ok() && after("after_ms=1763230020000").is_ok());
        for (query, code) in [
            ("since=1", Code::UnknownField),
            ("after_ms=1&after_ms=2", Code::UnknownField),
            ("after_ms=soon", Code::NotAnInteger),
            ("after_ms=9007199254740992", Code::OutOfRange),
        ] {
            assert_eq!(after(query).unwrap_err().code, code, "{query}");
        }
    }
}
