//! The messages as protobuf (`proto/tidegate/control/v1/control.proto`).
//!
//! What comes from a peer is bounded here, field by field, and what isn't known is skipped: a newer peer may say
//! more. A message that breaks a bound is refused whole.

use super::{
    AnswerPart, Asker, CHUNK_BYTES_MAX, FollowerHealth, FollowerMessage, FollowerRole, Hello, NAME_BYTES_MAX,
    NODES_MAX, NodeReport, PAYLOAD_BYTES_MAX, Payload, PayloadKind, Protocol, QUERY_BYTES_MAX, Question,
    QuestionId, SOFTWARE_BYTES_MAX, ServerMessage, SnapshotId, Welcome,
};
use crate::protobuf::{ProtobufError, Reader, Value, put_bytes, put_message, put_number};
use crate::stream::resets::PastReset;
use bytes::Bytes;
use std::sync::Arc;
use tidegate_core::Nanos;
use tidegate_rules::DELTA_BYTES_MAX;

impl FollowerMessage {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            FollowerMessage::Hello(hello) => put_message(out, 1, |out| hello.put(out)),
            FollowerMessage::Resume { rule_version, wants_snapshot } => put_message(out, 2, |out| {
                put_number(out, 1, *rule_version);
                put_number(out, 2, u64::from(*wants_snapshot));
            }),
            FollowerMessage::Health(health) => put_message(out, 3, |out| {
                put_number(out, 1, health.rule_version);
                put_number(out, 2, health.refused_version);
                put_number(out, 3, health.stale_ms);
            }),
            FollowerMessage::Report(payload) => put_message(out, 4, |out| payload.put(out)),
            FollowerMessage::Nodes(nodes) => put_message(out, 5, |out| {
                nodes.iter().take(NODES_MAX).for_each(|node| put_message(out, 1, |out| node.put(out)));
            }),
            FollowerMessage::Answer(part) => put_message(out, 6, |out| part.put(out)),
            FollowerMessage::Unknown => {}
        }
    }

    pub fn decode(message: &Bytes) -> Result<Self, ProtobufError> {
        let mut reader = Reader::new(message);
        let mut up = FollowerMessage::Unknown;
        while let Some((number, value)) = reader.field()? {
            let Value::Bytes(inner) = value else { continue };
            up = match number {
                1 => FollowerMessage::Hello(Hello::read(inner)?),
                2 => {
                    let [rule_version, wants_snapshot, _] = numbers(inner)?;
                    FollowerMessage::Resume { rule_version, wants_snapshot: wants_snapshot != 0 }
                }
                3 => {
                    let [rule_version, refused_version, stale_ms] = numbers(inner)?;
                    FollowerMessage::Health(FollowerHealth { rule_version, refused_version, stale_ms })
                }
                4 => Payload::read(message, inner)?.map_or(FollowerMessage::Unknown, FollowerMessage::Report),
                5 => FollowerMessage::Nodes(read_nodes(inner)?),
                6 => FollowerMessage::Answer(AnswerPart::read(message, inner)?),
                _ => continue,
            };
        }
        Ok(up)
    }
}

