//! Families in Prometheus' text format.

use super::family::{Family, Label, Sample, Value};
use std::fmt::{Display, Write};
use tidegate_node::histogram::HistogramSnapshot;

/// Writing to a string can't fail, so that nothing is made of what it returns.
pub(super) fn write(families: &[Family]) -> String {
    let mut out = String::with_capacity(16 * 1024);
    for Family { name, help, kind, samples } in families {
        let _ = writeln!(out, "# HELP {name} {}", escaped_help(help));
        let _ = writeln!(out, "# TYPE {name} {}", kind.word());
        for Sample { labels, value } in samples {
            match value {
                Value::Whole(value) => line(&mut out, name, "", labels, None, value),
                Value::Real(value) => line(&mut out, name, "", labels, None, value),
                Value::Histogram(measured) => histogram(&mut out, name, labels, measured),
            }
        }
    }
    out
}

/// Buckets of this format contain those below them.
fn histogram(out: &mut String, name: &str, labels: &[Label], of: &HistogramSnapshot) {
    let mut count = 0;
    for (index, more) in of.counts.iter().enumerate() {
        count += more;
        let bound = of.bounds.get(index).map_or_else(|| "+Inf".to_owned(), f64::to_string);
        line(out, name, "_bucket", labels, Some(&bound), &count);
    }
    line(out, name, "_sum", labels, None, &of.sum);
    line(out, name, "_count", labels, None, &count);
}

fn line(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: &[Label],
    bound: Option<&str>,
    value: &dyn Display,
) {
    let _ = write!(out, "{name}{suffix}");
    let mut open = '{';
    for (label, value) in
        labels.iter().map(|(label, value)| (*label, &**value)).chain(bound.map(|le| ("le", le)))
    {
        let _ = write!(out, "{open}{label}=\"{}\"", escaped(value));
        open = ',';
    }
    let _ = writeln!(out, "{} {value}", if open == ',' { "}" } else { "" });
}

/// A label's value, as the format wants it escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn escaped_help(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::family::Kind;

    #[test]
    fn what_a_label_says_cant_end_it() {
        let labels = vec![("shard", "a\"b\\c\nd".into())];
        let samples = vec![Sample::whole(labels, 3), Sample { labels: vec![], value: Value::Real(0.25) }];
        let family = Family { name: "tidegate_x".into(), help: "Of x.\\", kind: Kind::Gauge, samples };
        let wanted = "# HELP tidegate_x Of x.\\\\\n# TYPE tidegate_x gauge\n\
                      tidegate_x{shard=\"a\\\"b\\\\c\\nd\"} 3\ntidegate_x 0.25\n";
        assert_eq!(write(&[family]), wanted);
    }

    #[test]
    fn a_bucket_contains_those_below_it() {
        let measured = HistogramSnapshot { bounds: &[0.0005, 1.0], counts: vec![2, 0, 1], sum: 3.5 };
        let samples =
            vec![Sample { labels: vec![("asked", "true".into())], value: Value::Histogram(measured) }];
        let family = Family { name: "t_seconds".into(), help: "T.", kind: Kind::Histogram, samples };
        let wanted = "# HELP t_seconds T.\n# TYPE t_seconds histogram\n\
                      t_seconds_bucket{asked=\"true\",le=\"0.0005\"} 2\n\
                      t_seconds_bucket{asked=\"true\",le=\"1\"} 2\n\
                      t_seconds_bucket{asked=\"true\",le=\"+Inf\"} 3\n\
                      t_seconds_sum{asked=\"true\"} 3.5\nt_seconds_count{asked=\"true\"} 3\n";
        assert_eq!(write(&[family]), wanted);
    }
}
