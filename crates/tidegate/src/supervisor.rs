//! Watches over what runs in the background. None of it may end before the process does: a node whose region driver or
//! token watch has died would go on answering, wrongly. So the first unexpected end, by a return or by a panic, is logged
//! and stops the process with a non-zero code.
//!
//! Libraries start tasks of their own, such as those that keep Redis connected. They return only when they are told to,
//! so their panics are enough to hear of: [`Supervisor::stop_on_panic`] hears of every panic that no caller caused.

use std::borrow::Cow;
use std::panic::{self, PanicHookInfo};
use std::thread;
use tidegate_server::for_caller;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Starts background work, and hears of its end. Clones watch for the same process.
#[derive(Clone, Debug)]
pub(crate) struct Supervisor(mpsc::UnboundedSender<Ending>);

/// The unexpected ends.
#[derive(Debug)]
pub(crate) struct Endings(mpsc::UnboundedReceiver<Ending>);

/// What ended, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Ending {
    task: Cow<'static, str>,
    reason: Cow<'static, str>,
}

/// Held by background work for as long as it runs; reports its end when dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct Watched {
    ending: Ending,
    may_return: bool,
    supervisor: Supervisor,
}

/// Why something ended, from what it returned.
pub(crate) trait Reason {
    fn reason(self) -> &'static str;
}

impl Reason for () {
    fn reason(self) -> &'static str {
        "it returned"
    }
}

impl Reason for &'static str {
    fn reason(self) -> &'static str {
        self
    }
}

impl Supervisor {
    pub(crate) fn new() -> (Self, Endings) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Supervisor(sender), Endings(receiver))
    }

    /// Reports from now on every panic of the process, in whatever thread or task, except in work for one caller: that
    /// ends with the caller's connection.
    pub(crate) fn stop_on_panic(&self) {
        let supervisor = self.clone();
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panicked| {
            print(panicked);
            if !for_caller::is_running() {
                // Nobody listens once the process stops.
                let _ = supervisor.0.send(Ending::of_panic(panicked));
            }
        }));
    }

    /// Starts a task. Within a runtime.
    pub(crate) fn spawn<T: Reason>(
        &self,
        task: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) {
        self.spawn_on(&Handle::current(), task, work);
    }

    pub(crate) fn spawn_on<T: Reason>(
        &self,
        runtime: &Handle,
        task: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) {
        let watched = self.watch(task);
        runtime.spawn(async move {
            let mut watched = watched;
            watched.end_with(work.await.reason());
        });
    }

    /// For a thread, which holds this for as long as it runs.
    pub(crate) fn watch(&self, task: &'static str) -> Watched {
        self.watched(task, false)
    }

    /// The same for a thread that says itself why it ends early, and that nothing else depends on: only a panic is
    /// unexpected.
    pub(crate) fn watch_for_panics(&self, task: &'static str) -> Watched {
        self.watched(task, true)
    }

    fn watched(&self, task: &'static str, may_return: bool) -> Watched {
        let ending = Ending { task: task.into(), reason: "it returned".into() };
        Watched { ending, may_return, supervisor: self.clone() }
    }
}

impl Ending {
    fn of_panic(panicked: &PanicHookInfo<'_>) -> Self {
        let task = format!("on thread {}", thread::current().name().unwrap_or("without a name"));
        let reason = match panicked.location() {
            Some(location) => format!("it panicked at {location}").into(),
            None => "it panicked".into(),
        };
        Ending { task: task.into(), reason }
    }
}

impl Watched {
    fn end_with(&mut self, reason: &'static str) {
        self.ending.reason = reason.into();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if thread::panicking() {
            self.ending.reason = "it panicked".into();
        } else if self.may_return {
            return;
        }
        // Nobody listens once the process stops.
        let _ = self.supervisor.0.send(self.ending.clone());
    }
}

impl Endings {
    /// Waits for the first unexpected end, and logs it.
    pub(crate) async fn first(&mut self) {
        match self.0.recv().await {
            Some(Ending { task, reason }) => tracing::error!(
                %task,
                %reason,
                "a background task ended; stopping, so that a supervisor starts afresh"
            ),
            // There is nothing in the background.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(task: &'static str, reason: &'static str) -> Ending {
        Ending { task: task.into(), reason: reason.into() }
    }

    /// The hook belongs to the whole process, so other tests' panics come here too: only this thread's count.
    #[tokio::test]
    async fn every_panic_is_reported_unless_it_is_in_work_for_a_caller() {
        async fn fail() {
            assert!(std::env::args().count() == 0, "on purpose");
        }
        let (supervisor, mut endings) = Supervisor::new();
        supervisor.stop_on_panic();
        let here = format!("on thread {}", thread::current().name().unwrap());
        let mut reported = || {
            let all = std::iter::from_fn(|| endings.0.try_recv().ok());
            all.filter(|ending| ending.task == here).collect::<Vec<_>>()
        };
        assert!(tokio::spawn(for_caller::marked(fail())).await.is_err());
        assert!(reported().is_empty());
        assert!(tokio::spawn(fail()).await.is_err());
        let [ending]: [Ending; 1] = reported().try_into().unwrap();
        assert!(ending.reason.starts_with(concat!("it panicked at ", file!())), "{ending:?}");
    }

    #[tokio::test]
    async fn an_end_is_reported_whether_by_a_return_or_by_a_panic() {
        let (supervisor, mut endings) = Supervisor::new();
        supervisor.spawn("endless", std::future::pending::<()>());
        supervisor.spawn("returns", async {});
        assert_eq!(endings.0.recv().await, Some(ending("returns", "it returned")));
        supervisor.spawn("says why", async { "the store has another secret" });
        let reason = "the store has another secret";
        assert_eq!(endings.0.recv().await, Some(ending("says why", reason)));
        supervisor.spawn("panics", async { assert!(std::env::args().count() == 0, "on purpose") });
        assert_eq!(endings.0.recv().await, Some(ending("panics", "it panicked")));
        let watched = supervisor.watch("thread");
        let ended = thread::spawn(move || {
            let _watched = watched;
            assert!(std::env::args().count() == 0, "on purpose");
        });
        assert!(ended.join().is_err());
        assert_eq!(endings.0.recv().await, Some(ending("thread", "it panicked")));
        let watched = supervisor.watch_for_panics("may return");
        assert!(thread::spawn(move || drop(watched)).join().is_ok());
        assert!(endings.0.try_recv().is_err(), "what goes on, or may return, isn't reported");
        let watched = supervisor.watch_for_panics("may return");
        let ended = thread::spawn(move || {
            let _watched = watched;
            assert!(std::env::args().count() == 0, "on purpose");
        });
        assert!(ended.join().is_err());
        assert_eq!(endings.0.recv().await, Some(ending("may return", "it panicked")));
    }
}