impl ServerMessage {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            ServerMessage::Welcome(welcome) => put_message(out, 1, |out| {
                put_number(out, 1, u64::from(welcome.protocol.newest));
                put_number(out, 2, u64::from(welcome.protocol.oldest));
                put_bytes(out, 3, welcome.node.as_bytes());
                put_bytes(out, 4, welcome.software.as_bytes());
            }),
            ServerMessage::Snapshot { id, length, offset } => put_message(out, 2, |out| {
                put_message(out, 1, |out| put_id(out, *id));
                put_number(out, 2, *length);
                put_number(out, 3, *offset);
            }),
            ServerMessage::Chunk { offset, bytes } => {
                put_message(out, 3, |out| put_counted(out, *offset, bytes));
            }
            ServerMessage::Change { version, delta } => {
                put_message(out, 4, |out| put_counted(out, *version, delta));
            }
            ServerMessage::Heartbeat { head, stale_ms } => put_message(out, 5, |out| {
                put_number(out, 1, *head);
                put_number(out, 2, *stale_ms);
            }),
            ServerMessage::Notice(payload) => put_message(out, 6, |out| payload.put(out)),
            ServerMessage::Question(question) => put_message(out, 7, |out| question.put(out)),
            ServerMessage::Reset(reset) => put_message(out, 8, |out| {
                put_counted(out, reset.version, &reset.delta);
                put_number(out, 3, reset.age.as_millis_ceil());
            }),
            ServerMessage::Unknown => {}
        }
    }

    pub fn decode(message: &Bytes) -> Result<Self, ProtobufError> {
        let mut reader = Reader::new(message);
        let mut down = ServerMessage::Unknown;
        while let Some((number, value)) = reader.field()? {
            let Value::Bytes(inner) = value else { continue };
            down = match number {
                1 => ServerMessage::Welcome(Welcome::read(inner)?),
                2 => read_snapshot(inner)?,
                3 => {
                    let (offset, bytes) = counted(message, inner, CHUNK_BYTES_MAX)?;
                    ServerMessage::Chunk { offset, bytes }
                }
                4 => {
                    let (version, delta) = counted(message, inner, DELTA_BYTES_MAX)?;
                    ServerMessage::Change { version, delta }
                }
                5 => {
                    let [head, stale_ms, _] = numbers(inner)?;
                    ServerMessage::Heartbeat { head, stale_ms }
                }
                6 => Payload::read(message, inner)?.map_or(ServerMessage::Unknown, ServerMessage::Notice),
                7 => ServerMessage::Question(Question::read(inner)?),
                8 => {
                    let (version, delta) = counted(message, inner, DELTA_BYTES_MAX)?;
                    let [_, _, age_ms] = numbers(inner)?;
                    ServerMessage::Reset(PastReset { version, age: Nanos::from_millis(age_ms), delta })
                }
                _ => continue,
            };
        }
        Ok(down)
    }
}

impl Hello {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, 1, u64::from(self.protocol.newest));
        put_number(out, 2, u64::from(self.protocol.oldest));
        put_bytes(out, 3, self.node.as_bytes());
        put_bytes(out, 4, self.region.as_bytes());
        put_bytes(out, 5, self.software.as_bytes());
        put_number(out, 6, self.role.number());
        put_number(out, 7, self.rule_version);
        if let Some((id, bytes)) = &self.partial {
            put_message(out, 8, |out| put_id(out, *id));
            put_number(out, 9, *bytes);
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, ProtobufError> {
        let nobody = || Arc::<str>::from("");
        let mut hello = Hello {
            protocol: Protocol { newest: 0, oldest: 0 },
            node: nobody(),
            region: nobody(),
            software: nobody(),
            role: FollowerRole::Node,
            rule_version: 0,
            partial: None,
        };
        let (mut partial, mut partial_bytes) = (None, 0);
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.field()? {
            match (number, value) {
                (1, Value::Number(newest)) => hello.protocol.newest = low(newest),
                (2, Value::Number(oldest)) => hello.protocol.oldest = low(oldest),
                (3, value) => hello.node = text(value, NAME_BYTES_MAX)?,
                (4, value) => hello.region = text(value, NAME_BYTES_MAX)?,
                (5, value) => hello.software = text(value, SOFTWARE_BYTES_MAX)?,
                (6, Value::Number(role)) => hello.role = FollowerRole::of(role),
                (7, Value::Number(version)) => hello.rule_version = version,
                (8, Value::Bytes(id)) => partial = Some(read_id(id)?),
                (9, Value::Number(bytes)) => partial_bytes = bytes,
                _ => {}
            }
        }
        hello.partial = partial.map(|id| (id, partial_bytes));
        Ok(hello)
    }
}

