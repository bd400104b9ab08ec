//! What a node has counted, as a list of families: the one form from which every format is written, Prometheus' text
//! here and others elsewhere.
//!
//! A family's name is whole, with its prefix and its unit. Labels are of rules, shards and the like, whose number is
//! bounded; never of keys, identifiers or whatever else callers send.

use std::borrow::Cow;
use std::sync::Arc;
use tidegate_node::histogram::HistogramSnapshot;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Only grows, from 0 at the start of the process.
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub(crate) name: Cow<'static, str>,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) labels: Labels,
    pub(crate) value: Value,
}

/// A name and a value.
pub(crate) type Label = (&'static str, Arc<str>);
/// In the order in which they are written.
pub(crate) type Labels = Vec<Label>;

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
    Histogram(HistogramSnapshot),
}

impl Sample {
    pub(crate) fn whole(labels: Labels, value: u64) -> Self {
        Sample { labels, value: Value::Whole(value) }
    }
}
