//! A running node: a thread per core that answers, this thread for everything behind it, and the end of both.
//!
//! Stopping is orderly: no new connections, requests in flight are answered, all within the drain time, and a
//! lone node's counts are saved; a second signal cuts it short. A thread that dies takes the node down, so that a supervisor starts it anew.

use crate::certificates::CertificatesAtStart;
use crate::failure::Failure;
use crate::fleet_secret::SecretRestorer;
use crate::listeners::{Listeners, UnixListeners};
use crate::region::Reload;
use crate::rules_at_start::Watch;
use crate::saved_counts::SavedCounts;
use crate::signals::{Signalled, Signals, Stop};
use crate::supervisor::{Endings, Supervisor};
use crate::tokens::TokensAtStart;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tidegate_node::driver::run_upkeep;
use tidegate_server::{App, BalancedListener, Listener, Surface, record_history, serve};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// What a thread may take beyond the drain time before it is left behind.
const DRAIN_SLACK: Duration = Duration::from_millis(250);
/// A node that starts waits so long for its region's store to tell its time: a request that must ask before that is
/// unverified.
const CLOCK_SYNC_TIMEOUT: Duration = Duration::from_millis(100);

/// What a node is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) app: Arc<App>,
    pub(crate) listeners: Listeners,
    pub(crate) rules: Watch,
    pub(crate) tokens: TokensAtStart,
    pub(crate) certificates: CertificatesAtStart,
    pub(crate) saved_counts: SavedCounts,
    pub(crate) drain: Duration,
    pub(crate) reload: Reload,
    /// Where the world's store is spoken to.
    pub(crate) apart: Option<Handle>,
    pub(crate) secret_restorer: Option<SecretRestorer>,
    pub(crate) supervisor: Supervisor,
    pub(crate) endings: Endings,
}

#[derive(Debug)]
pub(crate) struct Node {
    app: Arc<App>,
    saved_counts: SavedCounts,
    reload: Reload,
    signals: Signals,
    shutdown: watch::Sender<bool>,
    /// Of the operators' listener, which outlives those of callers: it says that the node stops.
    admin_shutdown: watch::Sender<bool>,
    drain: Duration,
    /// A message from each listener's task that ended, and how many there still are.
    ended: mpsc::UnboundedReceiver<()>,
    listening: usize,
    endings: Endings,
    /// Their files go with the node.
    _unix: Option<UnixListeners>,
}

/// What each of the tasks that answer has in common.
#[derive(Clone)]
struct Answering {
    app: Arc<App>,
    shutdown: watch::Receiver<bool>,
    drain: Duration,
    ended: mpsc::UnboundedSender<()>,
}

/// Notifies when it is dropped, also when its thread or task panics.
struct NotifyOnDrop(mpsc::UnboundedSender<()>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        // Nobody listens once the node has stopped waiting.
        let _ = self.0.send(());
    }
}

pub(crate) fn runtime() -> Result<Runtime, Failure> {
    build_runtime().map_err(|source| Failure::Start { what: "the runtime", source })
}

/// Threads that answer callers.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn build_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// A runtime on a thread of its own, for as long as the process lives: its turns may be long, and keep nobody else
/// from theirs.
pub(crate) fn apart(name: &str) -> Result<Handle, Failure> {
    let runtime = runtime()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(no_thread)?;
    Ok(handle)
}

impl Node {
    /// Starts everything; connections are answered from here on.
    pub(crate) fn start(runtime: &Runtime, parts: Parts) -> Result<Self, Failure> {
        let Parts {
            app,
            listeners,
            rules,
            tokens,
            certificates,
            saved_counts,
            drain,
            reload,
            apart,
            secret_restorer,
            ..
        } = parts;
        let (supervisor, endings) = (parts.supervisor, parts.endings);
        let _context = runtime.enter();
        let signals = Signals::register()
            .map_err(|source| Failure::Start { what: "the handling of signals", source })?;
        let (shutdown, shutdown_seen) = watch::channel(false);
        let (admin_shutdown, admin_shutdown_seen) = watch::channel(false);
        let (ended_sender, ended) = mpsc::unbounded_channel();
        supervisor.spawn("the upkeep of clock and table", run_upkeep(app.engine.clone(), app.clock.clone()));
        supervisor.spawn("the history", record_history(app.clone()));
        supervisor.spawn("the rules watch", rules.run(app.clone(), supervisor.clone()));
        tokens.spawn_watch(&supervisor, app.engine.clone());
        certificates.spawn_watch(&supervisor);
        saved_counts.spawn_saving(&supervisor);
        if let Some(secret_restorer) = secret_restorer {
            supervisor.spawn("the watch over the fleet's secret", secret_restorer.run());
        }
        if let Some(driver) = app.sharing.clone() {
            supervisor.spawn("the region driver", driver.clone().run());
            runtime.block_on(driver.until_time_is_known(CLOCK_SYNC_TIMEOUT));
        }
        if let Some((world, apart)) = app.world.clone().zip(apart) {
            supervisor.spawn_on(&apart, "the world worker", world.run());
        }
        let answering = Answering { app: app.clone(), shutdown: shutdown_seen, drain, ended: ended_sender };
        let admin = listeners.for_operators().map_err(no_thread)?;
        tokio::spawn(Answering { shutdown: admin_shutdown_seen, ..answering.clone() }.answer(admin));
        let cores = threads();
        for (core, turns) in listeners.turns(cores).into_iter().enumerate() {
            answering.spawn_thread(core, &listeners, turns).map_err(no_thread)?;
        }
        let unix = listeners.unix;
        Ok(Node {
            app,
            saved_counts,
            reload,
            signals,
            shutdown,
            admin_shutdown,
            drain,
            ended,
            listening: cores + 1,
            endings,
            _unix: unix,
        })
    }

