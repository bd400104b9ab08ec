//! A follower between a server and a rule store that the test plays.

use super::*;
use crate::stream::message::{Payload, Protocol};
use crate::stream::resets::PastReset;
use crate::stream::rule_store::RulesStatus;

/// Keeps versions; refuses the ones that it is told to.
#[derive(Debug, Default)]
struct FakeRuleStore {
    version: u64,
    refuses: Option<u64>,
    refuses_snapshots: bool,
    partial: Option<(SnapshotId, u64)>,
    applied: Vec<u64>,
    batches: usize,
    confirmed: usize,
    /// Each with the version that was in force.
    resets: Vec<(u64, u64)>,
}

impl RuleStore for FakeRuleStore {
    fn status(&self) -> RulesStatus {
        RulesStatus { version: self.version, partial: self.partial }
    }

    fn begin(&mut self, id: &SnapshotId, _length: u64, offset: u64) -> Result<(), String> {
        self.partial = Some((*id, offset));
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let (_, have) = self.partial.as_mut().ok_or("nothing was begun")?;
        assert_eq!(*have, offset);
        *have += u64::try_from(bytes.len()).unwrap();
        Ok(())
    }

    fn install(&mut self) -> Result<u64, String> {
        let (id, _) = self.partial.take().ok_or("nothing was begun")?;
        if self.refuses_snapshots {
            return Err("its checksum is wrong".to_owned());
        }
        self.version = id.version;
        Ok(id.version)
    }

    fn apply(&mut self, changes: &[(u64, Bytes)]) -> ApplyResult {
        self.batches += 1;
        for (version, _) in changes {
            assert_eq!(*version, self.version + 1, "no gaps");
            if self.refuses == Some(*version) {
                return ApplyResult { version: self.version, refused: Some("it is hostile".to_owned()) };
            }
            self.version = *version;
            self.applied.push(*version);
        }
        ApplyResult { version: self.version, refused: None }
    }

    fn reset(&mut self, reset: &PastReset) {
        self.resets.push((reset.version, self.version));
    }

    fn confirmed(&mut self, _ago: Nanos) {
        self.confirmed += 1;
    }
}

