//! The answer of one limit. A denial is a decision, never an error.

use crate::time::Nanos;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Admit,
    /// `retry_after` is the smallest wait after which the same cost would pass if nobody else came;
    /// `None` when no wait helps, because the cost is larger than the limit.
    Deny {
        retry_after: Option<Nanos>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    pub verdict: Verdict,
    /// The limit to show: a window's limit, GCRA's burst.
    pub limit: u64,
    /// The largest further cost that would pass at this moment.
    pub remaining: u64,
    /// When the whole limit is available again if nobody comes; for fixed and calendar windows, their end.
    pub reset: Nanos,
}

impl Decision {
    /// What a limit says that nobody has looked at.
    pub(crate) const NONE: Decision =
        Decision { verdict: Verdict::Admit, limit: 0, remaining: 0, reset: Nanos::ZERO };

    pub const fn is_admitted(&self) -> bool {
        matches!(self.verdict, Verdict::Admit)
    }
}

/// Decides when a check charges its cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChargeMode {
    /// Charge the cost if it passes.
    IfAdmitted,
    /// Charge the cost whether it passes or not: post-paid, may overdraw.
    Always,
    /// Only look.
    Never,
}

impl ChargeMode {
    pub(crate) const fn charges(self, admitted: bool) -> bool {
        match self {
            ChargeMode::IfAdmitted => admitted,
            ChargeMode::Always => true,
            ChargeMode::Never => false,
        }
    }
}
