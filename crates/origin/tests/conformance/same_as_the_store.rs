//! The script and the in-process store are the same function: random exchanges, the same answers.
//!
//! `TIDEGATE_STORE_SEED=7` runs one seed alone, `TIDEGATE_STORE_SEEDS=10000` so many.

use crate::messages::{SEQUENCE, fixed, gcra, key, millis, seconds, sliding};
use crate::owners::{self, nodes};
use crate::random::Random;
use crate::region::Region;
use std::num::NonZeroU32;
use tidegate_core::exchange::{
    CellSync, CountReply, CountSync, Fading, GrantRequest, HoldId, KeyReply, KeySync, LeaseRequest,
};
use tidegate_core::gcra_sync::BusyPeriod;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, Nanos, Rate, Sequence};
use tidegate_origin::{Exchange, ExchangeReply, Expiry, Grant, OriginStore, WorldCell};

const STEPS: u64 = 60;
const NODES: u64 = 3;
const KEYS: u64 = 5;
/// The ids of holds follow this one: digits that mean something else beside them.
const RESERVATIONS: u64 = 0xdddd_0000_0000_0000;

/// A run's keys, whose limits stay as they are for most of it.
struct Run {
    random: Random,
    start: Nanos,
    limits: Vec<Limit>,
    /// Costs are of this size.
    scale: u64,
    /// A rate changed, or is so odd that the script can't multiply it exactly: instants may differ a little.
    is_approximate: bool,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    Fixed { limit: u64 },
    Sliding { limit: u64, fading: Fading },
    Gcra { rate: Rate, burst: u64 },
}

impl Run {
    fn new(seed: u64, start: Nanos) -> Self {
        let mut random = Random::new(seed);
        let scale = random.pick(&[3, 20, 1_000, 1_000_000, 1 << 40, 1 << 53]);
        let mut run = Run { random, start, limits: Vec::new(), scale, is_approximate: false };
        run.limits = (0..KEYS).map(|_| run.limit()).collect();
        run
    }

    fn limit(&mut self) -> Limit {
        let limit = self.amount().saturating_mul(3).min(1 << 53);
        match self.random.below(5) {
            0 => Limit::Fixed { limit },
            1 | 2 => {
                let period = self.random.pick(&[millis(100), seconds(1), seconds(60), seconds(366 * 86_400)]);
                let rest = Nanos::new(self.random.below(period.get().min(seconds(100).get())));
                let rest = if self.random.one_in(3) { period.minus(rest) } else { rest };
                Limit::Sliding { limit, fading: Fading { end: self.start.plus(rest), period } }
            }
            _ => Limit::Gcra { rate: self.rate(), burst: limit },
        }
    }

    fn rate(&mut self) -> Rate {
        if self.random.one_in(20) {
            // Its denominator is above 2^45.
            self.is_approximate = true;
            return Rate::new(40_000_000_000_001, seconds(366 * 86_400)).unwrap();
        }
        let period = self.random.pick(&[millis(1), millis(250), seconds(1), seconds(7), seconds(3_600)]);
        let count = self.random.pick(&[1, 3, 7, 10, 49, 700, 999_983]);
        Rate::new(count, period).unwrap_or_else(|_| Rate::new(1, period).unwrap())
    }

    /// Mostly small against the scale, seldom 0 or all of it.
    fn amount(&mut self) -> u64 {
        match self.random.below(8) {
            0 => 0,
            1 => self.scale,
            _ => 1 + self.random.below(self.scale / 4 + 1),
        }
    }

    /// Around the start, so that a run of some milliseconds sees skews and fading.
    fn instant(&mut self) -> Nanos {
        let spread = self.random.pick(&[millis(5), millis(60), seconds(10)]);
        self.start.minus(spread).plus(Nanos::new(self.random.below(2 * spread.get())))
    }

    fn cell(&mut self, like: CellSync) -> CellSync {
        CellSync { component: self.amount(), acked: self.amount(), claim: self.amount(), ..like }
    }

