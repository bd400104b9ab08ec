//! Marks the work that is done for one caller: connections, and what they start.
//!
//! A panic in such work ends that caller's connection and nothing else. A panic anywhere else ends a part of the
//! process that nobody starts again, so the process stops. The process's panic hook tells the two apart by
//! [`is_running`]. Everything in this crate that serves a caller is started from here, never by `tokio::spawn`: else a
//! caller who finds a panic could stop the node.

use tokio::task::JoinHandle;

tokio::task_local! {
    static FOR_CALLER: ();
}

/// Returns whether this thread is just now working for one caller.
pub fn is_running() -> bool {
    FOR_CALLER.try_with(|()| ()).is_ok()
}

/// Marks a future, for those who start it themselves.
pub fn marked<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    FOR_CALLER.scope((), work)
}

/// Starts a task. Within a runtime.
pub(crate) fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(marked(work))
}

/// Runs something that takes long on a thread of its own. Within a runtime.
pub(crate) fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || FOR_CALLER.sync_scope((), work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_started_here_is_marked_and_what_it_starts_elsewhere_is_not() {
        assert!(!is_running());
        let both = spawn(async { (is_running(), tokio::spawn(async { is_running() }).await.unwrap()) });
        assert_eq!(both.await.unwrap(), (true, false));
        assert!(spawn_blocking(is_running).await.unwrap());
        assert!(!tokio::task::spawn_blocking(is_running).await.unwrap(), "the thread isn't marked for good");
    }
}
