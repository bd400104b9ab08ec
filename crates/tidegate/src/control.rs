//! `tidegate control`: the control plane of the rules, as a process.
//!
//! One process is enough; several over one database are equal. Starts without its database and reaches it when it
//! answers.

use crate::certificates::CertificatesAtStart;
use crate::failure::Failure;
use crate::followed;
use crate::listeners;
use crate::node;
use crate::open_files;
use crate::otlp::{Sending, Telemetry};
use crate::settings::{CONTROL_STORE, Role, Settings, Sources};
use crate::signals::{Signalled, Signals};
use crate::supervisor::{Endings, Supervisor};
use crate::tokens::TokensAtStart;
use crate::{logs, output, warn_of_plain_tokens};
use std::io;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tidegate_control::Publisher;
use tidegate_control::plane::ControlPlane;
use tidegate_control::stream::{
    self, Endpoints, Feed, FollowOptions, FollowView, Question, QuestionHandler, Relay, StoredRules,
};
use tidegate_node::clock::Clock;
use tidegate_server::otlp::Resource;
use tidegate_server::{ControlApp, Listener, ListeningSocket, ServerTls, serve_control};
use tidegate_world::{SqlOptions, SqlWorld, WorldUrl};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A push waits for its transaction, which may be long.
const STORE_DEADLINE: Duration = Duration::from_secs(10);
/// However long somebody would wait for what nodes say; and what it takes to hand that on.
const WITHIN_MS_MAX: u64 = 10_000;
const HAND_ON: Duration = Duration::from_millis(300);
/// The one that answers, the log's and the feed's.
const THREADS: usize = 3;
/// Documents are longer than counts.
const PAGE_ROWS: usize = 2000;

pub(crate) fn run(sources: Sources) -> Result<ExitCode, Failure> {
    let settings = Settings::load_as(Role::Control, sources)?;
    logs::start(settings.log_format, settings.log_level.clone());
    let tokens = TokensAtStart::read(settings.auth_tokens.as_deref())?;
    let certificates = CertificatesAtStart::read(settings.tls_files())?;
    warn_of_plain_tokens(&settings);

    let runtime = node::runtime()?;
    if let Some(upstream) = settings.control_upstream.clone() {
        return broker(&settings, &upstream, runtime, tokens, certificates);
    }
    let (supervisor, endings) = Supervisor::new();
    supervisor.stop_on_panic();
    let context = runtime.enter();
    let kept = StoredRules::open(&settings.data_directory.join("control"))?;
    let feed = Feed::new(&settings.node, env!("CARGO_PKG_VERSION"));
    let url = store_url(&settings)?;
    let options = SqlOptions {
        deadline: STORE_DEADLINE,
        page_rows: PAGE_ROWS,
        waits_for_disk: true,
        ..SqlOptions::default()
    };
    let store = Arc::new(SqlWorld::new(url.clone(), options, runtime.handle()));
    let (plane, worker) = ControlPlane::new(store);
    let publisher = Publisher::new(plane.clone(), kept, feed.clone(), Clock::system().now().now);
    let app = ControlApp::plane(plane, feed, tokens.tokens.clone());
    // It counts nothing that a collector wants, and logs no decisions: spans are all.
    let (app, sending) = match telemetry(&settings) {
        Some(telemetry) => (app.traced_by(Arc::new(Clock::system())), Sending::start(telemetry, &supervisor)),
        None => (app, None),
    };
    let app = Arc::new(app);

    let shares = open_files::shares(settings.connections_max, 1, THREADS);
    let socket = listeners::bind("control.listen", settings.control_listen)?;
    let banner = banner(&socket, &url, certificates.tls().is_some(), &tokens.summary);
    let listener = listener(socket, certificates.tls(), shares.callers).map_err(no_start)?;
    let signals = Signals::register().map_err(no_start)?;
    // A push of a hundred thousand changes takes a while to check: on threads of their own, so that everybody's
    // heartbeats come in time.
    on_thread(&supervisor, "rules-log", worker.run())?;
    on_thread(&supervisor, "rules-feed", publisher.run())?;
    tokens.spawn_watch_telling(&supervisor, |_| ());
    certificates.spawn_watch(&supervisor);
    drop(context);
    output::announce(&banner);
    let code = runtime.block_on(serve_until_stopped(listener, app, (signals, endings), settings.drain));
    if let Some(sending) = sending {
        sending.stop();
    }
    runtime.shutdown_background();
    Ok(code)
}

/// What goes to a collector; `None` where there is none.
fn telemetry(settings: &Settings) -> Option<Telemetry> {
    Some(Telemetry {
        collector: settings.otlp_endpoint.clone()?,
        interval: settings.otlp_interval,
        resource: Resource { region: settings.region.clone(), node: settings.node.clone() },
        node: None,
        logs: Arc::default(),
    })
}

/// Runs something for as long as the process lives.
fn on_thread(
    supervisor: &Supervisor,
    name: &'static str,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Failure> {
    let runtime = node::runtime()?;
    let watched = supervisor.watch(name);
    let run = move || {
        let _watched = watched;
        runtime.block_on(work);
    };
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).map_err(no_start)
}

