//! The cluster as one of its nodes sees it: `CLUSTER NODES` and `CLUSTER INFO`, parsed.
//!
//! Nodes may see different things for a while; whoever asks decides whose view counts.

use crate::redis::Redis;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A node that is stopped doesn't answer; the others' views count without it.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct View {
    /// The node would serve requests.
    pub(super) is_ok: bool,
    pub(super) nodes: Vec<NodeView>,
}

#[derive(PartialEq, Eq, Debug)]
pub(super) struct NodeView {
    pub(super) id: String,
    pub(super) address: String,
    pub(super) is_primary: bool,
    /// Introduced to us in full: past the handshake.
    pub(super) is_known: bool,
    /// The id of the primary that it replicates.
    pub(super) replicates: Option<String>,
    slots: Vec<RangeInclusive<u16>>,
}

impl View {
    pub(super) async fn of(node: &Redis) -> io::Result<View> {
        let asked = async {
            let info = node.command(&["CLUSTER", "INFO"]).await?.text().unwrap_or_default();
            let nodes = node.command(&["CLUSTER", "NODES"]).await?.text().unwrap_or_default();
            let is_ok = info.lines().any(|line| line == "cluster_state:ok");
            Ok(View { is_ok, nodes: nodes.lines().filter_map(NodeView::parse).collect() })
        };
        tokio::time::timeout(REPLY_TIMEOUT, asked).await.unwrap_or_else(|late| Err(late.into()))
    }

    pub(super) fn at(&self, address: SocketAddr) -> Option<&NodeView> {
        let address = address.to_string();
        self.nodes.iter().find(|node| node.address == address)
    }
}

impl NodeView {
    /// `id host:port@bus[,name] flags primary ping pong epoch link slot…`
    fn parse(line: &str) -> Option<NodeView> {
        let mut words = line.split_whitespace();
        let (id, address, flags, primary) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let flags: Vec<&str> = flags.split(',').collect();
        Some(NodeView {
            id: id.to_owned(),
            address: address.split('@').next()?.to_owned(),
            is_primary: flags.contains(&"master"),
            is_known: !flags.contains(&"handshake") && !flags.contains(&"noaddr"),
            replicates: (primary != "-").then(|| primary.to_owned()),
            slots: words.skip(4).filter_map(parse_slots).collect(),
        })
    }

    pub(super) fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    pub(super) fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }
}

/// `5` or `0-5460`; slots on the move, in brackets, are listed with their owner's as well.
fn parse_slots(word: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_with_their_slots() {
        let line =
            "07c3 127.0.0.1:7001@17001,host myself,master - 0 1426238317239 4 connected 0-5460 9 [93-<-292f]";
        let node = NodeView::parse(line).unwrap();
        assert_eq!((node.id.as_str(), node.address.as_str()), ("07c3", "127.0.0.1:7001"));
        assert!(node.is_primary && node.is_known && node.replicates.is_none());
        assert!(node.owns(5460) && node.owns(9) && !node.owns(5461) && !node.owns(93 + 5461));
    }

    #[test]
    fn a_replica_names_its_primary() {
        let node = NodeView::parse("1a 127.0.0.1:7002@17002 slave 07c3 0 1 4 connected").unwrap();
        assert_eq!(node.replicates.as_deref(), Some("07c3"));
        assert!(!node.is_primary && !node.has_slots());
    }
}