const fn at(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn follower(servers: usize) -> Follower {
    let identity =
        Identity { node: "n".into(), region: "eu".into(), software: "1".into(), role: FollowerRole::Node };
    Follower::new(identity, servers, 4, at(0))
}

fn welcome(software: &str, oldest: u32, newest: u32) -> ServerMessage {
    let protocol = Protocol { newest, oldest };
    ServerMessage::Welcome(Welcome { protocol, node: "b1".into(), software: software.into() })
}

fn change(version: u64) -> ServerMessage {
    ServerMessage::Change { version, delta: Bytes::from_static(b"delta") }
}

fn heartbeat(head: u64) -> ServerMessage {
    ServerMessage::Heartbeat { head, stale_ms: 0 }
}

/// Connected and welcomed at 0.
fn following(kept: &mut FakeRuleStore, servers: usize) -> Follower {
    let mut follower = follower(servers);
    assert!(matches!(follower.tick(at(0))[..], [Action::Connect(_)]));
    follower.connected(kept, at(0));
    assert!(follower.receive(welcome("1", 1, 1), kept, at(0)).is_empty());
    follower
}

fn resumes(actions: &[Action]) -> Vec<(u64, bool)> {
    let resume = |action: &Action| match action {
        Action::Send(FollowerMessage::Resume { rule_version, wants_snapshot }) => {
            Some((*rule_version, *wants_snapshot))
        }
        _ => None,
    };
    actions.iter().filter_map(resume).collect()
}

#[test]
fn a_follower_says_what_it_has() {
    let partial = Some((SnapshotId { version: 9, digest: 1 }, 500));
    let kept = FakeRuleStore { version: 3, partial, ..FakeRuleStore::default() };
    let mut follower = follower(1);
    follower.tick(at(0));
    let [Action::Send(FollowerMessage::Hello(hello))] = &follower.connected(&kept, at(0))[..] else {
        panic!("a hello")
    };
    assert_eq!((hello.rule_version, &hello.partial, hello.protocol), (3, &partial, PROTOCOL));
}

#[test]
fn changes_that_come_together_are_put_in_force_together_and_in_order() {
    let mut kept = FakeRuleStore { version: 5, ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    for version in [4, 5, 6, 7, 7, 8] {
        assert!(follower.receive(change(version), &mut kept, at(1)).is_empty());
    }
    assert!(follower.apply_pending(&mut kept, at(1)).is_empty());
    assert_eq!((kept.applied.as_slice(), kept.batches), (&[6, 7, 8][..], 1));
    assert_eq!((follower.status().version, follower.status().changes), (8, 3));
}

#[test]
fn a_gap_is_asked_about_and_nothing_after_it_is_taken() {
    let mut kept = FakeRuleStore::default();
    let mut follower = following(&mut kept, 1);
    follower.receive(change(1), &mut kept, at(1));
    let asked = follower.receive(change(3), &mut kept, at(1));
    assert_eq!(resumes(&asked), [(1, false)]);
    assert!(follower.receive(change(4), &mut kept, at(2)).is_empty(), "asked a moment ago");
    follower.apply_pending(&mut kept, at(2));
    assert_eq!(kept.applied, [1]);
    for version in 2..=4 {
        follower.receive(change(version), &mut kept, at(3));
    }
    follower.apply_pending(&mut kept, at(3));
    assert_eq!((kept.applied.as_slice(), follower.status().gaps), (&[1, 2, 3, 4][..], 2));
}

#[test]
fn a_change_that_never_comes_is_noticed_by_the_heartbeats() {
    let mut kept = FakeRuleStore { version: 5, ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    let mut asked = Vec::new();
    for tick in 1..=20 {
        asked.extend(follower.receive(heartbeat(6), &mut kept, at(200 * tick)));
    }
    assert_eq!(resumes(&asked), [(5, false)]);
}

#[test]
fn a_refused_change_leaves_the_rules_in_force_and_asks_for_a_snapshot_now_and_then() {
    let mut kept = FakeRuleStore { refuses: Some(3), ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    (1..=5).for_each(|version| drop(follower.receive(change(version), &mut kept, at(1))));
    let asked = follower.apply_pending(&mut kept, at(1));
    assert_eq!((resumes(&asked), kept.version), (vec![(2, true)], 2));
    assert_eq!(follower.status().refused, Some((3, "it is hostile".to_owned())));
    // What follows the refused one isn't tried, and the server isn't flooded.
    let mut asked = Vec::new();
    for tick in 1..=40_u64 {
        asked.extend(follower.receive(change(5 + tick), &mut kept, at(200 * tick)));
        asked.extend(follower.receive(heartbeat(5 + tick), &mut kept, at(200 * tick)));
    }
    assert_eq!((resumes(&asked).len(), kept.version), (2, 2), "{asked:?}");
    assert_eq!(kept.confirmed, 0, "what is in force isn't the newest");
    // A snapshot that has what was refused helps.
    load(&mut follower, &mut kept, 50, at(8500));
    assert_eq!((kept.version, &follower.status().refused), (50, &None));
    follower.receive(change(51), &mut kept, at(8501));
    follower.apply_pending(&mut kept, at(8501));
    assert_eq!(kept.version, 51);
}

fn load(follower: &mut Follower, kept: &mut FakeRuleStore, version: u64, now: Nanos) -> Vec<Action> {
    let id = SnapshotId { version, digest: 1 };
    let mut actions = follower.receive(ServerMessage::Snapshot { id, length: 10, offset: 0 }, kept, now);
    actions.extend(follower.receive(
        ServerMessage::Chunk { offset: 0, bytes: Bytes::from_static(b"01234") },
        kept,
        now,
    ));
    actions.extend(follower.receive(
        ServerMessage::Chunk { offset: 5, bytes: Bytes::from_static(b"56789") },
        kept,
        now,
    ));
    actions
}

#[test]
fn a_snapshot_is_put_in_force_when_it_is_whole() {
    let mut kept = FakeRuleStore::default();
    let mut follower = following(&mut kept, 1);
    let id = SnapshotId { version: 7, digest: 1 };
    follower.receive(ServerMessage::Snapshot { id, length: 10, offset: 0 }, &mut kept, at(1));
    follower.receive(
        ServerMessage::Chunk { offset: 0, bytes: Bytes::from_static(b"01234") },
        &mut kept,
        at(2),
    );
    assert_eq!((follower.status().loading, kept.version), (Some((5, 10)), 0));
    follower.receive(
        ServerMessage::Chunk { offset: 5, bytes: Bytes::from_static(b"56789") },
        &mut kept,
        at(3),
    );
    assert_eq!((follower.status().loading, follower.status().version, kept.version), (None, 7, 7));
    follower.receive(change(8), &mut kept, at(4));
    follower.apply_pending(&mut kept, at(4));
    assert_eq!(kept.version, 8);
}

#[test]
fn a_snapshot_with_a_hole_or_a_wrong_checksum_is_refused_and_asked_for_again() {
    let mut kept = FakeRuleStore { version: 3, ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    let id = SnapshotId { version: 7, digest: 1 };
    follower.receive(ServerMessage::Snapshot { id, length: 10, offset: 0 }, &mut kept, at(1));
    let asked = follower.receive(
        ServerMessage::Chunk { offset: 5, bytes: Bytes::from_static(b"56789") },
        &mut kept,
        at(1),
    );
    assert_eq!((resumes(&asked), follower.status().version), (vec![(3, true)], 3));
    kept.refuses_snapshots = true;
    stays_connected(&mut follower, &mut kept, 0..7000);
    let asked = load(&mut follower, &mut kept, 7, at(7000));
    assert_eq!((resumes(&asked), follower.status().version, kept.version), (vec![(3, true)], 3, 3));
    kept.refuses_snapshots = false;
    stays_connected(&mut follower, &mut kept, 7000..9000);
    load(&mut follower, &mut kept, 7, at(9000));
    assert_eq!(follower.status().version, 7);
}

/// The server says something, and nothing that matters.
fn stays_connected(follower: &mut Follower, kept: &mut FakeRuleStore, millis: std::ops::Range<u64>) {
    for now in millis.step_by(500).skip(1) {
        assert!(follower.receive(ServerMessage::Unknown, kept, at(now)).is_empty());
    }
}

/// A heartbeat of 3 s ago says what was the newest then.
#[test]
fn what_waited_while_this_process_stood_still_confirms_nothing() {
    let mut kept = FakeRuleStore { version: 5, ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    follower.receive(heartbeat(5), &mut kept, at(200));
    assert_eq!(follower.receive(heartbeat(5), &mut kept, at(3200)), [Action::Disconnect]);
    assert!(follower.receive(heartbeat(5), &mut kept, at(3200)).is_empty(), "it waited, too");
    assert_eq!((follower.status().stale_for(at(3200)), kept.confirmed), (at(3000), 1));
    assert!(follower.wakes_at() < at(3400), "and it is asked anew at once");
}

#[test]
fn an_older_snapshot_doesnt_replace_newer_rules() {
    let mut kept = FakeRuleStore { version: 9, ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    assert!(load(&mut follower, &mut kept, 7, at(1)).is_empty());
    assert_eq!((kept.version, follower.status().version), (9, 9));
    kept.refuses = Some(10);
    follower.receive(change(10), &mut kept, at(2));
    follower.apply_pending(&mut kept, at(2));
    for version in [7, 9] {
        load(&mut follower, &mut kept, version, at(3));
        assert_eq!((kept.version, follower.status().version), (9, 9), "nor when the next change is refused");
    }
    load(&mut follower, &mut kept, 11, at(4));
    assert_eq!(kept.version, 11);
}

#[test]
fn a_silent_server_is_left_for_the_next_one() {
    let mut kept = FakeRuleStore::default();
    let mut follower = following(&mut kept, 3);
    let first = follower.status().server;
    follower.receive(heartbeat(0), &mut kept, at(500));
    assert!(!follower.tick(at(1499)).contains(&Action::Disconnect));
    assert_eq!(follower.tick(at(1500)), [Action::Disconnect]);
    assert_eq!(follower.status().server, (first + 1) % 3);
    let wait = follower.wakes_at().minus(at(1500));
    assert!(wait <= at(63), "the first attempt comes soon: {wait:?}");
    assert_eq!(follower.tick(follower.wakes_at()), [Action::Connect((first + 1) % 3)]);
}

#[test]
fn attempts_go_round_and_waits_grow_to_a_bound() {
    let mut follower = follower(2);
    let mut waits = Vec::new();
    let mut now = at(0);
    for _ in 0..8 {
        assert!(matches!(follower.tick(now)[..], [Action::Connect(_)]));
        follower.lost("refused", now);
        waits.push(follower.wakes_at().minus(now));
        now = follower.wakes_at();
    }
    assert!(waits[0] >= at(75) && waits[0] <= at(125), "{waits:?}");
    assert!(waits[3..].iter().all(|wait| *wait >= at(225) && *wait <= at(375)), "{waits:?}");
    assert!(waits.windows(2).any(|pair| pair[0] != pair[1]), "there is chance in them");
}

#[test]
fn staleness_counts_from_the_last_word_that_nothing_is_newer() {
    let mut kept = FakeRuleStore { version: 5, ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    follower.receive(ServerMessage::Heartbeat { head: 5, stale_ms: 400 }, &mut kept, at(900));
    assert_eq!(follower.status().stale_for(at(900)), at(400), "the server's own counts too");
    follower.receive(heartbeat(6), &mut kept, at(1200));
    assert_eq!(follower.status().stale_for(at(1200)), at(700), "version 6 isn't here yet");
    follower.receive(change(6), &mut kept, at(1250));
    follower.apply_pending(&mut kept, at(1250));
    assert_eq!(follower.status().stale_for(at(1250)), at(50), "it was the newest when it was named");
    assert_eq!(Staleness::of(at(30_000)), Staleness::Fresh);
    assert_eq!(Staleness::of(at(30_001)), Staleness::Warning);
    assert_eq!(Staleness::of(at(60_001)), Staleness::Alarm);
}

#[test]
fn a_server_that_is_behind_confirms_nothing_and_may_catch_up() {
    let mut kept = FakeRuleStore { version: 12, ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    for tick in 1..=40 {
        assert!(follower.receive(heartbeat(7), &mut kept, at(200 * tick)).is_empty());
    }
    assert_eq!((follower.status().stale_for(at(8000)), kept.confirmed), (at(8000), 0));
    follower.receive(heartbeat(12), &mut kept, at(8200));
    assert_eq!((follower.status().stale_for(at(8200)), kept.confirmed), (at(0), 1));
    follower.receive(change(13), &mut kept, at(8300));
    follower.apply_pending(&mut kept, at(8300));
    assert_eq!(kept.version, 13, "it was only late");
    // One that doesn't know itself what is the newest says nothing of the store.
    for tick in 45..=150 {
        follower.receive(ServerMessage::Heartbeat { head: 7, stale_ms: 5001 }, &mut kept, at(200 * tick));
    }
    follower.receive(change(14), &mut kept, at(30_100));
    follower.apply_pending(&mut kept, at(30_100));
    assert_eq!(kept.version, 14);
}

#[test]
fn after_a_store_went_back_only_a_snapshot_is_taken() {
    let mut kept = FakeRuleStore { version: 12, ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    let mut asked = Vec::new();
    for tick in 1..=60 {
        asked.extend(follower.receive(heartbeat(7), &mut kept, at(200 * tick)));
    }
    assert!(resumes(&asked).contains(&(12, true)), "{asked:?}");
    // Its version 13 builds on another version 12.
    follower.receive(change(13), &mut kept, at(12_100));
    follower.apply_pending(&mut kept, at(12_100));
    assert_eq!((kept.version, kept.confirmed), (12, 0), "the rules in force stay");
    load(&mut follower, &mut kept, 13, at(12_200));
    follower.receive(heartbeat(13), &mut kept, at(12_400));
    assert_eq!((kept.version, follower.status().stale_for(at(12_400))), (13, at(0)));
}

#[test]
fn under_endless_changes_the_rules_still_count_as_fresh() {
    let mut kept = FakeRuleStore::default();
    let mut follower = following(&mut kept, 1);
    for tick in 1..=500_u64 {
        // Each heartbeat names a version that comes only after it.
        follower.receive(heartbeat(2 * tick), &mut kept, at(200 * tick));
        follower.receive(change(2 * tick - 1), &mut kept, at(200 * tick + 1));
        follower.receive(change(2 * tick), &mut kept, at(200 * tick + 1));
        follower.apply_pending(&mut kept, at(200 * tick + 1));
    }
    assert!(follower.status().stale_for(at(100_001)) < at(1000));
}

#[test]
fn a_broker_that_is_cut_off_itself_is_left_where_there_are_others() {
    for (servers, is_left) in [(1, false), (2, true)] {
        let mut kept = FakeRuleStore::default();
        let mut follower = following(&mut kept, servers);
        let mut actions = Vec::new();
        for tick in 1..=60 {
            let stale_ms = 200 * tick;
            actions.extend(follower.receive(
                ServerMessage::Heartbeat { head: 0, stale_ms },
                &mut kept,
                at(200 * tick),
            ));
        }
        assert_eq!(actions.contains(&Action::Disconnect), is_left, "{servers} servers");
    }
}

#[test]
fn another_release_is_followed_and_told_of_and_one_too_far_away_is_not() {
    let mut kept = FakeRuleStore::default();
    for (software, oldest, newest, followed) in
        [("1", 1, 1, Some(false)), ("2", 1, 2, Some(true)), ("0.9", 1, 1, Some(true)), ("9", 2, 3, None)]
    {
        let mut follower = follower(1);
        follower.tick(at(0));
        follower.connected(&kept, at(0));
        let actions = follower.receive(welcome(software, oldest, newest), &mut kept, at(1));
        assert_eq!(actions.contains(&Action::Disconnect), followed.is_none(), "{software}");
        let told = follower.status().following.as_ref().map(|following| following.is_other_release);
        assert_eq!(told, followed, "{software}");
    }
}

#[test]
fn what_comes_down_for_others_is_kept() {
    let mut kept = FakeRuleStore::default();
    let mut follower = following(&mut kept, 1);
    let notice = Payload { kind: PayloadKind::Slices, payload: Bytes::from_static(b"x") };
    follower.receive(ServerMessage::Notice(notice), &mut kept, at(1));
    assert_eq!(follower.notice(PayloadKind::Slices).map(|payload| &payload[..]), Some(&b"x"[..]));
    assert!(follower.receive(ServerMessage::Unknown, &mut kept, at(1)).is_empty());
}

#[test]
fn a_reset_is_told_to_the_keeper_when_what_came_before_it_is_in_force() {
    let mut kept = FakeRuleStore { version: 3, ..FakeRuleStore::default() };
    let mut follower = following(&mut kept, 1);
    follower.receive(change(4), &mut kept, at(1));
    let reset = PastReset { version: 3, age: at(5), delta: Bytes::from_static(b"delta") };
    assert!(follower.receive(ServerMessage::Reset(reset), &mut kept, at(1)).is_empty());
    assert_eq!((kept.version, &kept.resets[..]), (4, &[(3, 4)][..]), "its version, and the one in force");
}
