//! Time, chance and calls: what happens when, and what becomes of a message.

use crate::world::Model;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

/// True nanoseconds since the start.
pub(crate) type Instant = u64;
pub(crate) const MILLI: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MILLI;

type Act = Box<dyn FnOnce(&mut Model)>;

#[derive(Default)]
pub(crate) struct Agenda {
    pub(crate) now: Instant,
    order: BinaryHeap<Reverse<(Instant, u64)>>,
    acts: BTreeMap<u64, Act>,
    next: u64,
}

impl Agenda {
    pub(crate) fn at(&mut self, instant: Instant, act: impl FnOnce(&mut Model) + 'static) {
        self.next += 1;
        self.order.push(Reverse((instant.max(self.now), self.next)));
        self.acts.insert(self.next, Box::new(act));
    }

    pub(crate) fn pop(&mut self) -> Option<Act> {
        let Reverse((instant, id)) = self.order.pop()?;
        self.now = instant;
        self.acts.remove(&id)
    }
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Which way a call goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Link {
    /// A node of a region, and the region's origin.
    Origin { region: usize, node: usize },
    /// A region's worker, and the world store.
    World { region: usize },
    /// A reconciler, and the world store.
    Reconciler { process: usize },
}

/// How bad a link is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Trouble {
    pub(crate) cut: bool,
    pub(crate) loss_percent: u64,
    pub(crate) delay_max: u64,
    pub(crate) repeat_percent: u64,
}

impl Model {
    /// Calls: `act` happens at the other end, perhaps twice, perhaps long after the caller gave up; `done` happens
    /// once, with what came back in time.
    pub(crate) fn call<T: 'static>(
        &mut self,
        link: Link,
        act: impl Fn(&mut Model) -> T + 'static,
        done: impl FnOnce(&mut Model, Option<T>) + 'static,
    ) {
        let trouble = self.trouble_on(link);
        let (base, patience) = match link {
            Link::Origin { .. } => (MILLI, 50 * MILLI),
            Link::World { .. } | Link::Reconciler { .. } => (20 * MILLI, SECOND),
        };
        let now = self.agenda.now;
        let done = Rc::new(RefCell::new(Some(done)));
        let give_up = done.clone();
        self.agenda.at(now + patience, move |model| {
            if let Some(done) = give_up.borrow_mut().take() {
                done(model, None);
            }
        });
        if trouble.cut || self.random.chance(trouble.loss_percent) {
            return;
        }
        let act = Rc::new(act);
        let there = now + base + self.random.below(base) + self.random.below(trouble.delay_max);
        if self.random.chance(trouble.repeat_percent) {
            let (act, later) = (act.clone(), there + self.random.below(4 * SECOND));
            self.agenda.at(later, move |model| drop(act(model)));
        }
        let back = base + self.random.below(base) + self.random.below(trouble.delay_max);
        let is_lost = self.random.chance(trouble.loss_percent);
        self.agenda.at(there, move |model| {
            let answer = act(model);
            if !is_lost {
                let now = model.agenda.now;
                model.agenda.at(now + back, move |model| {
                    if let Some(done) = done.borrow_mut().take() {
                        done(model, Some(answer));
                    }
                });
            }
        });
    }
}
