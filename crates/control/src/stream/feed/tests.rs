//! Followers of a feed, without a connection: what each is sent, and when.

use super::subscriber::{BATCH_DELAY, CHUNK_BYTES, length};
use super::*;
use crate::stream::frame::take_first;
use crate::stream::message::{FollowerMessage, FollowerRole, PROTOCOL, ServerMessage, SnapshotId};
use bytes::BytesMut;
use tidegate_rules::{LookupSeed, Override, OverrideEffect, OverrideName, SnapshotWriter};

const ROOM: usize = 64 << 10;

const fn at(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

fn hello(node: &str, rule_version: u64) -> Hello {
    Hello {
        protocol: PROTOCOL,
        node: node.into(),
        region: "eu".into(),
        software: "1".into(),
        role: FollowerRole::Node,
        rule_version,
        partial: None,
    }
}

fn feed_at(head: u64) -> Arc<Feed> {
    let feed = Feed::new("control", "1");
    feed.core.lock().recent.restart(head);
    feed
}

fn publish(feed: &Feed, version: u64) {
    feed.publish(version, Bytes::from(version.to_string())).unwrap();
}

/// A file of so many overrides, of about 40 bytes each.
fn snapshot(version: u64, overrides: usize) -> Arc<Snapshot> {
    let name = format!("tidegate-feed-{}-{version}-{overrides}.rules", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut writer = SnapshotWriter::new(&path, version, LookupSeed::random()).unwrap();
    for number in 0..overrides {
        let name = OverrideName {
            tenant: "default".into(),
            namespace: "api".into(),
            rule: "per-user".into(),
            parts: Box::new([format!("user-{number}").into()]),
        };
        let applied = Override { change: OverrideEffect::Unlimited, hot: false, until: Nanos::MAX };
        writer.set(&name, &applied).unwrap();
    }
    writer.finish().unwrap();
    let snapshot = Snapshot::open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    Arc::new(snapshot)
}

fn sent(subscriber: &mut Subscriber, now: Nanos) -> Vec<ServerMessage> {
    let mut out = Vec::new();
    subscriber.fill(now, ROOM, &mut out);
    let mut bytes = BytesMut::from(&out.concat()[..]);
    std::iter::from_fn(|| take_first(&mut bytes, 1 << 25).unwrap())
        .map(|message| ServerMessage::decode(&message).unwrap())
        .collect()
}

fn versions(sent: &[ServerMessage]) -> Vec<u64> {
    let version = |down: &ServerMessage| {
        if let ServerMessage::Change { version, .. } = down { Some(*version) } else { None }
    };
    sent.iter().filter_map(version).collect()
}

#[test]
fn a_follower_is_welcomed_and_gets_what_it_lacks() {
    let feed = feed_at(4);
    (5..=7).for_each(|version| publish(&feed, version));
    let mut subscriber = feed.subscribe(&hello("a", 5), at(0));
    let first = sent(&mut subscriber, at(0));
    assert!(matches!(&first[0], ServerMessage::Welcome(welcome) if &*welcome.node == "control"));
    assert!(matches!(first[1], ServerMessage::Heartbeat { head: 7, .. }));
    assert_eq!(versions(&first), [6, 7]);
    assert!(sent(&mut subscriber, at(100)).is_empty(), "nothing changed");
    assert!(matches!(sent(&mut subscriber, at(200))[..], [ServerMessage::Heartbeat { head: 7, .. }]));
}

#[test]
fn changes_in_quick_succession_leave_together() {
    let feed = feed_at(1);
    let mut subscriber = feed.subscribe(&hello("a", 1), at(0));
    publish(&feed, 2);
    assert_eq!(versions(&sent(&mut subscriber, at(0))), [2]);
    publish(&feed, 3);
    publish(&feed, 4);
    assert!(sent(&mut subscriber, at(5)).is_empty());
    assert_eq!(subscriber.wakes_at(at(5)), BATCH_DELAY);
    assert_eq!(versions(&sent(&mut subscriber, BATCH_DELAY)), [3, 4]);
}

#[test]
fn who_is_too_far_behind_gets_the_file_and_then_what_came_after() {
    let (feed, file) = (feed_at(10), snapshot(10, 5000));
    publish(&feed, 11);
    feed.offer(file.clone());
    publish(&feed, 12);
    let mut subscriber = feed.subscribe(&hello("new", 0), at(0));
    let mut heard = sent(&mut subscriber, at(1));
    while subscriber.wakes_at(at(1)) <= at(1) {
        heard.extend(sent(&mut subscriber, at(1)));
    }
    let mut bytes = Vec::new();
    for down in &heard {
        match down {
            ServerMessage::Snapshot { id, length: total, offset } => {
                assert_eq!((*id, *total, *offset), (file.id(), length(&file), 0));
            }
            ServerMessage::Chunk { offset, bytes: piece } => {
                assert_eq!(*offset, u64::try_from(bytes.len()).unwrap());
                bytes.extend_from_slice(piece);
            }
            _ => {}
        }
    }
    assert!(bytes.len() > CHUNK_BYTES && bytes == file.bytes());
    assert_eq!(versions(&heard), [11, 12]);
}

#[test]
fn a_file_that_is_partly_there_goes_on_where_it_was_cut_off() {
    let (feed, file) = (feed_at(10), snapshot(10, 100));
    feed.offer(file.clone());
    let other = SnapshotId { version: 10, digest: file.id().digest ^ 1 };
    for (id, begins_at) in [(file.id(), 600), (other, 0)] {
        let hello = Hello { partial: Some((id, 600)), ..hello("cut", 0) };
        let mut subscriber = feed.subscribe(&hello, at(0));
        let heard = sent(&mut subscriber, at(0));
        let begun = heard.iter().find_map(|down| match down {
            ServerMessage::Snapshot { offset, .. } => Some(*offset),
            _ => None,
        });
        assert_eq!(begun, Some(begins_at), "{id}");
    }
}

#[test]
fn a_slow_follower_is_resynchronised_and_costs_no_memory() {
    let feed = feed_at(1);
    let mut slow = feed.subscribe(&hello("slow", 1), at(0));
    sent(&mut slow, at(0));
    let delta = Bytes::from(vec![0; 16 << 20]);
    (2..=20).for_each(|version| feed.publish(version, delta.clone()).unwrap());
    assert!(versions(&sent(&mut slow, at(50))).is_empty(), "what it lacks is gone, and there is no file yet");
    feed.offer(snapshot(19, 100));
    let heard = sent(&mut slow, at(60));
    assert!(heard.iter().any(|down| matches!(down, ServerMessage::Snapshot { .. })), "{heard:?}");
    assert_eq!(versions(&sent(&mut slow, at(61))), [20]);
    assert_eq!(feed.counters().counts_by_name()[2], ("followers_resynchronised", 1));
}

#[test]
fn a_file_that_cant_be_gone_on_from_isnt_sent() {
    let feed = feed_at(100);
    feed.core.lock().snapshot = Some(snapshot(50, 100));
    let mut subscriber = feed.subscribe(&hello("new", 0), at(0));
    let heard = sent(&mut subscriber, at(0));
    assert!(!heard.iter().any(|down| matches!(down, ServerMessage::Snapshot { .. })), "{heard:?}");
    feed.offer(snapshot(100, 100));
    let heard = sent(&mut subscriber, at(1));
    assert!(heard.iter().any(|down| matches!(down, ServerMessage::Snapshot { .. })), "{heard:?}");
}

#[test]
fn who_asks_again_gets_it_again() {
    let feed = feed_at(0);
    (1..=3).for_each(|version| publish(&feed, version));
    let mut subscriber = feed.subscribe(&hello("a", 1), at(0));
    assert_eq!(versions(&sent(&mut subscriber, at(0))), [2, 3]);
    subscriber.receive(FollowerMessage::Resume { rule_version: 1, wants_snapshot: false }, at(50));
    assert_eq!(versions(&sent(&mut subscriber, at(50))), [2, 3]);
    feed.offer(snapshot(2, 10));
    subscriber.receive(FollowerMessage::Resume { rule_version: 2, wants_snapshot: true }, at(60));
    let is_file =
        |heard: &[ServerMessage]| heard.iter().any(|down| matches!(down, ServerMessage::Chunk { .. }));
    assert!(!is_file(&sent(&mut subscriber, at(60))), "what isn't newer is of no use");
    assert!(feed.takes_snapshot_request() && !feed.takes_snapshot_request());
    feed.offer(snapshot(3, 10));
    assert!(is_file(&sent(&mut subscriber, at(61))));
}

#[test]
fn who_has_just_started_doesnt_say_how_old_its_rules_are() {
    let feed = feed_at(5);
    let stale_ms = |now| match sent(&mut feed.subscribe(&hello("a", 5), now), now)[1] {
        ServerMessage::Heartbeat { stale_ms, .. } => stale_ms,
        _ => panic!("a heartbeat comes second"),
    };
    assert_eq!(stale_ms(at(300)), u64::MAX, "not 300: nobody has confirmed version 5");
    feed.confirm(at(400), at(60_000));
    assert_eq!(stale_ms(at(400)), u64::MAX, "longer than it lives");
    feed.confirm(at(500), at(100));
    assert_eq!(stale_ms(at(500)), 100);
}

#[test]
fn the_head_is_as_stale_as_it_was_last_confirmed() {
    let feed = feed_at(1);
    feed.confirm(at(1000), at(300));
    assert_eq!(feed.stale_for(at(1000)), at(300));
    feed.confirm(at(1100), at(900));
    assert_eq!(feed.stale_for(at(1100)), at(400), "an older word doesn't undo a newer one");
    let mut subscriber = feed.subscribe(&hello("a", 1), at(1200));
    assert!(matches!(
        sent(&mut subscriber, at(1200))[1],
        ServerMessage::Heartbeat { head: 1, stale_ms: 500 }
    ));
}

#[test]
fn notices_reach_everybody_once_and_reports_are_bounded() {
    let feed = feed_at(0);
    let payload = |text: &'static str| Bytes::from_static(text.as_bytes());
    feed.notice(Payload { kind: PayloadKind::HotSet, payload: payload("old") });
    feed.notice(Payload { kind: PayloadKind::HotSet, payload: payload("new") });
    let mut subscriber = feed.subscribe(&hello("a", 0), at(0));
    let notices = |heard: Vec<ServerMessage>| -> Vec<Bytes> {
        heard
            .into_iter()
            .filter_map(
                |down| if let ServerMessage::Notice(notice) = down { Some(notice.payload) } else { None },
            )
            .collect()
    };
    assert_eq!(notices(sent(&mut subscriber, at(0))), [payload("new")]);
    assert!(notices(sent(&mut subscriber, at(200))).is_empty());
    for _ in 0..REPORTS_MAX + 3 {
        let report = Payload { kind: PayloadKind::Demand, payload: payload("x") };
        subscriber.receive(FollowerMessage::Report(report), at(1));
    }
    assert_eq!(feed.take_reports(usize::MAX).len(), REPORTS_MAX);
    assert_eq!(feed.counters().counts_by_name()[3].1, 3);
}

#[test]
fn who_follows_by_which_rules_is_known() {
    let feed = feed_at(3);
    let mut subscriber = feed.subscribe(&hello("a", 2), at(0));
    subscriber.receive(
        FollowerMessage::Health(FollowerHealth { rule_version: 3, ..FollowerHealth::default() }),
        at(5),
    );
    let nodes = feed.nodes(at(10));
    assert_eq!((nodes[0].rule_version, nodes[0].is_connected, nodes[0].seen_ms_ago), (3, true, 5));
    drop(subscriber);
    assert!(!feed.nodes(at(10))[0].is_connected);
}

fn reset(version: u64) -> PastReset {
    PastReset { version, age: Nanos::ZERO, delta: Bytes::from_static(b"reset") }
}

fn resets(sent: &[ServerMessage]) -> Vec<u64> {
    let version = |down: &ServerMessage| {
        if let ServerMessage::Reset(reset) = down { Some(reset.version) } else { None }
    };
    sent.iter().filter_map(version).collect()
}

#[test]
fn who_came_by_a_file_is_told_of_the_resets_before_it_and_hears_of_others_as_changes() {
    let feed = feed_at(0);
    feed.receive_reset(reset(4), at(0));
    feed.receive_reset(reset(7), at(0));
    feed.offer(snapshot(5, 10));
    (6..=8).for_each(|version| publish(&feed, version));
    let mut newcomer = feed.subscribe(&hello("new", 0), at(0));
    assert_eq!(resets(&sent(&mut newcomer, at(0))), [4], "version 7 comes as a change");
    assert_eq!(resets(&sent(&mut newcomer, at(1000))), [0_u64; 0], "once");
    // Who has the version may have come by a file of it.
    let mut other = feed.subscribe(&hello("other", 7), at(0));
    assert_eq!(resets(&sent(&mut other, at(0))), [4, 7]);
    // A broker hears of an old one only now.
    feed.receive_reset(reset(3), at(0));
    feed.receive_reset(reset(8), at(0));
    assert_eq!(resets(&sent(&mut newcomer, at(2000))), [3]);
    assert_eq!(resets(&sent(&mut other, at(2000))), [3]);
}

#[test]
fn a_follower_that_gets_a_file_in_between_is_told_of_the_resets_that_it_missed() {
    let feed = feed_at(5);
    feed.offer(snapshot(5, 10));
    let mut follower = feed.subscribe(&hello("a", 5), at(0));
    sent(&mut follower, at(0));
    feed.receive_reset(reset(6), at(0));
    feed.offer(snapshot(9, 10));
    follower.receive(FollowerMessage::Resume { rule_version: 5, wants_snapshot: true }, at(1000));
    let received = sent(&mut follower, at(1000));
    let is_chunk = |down: &ServerMessage| matches!(down, ServerMessage::Chunk { .. });
    let is_reset = |down: &ServerMessage| matches!(down, ServerMessage::Reset(_));
    let (file, told) = (received.iter().rposition(is_chunk), received.iter().position(is_reset));
    assert!(file.is_some() && told > file, "the rules first, and then what happened to them: {received:?}");
}

/// Ten thousand, in pieces, each of which leaves room for a heartbeat.
#[test]
fn many_resets_are_told_in_pieces() {
    let feed = feed_at(100_000);
    let count = crate::stream::RESET_BROADCAST_MAX;
    (1..=u64::try_from(count).unwrap()).for_each(|version| feed.receive_reset(reset(version), at(0)));
    let mut follower = feed.subscribe(&hello("a", 100_000), at(0));
    let mut told = 0;
    while told < count {
        let mut out = Vec::new();
        follower.fill(at(0), ROOM, &mut out);
        let bytes: usize = out.iter().map(Bytes::len).sum();
        assert!(!out.is_empty() && bytes < 2 * ROOM, "{bytes} bytes in one piece");
        let mut bytes = BytesMut::from(&out.concat()[..]);
        let messages = std::iter::from_fn(|| take_first(&mut bytes, 1 << 25).unwrap());
        told += resets(&messages.map(|message| ServerMessage::decode(&message).unwrap()).collect::<Vec<_>>())
            .len();
        assert!(told == count || follower.wakes_at(at(0)) == at(0), "there is more to send");
    }
    assert!(follower.wakes_at(at(0)) > at(0));
}
