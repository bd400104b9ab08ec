//! The time lines of docs/which-algorithm.md: drawn from what the algorithms decide, and compared with the files.
//!
//! To draw them anew: `TIDEGATE_DRAW=1 cargo test -p tidegate-core --test pictures`.

use std::fmt::Write as _;
use std::path::PathBuf;
use tidegate_core::{Burst, Cost, Item, KeyId, Limit, LocalState, Moment, Nanos, Period, Rate, Spec, Table};

/// A round hour: windows begin with it.
const START: u64 = 1_800_000_000;
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 176.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = 24.0;
/// The line that requests stand on.
const LINE: f64 = 118.0;

struct Picture {
    file: &'static str,
    title: &'static str,
    note: &'static str,
    spec: Spec,
    /// Of one second on the time line: 1 draws seconds, 60 minutes.
    seconds_per_tick: u64,
    ticks: u64,
    /// Where windows end, in ticks; 0: there are none.
    window: u64,
    unit: &'static str,
}

fn limit(count: u64) -> Limit {
    Limit::new(count).unwrap()
}

fn pictures() -> Vec<Picture> {
    let ten_seconds = Period::new(Nanos::from_secs(10)).unwrap();
    let hour = Period::new(Nanos::from_secs(3600)).unwrap();
    let rate = Rate::new(5, Nanos::from_secs(10)).unwrap();
    let seconds = |file, title, note, spec, window| Picture {
        file,
        title,
        note,
        spec,
        seconds_per_tick: 1,
        ticks: 30,
        window,
        unit: "s",
    };
    vec![
        seconds(
            "algorithm-sliding.svg",
            "Sliding window: limit: 5 per 10s",
            "The window before counts by how much of it still overlaps: a burst at its end is felt in the next one.",
            Spec::Sliding { limit: limit(5), period: ten_seconds },
            10,
        ),
        seconds(
            "algorithm-fixed.svg",
            "Fixed window: limit: 5 per 10s, algorithm: fixed",
            "Each window starts afresh: around its turn, twice the limit passes within a moment.",
            Spec::Fixed { limit: limit(5), period: ten_seconds },
            10,
        ),
        Picture {
            file: "algorithm-calendar.svg",
            title: "Calendar window: limit: 5 per hour",
            note: "A fixed window that turns with the clock of a time zone: for quotas and billing.",
            // The hours of UTC.
            spec: Spec::Fixed { limit: limit(5), period: hour },
            seconds_per_tick: 360,
            ticks: 30,
            window: 10,
            unit: "× 6 min",
        },
        seconds(
            "algorithm-gcra.svg",
            "GCRA: rate: 5/10s, burst: 5",
            "Five at once; then one comes back every two seconds. No turn, no edge.",
            Spec::Gcra { rate, burst: Burst::new(5).unwrap() },
            0,
        ),
    ]
}

/// When requests come, in tenths of a tick: two bursts around the first turn, then steadily.
fn requests() -> Vec<u64> {
    let first = (0..7).map(|number| 80 + 2 * number);
    let second = (0..7).map(|number| 102 + 2 * number);
    let steady = (0..16).map(|number| 130 + 10 * number);
    first.chain(second).chain(steady).collect()
}

fn svg(picture: &Picture) -> String {
    let table = Table::<LocalState>::new(1000);
    let x = |tenths: u64| {
        let whole = u32::try_from(10 * picture.ticks).unwrap();
        LEFT + (WIDTH - LEFT - RIGHT) * f64::from(u32::try_from(tenths).unwrap()) / f64::from(whole)
    };
    let mut body = String::new();
    if let Some(windows) = picture.ticks.checked_div(picture.window) {
        for number in (0..=windows).map(|number| number * picture.window) {
            let x = x(10 * number);
            let _ = writeln!(
                body,
                "<line x1=\"{x:.1}\" y1=\"64\" x2=\"{x:.1}\" y2=\"{LINE}\" stroke=\"#94a3b8\" stroke-dasharray=\"3 4\"/>"
            );
        }
    }
    let _ = writeln!(
        body,
        "<line x1=\"{LEFT}\" y1=\"{LINE}\" x2=\"{:.1}\" y2=\"{LINE}\" stroke=\"#475569\"/>",
        WIDTH - RIGHT
    );
    for tick in (0..=picture.ticks).step_by(5) {
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#64748b\">{tick}</text>",
            x(10 * tick),
            LINE + 34.0
        );
    }
    let _ = writeln!(
        body,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#64748b\">{}</text>",
        WIDTH - RIGHT,
        LINE + 50.0,
        picture.unit
    );
    let mut passed = 0;
    for at in requests() {
        let now = Nanos::from_millis(1000 * START + 100 * at * picture.seconds_per_tick);
        let item = Item::new(KeyId::from_hash(1), picture.spec, Cost::new(1).unwrap());
        let is_admitted = table.decide(&item, Moment::at(now)).unwrap().is_admitted();
        passed += u32::from(is_admitted);
        let (x, y) = (x(at), if is_admitted { LINE - 34.0 } else { LINE + 16.0 });
        let colour = if is_admitted { "#0e7490" } else { "#c2410c" };
        let mark = match is_admitted {
            true => format!("<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"4\" fill=\"{colour}\"/>"),
            false => format!(
                "<path d=\"M{:.1} {}l6 6m0 -6l-6 6\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                x - 3.0,
                y - 3.0
            ),
        };
        let _ = writeln!(
            body,
            "<line x1=\"{x:.1}\" y1=\"{LINE}\" x2=\"{x:.1}\" y2=\"{y}\" stroke=\"{colour}\"/>{mark}"
        );
    }
    let Picture { title, note, .. } = picture;
    let summary = format!("{passed} of {} pass (dots); the others are denied (crosses)", requests().len());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif\" font-size=\"13\">\n\
         <title>{title}. {note} {summary}.</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"10\" fill=\"#ffffff\"/>\n\
         <text x=\"24\" y=\"28\" font-size=\"16\" font-weight=\"600\" fill=\"#0f172a\">{title}</text>\n\
         <text x=\"{:.1}\" y=\"28\" text-anchor=\"end\" fill=\"#475569\">{summary}</text>\n\
         <text x=\"24\" y=\"50\" fill=\"#64748b\">{note}</text>\n{body}</svg>\n",
        WIDTH - RIGHT
    )
}

#[test]
fn the_time_lines_of_the_page_are_what_the_algorithms_decide() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for picture in pictures() {
        let (path, drawn) = (docs.join(picture.file), svg(&picture));
        if std::env::var_os("TIDEGATE_DRAW").is_some() {
            std::fs::write(&path, &drawn).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == drawn, "{} isn't what is decided: draw it anew with TIDEGATE_DRAW=1", path.display());
    }
}
