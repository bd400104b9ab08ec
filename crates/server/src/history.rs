//! The last day of a node: what a freshly opened dashboard shows as the past.
//!
//! Differences of counts that are kept anyway, taken once a second: a decision pays nothing for it. Rings with a fixed
//! number of places; they must never grow, whoever asks how often.

mod counts;
mod levels;

use crate::App;
use crate::access::Caller;
use crate::control::decoded;
use crate::json::write;
use crate::refusal::{Code, Refusal, excerpt};
use counts::{Counts, Outcomes, shards_away};
use levels::{Names, OTHERS, RANGES, Range, Ring, Step};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::Nanos;
use tokio::time::MissedTickBehavior;

const EVERY: Duration = Duration::from_secs(1);
/// The largest integer that JavaScript holds.
const MILLIS_MAX: u64 = (1 << 53) - 1;

#[derive(Debug, Default)]
pub struct History(Mutex<HistoryLevels>);

#[derive(Debug)]
struct HistoryLevels {
    rings: [Ring; RANGES.len()],
    names: Names,
    last: Option<Counts>,
}

impl Default for HistoryLevels {
    fn default() -> Self {
        HistoryLevels { rings: RANGES.map(Ring::new), names: Names::default(), last: None }
    }
}

impl HistoryLevels {
    fn record(&mut self, at: Nanos, totals: Counts, open_breakers: u32) {
        let Some(last) = self.last.replace(totals) else { return };
        let Some(counts) = self.last.as_ref().map(|totals| totals.since(&last)) else { return };
        for ring in &mut self.rings {
            ring.record(at, &counts, open_breakers, &mut self.names);
        }
    }
}

/// Records each second what the node has counted, until the future is dropped.
pub async fn record_history(app: Arc<App>) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let (totals, away) = (Counts::of(&app), shards_away(&app));
        app.history.0.lock().record(app.clock.now().now, totals, away);
    }
}

/// The query of `GET /v1/history`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HistoryQuery {
    /// `None`: the last quarter of an hour in short.
    range: Option<Range>,
    after: Nanos,
}

/// `GET /v1/history`: `[at_ms, admitted, denied, shards away]` for each second of the last quarter of an hour, the
/// oldest first; with `range` all that is known of each step of it. All tenants together, so the operators' alone.
pub(crate) fn answer(app: &App, caller: &Caller, query: Option<&str>) -> Result<Vec<u8>, Refusal> {
    caller.require_operator()?;
    let HistoryQuery { range, after } = read(query.unwrap_or_default())?;
    let now = app.clock.now().now;
    let mut past = app.history.0.lock();
    let HistoryLevels { rings, names, .. } = &mut *past;
    let wanted = range.unwrap_or(RANGES[0]);
    let Some(ring) = rings.iter().find(|ring| ring.range == wanted) else { return Ok(Vec::new()) };
    let (steps, filling) = ring.after(after, names);
    let mut out = Vec::with_capacity(256 + 128 * steps.len());
    out.extend_from_slice(b"{\"now_ms\":");
    write::number(&mut out, millis(now));
    let Some(range) = range else {
        list(&mut out, b",\"seconds\":[", &steps, |out, step| {
            let Step { at, admitted, denied, open_breakers, .. } = step;
            row(out, &[millis(*at), *admitted, *denied, u64::from(*open_breakers)]);
        });
        out.extend_from_slice(b"}\n");
        return Ok(out);
    };
    out.extend_from_slice(b",\"range\":");
    write::string(&mut out, range.name);
    out.extend_from_slice(b",\"step_ms\":");
    write::number(&mut out, 1000 * u64::from(range.step_s));
    let shown = steps.iter().chain(&filling).flat_map(|step| &step.rules).map(|(place, _)| *place);
    let shown: Vec<u32> =
        shown.filter(|place| *place != OTHERS).collect::<BTreeSet<_>>().into_iter().collect();
    list(&mut out, b",\"rules\":[", &shown, |out, place| {
        let Some(labels) = names.get(*place) else { return };
        out.extend_from_slice(b"{\"id\":");
        write::number(out, u64::from(*place));
        for (name, text) in [
            (&b",\"tenant\":"[..], &labels.tenant),
            (b",\"namespace\":", &labels.namespace),
            (b",\"rule\":", &labels.rule),
        ] {
            out.extend_from_slice(name);
            write::string(out, text);
        }
        out.push(b'}');
    });
    list(&mut out, b",\"steps\":[", &steps, write_step);
    if let Some(filling) = &filling {
        out.extend_from_slice(b",\"filling\":");
        write_step(&mut out, filling);
    }
    out.extend_from_slice(b"}\n");
    Ok(out)
}

