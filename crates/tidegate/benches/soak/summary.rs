//! What was found: violations, and the figures of the report.

use crate::SoakOptions;
use crate::figures::{count, ratio};
use crate::memory::Memory;
use crate::progress::samples;
use crate::scene::locked;
use crate::stores::Run;
use crate::subject::Family;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

const ERRORS_MAX: f64 = 0.0001;
const SLOPE_MAX: f64 = 1.0;
/// Of a process's life: what it needs at first says nothing.
const WARM_UP: Duration = Duration::from_secs(120);
const SEEN_FOR: Duration = Duration::from_secs(300);
/// In milliseconds, of a run of half an hour and of a short one, which runs beside whatever else a machine has to do.
const P99_MAX: f64 = 50.0;
const P99_MAX_SHORT: f64 = 250.0;

/// How often something was broken, and how at first.
#[derive(Clone, Debug)]
struct Broken {
    times: usize,
    first: String,
}

#[derive(Default, Debug)]
struct Found {
    broken: BTreeMap<String, Broken>,
    /// By family: cells, those with units in accounts, and the largest parts of the limit without and with them.
    admitted: BTreeMap<&'static str, (usize, usize, f64, f64)>,
    agreed: Vec<Duration>,
    looks_at_regions: usize,
    looks_at_database: usize,
    looks_with_slices: usize,
    denials: usize,
    intervals: usize,
    idle_keys: usize,
    lost_most: usize,
}

#[derive(Default, Debug)]
pub(crate) struct Findings(Mutex<Found>);

impl Findings {
    /// Something that was promised doesn't hold.
    pub(crate) fn broken(&self, promise: impl Into<String>, how: String) {
        let promise = promise.into();
        let mut found = locked(&self.0);
        let broken = found.broken.entry(promise.clone()).or_insert_with(|| {
            eprintln!("\n{promise}: {how}");
            Broken { times: 0, first: how }
        });
        broken.times += 1;
    }

    pub(crate) fn violations(&self) -> usize {
        locked(&self.0).broken.values().map(|broken| broken.times).sum()
    }

    pub(crate) fn admitted(&self, family: Family, admitted: usize, limit: u64, has_accounts: bool) {
        let part = ratio(admitted, crate::bounds::number(limit));
        let mut found = locked(&self.0);
        let (cells, accounted, plain, with_accounts) = found.admitted.entry(family.name()).or_default();
        *cells += 1;
        if has_accounts {
            *accounted += 1;
            *with_accounts = with_accounts.max(part);
        } else {
            *plain = plain.max(part);
        }
    }

    pub(crate) fn agreed(&self, after: Duration) {
        locked(&self.0).agreed.push(after);
    }

    pub(crate) fn looked_at_region(&self) {
        locked(&self.0).looks_at_regions += 1;
    }

    pub(crate) fn looked_at_database(&self) {
        locked(&self.0).looks_at_database += 1;
    }

    pub(crate) fn saw_slices(&self) {
        locked(&self.0).looks_with_slices += 1;
    }

    pub(crate) fn judged_denial(&self) {
        locked(&self.0).denials += 1;
    }

    pub(crate) fn judged_idle_keys(&self) {
        locked(&self.0).idle_keys += 1;
    }

    pub(crate) fn judged_intervals(&self) {
        locked(&self.0).intervals += 1;
    }

    pub(crate) fn may_be_lost(&self, lost: usize) {
        let mut found = locked(&self.0);
        found.lost_most = found.lost_most.max(lost);
    }
}

/// One line of the report.
struct Figure {
    name: String,
    measured: String,
    required: String,
    holds: Option<bool>,
}

impl Figure {
    fn told(name: &str, measured: String) -> Self {
        Figure { name: name.to_owned(), measured, required: String::new(), holds: None }
    }

    fn at_most(name: &str, measured: f64, most: f64, digits: usize) -> Self {
        Figure {
            name: name.to_owned(),
            measured: format!("{measured:.digits$}"),
            required: format!("≤ {most}"),
            holds: Some(measured <= most),
        }
    }
}

