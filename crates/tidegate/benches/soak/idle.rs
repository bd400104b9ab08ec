//! Keys that are idle while something is wrong, and the three judgments of them, unit by unit.
//!
//! Before a trouble both nodes of its region are asked about two keys of an `exact` rule, whose window is longer than a
//! run: one is used in part, the other is spent. After the trouble is mended,
//!
//! - *conservation*: Redis has what callers were admitted, and a node that starts cold gets what is left;
//! - *itemised overshoot*: what was admitted beyond the limit was reported as unverified;
//! - *two-sided denials*: nobody is denied while there is room by the newest epoch.

use crate::client::Client;
use crate::fleet::{RequestOutcome, read_decision};
use crate::running::{Running, version_of};
use crate::scene::{NODES_PER_REGION, sibling};
use crate::stores::{Reader, Run, stem, total};
use crate::subject::{IDLE_LIMIT, NAMESPACE, Subject, idle_world_limit};
use crate::time::{pause, poll};
use crate::trouble::{Kind, Trouble};
use serde_json::json;
use std::cell::Cell;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tidegate_testkit::RespValue;

/// What each node of the region is asked of the key that stays with room.
const PART_PER_NODE: u64 = 10;
/// A region that is well again answers within this.
const HEALED_WITHIN: Duration = Duration::from_secs(10);
/// Heartbeats announce a reset every 400 ms; publishes leave every 50 ms.
const DRAINED_WITHIN: Duration = Duration::from_millis(1500);
/// A region publishes what is more than half of its credit to the world database within this.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(8);
/// What a window of 20 s gives back of its limit while two nodes are asked for all of it.
const SKEW_REFILL: u64 = 2;
/// Beyond the limit, so that an overshoot shows its size.
const ASKS_MORE: u64 = 5;

/// One key, and what callers were told about it since its last reset.
#[derive(Debug)]
struct IdleKey {
    subject: Subject,
    epoch: u16,
    admitted: u64,
    /// Of these reported as unverified: Redis may have them twice, or may be late to have them.
    unverified: u64,
    /// Asks without an answer: Redis may have them.
    unanswered: u64,
    /// Admitted between a loss of data and its repair, of a key in which a dead node had counted: the survivors don't
    /// know of each other's, and the dead node can't repeat its own.
    recovering: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Admitted,
    Unverified,
    Denied,
    Failed,
}

impl IdleKey {
    fn new(name: &str) -> Self {
        let subject = Subject::idle(name);
        IdleKey { subject, epoch: 0, admitted: 0, unverified: 0, unanswered: 0, recovering: 0 }
    }

    fn ask(&mut self, address: SocketAddr) -> Outcome {
        let outcome = asked(address, &self.subject.request);
        match outcome {
            Outcome::Admitted => self.admitted += 1,
            Outcome::Unverified => {
                self.admitted += 1;
                self.unverified += 1;
            }
            Outcome::Denied => {}
            Outcome::Failed => self.unanswered += 1,
        }
        outcome
    }

    /// The most that Redis can have of it.
    fn most(&self) -> u64 {
        self.admitted + self.unverified + self.unanswered
    }

    fn is_full(&self) -> bool {
        self.most() >= IDLE_LIMIT
    }
}

fn asked(address: SocketAddr, request: &[u8]) -> Outcome {
    let answer = TcpStream::connect(address)
        .and_then(|mut stream| stream.write_all(request).map(|()| stream))
        .map_err(|error| error.to_string())
        .and_then(read_decision);
    match answer {
        Ok(RequestOutcome { allowed: false, .. }) => Outcome::Denied,
        Ok(RequestOutcome { unverified: true, .. }) => Outcome::Unverified,
        Ok(_) => Outcome::Admitted,
        Err(_) => Outcome::Failed,
    }
}