fn list<T>(out: &mut Vec<u8>, opening: &[u8], items: &[T], item: impl Fn(&mut Vec<u8>, &T)) {
    out.extend_from_slice(opening);
    for (index, value) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        item(out, value);
    }
    out.push(b']');
}

fn row(out: &mut Vec<u8>, numbers: &[u64]) {
    list(out, b"[", numbers, |out, number| write::number(out, *number));
}

/// What is nothing is left out: a quiet day is short.
fn write_step(out: &mut Vec<u8>, step: &Step) {
    out.extend_from_slice(b"{\"at_ms\":");
    write::number(out, millis(step.at));
    out.extend_from_slice(b",\"seconds\":");
    write::number(out, u64::from(step.seconds));
    for (name, count) in [
        (&b",\"admitted\":"[..], step.admitted),
        (b",\"denied\":", step.denied),
        (b",\"open_breakers\":", u64::from(step.open_breakers)),
    ] {
        if count > 0 {
            out.extend_from_slice(name);
            write::number(out, count);
        }
    }
    for (name, percentiles, unit) in [
        (&b",\"latency_us\":["[..], step.latency, 1e6),
        (b",\"store_us\":[", step.store, 1e6),
        (b",\"overshoot\":[", step.overshoot, 1.0),
    ] {
        let Some(percentiles) = percentiles else { continue };
        list(out, name, &percentiles, |out, value| {
            out.extend_from_slice(format!("{:.4}", value * unit).as_bytes());
        });
    }
    if !step.asks.is_empty() {
        out.extend_from_slice(b",\"asks\":{");
        for (index, (reason, count)) in step.asks.iter().enumerate() {
            named(out, index, reason);
            write::number(out, *count);
        }
        out.push(b'}');
    }
    if !step.paths.is_empty() {
        out.extend_from_slice(b",\"paths\":{");
        for (index, (path, outcomes)) in step.paths.iter().enumerate() {
            named(out, index, path);
            row(out, outcomes);
        }
        out.push(b'}');
    }
    if !step.rules.is_empty() {
        list(
            out,
            b",\"rules\":[",
            &step.rules,
            |out, (place, [admitted, denied, would_deny]): &(u32, Outcomes)| {
                // In the place of an id: all the others.
                out.push(b'[');
                if *place == OTHERS {
                    out.extend_from_slice(b"null");
                } else {
                    write::number(out, u64::from(*place));
                }
                for count in [admitted, denied, would_deny] {
                    out.push(b',');
                    write::number(out, *count);
                }
                out.push(b']');
            },
        );
    }
    out.push(b'}');
}

fn named(out: &mut Vec<u8>, index: usize, name: &str) {
    if index > 0 {
        out.push(b',');
    }
    write::string(out, name);
    out.push(b':');
}

/// Rounded down, so that who asks for what came after it isn't told the same second twice.
fn millis(at: Nanos) -> u64 {
    at.get() / 1_000_000
}

/// `range=…` and `after_ms=…`, and nothing else.
fn read(query: &str) -> Result<HistoryQuery, Refusal> {
    let (mut range, mut after) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let is_known = (name == "range" && range.is_none()) || (name == "after_ms" && after.is_none());
        if !is_known {
            let message = format!("`{}` isn't known here, or is given twice", excerpt(name));
            let fix = "known: range, after_ms";
            return Err(Refusal::of_field(Code::UnknownField, excerpt(name), message, fix));
        }
        if name == "range" {
            let known = RANGES.into_iter().find(|known| known.name == value);
            range = Some(known.ok_or_else(|| {
                let message = format!("`{}` isn't a range", excerpt(value));
                Refusal::of_field(Code::UnknownValue, name, message, "use 15m, 1h, 6h or 24h")
            })?);
            continue;
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
    Ok(HistoryQuery { range, after: after.unwrap_or(Nanos::ZERO) })
}

#[cfg(test)]
mod tests;
