//! Who came, over all nodes that were asked, and how that was in the last half minute.

use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Seconds that are remembered of each caller.
pub(super) const HISTORY: usize = 24;
/// Callers of whom anything is remembered.
const REMEMBERED_MAX: usize = 2000;

/// By which rate callers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Busiest,
    Denied,
    /// By rules that only shadow.
    WouldDeny,
}

impl Sort {
    pub(super) fn next(self) -> Self {
        match self {
            Sort::Busiest => Sort::Denied,
            Sort::Denied => Sort::WouldDeny,
            Sort::WouldDeny => Sort::Busiest,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Busiest => "busiest",
            Sort::Denied => "most denied",
            Sort::WouldDeny => "shadow rules would deny",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name {
    pub(super) tenant: String,
    pub(super) namespace: String,
    pub(super) rule: String,
    pub(super) identifier: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Rates {
    pub(super) per_second: f64,
    pub(super) denied_per_second: f64,
    pub(super) would_deny_per_second: f64,
    /// Some node says so.
    pub(super) is_hot: bool,
    pub(super) is_leased: bool,
}

#[derive(Debug, Default)]
pub(super) struct Callers(BTreeMap<Name, Rates>);

impl Callers {
    /// What one node says.
    pub(super) fn add(&mut self, answer: &Value) {
        let mut heard: BTreeMap<Name, Rates> = BTreeMap::new();
        for caller in
            ["busiest", "denied", "would_deny"].iter().flat_map(|list| answer[*list].as_array()).flatten()
        {
            let text = |name: &str| caller[name].as_str().unwrap_or("").to_owned();
            let rate = |name: &str| caller[name].as_f64().unwrap_or(0.0);
            let (tenant, namespace) = (text("tenant"), text("namespace"));
            let name = Name { tenant, namespace, rule: text("rule"), identifier: text("identifier") };
            // Who is on both lists has the same rates there.
            let (per_second, denied_per_second) = (rate("per_second"), rate("denied_per_second"));
            let would_deny_per_second = rate("would_deny_per_second");
            let is = |name: &str| caller[name].as_bool().unwrap_or(false);
            let (is_hot, is_leased) = (is("hot"), is("leased"));
            heard.insert(
                name,
                Rates { per_second, denied_per_second, would_deny_per_second, is_hot, is_leased },
            );
        }
        for (name, rates) in heard {
            let sum = self.0.entry(name).or_default();
            sum.per_second += rates.per_second;
            sum.denied_per_second += rates.denied_per_second;
            sum.would_deny_per_second += rates.would_deny_per_second;
            sum.is_hot |= rates.is_hot;
            sum.is_leased |= rates.is_leased;
        }
    }

    /// Those whose names have the filter in them, the highest rate first.
    pub(super) fn chosen(&self, sort: Sort, filter: &str) -> Vec<(&Name, Rates)> {
        let fits = |name: &Name| {
            let texts = [&name.tenant, &name.namespace, &name.rule, &name.identifier];
            texts.iter().any(|text| text.contains(filter))
        };
        let rate = |rates: &Rates| match sort {
            Sort::Busiest => rates.per_second,
            Sort::Denied => rates.denied_per_second,
            Sort::WouldDeny => rates.would_deny_per_second,
        };
        let mut chosen: Vec<(&Name, Rates)> = self
            .0
            .iter()
            .filter(|(name, rates)| fits(name) && rate(rates) > 0.0)
            .map(|(name, rates)| (name, *rates))
            .collect();
        chosen.sort_by(|(_, a), (_, b)| rate(b).total_cmp(&rate(a)));
        chosen
    }
}

pub(super) fn as_json(callers: &[(&Name, Rates)]) -> Value {
    let caller = |(name, rates): &(&Name, Rates)| {
        json!({
            "tenant": name.tenant,
            "namespace": name.namespace,
            "rule": name.rule,
            "identifier": name.identifier,
            "per_second": rates.per_second,
            "denied_per_second": rates.denied_per_second,
            "would_deny_per_second": rates.would_deny_per_second,
            "hot": rates.is_hot,
            "leased": rates.is_leased,
        })
    };
    json!({ "callers": callers.iter().map(caller).collect::<Vec<_>>() })
}

/// Each caller's requests a second, the newest last.
#[derive(Debug, Default)]
pub(super) struct History(HashMap<Name, VecDeque<f64>>);

impl History {
    pub(super) fn add(&mut self, callers: &Callers) {
        self.0.retain(|name, rates| {
            rates.push_back(callers.0.get(name).map_or(0.0, |rates| rates.per_second));
            if rates.len() > HISTORY {
                rates.pop_front();
            }
            rates.iter().any(|rate| *rate > 0.0)
        });
        for (name, rates) in &callers.0 {
            if self.0.len() < REMEMBERED_MAX && !self.0.contains_key(name) {
                self.0.insert(name.clone(), VecDeque::from([rates.per_second]));
            }
        }
    }

    pub(super) fn of(&self, name: &Name) -> impl Iterator<Item = f64> {
        self.0.get(name).into_iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(identifier: &str, per_second: f64, denied: f64) -> Value {
        let caller = json!({
            "tenant": "default", "namespace": "api", "rule": "per-user", "identifier": identifier,
            "per_second": per_second, "denied_per_second": denied,
        });
        json!({ "busiest": [caller], "denied": [caller] })
    }

    #[test]
    fn nodes_are_added_up_and_lists_are_not() {
        let mut callers = Callers::default();
        callers.add(&answer("ann", 10.0, 1.0));
        callers.add(&answer("ann", 5.0, 2.0));
        callers.add(&answer("bob", 12.0, 9.0));
        let names = |sort, filter| -> Vec<String> {
            callers.chosen(sort, filter).iter().map(|(name, _)| name.identifier.clone()).collect()
        };
        assert_eq!(names(Sort::Busiest, ""), ["ann", "bob"]);
        assert_eq!(names(Sort::Denied, ""), ["bob", "ann"]);
        assert_eq!(names(Sort::Busiest, "bo"), ["bob"]);
        assert_eq!(
            callers.chosen(Sort::Busiest, "")[0].1,
            Rates { per_second: 15.0, denied_per_second: 3.0, ..Rates::default() }
        );
    }

    #[test]
    fn a_caller_is_hot_where_one_node_says_so() {
        let mut callers = Callers::default();
        callers.add(&answer("ann", 10.0, 1.0));
        let mut leased = answer("ann", 10.0, 1.0);
        (leased["busiest"][0]["hot"], leased["busiest"][0]["leased"]) = (json!(true), json!(true));
        (leased["denied"][0]["hot"], leased["denied"][0]["leased"]) = (json!(true), json!(true));
        callers.add(&leased);
        let rates = callers.chosen(Sort::Busiest, "")[0].1;
        assert!(rates.is_hot && rates.is_leased);
    }

    #[test]
    fn the_last_seconds_are_remembered_and_who_left_is_forgotten() {
        let mut history = History::default();
        let mut callers = Callers::default();
        callers.add(&answer("ann", 10.0, 0.0));
        let name = callers.chosen(Sort::Busiest, "")[0].0.clone();
        history.add(&callers);
        history.add(&Callers::default());
        assert_eq!(history.of(&name).collect::<Vec<_>>(), [10.0, 0.0]);
        (0..HISTORY).for_each(|_| history.add(&Callers::default()));
        assert_eq!(history.of(&name).count(), 0);
    }
}
