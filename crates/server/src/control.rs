//! The control plane's listener: HTTP for people and programs, and gRPC for nodes and brokers, on one socket.
//!
//! Converts and bounds; what may be changed, and how, is decided in `crates/control`. Tokens are as on nodes: a tenant
//! sees and changes its own rules, tenant `default` everybody's.

mod answer;
mod openapi;
mod own;
mod problem;
mod query;
mod read;
mod why;
mod write;

pub(crate) use query::decoded;

use crate::access::{LastCaller, Tokens};
use crate::budget::Registration;
use crate::counters::COUNTERS;
use crate::for_caller;
use crate::listener::{accept, log_failure, stopped, sweeps};
use crate::preface::{self, Protocol};
use crate::progress::{Patience, Progress};
use crate::socket::{Listener, Socket};
use crate::transport::Transport;
use crate::{Surface, connection, grpc};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tidegate_control::plane::ControlPlane;
use tidegate_control::stream::{Feed, FollowView};
use tidegate_node::clock::Clock;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What every request to a control plane is answered from.
#[derive(Debug)]
pub struct ControlApp {
    /// `None` in a broker.
    pub plane: Option<Arc<ControlPlane>>,
    /// How a broker's own server is followed.
    pub following: Option<Arc<FollowView>>,
    /// What nodes and brokers are sent.
    pub feed: Arc<Feed>,
    pub tokens: Arc<Tokens>,
    /// Set when the process begins to stop.
    pub is_stopping: AtomicBool,
    /// Where changes of the rules leave spans: what dates them.
    clock: Option<Arc<Clock>>,
}

impl ControlApp {
    pub fn plane(plane: Arc<ControlPlane>, feed: Arc<Feed>, tokens: Arc<Tokens>) -> Self {
        ControlApp { plane: Some(plane), ..ControlApp::serving(feed, tokens) }
    }

    pub fn broker(following: Arc<FollowView>, feed: Arc<Feed>, tokens: Arc<Tokens>) -> Self {
        ControlApp { following: Some(following), ..ControlApp::serving(feed, tokens) }
    }

    fn serving(feed: Arc<Feed>, tokens: Arc<Tokens>) -> Self {
        let is_stopping = AtomicBool::new(false);
        ControlApp { plane: None, following: None, feed, tokens, is_stopping, clock: None }
    }

    /// Changes of the rules leave spans, dated by this clock.
    pub fn traced_by(self, clock: Arc<Clock>) -> Self {
        ControlApp { clock: Some(clock), ..self }
    }
}

/// Accepts until `shutdown` becomes true or its sender is gone, then answers what is in flight, for up to `drain`.
pub async fn serve_control(
    mut listener: Listener,
    app: Arc<ControlApp>,
    mut shutdown: watch::Receiver<bool>,
    drain: Duration,
) {
    let graceful = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    let closing = shutdown.clone();
    let budget = listener.budget();
    let mut sweeps = sweeps();
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut shutdown) => break,
            Some(_) = tasks.join_next() => {}
            accepted = accept(&mut listener, pause) => match accepted {
                Err(error) => pause = log_failure(&error, pause),
                Ok((socket, seated)) => {
                    pause = Duration::ZERO;
                    let Some(place) = budget.admit(&app.tokens) else {
                        COUNTERS.connections_refused.add_one();
                        socket.refuse(Surface::Api);
                        continue;
                    };
                    let (app, watcher, closing) = (app.clone(), graceful.watcher(), closing.clone());
                    let registration = place.registration();
                    let task = tasks.spawn(for_caller::marked(async move {
                        serve_connection(socket, app, watcher, closing, place.registration()).await;
                        drop((place, seated));
                    }));
                    registration.served_by(task);
                }
            },
            _ = sweeps.tick(), if app.tokens.are_required() => budget.sweep(&app.tokens),
        }
    }
    drop(listener);
    let closed = async {
        graceful.shutdown().await;
        while tasks.join_next().await.is_some() {}
    };
    if tokio::time::timeout(drain, closed).await.is_err() {
        tracing::warn!("cut connections that were still busy after the drain");
    }
}

async fn serve_connection(
    socket: Socket,
    app: Arc<ControlApp>,
    watcher: hyper_util::server::graceful::Watcher,
    mut closing: watch::Receiver<bool>,
    registration: Registration,
) {
    if socket.set_nodelay().is_err() {
        return;
    }
    let told = async { preface::detect(Box::pin(socket.proven(Surface::ApiAndGrpc)).await?).await };
    let told = tokio::select! {
        told = told => told,
        () = stopped(&mut closing) => None,
    };
    match told {
        Some((socket, Protocol::Http1)) => Box::pin(serve_http(socket, app, watcher, registration)).await,
        Some((socket, Protocol::Http2)) => {
            let (feed, tokens) = (app.feed.clone(), app.tokens.clone());
            Box::pin(grpc::serve_rules(socket, feed, tokens, closing, registration)).await;
            drop(watcher);
        }
        None => {}
    }
}

async fn serve_http(
    socket: Socket,
    app: Arc<ControlApp>,
    watcher: hyper_util::server::graceful::Watcher,
    registration: Registration,
) {
    let progress = Arc::new(Progress::default());
    let transport = Transport::new(socket, Arc::clone(&progress));
    let (app, last_caller) = (&*app, &LastCaller::of(registration));
    let answered = &*progress;
    let service = service_fn(move |request: Request<Incoming>| async move {
        Ok::<_, Infallible>(answer::answer(app, answered, last_caller, request).await)
    });
    let served = watcher.watch(connection::builder().serve_connection(transport, service));
    tokio::select! {
        biased;
        ended = served => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended with an error");
            }
        }
        () = progress.until_too_slow(Patience::CONTROL) => COUNTERS.connections_too_slow.add_one(),
    }
}
