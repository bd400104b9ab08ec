//! What is read off a run, and held against what was expected.

use super::plan::Expect;
use super::tally::Tally;
use serde::Deserialize;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// All that was admitted, of what a perfect limiter admits.
    Admitted,
    /// What was admitted of keys beyond what a perfect limiter admits of them, of all that it admits; percent.
    Extra,
    /// What a perfect limiter admits of keys beyond that; percent.
    Missing,
    /// Of the key with the most beyond: admitted, of what a perfect limiter admits of it.
    WorstKey,
    /// Requests that asked their region's store before they were answered; percent.
    Waited,
    /// Requests that should have and couldn't; percent.
    Unverified,
    /// Operations a second at all regions' stores together, on average.
    Operations,
    /// Operations of the busiest server in its busiest second.
    BusiestShard,
    /// Rows a second written to the world store, on average.
    SqlRowsWritten,
    SqlRowsRead,
    SqlStatements,
    /// How long the last node took to hear of a change, at the most; the same for the scheme beside.
    RulesHeardMs,
}

/// A key that a perfect limiter admits less often says nothing of a ratio.
const COUNTED_FROM: u32 = 20;

impl Figure {
    pub fn name(self) -> &'static str {
        match self {
            Figure::Admitted => "admitted ÷ perfect",
            Figure::Extra => "extra, %",
            Figure::Missing => "missing, %",
            Figure::WorstKey => "worst key ÷ perfect",
            Figure::Waited => "asked the store first, %",
            Figure::Unverified => "unverified, %",
            Figure::Operations => "store operations/s",
            Figure::BusiestShard => "busiest shard, operations/s",
            Figure::SqlRowsWritten => "SQL rows written/s",
            Figure::SqlRowsRead => "SQL rows read/s",
            Figure::SqlStatements => "SQL statements/s",
            Figure::RulesHeardMs => "changes received by all, ms",
        }
    }
}

/// The totals of a scheme, from which figures are read.
pub(crate) struct SchemeTotals<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) perfect: &'a Tally,
    pub(crate) operations: &'a [u64],
    pub(crate) busiest_shard: &'a [u64],
    pub(crate) rows_written: &'a [u64],
    pub(crate) rows_read: &'a [u64],
    pub(crate) statements: &'a [u64],
    /// For the changes of each second.
    pub(crate) rules_heard_ms: &'a [u64],
}

impl SchemeTotals<'_> {
    /// A figure of a stretch, which is the seconds `from` to `until`.
    pub(crate) fn figure(&self, figure: Figure, stretch: usize, from: usize, until: usize) -> f64 {
        let (ours, perfect) = (self.tally.keys(stretch), self.perfect.keys(stretch));
        let pairs =
            || ours.iter().zip(perfect).map(|(ours, perfect)| (f64::from(*ours), f64::from(*perfect)));
        let all_perfect = pairs().map(|pair| pair.1).sum::<f64>().max(1.0);
        let paths = self.tally.paths(stretch);
        let percent = |part: u64| 100.0 * part as f64 / paths.all.max(1) as f64;
        let mean = |seconds: &[u64]| {
            let within = seconds.iter().take(until).skip(from);
            within.sum::<u64>() as f64 / until.saturating_sub(from).max(1) as f64
        };
        let most = |seconds: &[u64]| seconds.iter().take(until).skip(from).copied().max().unwrap_or(0) as f64;
        match figure {
            Figure::Admitted => pairs().map(|pair| pair.0).sum::<f64>() / all_perfect,
            Figure::Extra => {
                100.0 * pairs().map(|(ours, perfect)| (ours - perfect).max(0.0)).sum::<f64>() / all_perfect
            }
            Figure::Missing => {
                100.0 * pairs().map(|(ours, perfect)| (perfect - ours).max(0.0)).sum::<f64>() / all_perfect
            }
            Figure::WorstKey => {
                let counted = ours.iter().zip(perfect).filter(|(_, perfect)| **perfect >= COUNTED_FROM);
                counted.map(|(ours, perfect)| f64::from(*ours) / f64::from(*perfect)).fold(0.0, f64::max)
            }
            Figure::Waited => percent(paths.waited),
            Figure::Unverified => percent(paths.unverified),
            Figure::Operations => mean(self.operations),
            Figure::BusiestShard => most(self.busiest_shard),
            Figure::RulesHeardMs => most(self.rules_heard_ms),
            Figure::SqlRowsWritten => mean(self.rows_written),
            Figure::SqlRowsRead => mean(self.rows_read),
            Figure::SqlStatements => mean(self.statements),
        }
    }
}

/// A figure, ours and that of the scheme beside, and whether ours is as expected.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FigureVerdict {
    pub figure: Figure,
    pub from_s: f64,
    pub until_s: f64,
    pub least: Option<f64>,
    pub most: Option<f64>,
    pub ours: f64,
    pub beside: f64,
}

impl FigureVerdict {
    pub(crate) fn new(expect: &Expect, seconds: f64, ours: f64, beside: f64) -> Self {
        FigureVerdict {
            figure: expect.figure,
            from_s: expect.from_s.unwrap_or(0.0),
            until_s: expect.until_s.unwrap_or(seconds),
            least: expect.least,
            most: expect.most,
            ours,
            beside,
        }
    }

    /// Nothing when nothing was expected.
    pub fn holds(&self) -> Option<bool> {
        if self.least.is_none() && self.most.is_none() {
            return None;
        }
        Some(
            self.least.is_none_or(|least| self.ours >= least)
                && self.most.is_none_or(|most| self.ours <= most),
        )
    }
}
