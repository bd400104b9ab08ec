//! How long decisions take, measured where callers ask for them.
//!
//! The clock is read a second time for one decision in 64 of a thread: reading it for each would cost a pipeline more
//! than the decisions do. Commands that come in one read are decided at one moment and measured together, from that
//! moment to the last of them: as long as any of them waited. Who asked the region has waited long enough to be
//! measured every time.

use crate::App;
use std::cell::Cell;
use tidegate_core::Moment;

const ONE_IN: u32 = 64;

thread_local! {
    static UNTIL_NEXT: Cell<u32> = const { Cell::new(0) };
}

/// A request that was read at `began` has been decided, and nobody was asked.
#[inline]
pub(crate) fn time(app: &App, began: Moment) {
    let is_measured = UNTIL_NEXT.with(|until| match until.get() {
        0 => {
            until.set(ONE_IN - 1);
            true
        }
        left => {
            until.set(left - 1);
            false
        }
    });
    if is_measured {
        app.engine.stats().decided_within(app.clock.now().now.minus(began.now));
    }
}

/// The same of one that had to ask.
pub(crate) fn time_asked(app: &App, began: Moment) {
    app.engine.stats().asked_within(app.clock.now().now.minus(began.now));
}
