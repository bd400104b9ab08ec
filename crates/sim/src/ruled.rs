//! Keys that only a rule can limit: those of calendar windows, and those that are charged whatever the limit says.
//!
//! A request can give every other limit itself. Rules are read once for each text and kept: there are few texts.

use crate::scenario::{KeyPlan, SECRET, TENANT};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tidegate_core::identity::Shape;
use tidegate_core::{Accuracy, Calendar, CalendarUnit, Cell, Class, Nanos};
use tidegate_node::GivenPolicy;
use tidegate_node::engine::VersionedRules;
use tidegate_rules::{RuleSet, Source};

pub(crate) const RULED: &str = "ruled";
pub(crate) const RULE: &str = "rule";
/// The attribute that a rule's key is.
pub(crate) const ATTRIBUTE: &str = "caller";

/// The unit of a calendar window, as scenario files write it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Hour,
    Day,
    Week,
    Month,
}

impl Unit {
    pub const ALL: [Unit; 4] = [Unit::Hour, Unit::Day, Unit::Week, Unit::Month];

    fn name(self) -> &'static str {
        match self {
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
        }
    }

    /// The length of most of its windows, in seconds.
    pub fn length_s(self) -> u64 {
        match self {
            Unit::Hour => 3_600,
            Unit::Day => 86_400,
            Unit::Week => 7 * 86_400,
            Unit::Month => 30 * 86_400,
        }
    }

    pub(crate) fn of_calendar(self) -> CalendarUnit {
        match self {
            Unit::Hour => CalendarUnit::Hour,
            Unit::Day => CalendarUnit::Day,
            Unit::Week => CalendarUnit::Week,
            Unit::Month => CalendarUnit::Month,
        }
    }
}

/// A key is counted by the calendar of a time zone. Its policy is a fixed window, of which only the number counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarWindow {
    pub unit: Unit,
    pub time_zone: String,
}

static CALENDARS: LazyLock<Mutex<BTreeMap<CalendarWindow, Arc<Calendar>>>> = LazyLock::new(Mutex::default);
static RULES: LazyLock<Mutex<BTreeMap<String, &'static VersionedRules>>> = LazyLock::new(Mutex::default);

impl CalendarWindow {
    /// Says whether there is such a time zone.
    pub(crate) fn is_known(&self) -> bool {
        Calendar::new(self.unit.of_calendar(), &self.time_zone).is_ok()
    }

    fn calendar(&self) -> Arc<Calendar> {
        let mut calendars = CALENDARS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calendar) = calendars.get(self) {
            return calendar.clone();
        }
        let calendar = Calendar::new(self.unit.of_calendar(), &self.time_zone);
        let calendar = Arc::new(calendar.expect("scenarios name time zones that exist"));
        calendars.insert(self.clone(), calendar.clone());
        calendar
    }

    pub(crate) fn cell_at(&self, instant: Nanos) -> Cell {
        self.calendar().cell_at(instant)
    }

    pub(crate) fn shape(&self) -> Shape<'_> {
        Shape::Calendar { unit: self.unit.of_calendar(), time_zone: &self.time_zone }
    }
}

/// The only rule that limits a key, when its limit is this.
pub(crate) fn rules_of(plan: &KeyPlan, policy: &GivenPolicy) -> &'static VersionedRules {
    let text = text_of(plan, policy);
    let mut rules = RULES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = rules.get(&text) {
        return known;
    }
    let sources = [Source { name: "simulated.yaml".to_owned(), text: text.clone().into_bytes() }];
    let set = RuleSet::parse(&sources, &SECRET).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    let known: &'static VersionedRules = Box::leak(Box::new(VersionedRules { set, version: 1 }));
    rules.insert(text, known);
    known
}

fn text_of(plan: &KeyPlan, policy: &GivenPolicy) -> String {
    let (class, accuracy) = (class_name(plan.class), accuracy_name(plan.accuracy));
    let mut text = format!(
        "tenant: {TENANT}\nnamespace: {RULED}\nrules:\n  - name: {RULE}\n    key: [{ATTRIBUTE}]\n    class: {class}\n    accuracy: {accuracy}\n"
    );
    let limit = match (policy, &plan.calendar) {
        (GivenPolicy::Sliding { limit, .. } | GivenPolicy::Fixed { limit, .. }, Some(window)) => {
            let CalendarWindow { unit, time_zone } = window;
            format!("    limit: {} per {}\n    time_zone: {time_zone}\n", limit.get(), unit.name())
        }
        (GivenPolicy::Sliding { limit, period }, None) => {
            format!("    limit: {} per {}ms\n", limit.get(), period.length().as_millis_ceil())
        }
        (GivenPolicy::Fixed { limit, period }, None) => {
            let period_ms = period.length().as_millis_ceil();
            format!("    limit: {} per {period_ms}ms\n    algorithm: fixed\n", limit.get())
        }
        (GivenPolicy::Gcra { rate, burst }, _) => {
            let (count, per_ns) = (rate.interval_denominator(), rate.interval_numerator_ns());
            let times = Nanos::PER_SECOND.div_ceil(per_ns);
            let per_ms = Nanos::new(per_ns * times).as_millis_ceil();
            format!("    rate: {} per {per_ms}ms\n    burst: {}\n", count * times, burst.get())
        }
    };
    text.push_str(&limit);
    if plan.charges_always {
        // Writing to a string can't fail.
        let _ = writeln!(text, "    charge: always");
    }
    text
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Paid => "paid",
        Class::Free => "free",
        Class::Abuse => "abuse",
    }
}

fn accuracy_name(accuracy: Accuracy) -> &'static str {
    match accuracy {
        Accuracy::Fast => "fast",
        Accuracy::Bounded => "bounded",
        Accuracy::Exact => "exact",
        Accuracy::Async => "async",
    }
}
