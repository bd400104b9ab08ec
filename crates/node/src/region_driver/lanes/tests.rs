//! Time is tokio's, and stands still until all wait.

use super::*;
use std::sync::atomic::AtomicU32;
use std::task::Wake;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

const LENGTH: Duration = Duration::from_millis(4);

#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn keys(numbers: &[u128]) -> Vec<KeyId> {
    numbers.iter().map(|number| KeyId::from_hash(*number)).collect()
}

#[tokio::test(start_paused = true)]
async fn everybody_waits_as_long_as_said() {
    let (lane, start) = (Arc::new(ThreadQueue::default()), Instant::now());
    let waits = (0_u64..20).map(|millis| {
        let lane = lane.clone();
        tokio::spawn(async move {
            sleep(Duration::from_millis(millis)).await;
            let began = Instant::now();
            lane.wait(LENGTH).await;
            began.elapsed()
        })
    });
    for wait in waits.collect::<Vec<_>>() {
        assert_eq!(wait.await.unwrap(), LENGTH);
    }
    assert_eq!(start.elapsed(), Duration::from_millis(19) + LENGTH);
    let waits = lane.waits.lock();
    assert!(waits.waiting.is_empty() && !waits.has_timer, "nothing is kept when nobody waits");
}

#[tokio::test(start_paused = true)]
async fn who_waits_no_longer_isnt_woken() {
    let (lane, count) = (Arc::new(ThreadQueue::default()), Arc::new(Count::default()));
    let waker = Waker::from(count.clone());
    let (mut gone, mut stays) = (Box::pin(lane.wait(LENGTH)), Box::pin(lane.wait(LENGTH)));
    for wait in [&mut gone, &mut stays] {
        assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(gone);
    sleep(2 * LENGTH).await;
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(stays.is_over());
}

#[test]
fn a_runtime_that_ends_takes_nobodys_timer_or_call_with_it() {
    let (lane, count) = (Arc::new(ThreadQueue::default()), Arc::new(Count::default()));
    let runtime = || Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let ends = runtime();
    let waker = Waker::from(count.clone());
    let mut wait = Box::pin(lane.wait(Duration::from_secs(3600)));
    let context = ends.enter();
    assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let sender = lane.add(&keys(&[1]));
    assert!(lane.add(&keys(&[2])).is_none(), "somebody is about to send");
    drop(context);
    drop((ends, sender));
    assert_eq!(count.0.load(Ordering::Relaxed), 1, "it looks for another timer");
    runtime().block_on(async {
        assert!(timeout(LENGTH, wait.as_mut()).await.is_err());
        assert!(lane.waits.lock().has_timer);
    });
    let sender = lane.add(&keys(&[3])).expect("who asks next sends");
    assert_eq!(sender.take(), keys(&[1, 2, 3]));
    assert!(lane.add(&keys(&[4])).is_some());
}
