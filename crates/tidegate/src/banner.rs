//! What a node says when it has started: where it listens, by which rules, and a line to try.
//!
//! On stdout and for people, whatever the format of the logs. Tests and scripts read the addresses here, so
//! they are the real ones, also for port 0.

use crate::listeners::Listeners;
use crate::output::grouped;
use crate::settings::Settings;
use std::net::{Ipv4Addr, TcpListener};

pub(crate) fn text(settings: &Settings, listeners: &Listeners, rules: &str, auth: &str) -> String {
    let scheme = listeners.scheme();
    let of_http = |listener: &Option<TcpListener>| match listener {
        Some(listener) => format!("{scheme}://{}", address(listener)),
        None => "off".to_owned(),
    };
    let of_others =
        |listener: &Option<TcpListener>| listener.as_ref().map_or_else(|| "off".to_owned(), address);
    let [http, admin] = [&listeners.http, &listeners.admin].map(of_http);
    let [grpc, resp] = [&listeners.grpc, &listeners.resp].map(of_others);
    let unix = listeners.unix.as_ref();
    let unix = unix.map_or(String::new(), |unix| format!("  unix   {}\n", unix.path().display()));
    let world = settings.world.url.as_ref().map_or(String::new(), |url| format!("  world  {url}\n"));
    let Settings { node, region, keys_max, origin, .. } = settings;
    let (mut redis_options, mut curl_options) = (String::new(), String::new());
    if settings.tls_certificate.is_some() {
        redis_options.push_str(" --tls --cacert CA.pem");
        curl_options.push_str(" --cacert CA.pem");
    }
    if settings.auth_tokens.is_some() {
        redis_options.push_str(" --no-auth-warning -a TOKEN");
        curl_options.push_str(" -H 'Authorization: Bearer TOKEN'");
    }
    let version = env!("CARGO_PKG_VERSION");
    let keys = grouped(settings.keys_max());
    let data = data(settings);
    let mut tries = String::new();
    if let Some(listener) = &listeners.resp {
        let redis_cli = redis_cli(listener);
        tries.push_str(&format!("  redis-cli {redis_cli}{redis_options} CL.THROTTLE user123 15 30 60\n"));
    }
    if listeners.http.is_some() {
        tries.push_str(&format!(
            "  curl -s{curl_options} {http}/v1/limit -d '{{\"namespace\":\"demo\",\"identifier\":\"me\",\"rate_per_s\":0.1,\"burst\":5}}'\n"
        ));
    }
    let dashboard = match &listeners.admin {
        Some(_) => format!("  {admin} in a browser: the dashboard\n"),
        None => String::new(),
    };
    let tries = dashboard + &tries;
    let tries = if tries.is_empty() { tries } else { format!("try:\n{tries}") };
    format!(
        "tidegate {version}, node {node}, region {region}
  http   {http}
  grpc   {grpc}
  resp   {resp}
{unix}  admin  {admin}
  auth   {auth}
  rules  {rules}
  origin {origin}
{world}  keys   at most {keys} ({keys_max})
  data   {data}
{tries}"
    )
}

/// What is written to disk, and how much that may become.
fn data(settings: &Settings) -> String {
    let directory = settings.data_directory.display();
    match settings.decisions_directory() {
        Some(log) => format!(
            "{directory}; the log of decisions in {} takes {} MB at most (log.decisions_max_mb)",
            log.display(),
            settings.log_decisions_max_mb
        ),
        None => format!("{directory}; no log of decisions"),
    }
}

/// How redis-cli is told where to connect.
fn redis_cli(listener: &TcpListener) -> String {
    match listener.local_addr() {
        Ok(address) if address.ip() == Ipv4Addr::LOCALHOST || address.ip().is_unspecified() => {
            format!("-p {}", address.port())
        }
        Ok(address) => format!("-h {} -p {}", address.ip(), address.port()),
        Err(error) => error.to_string(),
    }
}

fn address(listener: &TcpListener) -> String {
    // Fails only for a socket that isn't bound.
    listener.local_addr().map_or_else(|error| error.to_string(), |address| address.to_string())
}
