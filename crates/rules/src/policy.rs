//! What a rule limits by: algorithm, numbers and, for a calendar, the time zone.
//!
//! Its shape is part of a key's identity; its numbers never are, so an override may change them and keep
//! the counts.

use std::sync::Arc;
use tidegate_core::identity::Shape;
use tidegate_core::{Burst, Calendar, Limit, Nanos, Period, Rate, Spec};

#[derive(Clone, Debug)]
pub enum Policy {
    Sliding { limit: Limit, period: Period },
    Fixed { limit: Limit, period: Period },
    Calendar { limit: Limit, calendar: Arc<Calendar> },
    Gcra { rate: Rate, burst: Burst },
}

impl Policy {
    /// What a check at `now` is decided by.
    pub fn spec(&self, now: Nanos) -> Spec {
        match *self {
            Policy::Sliding { limit, period } => Spec::Sliding { limit, period },
            Policy::Fixed { limit, period } => Spec::Fixed { limit, period },
            Policy::Calendar { limit, ref calendar } => {
                Spec::Calendar { limit, unit: calendar.unit(), cell: calendar.cell_at(now) }
            }
            Policy::Gcra { rate, burst } => Spec::Gcra { rate, burst },
        }
    }

    /// What of it belongs to the identity.
    pub fn shape(&self) -> Shape<'_> {
        match self {
            Policy::Sliding { period, .. } => Shape::Sliding(*period),
            Policy::Fixed { period, .. } => Shape::Fixed(*period),
            Policy::Calendar { calendar, .. } => {
                Shape::Calendar { unit: calendar.unit(), time_zone: calendar.time_zone() }
            }
            Policy::Gcra { .. } => Shape::Gcra,
        }
    }

    /// Whether nothing ever passes.
    pub fn blocks(&self) -> bool {
        match self {
            Policy::Sliding { limit, .. } | Policy::Fixed { limit, .. } | Policy::Calendar { limit, .. } => {
                *limit == Limit::BLOCKED
            }
            Policy::Gcra { burst, .. } => *burst == Burst::BLOCKED,
        }
    }
}
