//! A scenario's text, read: what is unknown, out of range or makes no sense is an error with its line.

use super::plan::{Beside, FaultName, Keys, Plan};
use std::collections::BTreeMap;
use std::ops::Range;
use tidegate_node::GivenPolicy;
use toml::Spanned;

/// More than a machine can hold or anybody waits for.
const REQUESTS_MAX: f64 = 1e8;
const KEYS_MAX: u64 = 5_000_000;
const TEXT_MAX: usize = 1_000_000;
const LIMITS_MAX: usize = 5;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct PlanError {
    pub line: usize,
    pub what: String,
}

/// What a file says.
pub fn read(text: &str) -> Result<Plan, PlanError> {
    if text.len() > TEXT_MAX {
        return Err(PlanError { line: 1, what: format!("the file is longer than {TEXT_MAX} bytes") });
    }
    let plan: Plan = toml::from_str(text)
        .map_err(|error| PlanError { line: line_of(text, error.span()), what: error.message().to_owned() })?;
    check(&plan).map_err(|(span, what)| PlanError { line: line_of(text, span), what })?;
    Ok(plan)
}

fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let until = span.map_or(0, |span| span.start.min(text.len()));
    text.as_bytes()[..until].iter().filter(|byte| **byte == b'\n').count() + 1
}

type Wrong = (Option<Range<usize>>, String);

fn check(plan: &Plan) -> Result<(), Wrong> {
    let nowhere = |what: &str| Err((None, what.to_owned()));
    if plan.fleet.nodes < plan.fleet.regions {
        return nowhere("fleet.nodes: there are fewer nodes than regions; each region needs one");
    }
    if plan.fleet.away_ms.is_empty() || plan.fleet.away_ms.iter().any(|millis| *millis > 10_000) {
        return nowhere("fleet.away_ms: give milliseconds from 0 to 10000, at least one number");
    }
    if plan.keys.is_empty() || plan.load.is_empty() {
        return nowhere("there is nothing to do; describe [[keys]] and their [[load]]");
    }
    check_keys(plan)?;
    check_load(plan)?;
    check_rest(plan)
}

fn at<T>(entry: &Spanned<T>, what: String) -> Wrong {
    (Some(entry.span()), what)
}

fn check_keys(plan: &Plan) -> Result<(), Wrong> {
    let mut names = BTreeMap::new();
    for entry in &plan.keys {
        let group = entry.get_ref();
        let Keys { name, .. } = group;
        if names.insert(name.as_str(), ()).is_some() {
            return Err(at(entry, format!("keys: there are two groups {name:?}")));
        }
        let Some(policy) = group.policy() else {
            return Err(at(
                entry,
                format!("keys {name:?}: give `limit` and `period_s`, or `rate` and `burst`"),
            ));
        };
        let is_rate = matches!(policy, GivenPolicy::Gcra { .. });
        if is_rate != (plan.beside == Beside::Quotas) {
            let what = "the layered scheme knows only windows, that of quotas only rates; change `beside`";
            return Err(at(entry, format!("keys {name:?}: {what}")));
        }
    }
    if plan.keys.iter().map(|keys| keys.get_ref().count).sum::<u64>() > KEYS_MAX {
        return Err((
            None,
            format!("there are more than {KEYS_MAX} keys; give fewer, and say so by `scale`"),
        ));
    }
    Ok(())
}

fn check_load(plan: &Plan) -> Result<(), Wrong> {
    let mut requests = 0.0;
    for entry in &plan.load {
        let load = entry.get_ref();
        let unknown = |name: &&String| !plan.keys.iter().any(|keys| keys.get_ref().name == **name);
        if let Some(name) = load.keys.iter().find(unknown) {
            return Err(at(entry, format!("load: there are no keys {name:?}")));
        }
        if load.keys.is_empty() || load.keys.len() > LIMITS_MAX {
            return Err(at(entry, format!("load: name 1 to {LIMITS_MAX} groups of keys")));
        }
        if load.regions.as_ref().is_some_and(|regions| {
            regions.is_empty() || regions.iter().any(|region| *region >= plan.fleet.regions)
        }) {
            return Err(at(entry, format!("load: regions are 0 to {}", plan.fleet.regions - 1)));
        }
        let (from, until) = (load.from_s.unwrap_or(0.0), load.until_s.unwrap_or(plan.seconds as f64));
        if from >= until || until > plan.seconds as f64 {
            return Err(at(entry, format!("load: it is from {from} to {until} s, of {}", plan.seconds)));
        }
        requests += load.per_second as f64 * (until - from);
    }
    if requests > REQUESTS_MAX {
        let what =
            format!("there are {requests} requests; give at most {REQUESTS_MAX}, and say so by `scale`");
        return Err((None, what));
    }
    Ok(())
}

