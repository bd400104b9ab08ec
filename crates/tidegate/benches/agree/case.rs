//! What is run both ways: limits, requests, and what happens to the store meanwhile.
//!
//! Plain data: who sends it, and to what, is `both.rs`.

use crate::plan::{Limit, Random};
use std::time::Duration;
use tidegate_core::{Accuracy, Class};
use tidegate_sim::KeyPlan;
use tidegate_sim::scenario::{gcra, sliding};

const HOUR_S: u64 = 3600;

/// Some nodes, their limits and their requests.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) nodes: usize,
    pub(crate) subjects: Vec<Subject>,
    /// By time.
    pub(crate) requests: Vec<Request>,
    pub(crate) trouble: Trouble,
}

/// A limit, as real nodes and as simulated ones are told of it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    amount: Amount,
    class: Class,
    accuracy: Accuracy,
    /// How long after the first request simulated nodes know that it is hot: real ones find out.
    pub(crate) hot_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Amount {
    Window { limit: u64, period_s: u64 },
    Rate { per_second: u32, burst: u32 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) at: Duration,
    pub(crate) node: usize,
    pub(crate) subject: usize,
}

/// What happens to the store, from when on, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    None,
    /// Connections are refused.
    Down(Duration, Duration),
    /// Everything is lost that it had.
    Forgets(Duration),
    /// What it is told arrives, what it answers doesn't.
    Unheard(Duration, Duration),
}

impl Subject {
    fn window(name: &'static str, limit: u64, period_s: u64) -> Self {
        Subject::of(name, Amount::Window { limit, period_s })
    }

    fn rate(name: &'static str, per_second: u32, burst: u32) -> Self {
        Subject::of(name, Amount::Rate { per_second, burst })
    }

    fn of(name: &'static str, amount: Amount) -> Self {
        Subject { name, amount, class: Class::Paid, accuracy: Accuracy::Bounded, hot_after: None }
    }

    /// Windows that end during the run begin with it.
    pub(crate) fn period(&self) -> Duration {
        match self.amount {
            Amount::Window { period_s, .. } => Duration::from_secs(period_s),
            Amount::Rate { .. } => Duration::from_secs(1),
        }
    }

    pub(crate) fn real(&self) -> Limit {
        let limit = match self.amount {
            Amount::Window { limit, .. } => Limit::new(self.name, limit, self.period()),
            Amount::Rate { per_second, burst } => Limit::rate(self.name, per_second, burst),
        };
        let limit = limit.class(match self.class {
            Class::Paid => "paid",
            Class::Free => "free",
            Class::Abuse => "abuse",
        });
        if self.accuracy == Accuracy::Exact { limit.exact() } else { limit }
    }

    pub(crate) fn simulated(&self) -> KeyPlan {
        let policy = match self.amount {
            Amount::Window { limit, period_s } => sliding(limit, period_s),
            Amount::Rate { per_second, burst } => gcra(u64::from(per_second), u64::from(burst)),
        };
        KeyPlan { class: self.class, accuracy: self.accuracy, ..KeyPlan::new(self.name, policy) }
    }
}

pub(crate) fn all() -> [Case; 8] {
    [spent_windows(), overdrawn_rate(), exact(), burst(), outage(), forgetting(), unheard(), hot()]
}

/// Requests about every subject at an even pace, each to a random node.
fn evenly(nodes: usize, subjects: usize, per_second: u32, length: Duration) -> Vec<Request> {
    let mut random = Random(1);
    let gap = Duration::from_secs(1) / per_second;
    let mut requests = Vec::new();
    let mut at = Duration::ZERO;
    while at < length {
        for subject in 0..subjects {
            requests.push(Request { at, node: random.below(nodes), subject });
        }
        at += gap;
    }
    requests
}

fn spent_windows() -> Case {
    Case {
        name: "three windows of 1,000 per 10 s, twice as much offered, 3 nodes",
        nodes: 3,
        subjects: vec![Subject::window("window", 1000, 10)],
        requests: evenly(3, 1, 200, Duration::from_secs(30)),
        trouble: Trouble::None,
    }
}

fn overdrawn_rate() -> Case {
    Case {
        name: "100 a second with a burst of 100, twice as much offered, 5 nodes",
        nodes: 5,
        subjects: vec![Subject::rate("rate", 100, 100)],
        requests: evenly(5, 1, 200, Duration::from_secs(20)),
        trouble: Trouble::None,
    }
}

fn exact() -> Case {
    let exact = Subject { accuracy: Accuracy::Exact, ..Subject::window("exact", 500, 10) };
    Case {
        name: "two windows of 500 per 10 s, exact, three times as much offered, 3 nodes",
        nodes: 3,
        subjects: vec![exact],
        requests: evenly(3, 1, 150, Duration::from_secs(20)),
        trouble: Trouble::None,
    }
}

fn burst() -> Case {
    Case {
        name: "2,000 requests to each of 5 nodes within 200 ms, limit 1,000",
        nodes: 5,
        subjects: vec![Subject::window("burst", 1000, HOUR_S)],
        requests: evenly(5, 1, 50_000, Duration::from_millis(200)),
        trouble: Trouble::None,
    }
}

fn outage() -> Case {
    let of_class = |name, class| Subject { class, ..Subject::rate(name, 100, 100) };
    Case {
        name: "the store is down for 6 of 20 s, 3 nodes",
        nodes: 3,
        subjects: vec![
            of_class("paid", Class::Paid),
            of_class("free", Class::Free),
            of_class("abuse", Class::Abuse),
        ],
        requests: evenly(3, 3, 200, Duration::from_secs(20)),
        trouble: Trouble::Down(Duration::from_secs(7), Duration::from_secs(6)),
    }
}

fn forgetting() -> Case {
    Case {
        name: "the store forgets everything, 3 nodes",
        nodes: 3,
        subjects: vec![Subject::window("window", 6000, HOUR_S), Subject::rate("rate", 200, 200)],
        requests: evenly(3, 2, 600, Duration::from_secs(14)),
        trouble: Trouble::Forgets(Duration::from_secs(6)),
    }
}

fn unheard() -> Case {
    Case {
        name: "the store's answers are lost for 5 s, 3 nodes",
        nodes: 3,
        subjects: vec![Subject::window("window", 6000, HOUR_S), Subject::rate("rate", 200, 200)],
        requests: evenly(3, 2, 500, Duration::from_secs(16)),
        trouble: Trouble::Unheard(Duration::from_secs(5), Duration::from_secs(5)),
    }
}

fn hot() -> Case {
    let hot_after = Some(Duration::from_millis(300));
    Case {
        name: "a key that comes 18,000 times a second, 60,000 per 10 s, 3 nodes",
        nodes: 3,
        subjects: vec![Subject { hot_after, ..Subject::window("hot", 60_000, 10) }],
        requests: evenly(3, 1, 18_000, Duration::from_secs(10)),
        trouble: Trouble::None,
    }
}
