//! Reads what a cluster's member says of the cluster: `CLUSTER INFO` and `CLUSTER SLOTS`.
//!
//! `CLUSTER SLOTS` is known to every version and to Valkey, unlike `CLUSTER SHARDS`. An answer of which any
//! part makes no sense is refused whole: a map with holes would send keys nowhere.

use crate::redis::address::Address;
use crate::redis::map::{Layout, SLOTS};
use crate::redis::wire::Value;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// The member sees most of the cluster.
    pub(super) is_working: bool,
    /// Grows with every change of who owns what.
    pub(super) epoch: u64,
    pub(super) layout: Layout,
    /// Every server that was named, replicas included.
    pub(super) members: Vec<Address>,
}

impl Answer {
    pub(super) fn is_better_than(&self, other: &Answer) -> bool {
        (self.is_working, self.epoch) > (other.is_working, other.epoch)
    }
}

/// From the answers to `CLUSTER INFO` and `CLUSTER SLOTS`, given by the member at `asked`.
pub(super) fn read(answers: &[Value], asked: &Address) -> Result<Answer, String> {
    for answer in answers {
        if let Value::ServerError(error) = answer {
            return Err(error.to_string());
        }
    }
    let [Value::BulkString(info), Value::Array(slots)] = answers else { return Err(nonsense()) };
    let info = String::from_utf8_lossy(info);
    let mut answer = Answer {
        is_working: field(&info, "cluster_state") == Some("ok"),
        epoch: field(&info, "cluster_current_epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
        layout: Layout::default(),
        members: Vec::new(),
    };
    for entry in slots {
        read_entry(&mut answer, entry, asked).ok_or_else(nonsense)?;
    }
    if answer.layout.ranges.is_empty() { Err("it knows of no slots".to_owned()) } else { Ok(answer) }
}

fn nonsense() -> String {
    "its answer to CLUSTER SLOTS makes no sense".to_owned()
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

/// First and last slot, the owner, and its replicas.
fn read_entry(answer: &mut Answer, entry: &Value, asked: &Address) -> Option<()> {
    let Value::Array(entry) = entry else { return None };
    let [first, last, owner, replicas @ ..] = entry.as_slice() else { return None };
    let (first, last) = (slot(first)?, slot(last)?);
    let owner = member(owner, asked)?;
    if first > last {
        return None;
    }
    for address in std::iter::once(Some(owner.clone())).chain(replicas.iter().map(|one| member(one, asked))) {
        // A replica that can't be read only isn't asked later.
        let Some(address) = address else { continue };
        if !answer.members.contains(&address) {
            answer.members.push(address);
        }
    }
    answer.layout.ranges.push((first..=last, owner));
    Some(())
}

fn slot(value: &Value) -> Option<u16> {
    let Value::Int(number) = value else { return None };
    u16::try_from(*number).ok().filter(|number| *number < SLOTS)
}

fn member(value: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(fields) = value else { return None };
    let [host, Value::Int(port), ..] = fields.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        // The server doesn't know by which name it is reached.
        Value::Nil => "",
        _ => return None,
    };
    Address::reported(host, u16::try_from(*port).ok().filter(|port| *port != 0)?, asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn server(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), bulk("id"), Value::Array(vec![])])
    }

    fn range(first: i64, last: i64, servers: Vec<Value>) -> Value {
        Value::Array([vec![Value::Int(first), Value::Int(last)], servers].concat())
    }

    fn read_slots(slots: Vec<Value>) -> Result<Answer, String> {
        let info = bulk("cluster_enabled:1\r\ncluster_state:ok\r\ncluster_current_epoch:7\r\n");
        read(&[info, Value::Array(slots)], &Address::tcp("10.0.0.1", 7000))
    }

    #[test]
    fn a_layout_is_read_with_its_replicas() {
        let servers = || vec![server(bulk("10.0.0.2"), 7001), server(bulk("10.0.0.3"), 7002)];
        let answer = read_slots(vec![
            range(0, 99, servers()),
            range(100, 100, vec![server(bulk(""), 7000)]),
            range(101, 16382, servers()),
            range(16383, 16383, vec![server(Value::Nil, 7009), server(bulk("?"), 7010)]),
        ]);
        let answer = answer.unwrap();
        assert!(answer.is_working);
        assert_eq!(answer.epoch, 7);
        let ranges: Vec<String> = answer
            .layout
            .ranges
            .iter()
            .map(|(range, owner)| format!("{}-{} {owner}", range.start(), range.end()))
            .collect();
        let expected = [
            "0-99 10.0.0.2:7001",
            "100-100 10.0.0.1:7000",
            "101-16382 10.0.0.2:7001",
            "16383-16383 10.0.0.1:7009",
        ];
        assert_eq!(ranges, expected);
        assert_eq!(answer.members.len(), 5);
    }

    #[test]
    fn answers_that_make_no_sense_are_refused_whole() {
        let good = || range(0, 99, vec![server(bulk("h"), 1)]);
        let wrong = [
            Value::SimpleString("OK".to_owned()),
            Value::Array(vec![]),
            range(0, 99, vec![]),
            range(5, 4, vec![server(bulk("h"), 1)]),
            range(0, 16384, vec![server(bulk("h"), 1)]),
            range(-1, 5, vec![server(bulk("h"), 1)]),
            range(0, 99, vec![server(bulk("h"), 0)]),
            range(0, 99, vec![server(bulk("h"), 65536)]),
            range(0, 99, vec![server(Value::Int(1), 1)]),
            range(0, 99, vec![server(Value::BulkString(vec![0xff]), 1)]),
            range(0, 99, vec![Value::Array(vec![])]),
        ];
        for entry in wrong {
            assert!(read_slots(vec![good(), entry.clone()]).is_err(), "{entry:?}");
        }
        assert!(read_slots(vec![]).is_err());
        assert!(read(&[], &Address::tcp("h", 1)).is_err());
        let ok = || Value::SimpleString("OK".to_owned());
        assert!(read(&[ok(), ok()], &Address::tcp("h", 1)).is_err());
    }

    #[test]
    fn a_member_that_sees_the_cluster_and_the_newest_epoch_knows_best() {
        let answer =
            |is_working, epoch| Answer { is_working, epoch, layout: Layout::default(), members: Vec::new() };
        assert!(answer(true, 1).is_better_than(&answer(false, 9)));
        assert!(answer(true, 3).is_better_than(&answer(true, 2)));
        assert!(!answer(true, 2).is_better_than(&answer(true, 2)));
    }
}