fn check_rest(plan: &Plan) -> Result<(), Wrong> {
    let (regions, shards) = (plan.fleet.regions, plan.fleet.shards);
    for entry in &plan.fault {
        let fault = entry.get_ref();
        if fault.region >= regions || fault.shard >= shards {
            let what = format!("fault: regions are 0 to {}, shards 0 to {}", regions - 1, shards - 1);
            return Err(at(entry, what));
        }
        if fault.lasts_s.is_none() && fault.kind != FaultName::StoreForgets {
            return Err(at(entry, "fault: say how long it lasts: `lasts_s`".to_owned()));
        }
    }
    for entry in &plan.change {
        let change = entry.get_ref();
        let group = plan.keys.iter().find(|keys| keys.get_ref().name == change.keys);
        let Some(group) = group else {
            return Err(at(entry, format!("change: there are no keys {:?}", change.keys)));
        };
        let kinds = (group.get_ref().policy(), change.policy());
        let is_same = match kinds {
            (Some(GivenPolicy::Sliding { period, .. }), Some(GivenPolicy::Sliding { period: new, .. })) => {
                period == new
            }
            (Some(GivenPolicy::Gcra { .. }), Some(GivenPolicy::Gcra { .. })) => true,
            _ => false,
        };
        if !is_same {
            let what = "change: another kind of limit or period starts afresh; change only its numbers";
            return Err(at(entry, what.to_owned()));
        }
    }
    for entry in &plan.join {
        if entry.get_ref().region >= regions || regions == 1 {
            return Err(at(entry, format!("join: regions are 0 to {}", regions - 1)));
        }
    }
    for entry in &plan.expect {
        let expect = entry.get_ref();
        let (from, until) = (expect.from_s.unwrap_or(0.0), expect.until_s.unwrap_or(plan.seconds as f64));
        if from >= until || until > plan.seconds as f64 {
            return Err(at(entry, format!("expect: it is from {from} to {until} s, of {}", plan.seconds)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "title = \"t\"\nabout = \"a\"\nseconds = 10\nbeside = \"layered\"\n\
                        [fleet]\nregions = 1\nnodes = 2\n\
                        [[keys]]\nname = \"user\"\ncount = 3\nlimit = 10\nperiod_s = 60\n\
                        [[load]]\nkeys = [\"user\"]\nper_second = 5\n";

    #[test]
    fn a_good_file_is_read() {
        let plan = read(GOOD).unwrap();
        assert_eq!((plan.scale, plan.seconds, plan.nodes_of(0)), (1, 10, 2));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let cases = [
            (("seconds = 10", "seconds = 0"), 3, "out of range"),
            (("seconds = 10", "second = 10"), 3, "unknown field `second`"),
            (("nodes = 2", "nodes = -2"), 7, "out of range"),
            (("limit = 10", "rate = 10"), 8, "give `limit` and `period_s`"),
            (("keys = [\"user\"]", "keys = [\"usr\"]"), 13, "there are no keys \"usr\""),
            (("per_second = 5", "per_second = 5\nfrom_s = 20"), 13, "it is from 20 to 10 s"),
            (("beside = \"layered\"", "beside = \"other\""), 4, "unknown variant"),
        ];
        for ((good, bad), line, what) in cases {
            let error = read(&GOOD.replace(good, bad)).unwrap_err();
            assert!(error.what.contains(what), "{bad}: {error}");
            assert_eq!(error.line, line, "{bad}: {error}");
        }
    }
}