    fn sync(&mut self, number: u64) -> KeySync {
        let index = usize::try_from(number).unwrap();
        if self.random.one_in(40) {
            let changed = self.limit();
            if std::mem::discriminant(&changed) == std::mem::discriminant(&self.limits[index]) {
                self.limits[index] = changed;
                self.is_approximate |= matches!(changed, Limit::Gcra { .. });
            }
        }
        let mut sync = match self.limits[index] {
            Limit::Fixed { limit } => fixed(number, limit, self.start),
            Limit::Sliding { limit, fading } => sliding(number, limit, self.start, fading),
            Limit::Gcra { rate, burst } => gcra(number, rate, burst),
        };
        match &mut sync.counts {
            CountSync::Window(window) => {
                window.regions = self.random.pick(&[1, 1, 2, 3, 10]);
                if self.random.one_in(2) {
                    window.current = self.cell(window.current);
                }
                window.previous = match self.random.below(4) {
                    0 => None,
                    1 => Some(self.cell(window.current)),
                    _ => Some(CellSync { component: 0, acked: 0, claim: 0, ..window.current }),
                };
            }
            CountSync::Gcra { sync, .. } => {
                (sync.cumulative, sync.acked, sync.sent) = (self.amount(), self.amount(), self.amount());
                sync.oldest = self.instant();
                if self.random.one_in(3) {
                    sync.busy = BusyPeriod { tat: self.instant(), since: self.instant() };
                }
            }
        }
        self.want(&mut sync);
        sync
    }

    /// A peek of a node that has counted nothing.
    fn peek(sync: &mut KeySync) {
        sync.request = GrantRequest { peek: true, ..GrantRequest::default() };
        match &mut sync.counts {
            CountSync::Window(window) => (window.current.component, window.current.acked) = (0, 0),
            CountSync::Gcra { sync, .. } => {
                (sync.cumulative, sync.acked, sync.sent, sync.busy) = (0, 0, 0, BusyPeriod::default());
            }
        }
    }

    fn want(&mut self, sync: &mut KeySync) {
        if self.random.one_in(2) {
            let asks = self.random.pick(&[1, 1, 2, 5]);
            sync.request.asks = (0..asks).map(|_| self.amount()).collect();
        }
        sync.request.draw = self.random.one_in(4);
        if self.random.one_in(4) {
            let parts = NonZeroU32::new(self.random.pick(&[1, 2, 3, 12])).unwrap();
            sync.request.lease = Some(LeaseRequest { most: self.amount(), parts });
        }
        if sync.request.asks.len() == 1 && self.random.one_in(4) {
            sync.request.hold = Some(HoldId(RESERVATIONS + self.random.below(4)));
        }
        if self.random.one_in(6) {
            sync.ended_holds.push(HoldId(RESERVATIONS + self.random.below(4)));
        }
        if self.random.one_in(10) {
            sync.epoch = self.random.pick(&[0, 0, 1, 2]);
        }
        if self.random.one_in(8) {
            Self::peek(sync);
        }
    }

    /// What the world worker says of some cells, known here or not.
    fn import(&mut self) -> Vec<WorldCell> {
        let expires = self.start.plus(seconds(1_800));
        let cells = self.random.pick(&[1, 2, 5]);
        let mut import = || WorldCell {
            cell: CellId {
                key: key(self.random.below(KEYS)),
                epoch: self.random.pick(&[0, 0, 0, 1]),
                sequence: Sequence(SEQUENCE.0 - self.random.below(2)),
            },
            own: self.amount(),
            others: self.amount(),
            expires,
        };
        (0..cells).map(|_| import()).collect()
    }

    fn exchange(&mut self) -> Exchange {
        let first = self.random.below(KEYS);
        let count = 1 + self.random.below(KEYS);
        let syncs = (0..count).map(|offset| self.sync((first + offset) % KEYS)).collect();
        Exchange {
            node: NodeId(self.random.below(NODES)),
            now: self.instant(),
            syncs,
            grant: self.random.pick(&[Grant::Each, Grant::Each, Grant::Together]),
            reads_record: false,
        }
    }
}

/// Whether two instants are within 2 ns, or differ as much as doubles must in a debt of years.
fn is_close(ours: Nanos, theirs: Nanos, start: Nanos) -> bool {
    let apart = ours.minus(theirs).max(theirs.minus(ours));
    apart.get() <= 2 + (ours.minus(start).get() >> 50)
}

