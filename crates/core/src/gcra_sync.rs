//! GCRA across nodes: how an origin merges what nodes admitted into one theoretical arrival time.
//!
//! A pure function of the origin's state and a node's message (docs/design.md, "GCRA over several nodes"). The in-process
//! origin and the simulator call it; the Redis script computes the same. Costs are cumulative and merged by
//! max, so a lost reply or a retry is charged once; a store that forgot takes the node's own pair.

use crate::gcra::Tat;
use crate::limit::{Burst, NUMBER_MAX, Rate};
use crate::time::Nanos;

/// The arrival time, and where the busy period that it ends began. Whole nanoseconds: charges are rounded up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BusyPeriod {
    pub tat: Nanos,
    pub since: Nanos,
}

impl BusyPeriod {
    /// With what began at `oldest`; a busy period that was over by then is forgotten.
    fn and(self, length: Nanos, oldest: Nanos) -> Self {
        if self.tat < oldest {
            return BusyPeriod { tat: oldest.plus(length), since: oldest };
        }
        let extra = length.minus(self.since.minus(oldest));
        if extra == Nanos::ZERO {
            return self;
        }
        BusyPeriod { tat: self.tat.plus(extra), since: self.since.min(oldest) }
    }
}

/// What the origin keeps for one key and one node; `busy` and `before` are shared by all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OriginGcra {
    pub busy: BusyPeriod,
    /// The busy period before this one, as far as it is known: late news of it find less idle time than there is
    /// between them and this one. Forgotten where it may be part of what a node's pair says.
    pub before: BusyPeriod,
    /// This node's cumulative cost.
    pub stored: u64,
}

/// A node's sync of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GcraSync {
    /// Everything that the node ever admitted.
    pub cumulative: u64,
    /// The last `cumulative` that the origin confirmed to it.
    pub acked: u64,
    /// How much of it the origin may have counted: a call carried it whose outcome isn't known. At least `acked`.
    pub sent: u64,
    /// When the oldest admission was made that isn't confirmed yet.
    pub oldest: Nanos,
    pub busy: BusyPeriod,
    pub rate: Rate,
}

impl OriginGcra {
    /// Steps 1 to 3 of the scheme: charge what is new, adopt the node's pair if it is ahead.
    pub fn merge(&mut self, sync: &GcraSync) {
        let before = *self;
        // A store that knows less than it once confirmed lost data: the nodes' pairs restore what it had counted. What was
        // admitted since is in no other node's pair.
        let has_lost = self.stored < sync.acked;
        let counted = if has_lost { sync.acked.max(sync.sent) } else { self.stored };
        let new = sync.cumulative.saturating_sub(counted);
        if new > 0 {
            self.charge(interval_times(sync.rate, new), sync.oldest);
        }
        self.stored = self.stored.max(sync.cumulative);
        if sync.busy.tat > self.busy.tat || (has_lost && sync.busy.tat == self.busy.tat) {
            (self.busy, self.before) = (sync.busy, BusyPeriod::default());
        }
        assert!(self.stored >= before.stored, "INV-1: a component never shrinks");
        assert!(self.busy.tat >= before.busy.tat, "INV-1: an arrival time never goes back");
    }

    /// Admissions that began before this busy period did are partly paid by the idle time between. That pays once: it
    /// is part of the busy period before from then on, or else as many nodes as have late news would all be paid by
    /// it, and of a bucket that is emptied again and again ever more would be admitted than its rate (INV-7).
    fn charge(&mut self, length: Nanos, oldest: Nanos) {
        if self.busy.tat < oldest {
            self.begin(oldest);
            self.busy.tat = oldest.plus(length);
            return;
        }
        if oldest >= self.busy.since {
            self.busy.tat = self.busy.tat.plus(length);
            return;
        }
        self.before = self.before.and(length, oldest);
        if self.before.tat > self.busy.since {
            // There was no idle time between.
            let extra = self.before.tat.minus(self.busy.since);
            let since = self.busy.since.min(self.before.since);
            self.busy = BusyPeriod { tat: self.busy.tat.plus(extra), since };
            self.before = BusyPeriod::default();
        }
    }

    /// The bucket is full, and a busy period begins.
    fn begin(&mut self, now: Nanos) {
        self.before = self.busy;
        self.busy = BusyPeriod { tat: now, since: now };
    }

    /// Step 4: grants `cost` if it fits, and counts it as the node's.
    pub fn grant(&mut self, rate: Rate, burst: Burst, cost: u64, now: Nanos) -> bool {
        let fits = self.fits(rate, burst.get(), cost, now);
        if fits {
            self.take(rate, cost, now);
        }
        fits
    }

