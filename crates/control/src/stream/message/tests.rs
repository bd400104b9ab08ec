//! What is said comes back from the wire, and nothing else does.

use super::*;
use crate::protobuf::{put_bytes, put_message, put_number};
use proptest::prelude::*;
use tidegate_core::Nanos;

fn name() -> impl Strategy<Value = Arc<str>> {
    "[a-z]{0,12}".prop_map(Into::into)
}

fn id() -> impl Strategy<Value = SnapshotId> {
    (any::<u64>(), any::<u64>()).prop_map(|(version, digest)| SnapshotId { version, digest })
}

fn payload() -> impl Strategy<Value = Payload> {
    let kind = prop::sample::select(&PayloadKind::ALL[..]);
    (kind, bytes()).prop_map(|(kind, payload)| Payload { kind, payload })
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..300).prop_map(Into::into)
}

fn role() -> impl Strategy<Value = FollowerRole> {
    prop::sample::select(&[FollowerRole::Node, FollowerRole::Broker][..])
}

prop_compose! {
    fn protocol()(newest in 1_u32.., oldest in 1_u32..) -> Protocol {
        Protocol { newest, oldest }
    }
}

prop_compose! {
    fn node()(
        node in name(), region in name(), software in name(), role in role(), rule_version: u64,
        refused_version: u64, seen_ms_ago: u64, is_connected: bool,
    ) -> NodeReport {
        NodeReport { node, region, software, role, rule_version, refused_version, seen_ms_ago, is_connected }
    }
}

prop_compose! {
    fn hello()(
        protocol in protocol(), node in name(), region in name(), software in name(), role in role(),
        rule_version: u64, partial in prop::option::of((id(), any::<u64>())),
    ) -> Hello {
        Hello { protocol, node, region, software, role, rule_version, partial }
    }
}

prop_compose! {
    fn answer_part()(
        id: u64, node in name(), region in name(), is_last: bool, is_problem: bool, bytes in bytes(),
    ) -> AnswerPart {
        AnswerPart { id: QuestionId(id), node, region, is_last, is_problem, bytes }
    }
}

prop_compose! {
    fn question()(
        id: u64, within_ms: u64, query in name(),
        asker in prop::sample::select(&[Asker::Operator, Asker::Tenant][..]),
    ) -> Question {
        Question { id: QuestionId(id), within_ms, asker, query }
    }
}

fn up() -> impl Strategy<Value = FollowerMessage> {
    prop_oneof![
        hello().prop_map(FollowerMessage::Hello),
        (any::<u64>(), any::<bool>()).prop_map(|(rule_version, wants_snapshot)| FollowerMessage::Resume {
            rule_version,
            wants_snapshot
        }),
        (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(rule_version, refused_version, stale_ms)| {
            FollowerMessage::Health(FollowerHealth { rule_version, refused_version, stale_ms })
        }),
        payload().prop_map(FollowerMessage::Report),
        prop::collection::vec(node(), 0..5).prop_map(FollowerMessage::Nodes),
        answer_part().prop_map(FollowerMessage::Answer),
    ]
}

fn down() -> impl Strategy<Value = ServerMessage> {
    prop_oneof![
        (protocol(), name(), name()).prop_map(|(protocol, node, software)| ServerMessage::Welcome(Welcome {
            protocol,
            node,
            software
        })),
        (id(), any::<u64>(), any::<u64>()).prop_map(|(id, length, offset)| ServerMessage::Snapshot {
            id,
            length,
            offset
        }),
        (any::<u64>(), bytes()).prop_map(|(offset, bytes)| ServerMessage::Chunk { offset, bytes }),
        (any::<u64>(), bytes()).prop_map(|(version, delta)| ServerMessage::Change { version, delta }),
        (any::<u64>(), any::<u64>()).prop_map(|(head, stale_ms)| ServerMessage::Heartbeat { head, stale_ms }),
        payload().prop_map(ServerMessage::Notice),
        question().prop_map(ServerMessage::Question),
        (any::<u64>(), any::<u32>(), bytes()).prop_map(|(version, age_ms, delta)| {
            ServerMessage::Reset(PastReset { version, age: Nanos::from_millis(u64::from(age_ms)), delta })
        }),
    ]
}

fn up_bytes(up: &FollowerMessage) -> Vec<u8> {
    let mut out = Vec::new();
    up.encode(&mut out);
    out
}

proptest! {
    #[test]
    fn what_is_said_is_heard(up in up(), down in down()) {
        let bytes = up_bytes(&up);
        prop_assert_eq!(FollowerMessage::decode(&bytes.into()), Ok(up));
        let mut bytes = Vec::new();
        down.encode(&mut bytes);
        prop_assert_eq!(ServerMessage::decode(&bytes.into()), Ok(down));
    }

    #[test]
    fn any_bytes_are_a_message_or_malformed(bytes in bytes()) {
        let _ = FollowerMessage::decode(&bytes);
        let _ = ServerMessage::decode(&bytes);
    }

    #[test]
    fn what_a_newer_release_adds_is_skipped(up in up(), more in bytes()) {
        let mut bytes = up_bytes(&up);
        put_bytes(&mut bytes, 15, &more);
        put_number(&mut bytes, 14, 7);
        prop_assert_eq!(FollowerMessage::decode(&bytes.into()), Ok(up));
    }
}

#[test]
fn a_message_that_isnt_known_is_no_error() {
    let mut bytes = Vec::new();
    put_message(&mut bytes, 9, |out| put_number(out, 1, 5));
    assert_eq!(FollowerMessage::decode(&bytes.clone().into()), Ok(FollowerMessage::Unknown));
    assert_eq!(ServerMessage::decode(&bytes.into()), Ok(ServerMessage::Unknown));
}

#[test]
fn what_is_too_long_is_refused() {
    let long: Arc<str> = "x".repeat(NAME_BYTES_MAX + 1).into();
    let nobody = Hello {
        protocol: PROTOCOL,
        node: long,
        region: "".into(),
        software: "".into(),
        role: FollowerRole::Node,
        rule_version: 0,
        partial: None,
    };
    assert!(FollowerMessage::decode(&up_bytes(&FollowerMessage::Hello(nobody)).into()).is_err());
    let payload = Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]);
    assert!(
        FollowerMessage::decode(
            &up_bytes(&FollowerMessage::Report(Payload { kind: PayloadKind::Demand, payload })).into()
        )
        .is_err()
    );
}

#[test]
fn versions_that_overlap_find_the_newest_of_both() {
    let speaks = |oldest, newest| Protocol { newest, oldest };
    assert_eq!(speaks(1, 1).common(speaks(1, 2)), Some(1));
    assert_eq!(speaks(1, 3).common(speaks(2, 5)), Some(3));
    assert_eq!(speaks(1, 1).common(speaks(2, 3)), None);
    assert_eq!(speaks(4, 5).common(speaks(1, 3)), None);
}
