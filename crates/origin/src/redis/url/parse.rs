//! Reads the text of a url.
//!
//! Errors never repeat what stands where credentials may stand: `redis://user:secret` without a host looks
//! like a host and its port.

use super::{Credentials, RedisUrl, SENTINEL_PORT, SERVER_PORT, Secret, Tls, Topology, UrlError};
use crate::redis::address::Address;
use std::net::Ipv6Addr;
use std::path::PathBuf;

const CREDENTIALS_REMEDY: &str = "write / as %2F, ? as %3F, # as %23, @ as %40, : as %3A and % as %25";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Standalone,
    Cluster,
    Sentinel,
    Unix,
}

/// What stands where in the text; nothing is decoded yet.
struct Parts<'a> {
    kind: Kind,
    with_tls: bool,
    login: Option<&'a str>,
    hosts: &'a str,
    /// With its leading `/`.
    path: &'a str,
    query: Option<&'a str>,
}

pub(super) fn url(text: &str) -> Result<RedisUrl, UrlError> {
    let parts = split(text.trim())?;
    let mut parameters = Parameters::read(&parts)?;
    let credentials = parts.login.map(login).transpose()?.unwrap_or_default();
    let (topology, database) = match parts.kind {
        Kind::Standalone => (Topology::Standalone(single_host(parts.hosts)?), database_of(parts.path)?),
        Kind::Cluster => (cluster(&parts)?, 0),
        Kind::Sentinel => sentinel(&parts, &mut parameters)?,
        Kind::Unix => (Topology::Standalone(socket(&parts)?), parameters.database.unwrap_or(0)),
    };
    let tls = parts.with_tls.then_some(Tls { authorities: parameters.authorities });
    Ok(RedisUrl { topology, credentials, database, tls })
}

fn error(part: &'static str, problem: &'static str, remedy: impl Into<String>) -> UrlError {
    UrlError { part, problem, remedy: remedy.into() }
}

fn split(text: &str) -> Result<Parts<'_>, UrlError> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or_else(|| error("scheme", "is missing", "begin with redis://, as in redis://127.0.0.1:6379"))?;
    let (kind, with_tls) = kind_of(scheme)?;
    let credentials = |problem| error("user or password", problem, CREDENTIALS_REMEDY);
    if rest.contains('#') {
        return Err(credentials("has a bare # in it, or a # stands elsewhere, where it means nothing"));
    }
    let (topology, query) =
        rest.split_once('?').map_or((rest, None), |(topology, query)| (topology, Some(query)));
    let (authority, path) = topology.split_at(topology.find('/').unwrap_or(topology.len()));
    // A bare / or ? in a password ends the authority: what follows has the @.
    if path.contains('@') || query.is_some_and(|query| query.contains('@')) {
        return Err(credentials("has a bare / or ? in it, or a bare @ stands after the hosts"));
    }
    let (login, hosts) =
        authority.rsplit_once('@').map_or((None, authority), |(login, hosts)| (Some(login), hosts));
    Ok(Parts { kind, with_tls, login, hosts, path, query })
}

fn kind_of(scheme: &str) -> Result<(Kind, bool), UrlError> {
    match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => Ok((Kind::Standalone, false)),
        "rediss" | "valkeys" => Ok((Kind::Standalone, true)),
        "redis+cluster" => Ok((Kind::Cluster, false)),
        "rediss+cluster" => Ok((Kind::Cluster, true)),
        "redis+sentinel" => Ok((Kind::Sentinel, false)),
        "rediss+sentinel" => Ok((Kind::Sentinel, true)),
        "redis+unix" | "unix" => Ok((Kind::Unix, false)),
        _ => Err(error(
            "scheme",
            "is none that Tidegate knows",
            "use redis, redis+cluster, redis+sentinel or redis+unix (with TLS: rediss, rediss+cluster, \
             rediss+sentinel)",
        )),
    }
}

fn login(text: &str) -> Result<Credentials, UrlError> {
    let (user, password) = text.split_once(':').map_or((text, None), |(user, word)| (user, Some(word)));
    let decode = |text| {
        decoded(text).ok_or_else(|| {
            error("user or password", "has a % that two hexadecimal digits don't follow", CREDENTIALS_REMEDY)
        })
    };
    let user = Some(decode(user)?).filter(|user| !user.is_empty());
    let password = password.map(decode).transpose()?.filter(|password| !password.is_empty()).map(Secret);
    Ok(Credentials { user, password })
}

fn single_host(hosts: &str) -> Result<Address, UrlError> {
    if hosts.contains(',') {
        let remedy = "use redis+cluster:// or redis+sentinel:// for several";
        return Err(error("host", "of a standalone server is a list", remedy));
    }
    host(hosts, SERVER_PORT)
}

fn host_list(hosts: &str, default_port: u16) -> Result<Vec<Address>, UrlError> {
    hosts.split(',').map(|text| host(text, default_port)).collect()
}

