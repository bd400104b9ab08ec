//! What a run has shown: a table for people, JSON for programs.

use super::plan::Plan;
use super::tally::Tally;
use crate::output::grouped;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// Parts of a thousand hundreds, with the names that people know.
const PERCENTILES: [(&str, u64); 5] =
    [("p50", 50_000), ("p90", 90_000), ("p99", 99_000), ("p99.9", 99_900), ("p99.99", 99_990)];
const WHOLE: u64 = 100_000;

pub(crate) struct Report<'r> {
    pub(crate) plan: &'r Plan,
    pub(crate) tally: &'r Tally,
    /// Of the measured part.
    pub(crate) measured: Duration,
    pub(crate) is_cut_short: bool,
}

impl Report<'_> {
    pub(crate) fn requests_per_second(&self) -> f64 {
        let seconds = self.measured.as_secs_f64();
        if seconds > 0.0 { self.tally.answered() as f64 / seconds } else { 0.0 }
    }

    pub(crate) fn table(&self) -> String {
        let tally = self.tally;
        let mut text = format!("{}: {}\n", self.plan.target.text, self.plan.in_words());
        if self.is_cut_short {
            let _ = writeln!(text, "cut short: measured for {:.1} s", self.measured.as_secs_f64());
        }
        let _ = writeln!(text, "\n  requests/s {:>12}", rounded(self.requests_per_second()));
        let counts = [("answered", tally.answered()), ("allowed", tally.allowed), ("denied", tally.denied)];
        for (name, count) in counts.into_iter().chain([("errors", tally.errors.all())]) {
            let _ = writeln!(text, "  {name:<10} {:>12}", number(count));
        }
        text.push_str("\n  latency\n");
        for (name, part) in PERCENTILES {
            let _ = writeln!(text, "  {name:<10} {:>12}", in_words(tally.latencies.at(part, WHOLE)));
        }
        let (max, mean) = (tally.latencies.max(), tally.latencies.mean());
        let _ =
            writeln!(text, "  {:<10} {:>12}\n  {:<10} {:>12}", "max", in_words(max), "mean", in_words(mean));
        self.complaints(&mut text);
        text
    }

    fn complaints(&self, text: &mut String) {
        let tally = self.tally;
        for (name, count) in tally.errors.named().into_iter().filter(|(_, count)| *count > 0) {
            let meaning = match name {
                "refused" => "answered with an error; look at one answer by hand",
                "timeouts" => "without an answer in time; their connections were given up",
                "lost" => "lost with their connection: closed, reset, or an answer that makes no sense",
                _ => "connections that could not be made",
            };
            let _ = writeln!(text, "\n  {} {name}: {meaning}", number(count));
        }
        if tally.unsent > 0 {
            let _ = writeln!(
                text,
                "\n  {} requests were due but not sent: the target or this generator is too slow for {}/s\n  (the latencies include how long they waited)",
                number(tally.unsent),
                self.plan.rate
            );
        }
    }

    pub(crate) fn json(&self) -> String {
        let tally = self.tally;
        let micros = |nanos: u64| json!(nanos as f64 / 1000.0);
        let mut latency = Map::new();
        for (name, part) in PERCENTILES {
            latency.insert(name.replace('.', "_"), micros(tally.latencies.at(part, WHOLE)));
        }
        latency.insert("max".into(), micros(tally.latencies.max()));
        latency.insert("mean".into(), micros(tally.latencies.mean()));
        let errors: Map<String, Value> =
            tally.errors.named().into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
        let report = json!({
            "target": self.plan.target.text,
            "load": self.plan.in_words(),
            "seconds": self.measured.as_secs_f64(),
            "warm_up_s": self.plan.warm_up.as_secs_f64(),
            "cut_short": self.is_cut_short,
            "requests_per_s": self.requests_per_second(),
            "answered": tally.answered(),
            "allowed": tally.allowed,
            "denied": tally.denied,
            "errors": errors,
            "unsent": tally.unsent,
            "latency_us": latency,
        });
        format!("{report}\n")
    }
}

fn number(count: u64) -> String {
    grouped(usize::try_from(count).unwrap_or(usize::MAX))
}

fn rounded(number: f64) -> String {
    let digits = format!("{number:.0}");
    digits.parse().map_or(digits, grouped)
}

/// With the unit that keeps it short.
pub(crate) fn in_words(nanos: u64) -> String {
    let number = nanos as f64;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..100_000 => format!("{:.1} µs", number / 1e3),
        100_000..1_000_000 => format!("{:.0} µs", number / 1e3),
        1_000_000..100_000_000 => format!("{:.2} ms", number / 1e6),
        100_000_000..1_000_000_000 => format!("{:.0} ms", number / 1e6),
        _ => format!("{:.2} s", number / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_the_unit_that_fits() {
        let said = [999, 12_345, 123_456, 1_234_567, 123_456_789, 1_234_567_890].map(in_words);
        assert_eq!(said, ["999 ns", "12.3 µs", "123 µs", "1.23 ms", "123 ms", "1.23 s"]);
        assert_eq!(rounded(123_456.7), "123,457");
    }
}