    /// Whether `units` more would leave no more than `burst` owed.
    pub fn fits(&self, rate: Rate, burst: u64, units: u64, now: Nanos) -> bool {
        let tat = self.busy.tat.max(now).plus(interval_times(rate, units));
        units <= burst && tat.minus(now) <= interval_times(rate, burst)
    }

    /// Counts `units` that were found to fit. Several at once are rounded up once.
    pub fn take(&mut self, rate: Rate, units: u64, now: Nanos) {
        if self.busy.tat < now {
            self.begin(now);
        }
        self.busy.tat = self.busy.tat.plus(interval_times(rate, units));
        self.stored = self.stored.saturating_add(units).min(NUMBER_MAX);
    }

    /// How long until `units` fit if nobody else comes; `None` when they never do.
    pub fn wait(&self, rate: Rate, burst: u64, units: u64, now: Nanos) -> Option<Nanos> {
        let owed = self.busy.tat.plus(interval_times(rate, units)).minus(now);
        (units <= burst).then(|| owed.minus(interval_times(rate, burst)))
    }

    /// A changed rate keeps what was spent: what is owed becomes as many of the new intervals as of the old.
    pub fn rescale(&mut self, from: Rate, to: Rate, now: Nanos) {
        if from != to {
            self.before = BusyPeriod::default();
            let tat = Tat { whole: self.busy.tat, ticks: 0, overdrawn: false };
            self.busy.tat = tat.rescaled(from, to, now).whole_ceil();
        }
    }
}

/// The largest burst that a debt may have been made with, beside the arrival time. A lowered burst costs a caller one
/// empty bucket, not a debt of the old size; what post-paid charges took beyond the old burst is owed all the same.
///
/// Example: of a burst of 200 at 1 a second everything is spent, and the burst becomes 5. The next exchange that knows of
/// the 5 leaves 5 seconds owed of the 200. With 300 owed, 100 were post-paid: they stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BurstMemory {
    /// 0 before the first exchange that names one.
    pub burst: u64,
    /// When a debt was last forgiven. A fleet of which some nodes don't know of the change yet must not make a new
    /// bucket of each request.
    pub forgiven_at: Nanos,
}

/// Clocks differ by microseconds, and that must never refill anything.
const FORGIVEN_BEYOND: Nanos = Nanos::from_secs(1);

impl BurstMemory {
    /// The burst is this, for whoever sent the exchange; 0: it doesn't know. Returns whether a debt was forgiven.
    pub fn apply(&mut self, origin: &mut OriginGcra, rate: Rate, burst: u64, now: Nanos) -> bool {
        if burst == 0 || burst >= self.burst {
            self.burst = self.burst.max(burst);
            return false;
        }
        let (full, before) = (interval_times(rate, burst), interval_times(rate, self.burst));
        let owed = origin.busy.tat.minus(now);
        if owed <= full.plus(FORGIVEN_BEYOND) {
            // Who published late, from before the change, has paid its debt by then.
            if now > self.forgiven_at.plus(before) {
                self.burst = burst;
            }
            return false;
        }
        let is_lowered = owed <= before.plus(FORGIVEN_BEYOND) && now >= self.forgiven_at.plus(full);
        if is_lowered {
            origin.busy = BusyPeriod { tat: now.plus(full), since: origin.busy.since.min(now) };
            origin.before = BusyPeriod::default();
            self.forgiven_at = now;
        }
        is_lowered
    }
}

/// A node adopts the origin's pair if it is ahead, plus what it admitted from `oldest` on and the origin didn't
/// know of. That is charged as the origin will charge it: the idle time before a busy period may pay for it.
pub fn adopt(
    own: BusyPeriod,
    reply: BusyPeriod,
    admitted_since: u64,
    oldest: Nanos,
    rate: Rate,
) -> BusyPeriod {
    let mut replied = OriginGcra { busy: reply, ..OriginGcra::default() };
    if admitted_since > 0 {
        replied.charge(interval_times(rate, admitted_since), oldest);
    }
    if replied.busy.tat > own.tat { replied.busy } else { own }
}