/// The report, and whether everything holds.
pub(crate) fn report(run: &Run<'_>, order: &SoakOptions, memory: &Memory) -> (String, bool) {
    let figures = figures(run, order, memory);
    let found = locked(&run.findings.0);
    let holds = found.broken.is_empty() && figures.iter().all(|figure| figure.holds != Some(false));
    let mut text = format!(
        "Seed {}, {} minutes, {} troubles. {}\n\n| figure | measured | required | |\n|---|---|---|---|\n",
        order.seed,
        order.minutes,
        run.history.all().len(),
        if holds { "Everything holds." } else { "**Not everything holds.**" }
    );
    for Figure { name, measured, required, holds } in &figures {
        let verdict = holds.map_or("", |holds| if holds { "holds" } else { "**misses**" });
        let _ = writeln!(text, "| {name} | {measured} | {required} | {verdict} |");
    }
    let _ = write!(
        text,
        "\n| admitted ÷ limit, the most of any cell | cells | without accounts | with units in accounts (cells) |\n"
    );
    let _ = writeln!(text, "|---|---|---|---|");
    for (family, (cells, accounted, plain, with_accounts)) in &found.admitted {
        let _ = writeln!(text, "| {family} | {cells} | {plain:.3} | {with_accounts:.3} ({accounted}) |");
    }
    let _ = write!(text, "\n| trouble | times |\n|---|---|\n");
    for (name, times) in run.history.counts() {
        let _ = writeln!(text, "| {name} | {times} |");
    }
    if !found.broken.is_empty() {
        let _ = write!(text, "\n| broken | times | first |\n|---|---|---|\n");
        for (promise, Broken { times, first }) in &found.broken {
            let _ = writeln!(text, "| {promise} | {times} | {first} |");
        }
    }
    (text, holds)
}

fn figures(run: &Run<'_>, order: &SoakOptions, memory: &Memory) -> Vec<Figure> {
    let all = samples(run, Duration::ZERO);
    let troubled = all.only(|sample| run.history.was_troubled(sample.at));
    let requests = run.books.tally.requests.load(Ordering::Relaxed);
    let errors = run.books.tally.errors.load(Ordering::Relaxed);
    let unanswered = u64::try_from(all.errors()).unwrap_or(u64::MAX);
    let errors = crate::bounds::number(errors.max(unanswered));
    let p99_max = if order.is_long() { P99_MAX } else { P99_MAX_SHORT };
    let (slope, processes, most) = memory.steepest(WARM_UP, SEEN_FOR);
    let found = locked(&run.findings.0);
    let violations: usize = found.broken.values().map(|broken| broken.times).sum();
    let slowest = found.agreed.iter().max().copied().unwrap_or_default();
    let mut figures = vec![
        Figure::at_most("violations of invariants and bounds", count(violations), 0.0, 0),
        Figure::told("requests", requests.to_string()),
        Figure::at_most(
            "errors ÷ requests",
            errors / crate::bounds::number(requests).max(1.0),
            ERRORS_MAX,
            6,
        ),
        Figure::at_most("p99, ms", all.latency_ms(990), p99_max, 1),
        Figure::at_most("p99 while something is wrong, ms", troubled.latency_ms(990), p99_max, 1),
        Figure::told("median, ms", format!("{:.2}", all.latency_ms(500))),
        Figure::told(
            "admitted unverified",
            all.only(|sample| sample.is_admitted() && sample.unverified).len().to_string(),
        ),
        Figure::at_most("slowest agreement after the last heal, s", slowest.as_secs_f64(), 10.0, 1),
        Figure::told("agreements", found.agreed.len().to_string()),
        Figure::told("most that killed nodes may have lost of a key", found.lost_most.to_string()),
        Figure::told("largest node, MB", format!("{most:.0}")),
        Figure::told("looks at keys in Redis", found.looks_at_regions.to_string()),
        Figure::told("looks at the database", found.looks_at_database.to_string()),
        Figure::told("of these with slices", found.looks_with_slices.to_string()),
        Figure::told("denials that were judged (INV-3)", found.denials.to_string()),
        Figure::told("series of intervals that were judged (INV-7)", found.intervals.to_string()),
        Figure::told("troubles whose idle keys were judged with a cold node", found.idle_keys.to_string()),
    ];
    let name = format!("steepest slope of a node's memory, MB a minute, {processes} processes");
    // Of a short run it says nothing; a long one in which nobody lived long enough hasn't shown it.
    match slope {
        Some(slope) => figures.push(Figure::at_most(&name, slope, SLOPE_MAX, 2)),
        None if order.is_long() => figures.push(Figure::at_most(&name, f64::INFINITY, SLOPE_MAX, 2)),
        None => {}
    }
    figures
}