fn host(text: &str, default_port: u16) -> Result<Address, UrlError> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, after) = rest.split_once(']').ok_or_else(wrong_ipv6)?;
            name.parse::<Ipv6Addr>().map_err(|_| wrong_ipv6())?;
            (
                name,
                if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or_else(wrong_port)?) },
            )
        }
        None if text.matches(':').count() > 1 => return Err(wrong_ipv6()),
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return Err(error("host", "is missing", "write it as in redis://redis.example:6379"));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if !text.starts_with('[') && !name.bytes().all(is_plain) {
        let remedy = "use letters, digits, dots, hyphens and underscores, or an IP address";
        return Err(error("host", "has a character that no host has", remedy));
    }
    let port = port.map_or(Ok(default_port), |port| port.parse().map_err(|_| wrong_port()))?;
    if port == 0 { Err(wrong_port()) } else { Ok(Address::tcp(name, port)) }
}

fn wrong_ipv6() -> UrlError {
    error("host", "looks like IPv6 and can't be read", "write it in brackets, as in redis://[::1]:6379")
}

fn wrong_port() -> UrlError {
    error("port", "isn't a number from 1 to 65535", "write it as in redis://redis.example:6379")
}

fn database_of(path: &str) -> Result<u32, UrlError> {
    match path.strip_prefix('/').unwrap_or(path) {
        "" => Ok(0),
        number => number.parse().map_err(|_| wrong_database()),
    }
}

fn wrong_database() -> UrlError {
    error("database", "isn't a number", "write it as in redis://redis.example:6379/2, or leave it out")
}

fn cluster(parts: &Parts<'_>) -> Result<Topology, UrlError> {
    if database_of(parts.path)? != 0 {
        return Err(error("database", "of a cluster is always 0", "leave it out"));
    }
    Ok(Topology::Cluster(host_list(parts.hosts, SERVER_PORT)?))
}

fn sentinel(parts: &Parts<'_>, parameters: &mut Parameters) -> Result<(Topology, u32), UrlError> {
    let example = "write it after the hosts, as in redis+sentinel://sentinel.example:26379/mymaster";
    let path = parts.path.strip_prefix('/').unwrap_or_default();
    let (master, database) = path.split_once('/').unwrap_or((path, ""));
    let wrong = || error("master's name", "is missing or can't be read", example);
    let master = decoded(master).filter(|master| !master.is_empty()).ok_or_else(wrong)?;
    let sentinels = host_list(parts.hosts, SENTINEL_PORT)?;
    let credentials = std::mem::take(&mut parameters.sentinel);
    Ok((Topology::Sentinel { sentinels, master, credentials }, database_of(database)?))
}

fn socket(parts: &Parts<'_>) -> Result<Address, UrlError> {
    let example = "write its absolute path, as in redis+unix:///run/redis.sock";
    if !parts.hosts.is_empty() {
        return Err(error("path of the socket", "begins with a host or isn't absolute", example));
    }
    match decoded(parts.path) {
        Some(path) if path.len() > 1 => Ok(Address::Unix(PathBuf::from(path))),
        _ => Err(error("path of the socket", "is missing or can't be read", example)),
    }
}

#[derive(Default)]
struct Parameters {
    authorities: Option<PathBuf>,
    database: Option<u32>,
    sentinel: Credentials,
}

impl Parameters {
    fn read(parts: &Parts<'_>) -> Result<Parameters, UrlError> {
        let mut parameters = Parameters::default();
        for pair in parts.query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let wrong = || error("query", "has a value that is empty or can't be read", CREDENTIALS_REMEDY);
            let value = decoded(value).filter(|value| !value.is_empty());
            match (name, parts.kind) {
                ("insecure", _) => return Err(insecure()),
                ("ca", _) if !parts.with_tls => {
                    return Err(error(
                        "query",
                        "has ca, which is for TLS",
                        "begin with rediss, or leave it out",
                    ));
                }
                ("ca", _) => parameters.authorities = Some(value.ok_or_else(wrong)?.into()),
                ("db", Kind::Unix) => {
                    let number = value.and_then(|value| value.parse().ok());
                    parameters.database = Some(number.ok_or_else(wrong_database)?);
                }
                ("sentinel_user", Kind::Sentinel) => {
                    parameters.sentinel.user = Some(value.ok_or_else(wrong)?);
                }
                ("sentinel_password", Kind::Sentinel) => {
                    parameters.sentinel.password = Some(Secret(value.ok_or_else(wrong)?));
                }
                _ => return Err(error("query", "has a parameter that means nothing here", known(parts))),
            }
        }
        Ok(parameters)
    }
}

fn insecure() -> UrlError {
    let remedy = "name the certificate authority of your own servers with ca=/path.pem";
    error("query", "has insecure, but Tidegate never trusts a server that it can't verify", remedy)
}

fn known(parts: &Parts<'_>) -> String {
    let mut known = Vec::new();
    known.extend(parts.with_tls.then_some("ca"));
    known.extend((parts.kind == Kind::Unix).then_some("db"));
    known.extend((parts.kind == Kind::Sentinel).then_some("sentinel_user, sentinel_password"));
    if known.is_empty() {
        "this kind of url has none".to_owned()
    } else {
        format!("use {}", known.join(", "))
    }
}

/// Percent-decoded; `None` when it isn't encoded well, or isn't UTF-8 then.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        bytes.push(digit(high)? * 16 + digit(low)?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}
