//! What a target's answer means, whatever the protocol.

/// One answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Also what isn't about limits, such as a PONG.
    Allowed,
    Denied,
    /// An error of the protocol, or a status that isn't a decision.
    Refused,
}

/// What came can't be understood, or isn't done here; the connection is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

/// The longest answer, and what is kept of an incomplete one.
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 20;
