//! The `tidegate` binary: settings → rules → engine → listeners → shutdown.
//!
//! Wires the crates together and speaks to people. Nothing is decided here, and nothing on the way of a
//! request lives here.

mod ask;
mod banner;
mod bench;
mod capacity;
mod certificates;
mod command_line;
mod control;
mod decision_log;
mod failure;
mod fleet_secret;
mod followed;
mod health;
mod http_client;
mod listeners;
mod logs;
mod memory;
mod node;
mod open_files;
mod origin_init;
mod otlp;
mod output;
mod region;
mod rules_at_start;
mod rules_check;
mod rules_client;
mod rules_import;
mod rules_source;
mod saved_counts;
mod settings;
mod signals;
mod simulate;
mod supervisor;
mod tokens;
mod top;
mod watched_files;
mod why;

use certificates::CertificatesAtStart;
use command_line::Command;
use decision_log::DecisionLog;
use failure::Failure;
use fleet_secret::{SecretRestorer, Source};
use listeners::Listeners;
use node::{Node, Parts};
use otlp::{Sending, Telemetry};
use region::{Reload, Runtimes, Tiers};
use rules_at_start::RulesAtStart;
use saved_counts::SavedCounts;
use settings::{FleetKey, Settings, Sources};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use supervisor::Supervisor;
use tidegate_node::EngineOptions;
use tidegate_node::clock::Clock;
use tidegate_server::otlp::{LogQueue, Resource};
use tidegate_server::{App, Overrides};
use tokens::TokensAtStart;

fn main() -> ExitCode {
    run(command_line::read()).unwrap_or_else(|failure| {
        output::complain(&failure.to_string());
        failure.exit_code()
    })
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve(sources) => serve(sources),
        Command::PrintConfig(sources) => {
            output::print(&settings::print(&Settings::load(sources)?));
            Ok(ExitCode::SUCCESS)
        }
        Command::Check { node: whom, question, form } => Ok(ask::check(&whom.endpoint()?, &question, form)?),
        Command::Reset { whom, question } => Ok(ask::reset(&whom.endpoint()?, &question)?),
        Command::Health(whom) => health::run(whom),
        Command::OriginInit { url } => {
            origin_init::run(&url)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::RulesCheck { path, sources } => rules_check::run(path, sources),
        Command::RulesImport { paths, windows } => rules_import::run(&paths, windows),
        Command::Token { command, sources } => {
            Ok(tokens::run(Settings::auth_tokens(sources)?.as_deref(), command)?)
        }
        Command::Control(sources) => control::run(sources),
        Command::Rules { whom, action } => Ok(rules_client::run(whom, action)?),
        Command::Top { whom, options } => Ok(top::run(&whom, options)?),
        Command::Why { whom, options } => Ok(why::run(&whom, *options)?),
        Command::Bench(plan) => Ok(bench::run(&*plan?)?),
        Command::Capacity(inputs) => Ok(capacity::run(&*inputs?)?),
        Command::Simulate(inputs) => Ok(simulate::run(&inputs?)?),
    }
}

