//! From a setting's text to its value, or to why it isn't one and what to write instead.
//!
//! Knows nothing of keys and places: whoever calls adds them. Reads no more of a file than its bound.

use super::OriginUrl;
use crate::otlp::Collector;
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tidegate_control::stream::Endpoints;
use tidegate_node::journal::lines::LinesTo;
use tidegate_origin::RedisUrl;
use tidegate_rules::envoy::Windows;
use tidegate_server::{ForwardAuth, MappedHeader};
use tracing_subscriber::filter::Targets;

pub(super) const DRAIN_MS: RangeInclusive<u64> = 0..=3_600_000;
/// The fewest leave room for a proxy's pool; the most is what Linux lets a process open at all.
pub(super) const CONNECTIONS: RangeInclusive<u64> = 8..=1_000_000;
pub(super) const SAVE_EVERY_MS: RangeInclusive<u64> = 10..=86_400_000;
/// The fewest are a handful of segments; the most is more than anybody reads again.
pub(super) const DECISIONS_MAX_MB: RangeInclusive<u64> = 16..=1_000_000;
pub(super) const OTLP_INTERVAL_MS: RangeInclusive<u64> = 100..=3_600_000;
pub(super) const ORIGIN_TIMEOUT_MS: RangeInclusive<u64> = 1..=1_000;
pub(super) const ORIGIN_FRESH_MS: RangeInclusive<u64> = 100..=60_000;
const NAME_CHARS_MAX: usize = 64;
/// Three more ports follow.
const PORT_BASE_MAX: u16 = u16::MAX - 3;
/// What a setting says that is left out.
const NONE: &str = "none";
const STDOUT: &str = "stdout";
const SECRET_BYTES_MIN: usize = 16;
/// Of a secret's file, and of a file that holds a setting's value.
pub(super) const VALUE_FILE_BYTES_MAX: usize = 64 * 1024;

/// Why a text isn't a value, and the remedy.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(super) message: String,
    pub(super) fix: String,
}

impl Refusal {
    pub(super) fn new(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Refusal { message: message.into(), fix: fix.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    /// People read terminals; programs read the rest.
    pub(super) fn of_stderr() -> Self {
        if io::stderr().is_terminal() { LogFormat::Text } else { LogFormat::Json }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}

pub(super) fn boolean(text: &str) -> Result<bool, Refusal> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Refusal::new("is neither true nor false", "use true or false")),
    }
}

pub(super) fn region(text: &str) -> Result<String, Refusal> {
    let fix = "use 1 to 64 of a-z, 0-9 and -";
    name(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-', fix)
}

pub(super) fn node(text: &str) -> Result<String, Refusal> {
    let fix = "use 1 to 64 of A-Z, a-z, 0-9, -, _ and .";
    name(text, |c| c.is_ascii_alphanumeric() || "-_.".contains(c), fix)
}

fn name(text: &str, is_allowed: impl Fn(char) -> bool, fix: &str) -> Result<String, Refusal> {
    let length_fits = (1..=NAME_CHARS_MAX).contains(&text.len());
    if length_fits && text.chars().all(is_allowed) {
        Ok(text.to_owned())
    } else {
        Err(Refusal::new("isn't a name", fix))
    }
}

/// An address of this machine; `localhost` means 127.0.0.1.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, Refusal> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let malformed = |_| {
        let fix = "write an IP address and a port from 0 to 65535, such as 127.0.0.1:8080 or [::1]:8080";
        Refusal::new("isn't an address", fix)
    };
    numeric.parse().map_err(malformed)
}

/// `off`: nothing listens there.
pub(super) fn listen_or_off(text: &str) -> Result<Option<SocketAddr>, Refusal> {
    if text == "off" { Ok(None) } else { listen_address(text).map(Some) }
}

/// The first of four ports, `none` for the usual ones.
pub(super) fn port_base(text: &str) -> Result<Option<u16>, Refusal> {
    if text == "none" {
        return Ok(None);
    }
    let base = text.parse().ok().filter(|base| (1..=PORT_BASE_MAX).contains(base));
    let fix = format!("give the first of four ports, from 1 to {PORT_BASE_MAX}, such as 8100");
    base.map(Some).ok_or_else(|| Refusal::new("isn't a port", fix))
}

