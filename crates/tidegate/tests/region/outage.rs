//! A store that is gone, hung, unreachable or slow: callers hear nothing of it, each class does what it is
//! for, and afterwards the counts agree again.

use crate::fleet::{Answer, Limit, Member, PATIENT, fleet, pause, wait_for};
use crate::load::while_calling;
use crate::store::total_of;
use crate::support::{SOON, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_testkit::{FaultProxy, ProxyFault, Redis};
use tokio::time::Instant;

/// What a caller may wait, on a machine that is busy with other tests.
const SHORT: Duration = Duration::from_millis(100);
const OUTAGE: Duration = Duration::from_secs(3);
/// Admissions per second that the `free` rule is for, over all nodes.
const FREE_PER_S: u64 = 100;
/// Five seconds, and what a busy machine takes.
const RETURN_WITHIN: Duration = Duration::from_secs(7);

#[derive(Clone, Copy, Debug)]
enum Outage {
    Killed,
    Stopped,
    Blackholed,
    Slow,
}

struct Store {
    redis: Redis,
    proxy: FaultProxy,
}

impl Store {
    fn start() -> Self {
        wait_for(async {
            let redis = Redis::start().await;
            let proxy = FaultProxy::start(redis.address()).await;
            Store { redis, proxy }
        })
    }

    fn address(&self) -> String {
        self.proxy.address().to_string()
    }

    fn fail(&self, outage: Outage) {
        match outage {
            Outage::Killed => self.redis.kill(),
            Outage::Stopped => self.redis.stop(),
            Outage::Blackholed => self.proxy.set(ProxyFault::Blackhole),
            Outage::Slow => self.proxy.set(ProxyFault::Latency(Duration::from_millis(50))),
        }
    }

    fn recover(&self, outage: Outage) {
        match outage {
            Outage::Killed => wait_for(self.redis.restart()),
            Outage::Stopped => self.redis.resume(),
            Outage::Blackholed | Outage::Slow => self.proxy.set(ProxyFault::None),
        }
    }
}

/// One limit of each class, each of which has to ask about every admission.
struct Limits {
    paid: Limit,
    free: Limit,
    abuse: Limit,
}

impl Limits {
    fn new() -> Self {
        let minute = Nanos::from_secs(60);
        let free = Limit { period: minute, ..Limit::new("free", 60 * FREE_PER_S) };
        Limits {
            paid: Limit::new("paid", 1_000_000).exact(),
            free: free.exact().class("free"),
            abuse: Limit::strict("abuse", 1_000_000),
        }
    }
}

/// What a caller of one node heard during the outage.
#[derive(Default, Debug)]
struct Heard {
    asked: usize,
    slow: usize,
    slowest: Duration,
    paid: u64,
    free: u64,
    /// Admitted though nobody could be asked.
    abuse: u64,
}

impl Heard {
    fn note(&mut self, answer: &Answer) -> u64 {
        self.asked += 1;
        self.slow += usize::from(answer.took > SHORT);
        self.slowest = self.slowest.max(answer.took);
        u64::from(answer.is_allowed())
    }
}

/// Asks about each class in turn until the outage is over.
fn call(member: &Member, limits: &Limits, is_over: &AtomicBool) -> Heard {
    let mut caller = member.caller();
    let mut heard = Heard::default();
    while !is_over.load(Ordering::Relaxed) {
        let paid = caller.ask(&limits.paid);
        heard.paid += heard.note(&paid);
        let free = caller.ask(&limits.free);
        heard.free += heard.note(&free);
        let abuse = caller.ask(&limits.abuse);
        // What was granted before, and was heard of too late, is spent without asking.
        heard.abuse += heard.note(&abuse) * u64::from(abuse.path() != "local");
        pause(Duration::from_millis(3));
    }
    heard
}

/// Everything is asked about and verified by each node in turn, so that each knows of the others' even share.
/// Says how many `paid` ones were admitted.
fn warm(nodes: &[Member], limits: &Limits) -> u64 {
    let mut paid = 0;
    for node in (0..10).flat_map(|_| nodes) {
        paid += node.ask_until_verified(&limits.paid).0;
        node.ask_until_verified(&limits.free);
        node.ask_until_verified(&limits.abuse);
    }
    paid
}

/// A node that starts while the store is gone answers at once, by each rule's class. Says what it admitted.
fn start_during_the_outage(store: &Store, limits: &Limits) -> (Member, u64) {
    let late = Member::start(&format!("redis://{}", store.address()), &[]);
    let mut caller = late.caller();
    let mut heard = Heard::default();
    for _ in 0..20 {
        let paid = caller.ask(&limits.paid);
        heard.paid += heard.note(&paid);
        assert!(paid.is_allowed() && paid.is_unverified(), "{}", paid.body);
    }
    for (limit, is_allowed) in [(&limits.free, true), (&limits.abuse, false)] {
        let answer = caller.ask(limit);
        heard.note(&answer);
        assert_eq!((answer.is_allowed(), answer.path()), (is_allowed, "unverified"), "{}", answer.body);
    }
    assert!(heard.slow <= 1, "{heard:?}");
    (late, heard.paid)
}

fn judge(outage: Outage, heard: &Heard, lasted: Duration) {
    println!("{outage:?} for {lasted:?}: {heard:?}");
    let rounds = u64::try_from(heard.asked / 3).unwrap();
    assert!(heard.slow <= heard.asked / 100, "{outage:?}: callers waited: {heard:?}");
    assert_eq!(heard.paid, rounds, "{outage:?}: `paid` keeps admitting");
    assert_eq!(heard.abuse, 0, "{outage:?}: `abuse` admits nothing that it couldn't ask about");
    // One and a half times the node's half of the rate, and a second of it at once.
    let seconds = lasted.as_secs() + 1;
    let most = FREE_PER_S * 3 / 4 * (seconds + 1);
    let least = rounds.min(FREE_PER_S / 2 * lasted.as_secs()) * 8 / 10;
    assert!((least..=most).contains(&heard.free), "{outage:?}: {heard:?}, {least} to {most}");
}

/// The nodes count on from each other's, and the store has it all.
fn agree_again(store: &Store, nodes: &[Member], paid: &Limit, mut admitted: u64) {
    poll("the store's count of everything that was admitted", RETURN_WITHIN, || {
        (total_of(&store.redis, paid) == admitted).then_some(())
    });
    for node in nodes {
        poll("a verified admission that counts what all admitted", RETURN_WITHIN, || {
            let answer = node.ask(paid);
            admitted += u64::from(answer.is_allowed());
            let is_right = answer.remaining() == paid.number - admitted;
            (answer.path() == "exact" && is_right).then_some(())
        });
    }
}

fn survive(outage: Outage) {
    let store = Store::start();
    let address = store.address();
    let limits = Limits::new();
    let mut nodes = fleet(&format!("redis://{address}"), 2, &[]);
    let mut admitted = warm(&nodes, &limits);
    // What was admitted before is in the store: a store that loses it has to be told again.
    poll("the first admissions", SOON, || (total_of(&store.redis, &limits.paid) >= admitted).then_some(()));

    store.fail(outage);
    let began = Instant::now();
    let call = |node: &Member, is_over: &AtomicBool| call(node, &limits, is_over);
    let (heard, (late, admitted_late)) = while_calling(&nodes, call, || {
        nodes.iter().for_each(|node| node.wait_breaker(&address, true, SOON));
        let late = start_during_the_outage(&store, &limits);
        pause(OUTAGE.saturating_sub(began.elapsed()));
        late
    });
    let lasted = began.elapsed();
    store.recover(outage);
    let returned = Instant::now();
    heard.iter().for_each(|heard| judge(outage, heard, lasted));
    admitted += admitted_late + heard.iter().map(|heard| heard.paid).sum::<u64>();
    nodes.push(late);
    for node in &nodes {
        node.wait_breaker(&address, false, RETURN_WITHIN.saturating_sub(returned.elapsed()));
    }
    println!("{outage:?}: breakers closed after {:?}", returned.elapsed());
    agree_again(&store, &nodes, &limits.paid, admitted);
    println!("{outage:?}: counts agreed after {:?}", returned.elapsed());
    nodes.iter().for_each(|node| node.wait_live_nodes(3, RETURN_WITHIN));
}

#[test]
fn a_killed_store_is_survived() {
    survive(Outage::Killed);
}

#[test]
fn a_hung_store_is_survived() {
    survive(Outage::Stopped);
}

#[test]
fn a_store_beyond_a_black_hole_is_survived() {
    survive(Outage::Blackholed);
}

#[test]
fn a_slow_store_is_survived() {
    survive(Outage::Slow);
}

/// Requests may wait for a second, so a store that takes 80 ms answers them all.
#[test]
fn a_distant_store_answers_requests_that_may_wait_for_it() {
    let store = Store::start();
    store.proxy.set(ProxyFault::Latency(Duration::from_millis(80)));
    let node = Member::join(&format!("redis://{}", store.address()), &PATIENT);
    let limit = Limit::strict("distant", 3);
    let answers: Vec<_> = (0..4).map(|_| node.ask(&limit)).collect();
    let heard: Vec<_> = answers.iter().map(|answer| (answer.is_allowed(), answer.is_unverified())).collect();
    assert_eq!(heard, [(true, false), (true, false), (true, false), (false, false)]);
}
