//! The settings of a node: every key, what was given for it and where, and the values that came of it.
//!
//! A [`Settings`] that exists is valid. [`TABLE`] is the only list of keys: the file, the environment, the
//! flags, `--help` and `--print-config` all follow it. What a secret was set to is never shown.

mod addresses;
mod environment;
mod error;
mod file;
mod key;
mod parse;
mod print;
#[cfg(test)]
mod reference;
mod table;
mod world;

pub(crate) use environment::token;
pub(crate) use error::SettingErrors;
pub(crate) use key::long_flag;
pub(crate) use parse::{DecisionsLog, LogFormat};
pub(crate) use print::print;
pub(crate) use table::{Setting, TABLE};
pub(crate) use world::WorldSettings;

use crate::memory::{self, MemoryLimit};
use crate::otlp::Collector;
use error::{SettingError, ValueSource};
use std::ffi::OsString;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_control::stream::Endpoints;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_node::journal::lines::LinesTo;
use tidegate_origin::RedisUrl;
use tidegate_rules::envoy::Windows;
use tidegate_server::{App, ForwardAuth, TlsFiles};
use tidegate_world::{REGION_NAME_MAX, WorldUrl};
use tracing_subscriber::filter::Targets;

/// Read when `rules.file` isn't set.
pub(crate) const RULES_FILE: &str = "rules.yaml";

/// Where a control plane keeps rules unless it is told otherwise.
pub(crate) const CONTROL_STORE: &str = "sqlite:tidegate-rules.db";

/// What a process is, and so which settings it goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Node,
    Control,
}

pub(crate) struct Settings {
    pub(crate) region: String,
    pub(crate) node: String,
    pub(crate) fleet_key: FleetKey,
    pub(crate) port_base: Option<u16>,
    /// `None` of these four: off.
    pub(crate) listen_http: Option<SocketAddr>,
    pub(crate) listen_grpc: Option<SocketAddr>,
    pub(crate) listen_resp: Option<SocketAddr>,
    pub(crate) listen_unix: Option<PathBuf>,
    /// Of its sockets' files; `None`: what the umask leaves.
    pub(crate) listen_unix_mode: Option<u32>,
    pub(crate) listen_admin: Option<SocketAddr>,
    pub(crate) auth_tokens: Option<PathBuf>,
    pub(crate) tls_certificate: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Of callers, on each listener.
    pub(crate) connections_max: usize,
    pub(crate) forward_auth: ForwardAuth,
    /// `None`: not set, and there is no [`RULES_FILE`].
    pub(crate) rules_file: Option<PathBuf>,
    pub(crate) envoy_windows: Windows,
    pub(crate) origin: OriginUrl,
    /// The longest that a request waits for the origin.
    pub(crate) origin_timeout: Duration,
    pub(crate) origin_fresh: Nanos,
    pub(crate) world: WorldSettings,
    pub(crate) keys_max: KeysMax,
    /// Of what outlives the process.
    pub(crate) data_directory: PathBuf,
    pub(crate) save_every: Duration,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: Targets,
    pub(crate) log_decisions: DecisionsLog,
    pub(crate) identifiers_are_plain: bool,
    pub(crate) log_decisions_max_mb: u64,
    pub(crate) log_decisions_json: Option<LinesTo>,
    pub(crate) otlp_endpoint: Option<Collector>,
    pub(crate) otlp_interval: Duration,
    pub(crate) drain: Duration,
    /// Whom rules come from; `None`: from files.
    pub(crate) rules_control: Option<Endpoints>,
    /// Whether a node is ready only when rules of `rules_control` have come.
    pub(crate) rules_required: bool,
    /// Of this process at a control plane: TIDEGATE_TOKEN.
    pub(crate) token: Option<String>,
    pub(crate) control_listen: SocketAddr,
    /// `None`: it has a store of its own.
    pub(crate) control_upstream: Option<Endpoints>,
    /// `None`: [`CONTROL_STORE`].
    pub(crate) control_store: Option<WorldUrl>,
    role: Role,
    /// What was given, and where, beside each row of the table.
    given: GivenTexts,
}