/// Follows like a node, serves like a control plane.
fn broker(
    settings: &Settings,
    upstream: &Endpoints,
    runtime: Runtime,
    tokens: TokensAtStart,
    certificates: CertificatesAtStart,
) -> Result<ExitCode, Failure> {
    let (supervisor, endings) = Supervisor::new();
    supervisor.stop_on_panic();
    let context = runtime.enter();
    let kept = StoredRules::open(&settings.data_directory.join("broker"))?;
    let feed = Feed::new(&settings.node, env!("CARGO_PKG_VERSION"));
    let relay = Relay::new(kept, feed.clone());
    let view = FollowView::new(upstream.clone(), feed.head());
    let options = FollowOptions {
        feed: Some(feed.clone()),
        answering: Some(asks_followers(feed.clone())),
        ..followed::options(settings, upstream, stream::FollowerRole::Broker)
    };
    let app = Arc::new(ControlApp::broker(view.clone(), feed, tokens.tokens.clone()));
    let shares = open_files::shares(settings.connections_max, 1, THREADS);
    let socket = listeners::bind("control.listen", settings.control_listen)?;
    let banner = broker_banner(&socket, upstream, certificates.tls().is_some(), &tokens.summary);
    let listener = listener(socket, certificates.tls(), shares.callers).map_err(no_start)?;
    let signals = Signals::register().map_err(no_start)?;
    followed::spawn(&supervisor, options, relay, view.clone());
    tokio::spawn(followed::show_progress(view));
    tokens.spawn_watch_telling(&supervisor, |_| ());
    certificates.spawn_watch(&supervisor);
    drop(context);
    output::announce(&banner);
    let code = runtime.block_on(serve_until_stopped(listener, app, (signals, endings), settings.drain));
    runtime.shutdown_background();
    Ok(code)
}

/// A broker's followers answer what it is asked, a little before its own answer is due.
fn asks_followers(feed: Arc<Feed>) -> QuestionHandler {
    Arc::new(move |question: Question| {
        let feed = feed.clone();
        Box::pin(async move {
            let within = Duration::from_millis(question.within_ms.min(WITHIN_MS_MAX)).saturating_sub(HAND_ON);
            let asked = feed.ask(&question.query, question.asker, within).await;
            // Who has said nothing is known to be silent where it was asked first.
            asked.map_or_else(|_| Vec::new(), |answers| answers.answers)
        })
    })
}

fn broker_banner(socket: &TcpListener, upstream: &Endpoints, has_tls: bool, auth: &str) -> String {
    let address = socket.local_addr().map_or_else(|error| error.to_string(), |address| address.to_string());
    let scheme = if has_tls { "https" } else { "http" };
    format!(
        "tidegate {}, broker\n  control {scheme}://{address}\n  follows {upstream}\n  auth    {auth}\ntry:\n  \
         tidegate serve --rules-control {scheme}://{address}\n",
        env!("CARGO_PKG_VERSION"),
    )
}

fn store_url(settings: &Settings) -> Result<WorldUrl, Failure> {
    match &settings.control_store {
        Some(url) => Ok(url.clone()),
        None => WorldUrl::parse(CONTROL_STORE)
            .map_err(|error| Failure::Start { what: "the default store", source: io::Error::other(error) }),
    }
}

fn no_start(source: io::Error) -> Failure {
    Failure::Start { what: "the control plane", source }
}

/// Wants a runtime with sockets.
fn listener(
    socket: TcpListener,
    tls: Option<Arc<ServerTls>>,
    connections_max: usize,
) -> io::Result<Listener> {
    let socket = tokio::net::TcpListener::from_std(socket)?;
    let socket = match tls {
        Some(tls) => ListeningSocket::Tls(socket, tls),
        None => ListeningSocket::Tcp(socket),
    };
    Ok(Listener::alone(socket, connections_max))
}

/// Tests and scripts read the address here, so it is the real one, also for port 0.
fn banner(socket: &TcpListener, store: &WorldUrl, has_tls: bool, auth: &str) -> String {
    let address = socket.local_addr().map_or_else(|error| error.to_string(), |address| address.to_string());
    let scheme = if has_tls { "https" } else { "http" };
    format!(
        "tidegate {}, control plane\n  control {scheme}://{address}\n  store   {store}\n  auth    {auth}\ntry:\n  \
         tidegate rules push rules.yaml --control {scheme}://{address}\n",
        env!("CARGO_PKG_VERSION"),
    )
}

async fn serve_until_stopped(
    listener: Listener,
    app: Arc<ControlApp>,
    (mut signals, mut endings): (Signals, Endings),
    drain: Duration,
) -> ExitCode {
    let (shutdown, seen) = watch::channel(false);
    let mut serving = tokio::spawn(serve_control(listener, app.clone(), seen, drain));
    let stop = tokio::select! {
        stop = stop_signal(&mut signals) => stop,
        () = endings.first() => return ExitCode::FAILURE,
        _ = &mut serving => {
            tracing::error!("the listener ended by itself; stopping, so that a supervisor starts afresh");
            return ExitCode::FAILURE;
        }
    };
    tracing::info!(?stop, ?drain, "stopping; requests in flight are answered");
    app.is_stopping.store(true, Ordering::Relaxed);
    shutdown.send_replace(true);
    tokio::select! {
        _ = &mut serving => ExitCode::SUCCESS,
        stop = stop_signal(&mut signals) => {
            tracing::warn!(?stop, "stopping at once: a second signal");
            ExitCode::from(stop.exit_code())
        }
    }
}

async fn stop_signal(signals: &mut Signals) -> crate::signals::Stop {
    loop {
        // There is nothing that a control plane reads again.
        if let Signalled::Stop(stop) = signals.next().await {
            return stop;
        }
    }
}
