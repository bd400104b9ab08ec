//! Waits for several futures at once, in one task.
//!
//! For the few shards that one exchange may touch; each future is looked at whenever one of them wakes. Not
//! for many.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Every future's outcome, in order.
pub(super) async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut waiting: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outcomes: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, outcome) in
            waiting.iter_mut().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_none())
        {
            if let Poll::Ready(ready) = future.as_mut().poll(context) {
                *outcome = Some(ready);
            }
        }
        if outcomes.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn outcomes_come_in_the_order_of_the_futures_not_of_their_ends() {
        let (first, first_ends) = oneshot::channel();
        let (second, second_ends) = oneshot::channel();
        tokio::spawn(async move {
            let _ = second.send(2);
            tokio::task::yield_now().await;
            let _ = first.send(1);
        });
        assert_eq!(join_all(vec![first_ends, second_ends]).await, [Ok(1), Ok(2)]);
    }

    #[tokio::test]
    async fn none_and_one_are_waited_for_too() {
        assert_eq!(join_all(Vec::<std::future::Ready<u8>>::new()).await, [0_u8; 0]);
        assert_eq!(join_all(vec![std::future::ready(7)]).await, [7]);
    }
}
