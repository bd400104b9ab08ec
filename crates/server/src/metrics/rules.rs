//! Decisions by rule, and how long they took.

use super::Families;
use super::family::{Kind, Labels, Sample, Value};
use crate::App;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_node::rule_counts::RuleLabels;

pub(super) fn collect(families: &mut Families, app: &App) {
    let stats = app.engine.stats();
    let (mut decisions, mut near_limit) = (Vec::new(), Vec::new());
    let mut words = Words::default();
    for series in stats.rules() {
        for (outcome, path, count) in series.decisions {
            let mut labels = labels_of(&series.labels);
            labels.extend([("outcome", words.shared(outcome)), ("path", words.shared(path))]);
            decisions.push(Sample::whole(labels, count));
        }
        near_limit.push(Sample::whole(labels_of(&series.labels), series.near_limit));
    }
    families.push("decisions", Kind::Counter, decisions);
    families.push("near_limit_decisions", Kind::Counter, near_limit);
    let durations = ["false", "true"].into_iter().zip(stats.durations());
    let durations = durations.map(|(asked, measured)| Sample {
        labels: vec![("asked", asked.into())],
        value: Value::Histogram(measured),
    });
    families.push("decision_duration_seconds", Kind::Histogram, durations.collect());
}

fn labels_of(RuleLabels { tenant, namespace, rule }: &RuleLabels) -> Labels {
    vec![("tenant", tenant.clone()), ("namespace", namespace.clone()), ("rule", rule.clone())]
}

/// The few words that many labels have.
#[derive(Default)]
struct Words(HashMap<&'static str, Arc<str>>);

impl Words {
    fn shared(&mut self, word: &'static str) -> Arc<str> {
        self.0.entry(word).or_insert_with(|| word.into()).clone()
    }
}