/// Some of it is secret.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("node", &self.node)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) enum FleetKey {
    /// No file was named: the stores have it, or `data.dir`.
    Generated,
    /// What they had.
    Resolved(FleetSecret),
    FromFile {
        path: PathBuf,
        secret: FleetSecret,
    },
}

/// Where the nodes of a region agree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OriginUrl {
    /// Nowhere: this node is alone.
    Memory,
    Redis(RedisUrl),
}

/// Without a password.
impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OriginUrl::Memory => f.write_str("memory:"),
            OriginUrl::Redis(url) => url.fmt(f),
        }
    }
}

/// The cap of the counter table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeysMax {
    QuarterOf(MemoryLimit),
    Set(usize),
}

/// For each row of the table, the last text that was given for it.
type GivenTexts = [Option<GivenValue>; TABLE.len()];

struct GivenValue {
    text: String,
    source: ValueSource,
}

/// The text may be a secret.
impl fmt::Debug for GivenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "given by {}", self.source)
    }
}

/// Where settings are looked for. May hold secrets: can't be shown.
#[derive(Clone)]
pub(crate) struct Sources {
    /// Of `--config`; otherwise `tidegate.toml`, if it exists.
    pub(crate) file: Option<PathBuf>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Beside each row of the table.
    pub(crate) flags: [Option<String>; TABLE.len()],
}

impl Default for Sources {
    fn default() -> Self {
        Sources { file: None, environment: Vec::new(), flags: std::array::from_fn(|_| None) }
    }
}

