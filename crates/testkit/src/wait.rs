//! Waiting for other processes: asked again and again, with a deadline.
//!
//! Another process can't be given a clock, so this is the one place where tests wait for time. It never
//! waits without an end, and it says what it saw last.

use std::time::Duration;

/// Short against what servers take to change their minds, long against what asking costs.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// How long a server may take to start, and a group of servers to agree. A busy machine needs most of it.
pub(crate) const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Looks until there is something to see; panics when there is nothing in time.
pub async fn until<T, L>(what: &str, within: Duration, mut look: impl FnMut() -> L) -> T
where
    L: Future<Output = Option<T>>,
{
    let looked = attempt(within, || {
        let look = look();
        async move { look.await.ok_or_else(String::new) }
    });
    looked.await.unwrap_or_else(|_| panic!("{what}: not within {within:?}"))
}

/// Looks until it succeeds; what was seen last when it doesn't in time.
pub(crate) async fn attempt<T, L>(within: Duration, mut look: impl FnMut() -> L) -> Result<T, String>
where
    L: Future<Output = Result<T, String>>,
{
    let mut seen = String::from("no answer at all");
    let looked = tokio::time::timeout(within, async {
        loop {
            match look().await {
                Ok(found) => return found,
                Err(problem) => seen = problem,
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    });
    looked.await.map_err(|_| seen)
}

/// Like [`until`], for looks that can say what is still missing.
pub(crate) async fn until_ok<L>(what: &str, within: Duration, look: impl FnMut() -> L)
where
    L: Future<Output = Result<(), String>>,
{
    let looked = attempt(within, look).await;
    looked.unwrap_or_else(|seen| panic!("{what}: not within {within:?}; last seen: {seen}"));
}