impl Welcome {
    fn read(bytes: &[u8]) -> Result<Self, ProtobufError> {
        let mut welcome =
            Welcome { protocol: Protocol { newest: 0, oldest: 0 }, node: "".into(), software: "".into() };
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.field()? {
            match (number, value) {
                (1, Value::Number(newest)) => welcome.protocol.newest = low(newest),
                (2, Value::Number(oldest)) => welcome.protocol.oldest = low(oldest),
                (3, value) => welcome.node = text(value, NAME_BYTES_MAX)?,
                (4, value) => welcome.software = text(value, SOFTWARE_BYTES_MAX)?,
                _ => {}
            }
        }
        Ok(welcome)
    }
}

impl Question {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, 1, self.id.0);
        put_number(out, 2, self.within_ms);
        put_number(out, 3, u64::from(self.asker == Asker::Tenant));
        put_bytes(out, 4, self.query.as_bytes());
    }

    fn read(bytes: &[u8]) -> Result<Self, ProtobufError> {
        let asker = Asker::Operator;
        let mut question = Question { id: QuestionId::default(), within_ms: 0, asker, query: "".into() };
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.field()? {
            match (number, value) {
                (1, Value::Number(id)) => question.id = QuestionId(id),
                (2, Value::Number(within_ms)) => question.within_ms = within_ms,
                // Whoever isn't an operator is shown less.
                (3, Value::Number(asker)) if asker != 0 => question.asker = Asker::Tenant,
                (4, value) => question.query = text(value, QUERY_BYTES_MAX)?,
                _ => {}
            }
        }
        Ok(question)
    }
}

impl AnswerPart {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, 1, self.id.0);
        put_bytes(out, 2, self.node.as_bytes());
        put_bytes(out, 3, self.region.as_bytes());
        put_number(out, 4, u64::from(self.is_last));
        put_number(out, 5, u64::from(self.is_problem));
        put_bytes(out, 6, &self.bytes);
    }

    fn read(message: &Bytes, inner: &[u8]) -> Result<Self, ProtobufError> {
        let mut part = AnswerPart {
            id: QuestionId::default(),
            node: "".into(),
            region: "".into(),
            is_last: false,
            is_problem: false,
            bytes: Bytes::new(),
        };
        let mut reader = Reader::new(inner);
        while let Some((number, value)) = reader.field()? {
            match (number, value) {
                (1, Value::Number(id)) => part.id = QuestionId(id),
                (2, value) => part.node = text(value, NAME_BYTES_MAX)?,
                (3, value) => part.region = text(value, NAME_BYTES_MAX)?,
                (4, Value::Number(is_last)) => part.is_last = is_last != 0,
                (5, Value::Number(is_problem)) => part.is_problem = is_problem != 0,
                (6, Value::Bytes(bytes)) if bytes.len() > CHUNK_BYTES_MAX => {
                    return Err(ProtobufError("a part of an answer is too long"));
                }
                (6, Value::Bytes(bytes)) if !bytes.is_empty() => part.bytes = message.slice_ref(bytes),
                _ => {}
            }
        }
        Ok(part)
    }
}

fn put_id(out: &mut Vec<u8>, id: SnapshotId) {
    put_number(out, 1, id.version);
    put_number(out, 2, id.digest);
}

fn read_id(bytes: &[u8]) -> Result<SnapshotId, ProtobufError> {
    let [version, digest, _] = numbers(bytes)?;
    Ok(SnapshotId { version, digest })
}

impl FollowerRole {
    fn number(self) -> u64 {
        match self {
            FollowerRole::Node => 0,
            FollowerRole::Broker => 1,
        }
    }

    fn of(number: u64) -> Self {
        if number == 1 { FollowerRole::Broker } else { FollowerRole::Node }
    }

    pub const fn word(self) -> &'static str {
        match self {
            FollowerRole::Node => "node",
            FollowerRole::Broker => "broker",
        }
    }
}

impl Payload {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, 1, self.kind as u64);
        put_bytes(out, 2, &self.payload);
    }

    /// `None` where it is of a kind that isn't known here.
    fn read(message: &Bytes, inner: &[u8]) -> Result<Option<Self>, ProtobufError> {
        let (kind, payload) = counted(message, inner, PAYLOAD_BYTES_MAX)?;
        Ok(PayloadKind::of(kind).map(|kind| Payload { kind, payload }))
    }
}

