//! The Redis protocol: `CL.THROTTLE` for whoever has a Redis client already.
//!
//! A warm decision runs in the connection's task: what one read brought is decided at one moment and answered
//! by one write, and allocates nothing. It must never answer out of order, buffer without a bound, or keep
//! memory for a client that is idle.

mod client;
mod connection;
mod inline;
mod login;
mod number;
mod parse;
mod reply;
mod session;
mod throttle;

pub(crate) use connection::serve;

/// What fuzzing calls: any bytes as what a client sent, answered to the end without a connection.
#[cfg(feature = "fuzz")]
pub(crate) fn fuzz(app: &crate::App, mut input: &[u8]) {
    use crate::pipeline::{NextStep, PassEnd, PassResult};
    use session::{Session, ThrottleRequest};
    let mut session = Session::new(app, crate::budget::Registration::default());
    loop {
        let mut output = Vec::new();
        let PassResult { consumed, then } = session.answer(app, input, &mut output);
        input = &input[consumed..];
        match then {
            PassEnd::Then(NextStep::Read | NextStep::Close | NextStep::End | NextStep::HandOver) => return,
            PassEnd::Then(NextStep::Write) => {
                assert!(consumed > 0, "a pass that answers something has read something");
            }
            PassEnd::Finish(pending) => match ThrottleRequest::read(pending) {
                Some(asked) => input = &input[asked.length..],
                None => unreachable!("the pass that asks has read it"),
            },
        }
    }
}