/// The two keys of one trouble.
#[derive(Debug)]
pub(crate) struct IdleKeys<'a> {
    run: &'a Run<'a>,
    trouble: Trouble,
    number: usize,
    part: IdleKey,
    spent: IdleKey,
    scratches: Cell<usize>,
    /// What the database had before it was restored, of a key that all regions share.
    published: u64,
}

impl<'a> IdleKeys<'a> {
    /// Uses both keys on both nodes of the trouble's region.
    pub(crate) fn spend(run: &'a Run<'a>, trouble: Trouble, number: usize) -> Self {
        let [part, spent] = ["part", "spent"].map(|name| IdleKey::new(&format!("{name}-{number}")));
        let mut keys = IdleKeys { run, trouble, number, part, spent, scratches: Cell::new(0), published: 0 };
        for address in keys.addresses() {
            for _ in 0..PART_PER_NODE {
                keys.part.ask(address);
            }
        }
        for address in keys.addresses().into_iter().cycle().take(2 * usize::try_from(IDLE_LIMIT).unwrap_or(0))
        {
            if keys.spent.ask(address) == Outcome::Denied {
                break;
            }
        }
        // Whoever holds the key knows that it is spent.
        for address in keys.addresses() {
            keys.spent.ask(address);
        }
        keys
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let first = NODES_PER_REGION * self.trouble.region;
        (first..first + NODES_PER_REGION).map(|node| self.run.scene.node(node).http).collect()
    }

    /// The names of the keys' cells in Redis begin with these.
    pub(crate) fn stems(&self) -> [String; 2] {
        [&self.part, &self.spent].map(|key| stem(key.subject.key, key.epoch))
    }

    /// Resets the spent key by a request to a node.
    fn reset_at(&mut self, node: usize) -> Result<(), String> {
        let address = self.run.scene.node(node).http;
        let body = json!({ "namespace": NAMESPACE, "attributes": { "idle": self.spent.subject.caller } });
        let answer = Client::connect(address)?.ask("POST", "/v1/reset", &body.to_string())?;
        if answer.0 != 200 {
            return Err(format!("a reset was refused: {answer:?}"));
        }
        let key = &mut self.spent;
        (key.epoch, key.admitted, key.unverified, key.unanswered) = (key.epoch + 1, 0, 0, 0);
        Ok(())
    }

    /// Asks both nodes about the key with room, so that they publish it. Nobody notices that a single key was deleted:
    /// it is restored when a node that knows it syncs it next.
    fn touch(&mut self) {
        for address in self.addresses() {
            self.part.ask(address);
        }
    }

    /// Judges both keys, once the trouble is mended. A spent key that was deleted isn't judged: nodes that know that it
    /// is spent deny without a sync.
    pub(crate) fn judge(mut self) -> Result<(), String> {
        let addresses = self.addresses();
        addresses.iter().for_each(|address| self.wait_verified(*address));
        pause(DRAINED_WITHIN);
        let is_deleted = self.trouble.kind == Kind::KeysEvicted;
        if is_deleted {
            self.touch();
        }
        if self.spent.epoch > 0 && !self.trouble.empties(self.trouble.region) {
            self.judge_reset(&addresses);
        }
        if self.trouble.kind == Kind::DatabaseRestored {
            self.wait_rows(
                self.published,
                "conservation: a region doesn't publish again what the database lost",
            )?;
        }
        let mut reader = Reader::new()?;
        self.judge_redis(&self.part, &mut reader);
        if !is_deleted {
            self.judge_redis(&self.spent, &mut reader);
        }
        let cold = self.run.scene.cold_node(self.trouble.region)?;
        self.wait_ready(&cold)?;
        let mut all = vec![cold.http];
        all.extend(addresses);
        let mut part = std::mem::replace(&mut self.part, IdleKey::new("none"));
        self.judge_rest(&mut part, &all);
        if !is_deleted {
            let mut spent = std::mem::replace(&mut self.spent, IdleKey::new("none"));
            self.judge_rest(&mut spent, &all);
        }
        self.run.findings.judged_idle_keys();
        cold.terminate()
    }