impl NodeReport {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, 1, self.node.as_bytes());
        put_bytes(out, 2, self.region.as_bytes());
        put_bytes(out, 3, self.software.as_bytes());
        put_number(out, 4, self.role.number());
        put_number(out, 5, self.rule_version);
        put_number(out, 6, self.seen_ms_ago);
        put_number(out, 7, u64::from(self.is_connected));
        put_number(out, 8, self.refused_version);
    }

    fn read(bytes: &[u8]) -> Result<Self, ProtobufError> {
        let mut report = NodeReport {
            node: "".into(),
            region: "".into(),
            software: "".into(),
            role: FollowerRole::Node,
            rule_version: 0,
            refused_version: 0,
            seen_ms_ago: 0,
            is_connected: false,
        };
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.field()? {
            match (number, value) {
                (1, value) => report.node = text(value, NAME_BYTES_MAX)?,
                (2, value) => report.region = text(value, NAME_BYTES_MAX)?,
                (3, value) => report.software = text(value, SOFTWARE_BYTES_MAX)?,
                (4, Value::Number(role)) => report.role = FollowerRole::of(role),
                (5, Value::Number(version)) => report.rule_version = version,
                (6, Value::Number(seen_ms_ago)) => report.seen_ms_ago = seen_ms_ago,
                (7, Value::Number(is_connected)) => report.is_connected = is_connected != 0,
                (8, Value::Number(version)) => report.refused_version = version,
                _ => {}
            }
        }
        Ok(report)
    }
}

fn read_nodes(bytes: &[u8]) -> Result<Vec<NodeReport>, ProtobufError> {
    let mut nodes = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        if let (1, Value::Bytes(node)) = (number, value) {
            if nodes.len() == NODES_MAX {
                return Err(ProtobufError("a message names too many nodes"));
            }
            nodes.push(NodeReport::read(node)?);
        }
    }
    Ok(nodes)
}

fn read_snapshot(bytes: &[u8]) -> Result<ServerMessage, ProtobufError> {
    let (mut id, mut length, mut offset) = (SnapshotId { version: 0, digest: 0 }, 0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Value::Bytes(inner)) => id = read_id(inner)?,
            (2, Value::Number(number)) => length = number,
            (3, Value::Number(number)) => offset = number,
            _ => {}
        }
    }
    Ok(ServerMessage::Snapshot { id, length, offset })
}

/// A number in field 1 and bytes in field 2, as several messages have them.
fn put_counted(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_number(out, 1, number);
    put_bytes(out, 2, bytes);
}

/// The same read, the bytes as a part of the message that they are in.
fn counted(message: &Bytes, inner: &[u8], bytes_max: usize) -> Result<(u64, Bytes), ProtobufError> {
    let (mut number, mut bytes) = (0, &[][..]);
    let mut reader = Reader::new(inner);
    while let Some((field, value)) = reader.field()? {
        match (field, value) {
            (1, Value::Number(given)) => number = given,
            (2, Value::Bytes(given)) => bytes = given,
            _ => {}
        }
    }
    if bytes.len() > bytes_max {
        return Err(ProtobufError("a payload is too long"));
    }
    Ok((number, if bytes.is_empty() { Bytes::new() } else { message.slice_ref(bytes) }))
}

/// The numbers in fields 1 to 3.
fn numbers(bytes: &[u8]) -> Result<[u64; 3], ProtobufError> {
    let mut numbers = [0; 3];
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.field()? {
        if let (1..=3, Value::Number(number)) = (field, value) {
            numbers[usize::try_from(field - 1).unwrap_or(0)] = number;
        }
    }
    Ok(numbers)
}

fn text(value: Value<'_>, bytes_max: usize) -> Result<Arc<str>, ProtobufError> {
    match value.text()? {
        Some(text) if text.len() > bytes_max => Err(ProtobufError("a name is too long")),
        Some(text) => Ok(text.into()),
        None => Err(ProtobufError("a name is no text")),
    }
}

/// A version beyond what a release will ever have is as good as the largest.
fn low(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
