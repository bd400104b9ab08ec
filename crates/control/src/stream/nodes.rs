//! Who follows, by which rules, and when each was last heard of.
//!
//! Bounded: somebody who invents names can't fill the memory. Who wasn't heard of for ten minutes is forgotten.

use super::message::{FollowerHealth, FollowerRole, Hello, NodeReport};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::Nanos;

const NODES_MAX: usize = 20_000;
const FORGOTTEN_AFTER: Nanos = Nanos::from_secs(600);

/// The last reported state of a node.
#[derive(Debug)]
struct KnownNode {
    region: Arc<str>,
    software: Arc<str>,
    role: FollowerRole,
    health: FollowerHealth,
    seen_at: Nanos,
    /// Of the connection that it has; `None` when it is gone, or follows somebody who told of it.
    connection: Option<u64>,
    /// Whether the broker that told of it has it connected.
    is_elsewhere: bool,
}

#[derive(Debug, Default)]
pub(super) struct Nodes {
    by_name: BTreeMap<Arc<str>, KnownNode>,
    /// That there was no room for.
    pub(super) refused: u64,
}

impl Nodes {
    pub(super) fn joined(&mut self, hello: &Hello, connection: u64, now: Nanos) {
        let health = FollowerHealth { rule_version: hello.rule_version, ..FollowerHealth::default() };
        let known = KnownNode {
            region: hello.region.clone(),
            software: hello.software.clone(),
            role: hello.role,
            health,
            seen_at: now,
            connection: Some(connection),
            is_elsewhere: false,
        };
        self.insert(hello.node.clone(), known, now);
    }

    /// Records a node's health, and the connection that it reports on. The hello of a connection that it gave up may come
    /// later.
    pub(super) fn record_health(&mut self, node: &str, connection: u64, health: FollowerHealth, now: Nanos) {
        if let Some(known) = self.by_name.get_mut(node) {
            known.health = health;
            known.seen_at = now;
            (known.connection, known.is_elsewhere) = (Some(connection), false);
        }
    }

    /// It may be connected again already.
    pub(super) fn left(&mut self, node: &str, connection: u64) {
        if let Some(known) = self.by_name.get_mut(node)
            && known.connection == Some(connection)
        {
            known.connection = None;
        }
    }

    /// Takes over what a broker knows of its nodes, unless this server knows it at first hand, or newer.
    pub(super) fn receive_reports(&mut self, reports: Vec<NodeReport>, now: Nanos) {
        for report in reports {
            let seen_at = now.minus(Nanos::from_millis(report.seen_ms_ago));
            let known = self.by_name.get(&report.node);
            if known.is_some_and(|known| known.connection.is_some() || known.seen_at > seen_at) {
                continue;
            }
            let (rule_version, refused_version) = (report.rule_version, report.refused_version);
            let known = KnownNode {
                region: report.region,
                software: report.software,
                role: report.role,
                health: FollowerHealth { rule_version, refused_version, stale_ms: 0 },
                seen_at,
                connection: None,
                is_elsewhere: report.is_connected,
            };
            self.insert(report.node, known, now);
        }
    }

    fn insert(&mut self, node: Arc<str>, known: KnownNode, now: Nanos) {
        if self.by_name.len() >= NODES_MAX && !self.by_name.contains_key(&node) {
            self.remove_expired(now);
            if self.by_name.len() >= NODES_MAX {
                self.refused += 1;
                return;
            }
        }
        self.by_name.insert(node, known);
    }

    fn remove_expired(&mut self, now: Nanos) {
        self.by_name
            .retain(|_, known| known.connection.is_some() || now.minus(known.seen_at) < FORGOTTEN_AFTER);
    }

    /// All that are known, by name.
    pub(super) fn list(&mut self, now: Nanos) -> Vec<NodeReport> {
        self.remove_expired(now);
        let report = |(node, known): (&Arc<str>, &KnownNode)| NodeReport {
            node: node.clone(),
            region: known.region.clone(),
            software: known.software.clone(),
            role: known.role,
            rule_version: known.health.rule_version,
            refused_version: known.health.refused_version,
            seen_ms_ago: now.minus(known.seen_at).as_millis_ceil(),
            is_connected: known.connection.is_some() || known.is_elsewhere,
        };
        self.by_name.iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::message::PROTOCOL;

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

    const fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn a_node_is_known_until_it_was_gone_for_long() {
        let mut nodes = Nodes::default();
        nodes.joined(&hello("a", 3), 1, at(0));
        nodes.record_health("a", 1, FollowerHealth { rule_version: 4, ..FollowerHealth::default() }, at(5));
        nodes.joined(&hello("a", 4), 2, at(6));
        nodes.left("a", 1);
        let [node] = &nodes.list(at(700))[..] else { panic!("one node") };
        assert_eq!((node.rule_version, node.is_connected, node.seen_ms_ago), (4, true, 694_000));
        nodes.left("a", 2);
        assert_eq!(nodes.list(at(605)).len(), 1);
        assert!(nodes.list(at(606)).is_empty());
    }

    #[test]
    fn a_hello_that_comes_late_on_a_connection_that_was_given_up_does_no_harm() {
        let mut nodes = Nodes::default();
        nodes.joined(&hello("a", 3), 2, at(0));
        nodes.joined(&hello("a", 3), 1, at(1));
        nodes.left("a", 1);
        nodes.record_health("a", 2, FollowerHealth { rule_version: 4, ..FollowerHealth::default() }, at(2));
        assert!(nodes.list(at(2))[0].is_connected);
        nodes.left("a", 2);
        assert!(!nodes.list(at(2))[0].is_connected);
    }

    #[test]
    fn what_brokers_tell_doesnt_replace_what_is_seen() {
        let mut broker = Nodes::default();
        broker.joined(&hello("a", 3), 1, at(0));
        broker.joined(&hello("b", 3), 2, at(0));
        let mut nodes = Nodes::default();
        nodes.joined(&hello("a", 9), 1, at(1));
        nodes.receive_reports(broker.list(at(1)), at(1));
        let versions: Vec<u64> = nodes.list(at(1)).iter().map(|node| node.rule_version).collect();
        assert_eq!(versions, [9, 3]);
    }

    #[test]
    fn invented_names_are_bounded() {
        let mut nodes = Nodes::default();
        for number in 0..NODES_MAX + 5 {
            nodes.joined(&hello(&number.to_string(), 1), 1, at(0));
        }
        assert_eq!((nodes.list(at(0)).len(), nodes.refused), (NODES_MAX, 5));
    }
}