/// `cost × interval`, rounded up to a whole nanosecond. Saturates at the end of time.
pub fn interval_times(rate: Rate, cost: u64) -> Nanos {
    Tat::owing(Nanos::ZERO, cost, rate).whole_ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate() -> Rate {
        Rate::new(10, Nanos::from_secs(1)).unwrap()
    }

    fn at(millis: u64) -> Nanos {
        Nanos::from_secs(1000).plus(Nanos::from_millis(millis))
    }

    fn sync(cumulative: u64, acked: u64, oldest: Nanos) -> GcraSync {
        GcraSync { cumulative, acked, sent: acked, oldest, busy: BusyPeriod::default(), rate: rate() }
    }

    #[test]
    fn a_lost_reply_and_a_retry_charge_once() {
        let mut origin = OriginGcra::default();
        origin.merge(&sync(5, 0, at(0)));
        assert_eq!(origin.busy, BusyPeriod { tat: at(500), since: at(0) });
        origin.merge(&sync(5, 0, at(0)));
        assert_eq!(origin.busy.tat, at(500));
        origin.merge(&sync(7, 0, at(0)));
        assert_eq!((origin.busy.tat, origin.stored), (at(700), 7));
    }

    #[test]
    fn a_forgetful_store_takes_the_nodes_pair_and_charges_nothing_twice() {
        let mut origin = OriginGcra::default();
        let pair = BusyPeriod { tat: at(900), since: at(0) };
        origin.merge(&GcraSync { busy: pair, ..sync(9, 8, at(800)) });
        assert_eq!((origin.busy, origin.stored), (pair, 9));
    }

    #[test]
    fn what_was_admitted_since_a_loss_is_charged_beside_what_others_restored() {
        let pair = BusyPeriod { tat: at(900), since: at(0) };
        let restored =
            OriginGcra { busy: BusyPeriod { tat: at(1_500), since: at(0) }, ..OriginGcra::default() };
        let mut origin = restored;
        origin.merge(&GcraSync { busy: pair, ..sync(12, 8, at(800)) });
        assert_eq!((origin.busy.tat, origin.stored), (at(1_900), 12), "4 units of 100 ms");
        // A publish of 11 was on its way: it may be part of what others know.
        let mut origin = restored;
        origin.merge(&GcraSync { busy: pair, sent: 11, ..sync(12, 8, at(800)) });
        assert_eq!(origin.busy.tat, at(1_600));
    }

    #[test]
    fn late_news_of_older_admissions_is_paid_by_the_idle_time_between() {
        let mut origin =
            OriginGcra { busy: BusyPeriod { tat: at(1300), since: at(1000) }, ..OriginGcra::default() };
        origin.merge(&sync(2, 0, at(0)));
        let paid = BusyPeriod { tat: at(1300), since: at(1000) };
        assert_eq!(origin.busy, paid, "200 ms of work fit into the idle second before");
        let mut origin =
            OriginGcra { busy: BusyPeriod { tat: at(1300), since: at(1000) }, ..OriginGcra::default() };
        origin.merge(&sync(15, 0, at(0)));
        assert_eq!(origin.busy, BusyPeriod { tat: at(1800), since: at(0) });
    }

    #[test]
    fn idle_time_pays_once() {
        let busy = BusyPeriod { tat: at(1300), since: at(1000) };
        let mut origin = OriginGcra { busy, ..OriginGcra::default() };
        let mut tats = Vec::new();
        // Three nodes tell late of 500 ms of work each, in the second before.
        for _ in 0..3 {
            origin.stored = 0;
            origin.merge(&sync(5, 0, at(0)));
            tats.push(origin.busy.tat);
        }
        assert_eq!(tats, [at(1300), at(1300), at(1800)]);
        let mut origin =
            OriginGcra { busy: BusyPeriod { tat: at(900), since: at(0) }, ..OriginGcra::default() };
        origin.take(rate(), 3, at(1000));
        origin.stored = 0;
        origin.merge(&sync(8, 0, at(400)));
        assert_eq!(
            origin.busy,
            BusyPeriod { tat: at(1700 + 300), since: at(0) },
            "of 600 ms it was idle for 100"
        );
    }

    #[test]
    fn a_sync_that_brings_nothing_new_changes_nothing() {
        let pair = BusyPeriod { tat: at(500), since: at(100) };
        let mut origin = OriginGcra { busy: pair, stored: 4, ..OriginGcra::default() };
        origin.merge(&GcraSync { busy: BusyPeriod { tat: at(500), since: at(200) }, ..sync(4, 4, at(900)) });
        assert_eq!(origin, OriginGcra { busy: pair, stored: 4, ..OriginGcra::default() });
    }

    #[test]
    fn a_busy_period_goes_on_up_to_its_last_instant() {
        let (hundred, since) = (Nanos::from_millis(100), at(100));
        for (next, begins) in
            [(at(400), since), (at(500), since), (at(500).plus(Nanos::new(1)), at(500).plus(Nanos::new(1)))]
        {
            let busy = BusyPeriod { tat: at(500), since };
            let mut taken = OriginGcra { busy, ..OriginGcra::default() };
            taken.take(rate(), 1, next);
            let mut heard = OriginGcra { busy, ..OriginGcra::default() };
            heard.merge(&sync(1, 0, next));
            let before = if begins == since { BusyPeriod::default() } else { busy };
            let busy = BusyPeriod { tat: at(500).max(next).plus(hundred), since: begins };
            let expected = OriginGcra { busy, before, stored: 1 };
            assert_eq!((taken, heard), (expected, expected), "granted or heard of at {next:?}");
        }
    }

    #[test]
    fn grants_stop_at_the_burst() {
        let mut origin = OriginGcra::default();
        let burst = Burst::new(3).unwrap();
        let granted = (0..5).filter(|_| origin.grant(rate(), burst, 1, at(0))).count();
        assert_eq!((granted, origin.stored, origin.busy.tat), (3, 3, at(300)));
        assert!(origin.grant(rate(), burst, 1, at(100)));
    }

    #[test]
    fn a_refusal_says_exactly_how_long_to_wait() {
        let mut origin = OriginGcra::default();
        origin.take(rate(), 3, at(0));
        let wait = origin.wait(rate(), 3, 2, at(50)).unwrap();
        assert_eq!(wait, Nanos::from_millis(150));
        assert!(!origin.fits(rate(), 3, 2, at(50).plus(wait).minus(Nanos::new(1))));
        assert!(origin.fits(rate(), 3, 2, at(50).plus(wait)));
        assert_eq!(origin.wait(rate(), 3, 4, at(50)), None);
    }

    #[test]
    fn a_lowered_burst_leaves_one_empty_bucket_and_an_overdraft_stays() {
        let owing = |millis| OriginGcra {
            busy: BusyPeriod { tat: at(millis), since: at(0) },
            before: BusyPeriod { tat: at(1), since: at(0) },
            stored: 7,
        };
        let memory = BurstMemory { burst: 200, ..BurstMemory::default() };
        let lowered = |owed_ms: u64, burst: u64| {
            let (mut origin, mut memory) = (owing(owed_ms), memory);
            let is_forgiven = memory.apply(&mut origin, rate(), burst, at(0));
            assert_eq!(is_forgiven, origin != owing(owed_ms));
            (origin.busy.tat.minus(at(0)).get() / 1_000_000, memory.burst)
        };
        assert_eq!(lowered(20_000, 5), (500, 200), "200 units are owed, of which five stay");
        assert_eq!(lowered(21_000, 5), (500, 200), "a second of grace");
        assert_eq!(lowered(21_001, 5), (21_001, 200), "ten units more were post-paid");
        assert_eq!(lowered(1_500, 5), (1_500, 5), "a second beyond five units isn't forgiven");
        assert_eq!(lowered(20_000, 0), (20_000, 200), "who doesn't know the burst changes nothing");
        assert_eq!(lowered(40_000, 400), (40_000, 400), "a raised one neither");
    }

    #[test]
    fn a_debt_is_forgiven_once_for_each_bucket_while_nodes_differ() {
        let (mut origin, mut memory) = (OriginGcra::default(), BurstMemory::default());
        let mut granted = 0;
        for step in 0..1_000 {
            // Every second node has the old burst still.
            let burst = if step % 2 == 0 { 200 } else { 10 };
            memory.apply(&mut origin, rate(), burst, at(step));
            while origin.grant(rate(), Burst::new(burst).unwrap(), 1, at(step)) {
                granted += 1;
            }
        }
        assert_eq!(granted, 200 + 190 + 9, "in a second: a bucket, one that was forgiven, and what refilled");
    }

    #[test]
    fn a_changed_rate_keeps_what_was_spent() {
        let mut origin = OriginGcra {
            busy: BusyPeriod { tat: at(500), since: at(0) },
            stored: 5,
            ..OriginGcra::default()
        };
        origin.rescale(rate(), Rate::new(1, Nanos::from_secs(1)).unwrap(), at(0));
        assert_eq!(origin.busy, BusyPeriod { tat: at(5000), since: at(0) });
    }

    #[test]
    fn a_node_adopts_a_pair_that_is_ahead_of_its_own() {
        let own = BusyPeriod { tat: at(100), since: at(0) };
        let reply = BusyPeriod { tat: at(150), since: at(10) };
        assert_eq!(adopt(own, reply, 2, at(50), rate()), BusyPeriod { tat: at(350), since: at(10) });
        assert_eq!(adopt(BusyPeriod { tat: at(900), ..own }, reply, 2, at(50), rate()).tat, at(900));
        assert_eq!(adopt(own, reply, 0, at(900), rate()), reply);
        let level = BusyPeriod { tat: at(150), since: at(0) };
        assert_eq!(adopt(level, reply, 0, at(900), rate()), level, "a pair that is level isn't ahead");
    }

    #[test]
    fn what_a_node_admitted_before_the_others_began_is_partly_paid_by_the_idle_time_between() {
        let (own, reply) =
            (BusyPeriod { tat: at(100), since: at(0) }, BusyPeriod { tat: at(150), since: at(50) });
        assert_eq!(adopt(own, reply, 1, at(0), rate()), BusyPeriod { tat: at(200), since: at(0) });
    }
}
