//! A node without a store: it shares nothing, asks nobody, and says nothing of a region.

use crate::fleet::{Limit, Member};
use crate::support::Directory;

#[test]
fn by_default_a_node_is_alone() {
    for arguments in [&[][..], &["--origin-url", "memory:"]] {
        let nodes = [1, 2].map(|_| Member::start_in(Directory::new(), arguments));
        for node in &nodes {
            assert!(node.node.banner.contains("origin memory:"), "{}", node.node.banner);
            let state = node.node.state();
            assert!(state.get("origin").is_none(), "{state}");
            // Exact, on its own counts, without anybody to ask: and neither node knows of the other.
            let limit = Limit::strict("alone", 5);
            let answers: Vec<(bool, String)> = (0..7)
                .map(|_| node.ask(&limit))
                .map(|answer| (answer.is_allowed(), answer.path().to_owned()))
                .collect();
            let expected = [true, true, true, true, true, false, false];
            assert_eq!(answers, expected.map(|is_allowed| (is_allowed, "local".to_owned())));
        }
    }
}