    /// Waits until a node is answered by its Redis.
    fn wait_verified(&self, address: SocketAddr) {
        let is_well = || {
            self.scratches.set(self.scratches.get() + 1);
            let scratch = Subject::idle(&format!("scratch-{}-{}", self.number, self.scratches.get()));
            (asked(address, &scratch.request) == Outcome::Admitted).then_some(())
        };
        if let Err(problem) = poll("an answer that is verified", HEALED_WITHIN, is_well) {
            self.broken("healing: a node's answers stay unverified", problem);
        }
    }

    fn wait_ready(&self, cold: &Running) -> Result<(), String> {
        let has_rules = || {
            let version = cold.client().ok().and_then(|mut client| version_of(&mut client).ok());
            version.filter(|version| *version > 0)
        };
        poll("a cold node that has the rules", HEALED_WITHIN, has_rules)
            .map_err(|problem| format!("{problem}\n{}", cold.log()))?;
        self.wait_verified(cold.http);
        Ok(())
    }

    fn broken(&self, judgment: &str, how: String) {
        self.run.findings.broken(format!("{judgment} ({})", self.trouble.name()), how);
    }

    /// After a reset, both nodes admit.
    fn judge_reset(&mut self, addresses: &[SocketAddr]) {
        for address in addresses {
            let outcome = self.spent.ask(*address);
            if outcome == Outcome::Denied {
                let how = format!("{} at {address}, after its reset", self.spent.subject.name);
                self.broken("denial: a node denies by an older epoch", how);
            }
        }
    }

    /// Conservation, as Redis has it once everything has drained.
    fn judge_redis(&self, key: &IdleKey, reader: &mut Reader) {
        let redis = &self.run.scene.regions[self.trouble.region].redis;
        let mut stored = None;
        let mut has_all = || {
            let cells = reader.cells(redis, key.subject.key, key.epoch)?;
            let sum: u64 = cells.values().map(total).sum();
            stored = Some(sum);
            // What was admitted unverified is published, but an ask that timed out may be in it too.
            (key.admitted - key.recovering..=key.most()).contains(&sum).then_some(())
        };
        if poll("counts in Redis", DRAINED_WITHIN, &mut has_all).is_err() {
            let how = format!(
                "{}: Redis has {stored:?}, callers were admitted {} ({} unverified, {} unanswered, {} recovering)",
                key.subject.name, key.admitted, key.unverified, key.unanswered, key.recovering
            );
            self.broken("conservation: Redis hasn't what was admitted", how);
        }
    }

    /// A cold node gets what is left, and nobody gets more.
    fn judge_rest(&self, key: &mut IdleKey, addresses: &[SocketAddr]) {
        for address in addresses {
            let before = key.admitted;
            for _ in 0..IDLE_LIMIT + ASKS_MORE {
                let outcome = key.ask(*address);
                let is_first = key.admitted == before + 1;
                if outcome == Outcome::Unverified && is_first && key.epoch > 0 {
                    let how = format!("{} at {address}", key.subject.name);
                    self.broken("unverified: an ask about a reset key, though Redis answers", how);
                }
                if outcome != Outcome::Denied {
                    continue;
                }
                if !key.is_full() {
                    let how = format!("{} at {address}: {} of {IDLE_LIMIT}", key.subject.name, key.most());
                    self.broken("denial: denied while there was room", how);
                }
                break;
            }
        }
        if key.admitted > IDLE_LIMIT + key.unverified + key.recovering {
            let how = format!(
                "{}: {} of {IDLE_LIMIT}, {} unverified",
                key.subject.name, key.admitted, key.unverified
            );
            self.broken("overshoot: more admitted than the limit and its accounts", how);
        }
    }

