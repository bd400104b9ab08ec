//! Target 1: Unkey's multi-node frame. How much of an allowance random nodes admit, over some windows.
//!
//! In real time, so only the rows whose windows last ten seconds; all of them at once, each with its own key
//! and each number of nodes with its own store. The simulator has the rows of longer windows.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note, ratio};
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::time::at_next_cell;
use std::time::Duration;
use tidegate_testkit::Redis;

const BAR: u8 = 1;
const PERIOD: Duration = Duration::from_secs(10);
const SIZES: [usize; 3] = [1, 3, 5];
const EVERY_LOAD: [f64; 3] = [0.9, 1.0, 2.0];

/// A row of the frame.
#[derive(Clone, Copy, Debug)]
struct Row {
    limit: u32,
    load: f64,
    nodes: usize,
}

fn rows() -> Vec<Row> {
    let small = SIZES.iter().flat_map(|nodes| EVERY_LOAD.map(|load| Row { limit: 100, load, nodes: *nodes }));
    let large = [(0.9, 3), (1.0, 3), (2.0, 3), (1.0, 5), (2.0, 5)];
    small.chain(large.map(|(load, nodes)| Row { limit: 1000, load, nodes })).collect()
}

impl Row {
    /// As the frame says: at least one a second, fractions dropped.
    fn per_second(self) -> f64 {
        (f64::from(self.limit) * self.load * 1000.0 / 10_000.0).trunc().max(1.0)
    }

    fn requests(self, windows: u32) -> f64 {
        self.per_second() * PERIOD.as_secs_f64() * f64::from(windows)
    }

    fn allowance(self, windows: u32) -> f64 {
        self.requests(windows).min(f64::from(windows) * f64::from(self.limit))
    }
}

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let windows = u32::try_from(setting.seconds(3, 10).as_secs()).unwrap_or(3);
    note(
        BAR,
        &format!("{windows} windows of 10 s in real time; rows of 30, 60 and 300 s are the simulator's"),
    );
    let mut stores = Vec::new();
    let mut fleets = Vec::new();
    for nodes in SIZES {
        let redis = setting.wait_for(Redis::start());
        fleets.push(Fleet::start(&redis.url(), nodes)?);
        stores.push(redis);
    }
    let addresses: Vec<_> = fleets.iter().flat_map(Fleet::addresses).collect();
    let mut generator =
        Generator::connect(&addresses, Width::APART).map_err(|error| format!("can't connect: {error}"))?;
    let rows = rows();
    let plan = plan(&rows, windows);
    let samples = generator.run(&plan, at_next_cell(PERIOD)).map_err(|error| error.to_string())?;
    for (row, kind) in rows.iter().zip(0..) {
        report(*row, &samples.of_kind(kind), windows);
    }
    Ok(())
}

fn plan(rows: &[Row], windows: u32) -> Plan {
    let mut plan = Plan::default();
    for (row, kind) in rows.iter().zip(0..) {
        let limit = [limit_of(*row, kind)];
        let first: usize = SIZES.iter().take_while(|size| **size < row.nodes).sum();
        let nodes: Vec<usize> = (first..first + row.nodes).collect();
        plan.add(&Stream {
            kind,
            from: Duration::ZERO,
            count: whole(row.requests(windows)),
            per_second: row.per_second(),
            nodes: Nodes::AtRandom(&nodes, u64::from(kind)),
            limits: &limit,
        });
    }
    plan
}

fn limit_of(row: Row, kind: Kind) -> Limit {
    Limit::new(format!("frame-{kind}"), u64::from(row.limit), PERIOD)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands")]
fn whole(number: f64) -> usize {
    number as usize
}

fn report(row: Row, samples: &Samples, windows: u32) {
    let Row { limit, load, nodes } = row;
    let plural = if nodes == 1 { "" } else { "s" };
    let figures = Figures::of(BAR, format!("{limit} per 10 s, load {load:.1}, {nodes} node{plural}"));
    let admitted = ratio(samples.admitted(), row.allowance(windows));
    figures.worst("admitted ÷ allowance", admitted, Bounds::Within(0.98, 1.02));
    if samples.errors() > 0 {
        figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
    }
}
