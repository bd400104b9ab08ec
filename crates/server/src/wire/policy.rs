//! What the fields of one limit mean together.
//!
//! Refuses what contradicts itself rather than let one field silently win.

use crate::refusal::{Code, Refusal};
use crate::wire::field::{Field, missing};
use crate::wire::limit_fields::{Algorithm, LimitFields, out_of_range};
use tidegate_core::{Cost, Limit};
use tidegate_node::{GivenLimit, GivenPolicy};

/// What a limit is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Decide,
    /// Only its key matters, so its number may be left out.
    Reset,
}

impl Use {
    /// For a limit that lacks something.
    const fn fix(self) -> &'static str {
        match self {
            Use::Decide => "give `limit` and `duration_ms`, or `rate_per_s`",
            Use::Reset => {
                "give `duration_ms`, and `algorithm` if it isn't sliding, as they were when it was limited; \
                 or any `rate_per_s` if it had one; `limit` isn't needed"
            }
        }
    }
}

impl LimitFields<'_> {
    pub(crate) fn given(&self, needed_for: Use) -> Result<GivenLimit<'_>, Refusal> {
        let namespace = self.namespace.as_deref();
        let identifier = self.identifier.as_deref();
        Ok(GivenLimit {
            namespace: namespace
                .ok_or_else(|| missing(Field::Namespace, "name what is limited, such as \"api\""))?,
            identifier: identifier
                .ok_or_else(|| missing(Field::Identifier, "name who is limited, such as \"user-42\""))?,
            policy: self.policy(needed_for)?,
            cost: self.cost.unwrap_or(Cost::ONE),
            class: self.class,
            accuracy: self.accuracy,
            scope: self.scope,
        })
    }

    fn policy(&self, needed_for: Use) -> Result<GivenPolicy, Refusal> {
        if let Some(rate) = self.rate {
            self.refuse_window_fields()?;
            let burst = self.burst.unwrap_or(rate.one_second_of_burst());
            rate.refills(burst).map_err(|error| out_of_range(Field::Burst, error))?;
            return Ok(GivenPolicy::Gcra { rate, burst });
        }
        if self.burst.is_some() {
            return Err(conflict(Field::Burst, "`burst` goes with `rate_per_s`, which is missing"));
        }
        let limit = match (self.limit, needed_for) {
            (Some(limit), _) => limit,
            (None, Use::Reset) => Limit::BLOCKED,
            (None, Use::Decide) => return Err(missing(Field::Limit, needed_for.fix())),
        };
        let period = self.period.ok_or_else(|| missing(Field::DurationMs, needed_for.fix()))?;
        Ok(match self.algorithm.unwrap_or(Algorithm::Sliding) {
            Algorithm::Sliding => GivenPolicy::Sliding { limit, period },
            Algorithm::Fixed => GivenPolicy::Fixed { limit, period },
        })
    }

    fn refuse_window_fields(&self) -> Result<(), Refusal> {
        let given = [
            (self.limit.is_some(), Field::Limit),
            (self.period.is_some(), Field::DurationMs),
            (self.algorithm.is_some(), Field::Algorithm),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, field)) => {
                Err(conflict(field, &format!("`{}` doesn't go with `rate_per_s`", field.name())))
            }
        }
    }
}

#[cold]
fn conflict(field: Field, message: &str) -> Refusal {
    const FIX: &str = "give either `limit` and `duration_ms`, or `rate_per_s` and maybe `burst`";
    Refusal::of_field(Code::ConflictingFields, field.name(), message, FIX)
}
