//! Callers who come at a pace and stay until they are denied, and what became of their requests.

use crate::fleet::{Limit, Member, pause};
use crate::support::poll;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// So many denials in a row, and a caller believes it.
const DENIALS: usize = 40;
const LONG: Duration = Duration::from_secs(30);

/// What callers at several nodes got.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) allowed: u64,
    /// Of these, on the local view alone, though they should have asked.
    pub(crate) unverified: u64,
}

impl Tally {
    fn plus(self, other: Tally) -> Tally {
        Tally { allowed: self.allowed + other.allowed, unverified: self.unverified + other.unverified }
    }
}

/// So many threads at each node send so many requests each, as fast as they are answered.
pub(crate) fn rush(members: &[Member], threads: usize, requests: u64, limit: &Limit) -> Tally {
    let run = |member: &Member| {
        let mut caller = member.caller();
        let mut tally = Tally::default();
        for _ in 0..requests {
            let answer = caller.ask(limit);
            tally.allowed += u64::from(answer.is_allowed());
            tally.unverified += u64::from(answer.is_allowed() && answer.is_unverified());
        }
        tally
    };
    thread::scope(|scope| {
        let callers = members.iter().flat_map(|member| (0..threads).map(move |_| member));
        let running: Vec<_> = callers.map(|member| scope.spawn(move || run(member))).collect();
        running.into_iter().map(|caller| caller.join().unwrap()).fold(Tally::default(), Tally::plus)
    })
}

/// Spends what is left, also what nodes were granted and hadn't spent: until each is denied for good, by its
/// region. Says how much that was.
pub(crate) fn drain(members: &[Member], limit: &Limit) -> u64 {
    let drain_one = |member: &Member| {
        let mut caller = member.caller();
        let (mut allowed, mut denied) = (0_u64, 0);
        poll("a denial by the region", LONG, || {
            let answer = caller.ask(limit);
            allowed += u64::from(answer.is_allowed());
            // The first may bring a grant that went unheard; it is spent by the next.
            denied = if answer.is_allowed() || answer.is_unverified() { 0 } else { denied + 1 };
            (denied == 2).then_some(())
        });
        allowed
    };
    members.iter().map(drain_one).sum()
}

/// A load that goes on while a test does something to the store.
#[derive(Debug, Default)]
pub(crate) struct Load {
    admitted: AtomicU64,
    pace_us: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    /// Between two requests at each node.
    pub(crate) fn set_pace(&self, pace: Duration) {
        self.pace_us.store(u64::try_from(pace.as_micros()).unwrap(), Ordering::Relaxed);
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    pub(crate) fn wait_admitted(&self, count: u64) {
        poll(&format!("{count} admissions"), LONG, || (self.admitted() >= count).then_some(()));
    }

    fn call(&self, member: &Member, limit: &Limit) {
        let mut caller = member.caller();
        let mut denials = 0;
        while denials < DENIALS && !self.is_over.load(Ordering::Relaxed) {
            if caller.ask(limit).is_allowed() {
                self.admitted.fetch_add(1, Ordering::Relaxed);
                denials = 0;
            } else {
                denials += 1;
            }
            pause(Duration::from_micros(self.pace_us.load(Ordering::Relaxed)));
        }
    }
}

/// Tells callers to end, also when their test has failed.
struct EndsWhenDropped<'a>(&'a AtomicBool);

impl Drop for EndsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One caller at each node asks until denied for good, while the script runs. Says how many were admitted.
pub(crate) fn under_load(members: &[Member], limit: &Limit, script: impl FnOnce(&Load)) -> u64 {
    let load = Load::default();
    load.set_pace(Duration::from_millis(2));
    thread::scope(|scope| {
        for member in members {
            scope.spawn(|| load.call(member, limit));
        }
        let ending = EndsWhenDropped(&load.is_over);
        script(&load);
        // They end by themselves.
        std::mem::forget(ending);
    });
    load.admitted.into_inner()
}

/// One caller at each node goes on until it is told that the script is over. Says what each of them said, and
/// what the script said.
pub(crate) fn while_calling<T: Send, S>(
    members: &[Member],
    call: impl Fn(&Member, &AtomicBool) -> T + Sync,
    script: impl FnOnce() -> S,
) -> (Vec<T>, S) {
    let (is_over, call) = (&AtomicBool::new(false), &call);
    thread::scope(|scope| {
        let callers: Vec<_> =
            members.iter().map(|member| scope.spawn(move || call(member, is_over))).collect();
        let ending = EndsWhenDropped(is_over);
        let said = script();
        drop(ending);
        (callers.into_iter().map(|caller| caller.join().unwrap()).collect(), said)
    })
}
