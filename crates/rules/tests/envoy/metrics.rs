//! What a limit is called in metrics: as there, so that dashboards keep working.

use crate::reading::domain;
use tidegate_rules::envoy::{EnvoyUnit, RequestLimit};

#[test]
fn a_metric_has_the_values_that_the_file_asks_for() {
    let limit = "rate_limit: { unit: minute, requests_per_unit: 1 }";
    let sub = |fields: &str| format!("descriptors: [{{ key: sub, {fields}{limit} }}]");
    let rules = domain(&[
        &format!("key: bare, {limit}"),
        &format!("key: exact, value: v, {}", sub("")),
        &format!("key: wild, value: w*, {limit}"),
        &format!("key: wildValue, value: w*, value_to_metric: true, {limit}"),
        &format!("key: bareValue, value_to_metric: true, {}", sub("")),
        &format!("key: shared, value: s*, share_threshold: true, value_to_metric: true, {}", sub("")),
        &format!("key: detailed, {}", sub("detailed_metric: true, ")),
        &format!("key: both, value: s*, share_threshold: true, {}", sub("detailed_metric: true, ")),
    ]);
    for (entries, expected) in [
        (&[("bare", "x")][..], "bare"),
        (&[("exact", "v"), ("sub", "x")], "exact_v.sub"),
        (&[("wild", "w1")], "wild_w*"),
        (&[("wildValue", "w1")], "wildValue_w1"),
        (&[("bareValue", "x"), ("sub", "y")], "bareValue_x.sub"),
        (&[("bareValue", ""), ("sub", "y")], "bareValue.sub"),
        (&[("shared", "s1"), ("sub", "y")], "shared_s*.sub"),
        (&[("detailed", "x"), ("sub", "y")], "detailed_x.sub_y"),
        (&[("both", "s1"), ("sub", "y")], "both_s*.sub_y"),
    ] {
        let found = rules.find("test-domain", entries, None).expect("a limit");
        assert_eq!(found.metric_path(), format!("test-domain.{expected}"), "{entries:?}");
    }
    let given = RequestLimit::new(1, EnvoyUnit::Day, 1);
    let found = rules.find("test-domain", &[("bare", "x"), ("no", "y")], given).expect("a limit");
    assert_eq!(found.metric_path(), "test-domain.bare_x.no_y");
}
