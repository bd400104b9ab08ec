//! What the world tier costs its database: targets 6 and 9, with real servers. `cargo xtask bars world`
//! runs it and reads what it prints.
//!
//! `store [--long] TARGET…`, TARGET one of 6 and 9. Without a target it does nothing, so that `cargo test --all-targets` is
//! done with it at once.

mod bulk;
mod model;
mod ours;
mod server;
mod theirs;

use server::Load;
use std::process::ExitCode;
use std::time::Duration;

/// What is held against a figure.
pub(crate) enum Bounds {
    Told,
    AtMost(f64),
}

/// `bar=6; case=…; figure=…; value=…; high=…; by=worst`
pub(crate) fn print(bar: u8, case: &str, figure: &str, value: f64, bounds: &Bounds) {
    let bounds = match bounds {
        Bounds::Told => String::new(),
        Bounds::AtMost(high) => format!("; high={high}"),
    };
    println!("bar={bar}; case={case}; figure={figure}; value={value:.4}{bounds}; by=worst");
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_long = arguments.iter().any(|argument| argument == "--long");
    let bars: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    for bar in bars {
        match bar.as_str() {
            "6" => runtime.block_on(cost(Duration::from_secs(if is_long { 300 } else { 120 }))),
            "9" => runtime.block_on(bulk::measure()),
            other => {
                eprintln!("there is no target {other:?} here; there are 6 and 9");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Target 6: count sharing with a floor and ours, the same growth of the same cells.
async fn cost(length: Duration) {
    let theirs = theirs::run(length).await;
    theirs.print("count sharing with a floor, 33 nodes, 10 s");
    let floor = ours::run(ours::Policy::Floor, length).await;
    floor.print("floor, 10 workers, 10 s");
    ratios("floor ÷ count sharing", &floor, &theirs, [&TENTH, &Bounds::AtMost(1.0)]);
    let headroom = ours::run(ours::Policy::Headroom, length).await;
    headroom.print("headroom, 10 workers");
    ratios("headroom ÷ count sharing", &headroom, &theirs, [&TENTH, &Bounds::Told]);
    println!(
        "bar=6; note={} s of each scheme after the table was filled, one after the other on a fresh mariadbd. {} \
         callers of 10 regions, one in 20 of them in two; every caller's count grows evenly up to its limit in a \
         window of 5 min, to half of it at least, and rows stay until the next window is over: {} rows at a time, \
         of which between a quarter and a third grow. Of count sharing's nodes, each flushes its share of its region's \
         rows, so that no row is written by two; ours import four times a second, or after \
         each publish, of which there are up to five in two seconds, and say that they are here; what the run published is merged into the table within it",
        length.as_secs(),
        model::CALLERS,
        model::rows_alive(0.0),
    );
}

const TENTH: Bounds = Bounds::AtMost(0.1);

fn ratios(case: &str, ours: &Load, theirs: &Load, [read, written]: [&Bounds; 2]) {
    print(6, case, "rows read", ours.rows_read / theirs.rows_read, read);
    print(6, case, "bytes read", ours.bytes_sent / theirs.bytes_sent, read);
    print(6, case, "processor time of mariadbd", ours.processor / theirs.processor, read);
    print(6, case, "rows written", ours.rows_written / theirs.rows_written, written);
}