/// Whether callers are kept by name.
pub(super) fn identifiers(text: &str) -> Result<bool, Refusal> {
    match text {
        "hashed" => Ok(false),
        "plain" => Ok(true),
        _ => Err(Refusal::new(
            "isn't a form",
            "use `hashed`, or `plain` where the log may have callers' names",
        )),
    }
}

pub(super) fn path(text: &str) -> Result<PathBuf, Refusal> {
    if text.is_empty() || text.contains('\0') {
        return Err(Refusal::new("isn't a path", "name a file or a directory, or leave the setting out"));
    }
    Ok(PathBuf::from(text))
}

/// A socket that is called `none` can be had as `./none`.
pub(super) fn path_or_none(text: &str) -> Result<Option<PathBuf>, Refusal> {
    if text == NONE { Ok(None) } else { path(text).map(Some) }
}

/// Permissions of a file, in octal: 660, 0660.
pub(super) fn mode_or_none(text: &str) -> Result<Option<u32>, Refusal> {
    if text == NONE {
        return Ok(None);
    }
    let digits = if text.len() == 4 { text.strip_prefix('0').unwrap_or(text) } else { text };
    let is_mode = digits.len() == 3 && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = u32::from_str_radix(digits, 8).ok().filter(|_| is_mode);
    let fix = "write three octal digits: 0660 for its user and group, 0600 for its user, 0666 for all";
    mode.map(Some).ok_or_else(|| Refusal::new("isn't a file's mode", fix))
}

/// Where decisions are logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DecisionsLog {
    /// Beside what else outlives the process.
    InData,
    At(PathBuf),
    Off,
}

pub(super) fn decisions_log(text: &str) -> Result<DecisionsLog, Refusal> {
    if text.is_empty() || text == NONE { Ok(DecisionsLog::Off) } else { path(text).map(DecisionsLog::At) }
}

/// Where decisions go as lines; a file that is called `stdout` can be had as `./stdout`.
pub(super) fn decision_lines(text: &str) -> Result<Option<LinesTo>, Refusal> {
    match text {
        NONE => Ok(None),
        STDOUT => Ok(Some(LinesTo::StandardOutput)),
        text => path(text).map(|path| Some(LinesTo::File(path))),
    }
}

pub(super) fn shown_lines(lines: Option<&LinesTo>) -> String {
    match lines {
        None => NONE.to_owned(),
        Some(LinesTo::StandardOutput) => STDOUT.to_owned(),
        Some(LinesTo::File(path)) => path.display().to_string(),
    }
}

pub(super) fn collector(text: &str) -> Result<Option<Collector>, Refusal> {
    let fix = "write the collector's OTLP/HTTP address, such as http://127.0.0.1:4318, or none";
    match text {
        NONE => Ok(None),
        text if text.starts_with("https://") => {
            let fix = "run a collector near the node, reach it by http://, and let that one speak TLS onward";
            Err(Refusal::new("TLS isn't spoken to collectors", fix))
        }
        text => {
            Collector::parse(text).map(Some).ok_or_else(|| Refusal::new("isn't a collector's address", fix))
        }
    }
}

/// The path of a secret's file, which must be there: what isn't a file may be the secret itself.
pub(super) fn secret_path_or_none(text: &str) -> Result<Option<PathBuf>, Refusal> {
    let path = path_or_none(text)?;
    if let Some(Err(error)) = path.as_ref().map(std::fs::metadata) {
        let message = format!("can't read that file: {error}");
        return Err(Refusal::new(message, "check the path and its permissions"));
    }
    Ok(path)
}

pub(super) fn mapped_headers(text: &str) -> Result<Vec<MappedHeader>, Refusal> {
    if text == NONE {
        return Ok(Vec::new());
    }
    MappedHeader::parse_list(text)
        .map_err(|message| Refusal::new(message, "write attribute=Header, such as ip=X-Real-IP, user=X-User"))
}

pub(super) fn accepted_headers(text: &str) -> Result<Vec<String>, Refusal> {
    if text == NONE {
        return Ok(Vec::new());
    }
    ForwardAuth::parse_accepted(text).map_err(|message| {
        Refusal::new(message, "name attributes whose headers the proxies set, such as user, ip")
    })
}

/// The bytes of a secret's file.
pub(super) fn secret_file(text: &str) -> Result<Vec<u8>, Refusal> {
    let bytes = bounded_file(&path(text)?)?;
    if bytes.len() < SECRET_BYTES_MIN {
        let message = format!("that file has {} bytes, too few for a secret", bytes.len());
        let fix = format!("make one of at least {SECRET_BYTES_MIN}, such as by `openssl rand -hex 32`");
        return Err(Refusal::new(message, fix));
    }
    Ok(bytes)
}

