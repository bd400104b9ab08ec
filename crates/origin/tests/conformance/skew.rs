//! A node whose clock is wrong must not be given more than 50 ms of anything.

use crate::messages::{Said, Saying, gcra, per_second, seconds};
use crate::region::{Region, SKEW};

pub(crate) async fn a_nodes_clock_is_believed_up_to_50_ms(region: &Region) {
    let ask = |number| gcra(number, per_second(1), 5).asking(&[1]);
    let now = region.now().await;
    let ahead = now.plus(seconds(3_600));
    let (present, reply) = region.try_sync(1, ahead, ask(1)).await;
    assert_eq!(reply.unwrap().busy().since, present.plus(SKEW));
    let behind = now.minus(seconds(3_600));
    let (present, reply) = region.try_sync(1, behind, ask(2)).await;
    assert_eq!(reply.unwrap().busy().since, present.minus(SKEW));
    let exact = region.now().await;
    if let Some(reply) = region.sync_at(1, exact, ask(3)).await {
        assert_eq!(reply.busy().since, exact);
    }
}
