//! The table of settings: everything that can be set, in one place.
//!
//! Only what does something in this version: a setting that is accepted and ignored misleads.

use super::parse::{self, Refusal};
use super::{FleetKey, KeysMax, Settings, world};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_core::{FleetSecret, Nanos};

pub(crate) struct Setting {
    pub(crate) key: &'static str,
    /// What stands for the value in `--help`.
    pub(crate) value_name: &'static str,
    /// In words, where it is computed.
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) secrecy: Secrecy,
    /// Parses, validates and puts the value in its place.
    pub(super) read: fn(&str, &mut Settings) -> Result<(), Refusal>,
    /// The value in force. Never asked of a secret that was set.
    pub(super) show: fn(&Settings) -> String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrecy {
    Open,
    /// May hold a password: shown as `(set)`, in errors as `(hidden)`.
    Secret,
    /// Names the file of a secret: shown only if there is such a file, as otherwise it may be the secret.
    PathOfSecret,
}

pub(crate) static TABLE: [Setting; 43] = [
    Setting {
        key: "region",
        value_name: "NAME",
        default: "local",
        meaning: "this region's name; required with world.url",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::region(text).map(|region| settings.region = region),
        show: |settings| settings.region.clone(),
    },
    Setting {
        key: "node",
        value_name: "NAME",
        default: "random per start",
        meaning: "this process's name in logs and state",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::node(text).map(|node| settings.node = node),
        show: |settings| settings.node.clone(),
    },
    Setting {
        key: "cluster.secret_file",
        value_name: "PATH",
        default: "a shared random key",
        meaning: "file with the secret key of all hashes",
        // What the file holds is never kept as text.
        secrecy: Secrecy::PathOfSecret,
        read: |text, settings| {
            let secret = FleetSecret::from_bytes(&parse::secret_file(text)?);
            settings.fleet_key = FleetKey::FromFile { path: PathBuf::from(text), secret };
            Ok(())
        },
        show: |settings| match &settings.fleet_key {
            FleetKey::Generated | FleetKey::Resolved(_) => "a shared random key".into(),
            FleetKey::FromFile { path, .. } => path.display().to_string(),
        },
    },
    Setting {
        // Before the listeners, whose own settings win.
        key: "port_base",
        value_name: "PORT",
        default: "none",
        meaning: "port of HTTP; gRPC, RESP and admin use the next three",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            let base = parse::port_base(text)?;
            settings.port_base = base;
            settings.move_listeners();
            Ok(())
        },
        show: |settings| settings.port_base.map_or("none".into(), |base| base.to_string()),
    },
    Setting {
        key: "listen.http",
        value_name: "ADDRESS",
        default: "127.0.0.1:8080",
        meaning: "HTTP API, for callers and proxies",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::listen_or_off(text).map(|address| settings.listen_http = address),
        show: |settings| shown_address(settings.listen_http),
    },
    Setting {
        key: "listen.grpc",
        value_name: "ADDRESS",
        default: "127.0.0.1:8081",
        meaning: "gRPC: Envoy's rate limit service",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::listen_or_off(text).map(|address| settings.listen_grpc = address),
        show: |settings| shown_address(settings.listen_grpc),
    },
    Setting {
        key: "listen.resp",
        value_name: "ADDRESS",
        default: "127.0.0.1:6380",
        meaning: "RESP, the Redis protocol",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::listen_or_off(text).map(|address| settings.listen_resp = address),
        show: |settings| shown_address(settings.listen_resp),
    },
    Setting {
        key: "listen.unix",
        value_name: "PATH",
        default: "none",
        meaning: "Unix socket for HTTP and gRPC; RESP is at PATH.resp",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::path_or_none(text).map(|path| settings.listen_unix = path),
        show: |settings| shown(settings.listen_unix.as_ref()),
    },
    Setting {
        key: "listen.unix_mode",
        value_name: "MODE",
        default: "what the umask leaves",
        meaning: "file mode of the Unix sockets, such as 0660: who may connect",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::mode_or_none(text).map(|mode| settings.listen_unix_mode = mode),
        show: |settings| settings.listen_unix_mode.map_or("none".into(), |mode| format!("{mode:04o}")),
    },
    Setting {
        key: "listen.admin",
        value_name: "ADDRESS",
        default: "127.0.0.1:9090",
        meaning: "dashboard, metrics, health, admin API",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::listen_or_off(text).map(|address| settings.listen_admin = address),
        show: |settings| shown_address(settings.listen_admin),
    },
    Setting {
        key: "listen.max_connections",
        value_name: "COUNT",
        default: "16000",
        meaning: "most connections at one time, for each listener but listen.admin, which takes 256",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            let connections = parse::whole_number(text, parse::CONNECTIONS)?;
            settings.connections_max = usize::try_from(connections).unwrap_or(usize::MAX);
            Ok(())
        },
        show: |settings| settings.connections_max.to_string(),
    },
    Setting {
        key: "auth.tokens",
        value_name: "PATH",
        default: "none",
        meaning: "token file; without it, only this machine is served",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::path_or_none(text).map(|path| settings.auth_tokens = path),
        show: |settings| shown(settings.auth_tokens.as_ref()),
    },
    Setting {
        key: "tls.certificate",
        value_name: "PATH",
        default: "none",
        meaning: "TLS on all TCP listeners: certificate chain, PEM",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::path_or_none(text).map(|path| settings.tls_certificate = path),
        show: |settings| shown(settings.tls_certificate.as_ref()),
    },
    Setting {
        key: "tls.key",
        value_name: "PATH",
        default: "none",
        meaning: "private key of tls.certificate, PEM",
        secrecy: Secrecy::PathOfSecret,
        read: |text, settings| parse::secret_path_or_none(text).map(|path| settings.tls_key = path),
        show: |settings| shown(settings.tls_key.as_ref()),
    },
    Setting {
        key: "tls.client_ca",
        value_name: "PATH",
        default: "none",
        meaning: "authority of clients' certificates (mTLS), PEM",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::path_or_none(text).map(|path| settings.tls_client_ca = path),
        show: |settings| shown(settings.tls_client_ca.as_ref()),
    },
    Setting {
        key: "forward_auth.attributes",
        value_name: "LIST",
        default: "none",
        meaning: "/auth: takes attributes from headers: ip=X-Real-IP, …",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            parse::mapped_headers(text).map(|headers| settings.forward_auth.mapped = headers)
        },
        show: |settings| match &settings.forward_auth.mapped[..] {
            [] => "none".into(),
            headers => headers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        },
    },
    Setting {
        key: "forward_auth.accept",
        value_name: "LIST",
        default: "none",
        meaning: "X-Tidegate-NAME headers that /auth reads: user, ip, …",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            parse::accepted_headers(text).map(|names| settings.forward_auth.accepted = names)
        },
        show: |settings| match &settings.forward_auth.accepted[..] {
            [] => "none".into(),
            names => names.join(", "),
        },
    },
    Setting {
        key: "rules.file",
        value_name: "PATH",
        default: "rules.yaml if it exists",
        meaning: "file or directory of rules",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::path(text).map(|path| settings.rules_file = Some(path)),
        show: |settings| shown(settings.rules_file.as_ref()),
    },
    Setting {
        key: "rules.control",
        value_name: "URLS",
        default: "none",
        meaning: "rules from a control plane or broker: http://h:7070,…",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::endpoints_or_none(text).map(|servers| settings.rules_control = servers),
        show: |settings| settings.rules_control.as_ref().map_or("none".into(), ToString::to_string),
    },
    Setting {
        key: "rules.require",
        value_name: "BOOLEAN",
        default: "true",
        meaning: "with rules.control: a node isn't ready until rules have arrived",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::boolean(text).map(|is_set| settings.rules_required = is_set),
        show: |settings| settings.rules_required.to_string(),
    },
    Setting {
        key: "rules.envoy_windows",
        value_name: "KIND",
        default: "fixed",
        meaning: "windows of limits in files of envoyproxy/ratelimit: fixed or sliding",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::windows(text).map(|windows| settings.envoy_windows = windows),
        show: |settings| parse::windows_word(settings.envoy_windows).into(),
    },
    Setting {
        key: "origin.url",
        value_name: "URL",
        default: "memory:",
        meaning: "the region's store: redis://h:p, redis+cluster://…",
        secrecy: Secrecy::Secret,
        read: |text, settings| parse::origin_url(text).map(|origin| settings.origin = origin),
        show: |settings| settings.origin.to_string(),
    },
    Setting {
        key: "origin.timeout_ms",
        value_name: "MS",
        default: "5",
        meaning: "how long a request waits for the region's store at most",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            let wait_ms = parse::whole_number(text, parse::ORIGIN_TIMEOUT_MS)?;
            settings.origin_timeout = Duration::from_millis(wait_ms);
            Ok(())
        },
        show: |settings| settings.origin_timeout.as_millis().to_string(),
    },
    Setting {
        key: "origin.fresh_ms",
        value_name: "MS",
        default: "5000",
        meaning: "ask about a key if the store sent nothing for so long",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            let fresh_ms = parse::whole_number(text, parse::ORIGIN_FRESH_MS)?;
            settings.origin_fresh = Nanos::from_millis(fresh_ms);
            Ok(())
        },
        show: |settings| settings.origin_fresh.as_millis_ceil().to_string(),
    },
    Setting {
        key: "world.url",
        value_name: "URL",
        default: "none:",
        meaning: "regions' database: sqlite:, mysql://, postgres://",
        secrecy: Secrecy::Secret,
        read: |text, settings| world::url(text).map(|url| settings.world.url = url),
        show: |settings| settings.world.shown_url(),
    },
    Setting {
        key: "world.policy",
        value_name: "POLICY",
        default: "headroom",
        meaning: "when a region publishes counts: headroom or floor",
        secrecy: Secrecy::Open,
        read: |text, settings| world::policy(text).map(|policy| settings.world.policy = policy),
        show: |settings| settings.world.policy.to_string(),
    },
    Setting {
        key: "world.floor",
        value_name: "PART",
        default: "0.5",
        meaning: "with the policy floor: the part of a limit that a region admits before it publishes its count",
        secrecy: Secrecy::Open,
        read: |text, settings| world::floor(text).map(|floor| settings.world.floor = floor),
        show: |settings| settings.world.floor.to_string(),
    },
    Setting {
        key: "world.interval_ms",
        value_name: "MS",
        default: "5000",
        meaning: "how often a region looks for counts that it must publish, or that the database lost; ±20 %",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            let interval_ms = parse::whole_number(text, world::INTERVAL_MS)?;
            settings.world.interval = Nanos::from_millis(interval_ms);
            Ok(())
        },
        show: |settings| settings.world.interval.as_millis_ceil().to_string(),
    },
    Setting {
        key: "memory.max_keys",
        value_name: "COUNT",
        default: "what fits in a quarter of memory",
        meaning: "most keys held in memory",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            let keys = parse::whole_number(text, KeysMax::RANGE)?;
            settings.keys_max = KeysMax::Set(usize::try_from(keys).unwrap_or(usize::MAX));
            Ok(())
        },
        show: |settings| settings.keys_max().to_string(),
    },
    Setting {
        key: "data.dir",
        value_name: "PATH",
        default: "data",
        meaning: "directory for the files that this process keeps",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::path(text).map(|path| settings.data_directory = path),
        show: |settings| settings.data_directory.display().to_string(),
    },
    Setting {
        key: "data.save_every_ms",
        value_name: "MS",
        default: "30000",
        meaning: "how often a node with memory: saves counts; a crash loses what came since",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            let save_every_ms = parse::whole_number(text, parse::SAVE_EVERY_MS)?;
            settings.save_every = Duration::from_millis(save_every_ms);
            Ok(())
        },
        show: |settings| settings.save_every.as_millis().to_string(),
    },
    Setting {
        key: "log.format",
        value_name: "FORMAT",
        default: "text on a terminal, else json",
        meaning: "logs as text or json",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::log_format(text).map(|format| settings.log_format = format),
        show: |settings| settings.log_format.to_string(),
    },
    Setting {
        key: "log.level",
        value_name: "FILTER",
        default: "info",
        meaning: "what is logged, such as warn,tidegate_node=debug",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::log_level(text).map(|level| settings.log_level = level),
        show: |settings| settings.log_level.to_string(),
    },
    Setting {
        key: "log.decisions",
        value_name: "PATH",
        default: "data/decisions",
        meaning: "log for `tidegate why`: directory, or none",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::decisions_log(text).map(|log| settings.log_decisions = log),
        show: |settings| shown(settings.decisions_directory().as_ref()),
    },
    Setting {
        key: "log.identifiers",
        value_name: "FORM",
        default: "hashed",
        meaning: "callers in the decision log: hashed, or plain for readable names",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            parse::identifiers(text).map(|are_plain| settings.identifiers_are_plain = are_plain)
        },
        show: |settings| if settings.identifiers_are_plain { "plain".into() } else { "hashed".into() },
    },
    Setting {
        key: "log.decisions_max_mb",
        value_name: "MB",
        default: "1024",
        meaning: "disk space of log.decisions; oldest files go first",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            settings.log_decisions_max_mb = parse::whole_number(text, parse::DECISIONS_MAX_MB)?;
            Ok(())
        },
        show: |settings| settings.log_decisions_max_mb.to_string(),
    },
    Setting {
        key: "log.decisions_json",
        value_name: "PATH",
        default: "none",
        meaning: "where decisions go as lines of JSON: stdout, or a file",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::decision_lines(text).map(|lines| settings.log_decisions_json = lines),
        show: |settings| parse::shown_lines(settings.log_decisions_json.as_ref()),
    },
    Setting {
        key: "otlp.endpoint",
        value_name: "URL",
        default: "none",
        meaning: "an OpenTelemetry collector: http://h:4318",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::collector(text).map(|endpoint| settings.otlp_endpoint = endpoint),
        show: |settings| settings.otlp_endpoint.as_ref().map_or("none".into(), ToString::to_string),
    },
    Setting {
        key: "otlp.interval_ms",
        value_name: "MS",
        default: "10000",
        meaning: "how often the node sends to the collector",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            let interval_ms = parse::whole_number(text, parse::OTLP_INTERVAL_MS)?;
            settings.otlp_interval = Duration::from_millis(interval_ms);
            Ok(())
        },
        show: |settings| settings.otlp_interval.as_millis().to_string(),
    },
    Setting {
        key: "shutdown.drain_ms",
        value_name: "MS",
        default: "5000",
        meaning: "how long a shutdown waits for requests in flight",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            let drain_ms = parse::whole_number(text, parse::DRAIN_MS)?;
            settings.drain = Duration::from_millis(drain_ms);
            Ok(())
        },
        show: |settings| settings.drain.as_millis().to_string(),
    },
    Setting {
        key: "control.listen",
        value_name: "ADDRESS",
        default: "127.0.0.1:7070",
        meaning: "listener of `tidegate control`: HTTP for operators, gRPC for nodes",
        secrecy: Secrecy::Open,
        read: |text, settings| parse::listen_address(text).map(|address| settings.control_listen = address),
        show: |settings| settings.control_listen.to_string(),
    },
    Setting {
        key: "control.upstream",
        value_name: "URLS",
        default: "none",
        meaning: "run as a broker, which passes on the rules of these control planes or brokers",
        secrecy: Secrecy::Open,
        read: |text, settings| {
            parse::endpoints_or_none(text).map(|servers| settings.control_upstream = servers)
        },
        show: |settings| settings.control_upstream.as_ref().map_or("none".into(), ToString::to_string),
    },
    Setting {
        key: "control.store",
        value_name: "URL",
        default: "sqlite:tidegate-rules.db",
        meaning: "where `tidegate control` keeps rules: sqlite:, mysql://, …",
        secrecy: Secrecy::Secret,
        read: |text, settings| world::store(text).map(|url| settings.control_store = Some(url)),
        show: |settings| {
            let default = || super::CONTROL_STORE.to_owned();
            settings.control_store.as_ref().map_or_else(default, ToString::to_string)
        },
    },
];

fn shown(path: Option<&PathBuf>) -> String {
    path.map_or("none".into(), |path| path.display().to_string())
}

fn shown_address(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "off".to_owned(), |address| address.to_string())
}