    /// What comes before a trouble: a death, or a reset whose epoch is lost.
    pub(crate) fn before_trouble(&mut self) -> Result<(), String> {
        match self.trouble.kind {
            Kind::ResetThenFlushed => {
                self.reset_at(self.trouble.node)?;
                pause(DRAINED_WITHIN);
                for address in self.addresses() {
                    self.spent.ask(address);
                }
                Ok(())
            }
            Kind::DeadOwnerFlushed => {
                let node = self.trouble.node;
                self.run.scene.node(node).kill();
                self.run.scene.node(node).start()?;
                let address = self.run.scene.node(node).http;
                self.wait_verified(address);
                self.part.ask(address);
                Ok(())
            }
            Kind::DatabaseRestored => {
                let request = idle_world_limit(self.number).request();
                let address = self.run.scene.node(self.trouble.node).http;
                for _ in 0..PART_PER_NODE {
                    asked(address, &request);
                }
                self.published = self.wait_rows(1, "healing: a region doesn't publish")?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Waits until the database has so much of the key that all regions share, and returns how much it has.
    fn wait_rows(&self, least: u64, judgment: &str) -> Result<u64, String> {
        let mut ledger = self.run.scene.ledger()?;
        let key = idle_world_limit(self.number).key().get();
        let mut count = 0;
        let is_published = || {
            let rows = ledger.components()?;
            count = rows.iter().filter(|row| row.key == key).map(|row| row.count).sum();
            (count >= least).then_some(())
        };
        if poll("rows", PUBLISHED_WITHIN, is_published).is_err() {
            self.broken(judgment, format!("key {key:032x}: {count} of {least}"));
        }
        Ok(count)
    }

    /// What happens while something is wrong.
    pub(crate) fn while_wrong(&mut self) -> Result<(), String> {
        match self.trouble.kind {
            Kind::KeyReset => self.reset_at(self.trouble.node),
            Kind::ResetDuringPause => self.reset_at(sibling(self.trouble.node)),
            Kind::ClockSkewed { .. } => {
                self.judge_skewed();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Nodes whose clocks differ count in the same cells: together they admit no more than the limit of a window that
    /// is shorter than a large skew.
    fn judge_skewed(&self) {
        let addresses = self.addresses();
        addresses.iter().for_each(|address| self.wait_verified(*address));
        let request = Subject::skew(self.number).request;
        let (mut admitted, mut unverified) = (0, 0);
        for address in addresses {
            for _ in 0..IDLE_LIMIT {
                let outcome = asked(address, &request);
                admitted += u64::from(matches!(outcome, Outcome::Admitted | Outcome::Unverified));
                unverified += u64::from(outcome == Outcome::Unverified);
            }
        }
        if admitted > IDLE_LIMIT + unverified + SKEW_REFILL {
            let how = format!("{admitted} of {IDLE_LIMIT}, {unverified} unverified");
            self.broken("overshoot: more admitted than the limit and its accounts", how);
        }
    }

    /// What both nodes admit right after the loss, each by what it knows.
    pub(crate) fn after_loss(&mut self) {
        if self.trouble.kind == Kind::DeadOwnerFlushed {
            // The one that knows less comes first: the other's claim isn't above what that makes.
            for node in [sibling(self.trouble.node), self.trouble.node] {
                let address = self.run.scene.node(node).http;
                let outcome = self.part.ask(address);
                self.part.recovering += u64::from(matches!(outcome, Outcome::Admitted | Outcome::Unverified));
            }
        }
    }
}

/// Deletes the cells of some keys, as an eviction does.
pub(crate) fn evict(run: &Run<'_>, region: usize, stems: &[String]) -> Result<(), String> {
    let redis = &run.scene.regions[region].redis;
    for stem in stems {
        let pattern = format!("{stem}*");
        let names =
            run.scene.wait_for(redis.command(&["KEYS", &pattern])).map_err(|error| error.to_string())?;
        for name in names.items().iter().filter_map(RespValue::text) {
            run.scene.wait_for(redis.command(&["DEL", &name])).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
