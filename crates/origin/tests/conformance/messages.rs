//! Short ways to say what a node sends, and to look at what it is told.

use tidegate_core::counts::CellReply;
use tidegate_core::exchange::{
    CellSync, CountReply, CountSync, Fading, GrantRequest, HoldId, KeyReply, KeySync, WindowSync,
};
use tidegate_core::gcra_sync::{BusyPeriod, GcraSync};
use tidegate_core::{KeyId, Nanos, Rate, Sequence};

pub(crate) const SEQUENCE: Sequence = Sequence(1_000);
/// Long enough that nothing expires in a test.
const KEPT_FOR: Nanos = Nanos::from_secs(3_600);

/// Keys that share a place.
pub(crate) fn key(number: u64) -> KeyId {
    KeyId::from_hash((u128::from(number) << 64) | 0x7777)
}

pub(crate) fn seconds(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

/// A fixed window that publishes nothing yet.
pub(crate) fn fixed(number: u64, limit: u64, now: Nanos) -> KeySync {
    let current = CellSync { component: 0, acked: 0, claim: 0, expires: now.plus(KEPT_FOR) };
    let window = WindowSync { limit, regions: 1, sequence: SEQUENCE, current, previous: None, fading: None };
    sync(number, CountSync::Window(window))
}

/// A sliding window whose cell ends at `end`.
pub(crate) fn sliding(number: u64, limit: u64, now: Nanos, fading: Fading) -> KeySync {
    let mut sync = fixed(number, limit, now);
    let CountSync::Window(window) = &mut sync.counts else { unreachable!() };
    (window.previous, window.fading) = (Some(window.current), Some(fading));
    sync
}

/// A GCRA key of a node that has admitted nothing yet.
pub(crate) fn gcra(number: u64, rate: Rate, burst: u64) -> KeySync {
    let sync_of_node =
        GcraSync { cumulative: 0, acked: 0, sent: 0, oldest: Nanos::ZERO, busy: BusyPeriod::default(), rate };
    sync(number, CountSync::Gcra { sync: sync_of_node, burst })
}

/// `count` per second.
pub(crate) fn per_second(count: u64) -> Rate {
    Rate::new(count, seconds(1)).unwrap()
}

fn sync(number: u64, counts: CountSync) -> KeySync {
    KeySync {
        key: key(number),
        epoch: 0,
        counts,
        request: GrantRequest::default(),
        ended_holds: Default::default(),
    }
}

/// What a sync says beside the usual.
pub(crate) trait Saying: Sized {
    fn change(self, change: impl FnOnce(&mut KeySync)) -> KeySync;

    fn window(self, change: impl FnOnce(&mut WindowSync)) -> KeySync {
        self.change(|sync| match &mut sync.counts {
            CountSync::Window(window) => change(window),
            CountSync::Gcra { .. } => panic!("no window"),
        })
    }

    fn arrival(self, change: impl FnOnce(&mut GcraSync)) -> KeySync {
        self.change(|sync| match &mut sync.counts {
            CountSync::Gcra { sync, .. } => change(sync),
            CountSync::Window(_) => panic!("no GCRA"),
        })
    }

    fn publishing(self, component: u64, claim: u64) -> KeySync {
        self.growing(component, component, claim)
    }

    fn growing(self, component: u64, acked: u64, claim: u64) -> KeySync {
        self.window(|window| {
            window.current = CellSync { component, acked, claim, ..window.current };
        })
    }

    fn publishing_previous(self, component: u64, claim: u64) -> KeySync {
        self.window(|window| {
            window.previous = Some(CellSync { component, acked: component, claim, ..window.current });
        })
    }

    fn asking(self, asks: &[u64]) -> KeySync {
        self.change(|sync| sync.request.asks = asks.into())
    }

    fn drawing(self) -> KeySync {
        self.change(|sync| sync.request.draw = true)
    }

    fn holding(self, id: u64) -> KeySync {
        self.change(|sync| sync.request.hold = Some(HoldId(id)))
    }

    fn settling(self, id: u64) -> KeySync {
        self.change(|sync| sync.ended_holds.push(HoldId(id)))
    }

    fn at_epoch(self, epoch: u16) -> KeySync {
        self.change(|sync| sync.epoch = epoch)
    }
}

impl Saying for KeySync {
    fn change(mut self, change: impl FnOnce(&mut KeySync)) -> KeySync {
        change(&mut self);
        self
    }
}

/// What a reply says.
pub(crate) trait ReplyFields {
    fn cell(&self) -> CellReply;
    fn previous(&self) -> CellReply;
    fn owners(&self) -> u32;
    fn busy(&self) -> BusyPeriod;
    /// The node's own component, of a window or a GCRA key.
    fn own(&self) -> u64;
}

impl ReplyFields for KeyReply {
    fn cell(&self) -> CellReply {
        let CountReply::Window { current, .. } = self.counts else { panic!("{self:?}") };
        current
    }

    fn previous(&self) -> CellReply {
        let CountReply::Window { previous: Some(previous), .. } = self.counts else { panic!("{self:?}") };
        previous
    }

    fn owners(&self) -> u32 {
        let (CountReply::Window { owners, .. } | CountReply::Gcra { owners, .. }) = self.counts;
        owners
    }

    fn busy(&self) -> BusyPeriod {
        let CountReply::Gcra { busy, .. } = self.counts else { panic!("{self:?}") };
        busy
    }

    fn own(&self) -> u64 {
        match self.counts {
            CountReply::Window { current, .. } => current.component,
            CountReply::Gcra { stored, .. } => stored,
        }
    }
}