fn serve(sources: Sources) -> Result<ExitCode, Failure> {
    let mut settings = Settings::load(sources.clone())?;
    logs::start(settings.log_format, settings.log_level.clone());
    let (supervisor, endings) = Supervisor::new();
    supervisor.stop_on_panic();

    let tokens = TokensAtStart::read(settings.auth_tokens.as_deref())?;
    let certificates = CertificatesAtStart::read(settings.tls_files())?;
    warn_of_plain_tokens(&settings);
    let runtime = node::runtime()?;
    // A database that is slow, or comes back with tens of thousands of counts, takes nobody else's turns.
    let apart = settings.world.url.as_ref().map(|_| node::apart("world")).transpose()?;
    let runtimes = Runtimes { main: runtime.handle(), apart: apart.as_ref() };
    let connected = region::connect(&settings, runtimes);
    let resolved = runtime.block_on(fleet_secret::resolve(&settings, connected.secret_stores()));
    if resolved.source != Source::File {
        settings.fleet_key = FleetKey::Resolved(resolved.secret);
    }
    let rules = RulesAtStart::read(&settings, tokens.tenancy())?;
    let (rules_summary, following) = (rules.to_string(), rules.watch.view());
    let rules_path = rules.watch.path();

    let clock = Arc::new(Clock::system());
    let options = EngineOptions { secret: resolved.secret, keys_max: settings.keys_max() };
    let world_store = connected.world.clone();
    let Tiers { engine, sharing, world } = region::engine(&settings, options, rules.set, &clock, connected);
    let secret_restorer = sharing.clone().map(|region| {
        if resolved.source == Source::Provisional {
            region.hold();
        }
        SecretRestorer { resolved, directory: settings.data_directory.clone(), world: world_store, region }
    });
    let app = Arc::new(App {
        sharing,
        world,
        following,
        requires_rules: settings.rules_required,
        rules_path,
        tokens: tokens.tokens.clone(),
        forward_auth: settings.forward_auth.clone(),
        overrides: Overrides::stored_in(settings.data_directory.clone()),
        region: settings.region.clone(),
        node: settings.node.clone(),
        secret_source: resolved.source.name(),
        ..App::new(engine, clock)
    });

    tokens.divide(&app.engine);
    let kept = SavedCounts::restore(&settings, &app);
    let queue = settings.otlp_endpoint.as_ref().map(|_| Arc::new(LogQueue::default()));
    let decision_log = DecisionLog::start(&settings, &app, queue.as_ref(), &supervisor);
    let sending = queue.and_then(|logs| Sending::start(telemetry(&settings, &app, logs)?, &supervisor));
    let shares = open_files::shares(settings.connections_max, settings.caller_sockets(), node::threads());
    let listeners = Listeners::bind(&runtime, &settings, certificates.tls(), shares)?;
    if let Some(url) = listeners.http_url() {
        // Set once, here.
        let _ = app.http_url.set(url);
    }
    let banner = banner::text(&settings, &listeners, &rules_summary, &tokens.summary);
    let drain = settings.drain;
    let reload = Reload { sources, settings };
    let parts = Parts {
        app,
        listeners,
        rules: rules.watch,
        tokens,
        certificates,
        saved_counts: kept,
        drain,
        reload,
        apart,
        secret_restorer,
        supervisor,
        endings,
    };
    let node = Node::start(&runtime, parts)?;
    output::announce(&banner);
    let code = runtime.block_on(node.run_until_stopped());
    decision_log.stop();
    if let Some(sending) = sending {
        sending.stop();
    }
    // Rules may be being read just now, or a disk may hang: that isn't worth waiting for.
    runtime.shutdown_background();
    Ok(code)
}

/// What goes to a collector; `None` where there is none.
fn telemetry(settings: &Settings, app: &Arc<App>, logs: Arc<LogQueue>) -> Option<Telemetry> {
    Some(Telemetry {
        collector: settings.otlp_endpoint.clone()?,
        interval: settings.otlp_interval,
        resource: Resource { region: settings.region.clone(), node: settings.node.clone() },
        node: Some((app.clone(), app.clock.now().now)),
        logs,
    })
}

/// Tokens that go over a network as they are can be read on the way.
pub(crate) fn warn_of_plain_tokens(settings: &Settings) {
    let is_exposed = |(_, address): &(&str, SocketAddr)| !address.ip().to_canonical().is_loopback();
    if settings.tls_certificate.is_none()
        && let Some((key, address)) = settings.tcp_listeners().iter().find(|listener| is_exposed(listener))
    {
        tracing::warn!(
            key,
            %address,
            fix = "set tls.certificate and tls.key, or let a proxy end TLS",
            "others than this machine reach it without TLS: tokens can be read on the way"
        );
    }
}
