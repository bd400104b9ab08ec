//! Stores go by the time that nodes send, whatever their own clocks show.

use crate::messages::{ReplyFields, Saying, fixed, gcra, per_second, seconds};
use crate::region::Region;

pub(crate) async fn a_store_goes_by_the_time_of_its_nodes(region: &Region) {
    let ask = |number| gcra(number, per_second(1), 5).asking(&[1]);
    let now = region.now().await;
    for (number, time) in [now.plus(seconds(3_600)), now.minus(seconds(3_600)), now].into_iter().enumerate() {
        let key = 1 + u64::try_from(number).unwrap();
        assert_eq!(region.sync_at(1, time, ask(key)).await.busy().since, time);
    }
}

pub(crate) async fn a_cell_lives_as_long_as_its_node_says(region: &Region) {
    let now = region.now().await;
    // By the store's clock this cell was over an hour ago.
    let nodes_now = now.minus(seconds(7_200));
    let sync = fixed(1, 10, nodes_now);
    assert!(region.sync_at(1, nodes_now, sync.clone().asking(&[10])).await.granted[0]);
    assert!(!region.sync_at(2, nodes_now, sync.asking(&[1])).await.granted[0], "the cell is still there");
}