fn nothing_given() -> GivenTexts {
    std::array::from_fn(|_| None)
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads file, environment and flags, the later winning, or says everything that is wrong with them.
    pub(crate) fn load(sources: Sources) -> Result<Self, SettingErrors> {
        Self::load_as(Role::Node, sources)
    }

    /// The same for another process than a node.
    pub(crate) fn load_as(role: Role, sources: Sources) -> Result<Self, SettingErrors> {
        let mut errors = Vec::new();
        let token = token(&sources.environment)?;
        let given = Self::gathered(sources, &mut errors);
        let settings = Settings { token, ..Self::validated(role, given, &mut errors) };
        if errors.is_empty() { Ok(settings) } else { Err(SettingErrors(errors)) }
    }

    /// Where the control plane of these settings is asked. No other value is looked at.
    pub(crate) fn control_listen(sources: Sources) -> Result<SocketAddr, SettingErrors> {
        Ok(Self::only("control.listen", sources)?.control_listen)
    }

    /// Where tokens are kept, for whoever works on that file.
    pub(crate) fn auth_tokens(sources: Sources) -> Result<Option<PathBuf>, SettingErrors> {
        Ok(Self::only("auth.tokens", sources)?.auth_tokens)
    }

    /// What a caller's keys are hashed with. No other value is looked at.
    pub(crate) fn secret(sources: Sources) -> Result<FleetSecret, SettingErrors> {
        let given = Self::only("cluster.secret_file", sources.clone())?;
        if let FleetKey::FromFile { secret, .. } = given.fleet_key {
            return Ok(secret);
        }
        let directory = Self::only("data.dir", sources)?.data_directory;
        Ok(crate::fleet_secret::read(&directory).unwrap_or(FleetSecret::BUILT_IN))
    }

    /// Where decisions are logged; `None`: nowhere.
    pub(crate) fn decisions_directory(&self) -> Option<PathBuf> {
        match &self.log_decisions {
            DecisionsLog::InData => Some(self.data_directory.join("decisions")),
            DecisionsLog::At(path) => Some(path.clone()),
            DecisionsLog::Off => None,
        }
    }

    /// How a file of envoyproxy/ratelimit is read. No other value is looked at.
    pub(crate) fn envoy_windows(sources: Sources) -> Result<Windows, SettingErrors> {
        Ok(Self::only("rules.envoy_windows", sources)?.envoy_windows)
    }

    /// Whether there are other regions. No other value is looked at.
    pub(crate) fn has_world(sources: Sources) -> Result<bool, SettingErrors> {
        Ok(Self::only("world.url", sources)?.world.url.is_some())
    }

    /// One setting, with the defaults of all others.
    fn only(key: &str, sources: Sources) -> Result<Self, SettingErrors> {
        let mut errors = Vec::new();
        let given = Self::gathered(sources, &mut errors);
        let mut settings = Settings::defaults();
        let is_asked = |of: &str| of == key || (of == "port_base" && key.starts_with("listen."));
        for (slot, setting) in given.iter().zip(&TABLE).filter(|(_, setting)| is_asked(setting.key)) {
            errors.extend(settings.set(setting, slot.as_ref()));
        }
        if errors.is_empty() { Ok(settings) } else { Err(SettingErrors(errors)) }
    }

    fn gathered(sources: Sources, errors: &mut Vec<SettingError>) -> GivenTexts {
        let mut given = nothing_given();
        file::read(sources.file.as_deref(), &mut given, errors);
        environment::read(&sources.environment, &mut given, errors);
        for ((slot, setting), flag) in given.iter_mut().zip(&TABLE).zip(sources.flags) {
            if let Some(text) = flag {
                *slot = Some(GivenValue { text, source: ValueSource::Flag(key::flag(setting.key)) });
            }
        }
        given
    }

    fn validated(role: Role, given: GivenTexts, errors: &mut Vec<SettingError>) -> Self {
        let mut settings = Settings { role, ..Settings::defaults() };
        for (slot, setting) in given.iter().zip(&TABLE) {
            errors.extend(settings.set(setting, slot.as_ref()));
        }
        settings.given = given;
        errors.extend(settings.nowhere_to_ask());
        errors.extend(settings.shared_address());
        errors.extend(settings.exposed_addresses());
        errors.extend(settings.half_of_tls());
        errors.extend(settings.nameless_region());
        errors.extend(settings.two_sources_of_rules());
        settings
    }

    fn set(&mut self, setting: &Setting, given: Option<&GivenValue>) -> Option<SettingError> {
        let GivenValue { text, source } = given?;
        let refusal = (setting.read)(text, self).err()?;
        Some(SettingError::refused(setting, text, source, refusal))
    }

    fn defaults() -> Self {
        Settings {
            region: "local".into(),
            node: format!("{:016x}", RandomState::new().hash_one("node")),
            fleet_key: FleetKey::Generated,
            port_base: None,
            listen_http: Some(addresses::HTTP),
            listen_grpc: Some(addresses::GRPC),
            listen_resp: Some(addresses::RESP),
            listen_unix: None,
            listen_unix_mode: None,
            listen_admin: Some(addresses::ADMIN),
            auth_tokens: None,
            tls_certificate: None,
            tls_key: None,
            tls_client_ca: None,
            connections_max: App::CONNECTIONS_MAX,
            forward_auth: ForwardAuth::default(),
            rules_file: Path::new(RULES_FILE).exists().then(|| RULES_FILE.into()),
            envoy_windows: Windows::Fixed,
            origin: OriginUrl::Memory,
            origin_timeout: Duration::from_millis(5),
            origin_fresh: Nanos::from_secs(5),
            world: WorldSettings::default(),
            keys_max: KeysMax::QuarterOf(memory::limit(Path::new("/"))),
            data_directory: "data".into(),
            save_every: Duration::from_secs(30),
            log_format: LogFormat::of_stderr(),
            log_level: Targets::new().with_default(tracing::Level::INFO),
            log_decisions: DecisionsLog::InData,
            identifiers_are_plain: false,
            log_decisions_max_mb: 1024,
            log_decisions_json: None,
            otlp_endpoint: None,
            otlp_interval: Duration::from_secs(10),
            drain: Duration::from_secs(5),
            rules_control: None,
            rules_required: true,
            token: None,
            control_upstream: None,
            control_listen: SocketAddr::from(([127, 0, 0, 1], 7070)),
            control_store: None,
            role: Role::Node,
            given: nothing_given(),
        }
    }

    /// A certificate without its key, or the other way round.
    fn half_of_tls(&self) -> Option<SettingError> {
        let (given, missing) = match (&self.tls_certificate, &self.tls_key, &self.tls_client_ca) {
            (Some(_), None, _) => ("tls.certificate", "tls.key"),
            (None, Some(_), _) => ("tls.key", "tls.certificate"),
            (None, None, Some(_)) => ("tls.client_ca", "tls.certificate and tls.key"),
            (Some(_), Some(_), _) | (None, None, None) => return None,
        };
        let text = TABLE.iter().find(|setting| setting.key == given).map(|setting| (setting.show)(self))?;
        self.refused(
            given,
            &text,
            parse::Refusal::new(format!("is set without {missing}"), format!("set {missing} too")),
        )
    }

    /// A region among others that has no name of its own, or too long a one.
    fn nameless_region(&self) -> Option<SettingError> {
        self.world.url.as_ref()?;
        let is_given =
            TABLE.iter().zip(&self.given).any(|(row, given)| row.key == "region" && given.is_some());
        let message = match self.region.chars().count() {
            _ if !is_given => "is needed with world.url: regions know each other by it",
            length if length > REGION_NAME_MAX => "is too long for world.url",
            _ => return None,
        };
        let fix = format!("give each region a name of its own, of 1 to {REGION_NAME_MAX} characters");
        self.refused("region", &self.region, parse::Refusal::new(message, fix))
    }

    /// Rules from files and from a control plane at once. A file that is merely there isn't meant.
    fn two_sources_of_rules(&self) -> Option<SettingError> {
        let is_given =
            |key: &str| TABLE.iter().zip(&self.given).any(|(row, given)| row.key == key && given.is_some());
        let path = self.rules_file.as_ref().filter(|_| is_given("rules.file"))?;
        let servers = self.rules_control.as_ref()?;
        let message = format!("is set, and so is rules.control ({servers}): rules come from one of the two");
        let fix = "remove rules.file, or rules.control";
        self.refused("rules.file", &path.display().to_string(), parse::Refusal::new(message, fix))
    }

    /// An error about a value that is valid by itself.
    fn refused(&self, key: &str, text: &str, refusal: parse::Refusal) -> Option<SettingError> {
        let index = TABLE.iter().position(|setting| setting.key == key)?;
        let source = self.given[index].as_ref().map_or(&ValueSource::Default, |given| &given.source);
        Some(SettingError::refused(&TABLE[index], text, source, refusal))
    }

    /// Where the certificates are; `None` without TLS.
    pub(crate) fn tls_files(&self) -> Option<TlsFiles> {
        let (certificate, key) = (self.tls_certificate.clone()?, self.tls_key.clone()?);
        Some(TlsFiles { certificate, key, client_ca: self.tls_client_ca.clone() })
    }

    /// The cap of the counter table.
    pub(crate) fn keys_max(&self) -> usize {
        let bytes_per_key = match (&self.origin, &self.world.url) {
            (_, Some(_)) => KeysMax::BYTES_PER_WORLD_KEY,
            (OriginUrl::Redis(_), None) => KeysMax::BYTES_PER_SHARED_KEY,
            (OriginUrl::Memory, None) => KeysMax::BYTES_PER_KEY,
        };
        self.keys_max.get(bytes_per_key)
    }

    pub(crate) fn fleet_secret(&self) -> FleetSecret {
        match self.fleet_key {
            // Rules mean the same whatever they are hashed with.
            FleetKey::Generated => FleetSecret::BUILT_IN,
            FleetKey::Resolved(secret) | FleetKey::FromFile { secret, .. } => secret,
        }
    }
}

impl KeysMax {
    /// Entry and slack, both cells in use, by whether the counts are shared, and with whom: what other regions
    /// hear of is also in the index of `crates/node/src/world`.
    const BYTES_PER_KEY: u64 = 80;
    const BYTES_PER_SHARED_KEY: u64 = 160;
    const BYTES_PER_WORLD_KEY: u64 = 400;
    pub(crate) const RANGE: std::ops::RangeInclusive<u64> = 1_000..=2_000_000_000;

    fn get(self, bytes_per_key: u64) -> usize {
        match self {
            KeysMax::Set(keys) => keys,
            KeysMax::QuarterOf(limit) => {
                let keys = limit.bytes / 4 / bytes_per_key;
                usize::try_from(keys.clamp(*Self::RANGE.start(), *Self::RANGE.end())).unwrap_or(usize::MAX)
            }
        }
    }
}

/// Why the cap is what it is.
impl fmt::Display for KeysMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeysMax::Set(_) => f.write_str("memory.max_keys"),
            KeysMax::QuarterOf(limit) => write!(f, "a quarter of {limit}"),
        }
    }
}

#[cfg(test)]
mod tests;