/// A whole file, if it is small.
pub(super) fn bounded_file(path: &Path) -> Result<Vec<u8>, Refusal> {
    let unreadable = |error: io::Error| {
        Refusal::new(format!("can't read that file: {error}"), "check the path and its permissions")
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    // One byte more than fits tells "full" from "too large".
    let room = u64::try_from(VALUE_FILE_BYTES_MAX + 1).unwrap_or(u64::MAX);
    file.take(room).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > VALUE_FILE_BYTES_MAX {
        let message = format!("that file has more than {} KiB", VALUE_FILE_BYTES_MAX / 1024);
        return Err(Refusal::new(message, "check that it is the file you mean"));
    }
    Ok(bytes)
}

pub(super) fn origin_url(text: &str) -> Result<OriginUrl, Refusal> {
    if text == "memory:" {
        return Ok(OriginUrl::Memory);
    }
    if text.starts_with("memory:") {
        return Err(Refusal::new("takes nothing after `memory:`", "write memory: or leave the setting out"));
    }
    if let Some((scheme, rest)) = text.split_once(':')
        && scheme.starts_with("redis")
        && !rest.starts_with("//")
    {
        return Err(without_slashes(scheme, rest));
    }
    // The error names the part that is wrong, and never a password.
    RedisUrl::parse(text).map(OriginUrl::Redis).map_err(|error| Refusal::new(error.message(), error.fix()))
}

/// `redis:/host`, or a host that is called so: `redis:6379`.
fn without_slashes(scheme: &str, rest: &str) -> Refusal {
    let is_port = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    if is_port {
        return Refusal::new("has no scheme", format!("write redis://{scheme}:{rest}"));
    }
    let host = rest.trim_start_matches('/');
    // What stands before an `@` may be a password.
    let host = if host.contains('@') { "USER:PASSWORD@HOST:PORT" } else { host };
    let message = format!("has no `//` after `{scheme}:`");
    Refusal::new(message, format!("write {scheme}://{host}"))
}

/// Digits, which may be grouped by `_`.
pub(super) fn whole_number(text: &str, range: RangeInclusive<u64>) -> Result<u64, Refusal> {
    let fix = format!("write a whole number from {} to {}", range.start(), range.end());
    let is_number = text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '_');
    if !is_number {
        return Err(Refusal::new("isn't a whole number", fix));
    }
    match text.replace('_', "").parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(number),
        Ok(number) if number < *range.start() => Err(Refusal::new("is too small", fix)),
        _ => Err(Refusal::new("is too large", fix)),
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, Refusal> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(Refusal::new("isn't a log format", "write text or json")),
    }
}

pub(super) fn windows(text: &str) -> Result<Windows, Refusal> {
    let known = [Windows::Fixed, Windows::Sliding];
    known
        .into_iter()
        .find(|windows| windows_word(*windows) == text)
        .ok_or_else(|| Refusal::new("isn't a kind of window", "write fixed or sliding"))
}

pub(super) fn windows_word(windows: Windows) -> &'static str {
    match windows {
        Windows::Fixed => "fixed",
        Windows::Sliding => "sliding",
    }
}

/// Levels, for all or for one target each: `info,tidegate_node=debug`.
pub(super) fn log_level(text: &str) -> Result<Targets, Refusal> {
    let refusal = || {
        let fix = "write off, error, warn, info, debug or trace, and target=level after a comma";
        Refusal::new("isn't a log filter", fix)
    };
    // The parser takes a misspelt level for a target's name, and would then log nothing at all.
    let has_level = |part: &str| {
        let (target, level) = part.rsplit_once('=').unwrap_or(("all", part));
        !target.is_empty() && ["off", "error", "warn", "info", "debug", "trace"].contains(&level)
    };
    if !text.split(',').all(has_level) {
        return Err(refusal());
    }
    text.parse().map_err(|_| refusal())
}

pub(super) fn endpoints_or_none(text: &str) -> Result<Option<Endpoints>, Refusal> {
    if text == "none" {
        return Ok(None);
    }
    Endpoints::parse(text).map(Some).map_err(|error| Refusal::new(error.message, error.fix))
}