    /// The code that the process ends with.
    pub(crate) async fn run_until_stopped(mut self) -> ExitCode {
        let code = tokio::select! {
            stop = stop_signal(&mut self.signals, &mut self.reload, &self.app) => {
                tracing::info!(?stop, drain = ?self.drain, "stopping; requests in flight are answered");
                ExitCode::SUCCESS
            }
            _ = self.ended.recv() => {
                tracing::error!("a listener ended by itself; stopping, so that a supervisor starts afresh");
                self.listening -= 1;
                ExitCode::FAILURE
            }
            () = self.endings.first() => ExitCode::FAILURE,
        };
        self.app.is_stopping.store(true, Ordering::Relaxed);
        self.shutdown.send_replace(true);
        let app = self.app.clone();
        let answered = Answered { ended: &mut self.ended, listening: self.listening, drain: self.drain };
        let code = tokio::select! {
            () = finish(answered, &self.admin_shutdown, &self.saved_counts) => code,
            stop = stop_signal(&mut self.signals, &mut self.reload, &app) => {
                tracing::warn!(?stop, "stopping at once: a second signal");
                ExitCode::from(stop.exit_code())
            }
        };
        if let Some(driver) = app.sharing.clone() {
            driver.leave().await;
        }
        if let Some(world) = app.world.clone() {
            world.leave().await;
        }
        code
    }
}

/// Waits for a signal that stops; does meanwhile what the others ask for.
async fn stop_signal(signals: &mut Signals, reload: &mut Reload, app: &App) -> Stop {
    loop {
        match signals.next().await {
            Signalled::Stop(stop) => return stop,
            Signalled::Reload => reload.run(app),
        }
    }
}

/// What tells that everybody was answered.
struct Answered<'n> {
    ended: &'n mut mpsc::UnboundedReceiver<()>,
    listening: usize,
    drain: Duration,
}

/// Waits until everybody was answered, or for the drain time; then saves what they used.
async fn finish(answered: Answered<'_>, admin_shutdown: &watch::Sender<bool>, saved_counts: &SavedCounts) {
    let Answered { ended, listening, drain } = answered;
    let all_ended = async {
        // Callers first: until they are served, operators are told that the node stops.
        for _ in 1..listening {
            ended.recv().await;
        }
        admin_shutdown.send_replace(true);
        ended.recv().await;
    };
    if tokio::time::timeout(drain + DRAIN_SLACK, all_ended).await.is_err() {
        tracing::warn!("the drain time is over; what is still in flight is dropped");
    }
    saved_counts.save_last().await;
}

fn no_thread(source: io::Error) -> Failure {
    Failure::Start { what: "a thread", source }
}

impl Answering {
    fn spawn_thread(
        &self,
        core: usize,
        listeners: &Listeners,
        turns: Vec<BalancedListener>,
    ) -> io::Result<()> {
        let answering = self.clone();
        let runtime = build_runtime()?;
        let listeners = {
            let _context = runtime.enter();
            listeners.for_callers(turns)?
        };
        let answer = move || runtime.block_on(answering.answer(listeners));
        thread::Builder::new().name(format!("callers-{core}")).spawn(answer).map(drop)
    }

    /// Within a runtime, until shutdown.
    async fn answer(self, listeners: Vec<(Listener, Surface)>) {
        let _ended = NotifyOnDrop(self.ended);
        let mut serving = JoinSet::new();
        for (listener, surface) in listeners {
            serving.spawn(serve(listener, surface, self.app.clone(), self.shutdown.clone(), self.drain));
        }
        if serving.is_empty() {
            // Off. It can't be dropped before the node stops.
            let _ = self.shutdown.clone().wait_for(|is_stopping| *is_stopping).await;
        }
        // The first to end by itself ends all: none of them may, before shutdown.
        while serving.join_next().await.is_some() && *self.shutdown.borrow() {}
    }
}