/// Whether two replies are the same but for instants that are close.
fn is_alike(ours: &KeyReply, theirs: &KeyReply, start: Nanos) -> bool {
    let (mut ours, mut alike) = (ours.clone(), true);
    if let (CountReply::Gcra { busy, .. }, CountReply::Gcra { busy: theirs, .. }) =
        (&mut ours.counts, theirs.counts)
    {
        alike &= is_close(busy.tat, theirs.tat, start);
        busy.tat = theirs.tat;
    }
    if let (Some(ours), Some(theirs)) = (&mut ours.retry_after, theirs.retry_after) {
        alike &= is_close(*ours, theirs, Nanos::ZERO);
        *ours = theirs;
    }
    alike && ours == *theirs
}

fn are_alike(ours: &ExchangeReply, theirs: &ExchangeReply, start: Nanos) -> bool {
    let mut pairs = ours.replies.iter().zip(&theirs.replies);
    pairs.all(|(ours, theirs)| match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => is_alike(ours, theirs, start),
        _ => false,
    })
}

async fn run_once(region: &Region, seed: u64) {
    region.forget().await;
    let mut store = OriginStore::default();
    let mut run = Run::new(seed, region.now().await);
    let shard = region.origin().shard_of(key(0));
    for step in 0..STEPS {
        if run.random.one_in(50) {
            region.forget().await;
            store.clear();
        }
        if run.random.one_in(40) {
            let key = key(run.random.below(KEYS));
            let expiry = Expiry { at: run.start.plus(seconds(3_600)), now: run.start };
            let known = u16::try_from(run.random.below(4)).unwrap_or(0);
            let epoch = region.origin().reset(shard, key, known, expiry).await.unwrap();
            assert_eq!(store.reset(key, known, expiry, run.start), epoch, "seed {seed} step {step}");
        }
        if run.random.one_in(6) {
            let cells = run.import();
            let ids: Vec<CellId> = cells.iter().map(|cell| cell.cell).collect();
            let theirs = region.origin().import(&cells, run.start).await.unwrap();
            let ours: Vec<_> =
                cells.iter().map(|cell| Ok(store.import(cell, run.start, run.start))).collect();
            assert_eq!(theirs, ours, "replay with TIDEGATE_STORE_SEED={seed}; step {step}: {cells:?}");
            let theirs = region.origin().totals(&ids).await.unwrap();
            let ours: Vec<_> = ids.iter().map(|id| Ok(store.cell_total(id, run.start))).collect();
            assert_eq!(theirs, ours, "replay with TIDEGATE_STORE_SEED={seed}; step {step}: {cells:?}");
        }
        if run.random.one_in(8) {
            let number = run.random.below(KEYS);
            let sync = run.sync(number);
            let stays: Vec<u64> = (0..NODES).filter(|_| run.random.one_in(2)).collect();
            let (_, theirs) = owners::fold(region, &sync, &stays).await;
            let ours = store.fold_owners(&owners::first_step(&sync, &nodes(&stays)), run.start);
            assert_eq!(theirs.owners, ours.owners, "replay with TIDEGATE_STORE_SEED={seed}; step {step}");
        }
        if run.random.one_in(300) {
            region.wait(millis(120)).await;
        }
        let exchange = run.exchange();
        let theirs = region.origin().exchange(shard, &exchange).await.unwrap();
        let ours = store.exchange(&exchange, theirs.now);
        if run.is_approximate && theirs != ours && are_alike(&ours, &theirs, run.start) {
            // A nanosecond apart from here on: what fits may differ at the next boundary.
            return;
        }
        assert_eq!(theirs, ours, "replay with TIDEGATE_STORE_SEED={seed}; step {step}: {exchange:#?}");
    }
}

async fn run_all(region: &Region, seeds: u64) {
    let given = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a whole number"));
    let seeds = match given("TIDEGATE_STORE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..given("TIDEGATE_STORE_SEEDS").unwrap_or(seeds),
    };
    for seed in seeds {
        run_once(region, seed).await;
    }
}

#[tokio::test]
async fn the_script_answers_as_the_store_does() {
    run_all(&Region::redis().await, 300).await;
}

#[tokio::test]
async fn so_it_does_on_the_oldest_server_that_is_supported() {
    run_all(&Region::redis_6_2().await, 50).await;
}
