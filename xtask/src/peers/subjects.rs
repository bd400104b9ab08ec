//! Who is measured: each server with its settings, on free ports of loopback.

use super::program::{Found, Programs};
use super::server::{Server, directory, free_port};
use crate::steps::output_of;
use std::path::Path;

/// A node of ours with its listeners.
pub(super) struct Tidegate {
    pub(super) server: Server,
    pub(super) http: u16,
    pub(super) grpc: u16,
    pub(super) resp: u16,
    /// HTTP and gRPC; the Redis protocol is at the same with `.resp`.
    pub(super) unix: String,
}

/// One rule for what is compared with peers that have one, and five for the check of five limits.
const RULES: &str = "\
namespace: bench
rules:
  - { name: key, key: [key], limit: 1_000_000 per 1m }
---
namespace: five
rules:
  - { name: second, key: [key], rate: 100000/s }
  - { name: minute, key: [key], limit: 1_000_000 per 1m }
  - { name: hour, key: [key], limit: 10_000_000 per 1h }
  - { name: endpoint, key: [key, endpoint], limit: 1_000_000 per 1m }
  - { name: month, key: [key], limit: 1_000_000_000 per month }
";

pub(super) fn tidegate(programs: &Programs, name: &str) -> Result<Tidegate, String> {
    tidegate_with(programs, name, &[])
}

/// With further settings.
pub(super) fn tidegate_with(programs: &Programs, name: &str, more: &[&str]) -> Result<Tidegate, String> {
    let directory = directory(name)?;
    write(&directory.join("rules.yaml"), RULES)?;
    let [http, grpc, resp, admin] = [free_port()?, free_port()?, free_port()?, free_port()?];
    let unix = directory.join("s").display().to_string();
    let mut arguments = words("serve --memory-max-keys 16000000 --log-level warn");
    for (flag, port) in [("http", http), ("grpc", grpc), ("resp", resp), ("admin", admin)] {
        arguments.extend([format!("--listen-{flag}"), format!("127.0.0.1:{port}")]);
    }
    arguments.extend(["--listen-unix".to_owned(), unix.clone()]);
    arguments.extend(more.iter().map(|&word| word.to_owned()));
    let server = Server::start(&programs.tidegate, &arguments, directory, &[http, grpc, resp])?;
    Ok(Tidegate { server, http, grpc, resp, unix })
}

/// A server with one port.
pub(super) type Started = Result<(Server, u16), String>;

/// The floor of `resp` or `http`.
pub(super) fn stub(protocol: &str) -> Started {
    let port = free_port()?;
    let arguments = [protocol.to_owned(), port.to_string()];
    let program = Programs::built("tidegate-server", "stub")?;
    Server::start(&program, &arguments, directory("stub")?, &[port]).map(|server| (server, port))
}

pub(super) fn redis(programs: &Programs, name: &str, module: Option<&Found>) -> Started {
    let port = free_port()?;
    let mut arguments = words(&format!("--port {port} --bind 127.0.0.1 --appendonly no"));
    arguments.extend(["--save".to_owned(), String::new()]);
    if let Some(module) = module {
        arguments.extend(["--loadmodule".to_owned(), module.clone()?.display().to_string()]);
    }
    Server::start(program(&programs.redis)?, &arguments, directory(name)?, &[port])
        .map(|server| (server, port))
}

/// A redis-server that has the script of GCRA, and the words that run it.
pub(super) fn redis_lua(programs: &Programs, name: &str) -> Result<(Server, u16, String), String> {
    let (server, port) = redis(programs, name, None)?;
    let mut arguments = words(&format!("-p {port} SCRIPT LOAD"));
    arguments.push(include_str!("gcra.lua").to_owned());
    let printed = output_of("redis-cli", &arguments)?;
    let hash = printed.trim();
    if hash.len() == 40 {
        Ok((server, port, format!("EVALSHA {hash} 1")))
    } else {
        Err(format!("redis-cli printed something else: {printed}"))
    }
}

/// HTTP and gRPC.
pub(super) fn throttlecrab(programs: &Programs) -> Result<(Server, u16, u16), String> {
    let (http, grpc) = (free_port()?, free_port()?);
    let arguments = words(&format!(
        "--http --http-host 127.0.0.1 --http-port {http} --grpc --grpc-host 127.0.0.1 --grpc-port {grpc} --log-level error"
    ));
    let server = Server::start(
        program(&programs.throttlecrab)?,
        &arguments,
        directory("throttlecrab")?,
        &[http, grpc],
    )?;
    Ok((server, http, grpc))
}

/// Limits by a header, a key each; something small is answered after the limit, as `return` would skip it.
pub(super) fn nginx(programs: &Programs) -> Started {
    let (port, directory) = (free_port()?, directory("nginx")?);
    let here = directory.display();
    let text = format!(
        "worker_processes auto;\ndaemon off;\npid {here}/pid;\nerror_log {here}/error crit;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  keepalive_requests 1000000000;\n  client_body_temp_path {here}/b;\n  \
         proxy_temp_path {here}/p;\n  fastcgi_temp_path {here}/f;\n  uwsgi_temp_path {here}/u;\n  \
         scgi_temp_path {here}/s;\n  \
         limit_req_zone $http_x_tidegate_key zone=keys:64m rate=100000r/s;\n  \
         server {{ listen 127.0.0.1:{port}; location / {{ limit_req zone=keys burst=100000 nodelay; empty_gif; }} }}\n}}\n"
    );
    write(&directory.join("nginx.conf"), &text)?;
    let arguments = words(&format!("-c {here}/nginx.conf -p {here}"));
    Server::start(program(&programs.nginx)?, &arguments, directory, &[port]).map(|server| (server, port))
}

/// The same, by a table of so many keys.
pub(super) fn haproxy(programs: &Programs) -> Started {
    let (port, directory) = (free_port()?, directory("haproxy")?);
    let text = format!(
        "global\n  maxconn 4000\ndefaults\n  mode http\n  timeout client 60s\n  timeout server 60s\n  timeout connect 1s\n\
         frontend limited\n  bind 127.0.0.1:{port}\n  \
         stick-table type string len 16 size 2m expire 10m store http_req_rate(60s)\n  \
         http-request track-sc0 req.hdr(x-tidegate-key)\n  \
         http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000 }}\n  \
         http-request return status 200\n"
    );
    write(&directory.join("haproxy.cfg"), &text)?;
    let arguments = words(&format!("-db -f {}/haproxy.cfg", directory.display()));
    Server::start(program(&programs.haproxy)?, &arguments, directory, &[port]).map(|server| (server, port))
}

pub(super) fn limitador(programs: &Programs) -> Started {
    let (grpc, http, directory) = (free_port()?, free_port()?, directory("limitador")?);
    let limits = "- namespace: bench\n  max_value: 1000000\n  seconds: 3600\n  conditions: []\n  variables:\n    - descriptors[0].key\n";
    write(&directory.join("limits.yaml"), limits)?;
    let arguments = words(&format!(
        "--rls-ip 127.0.0.1 --rls-port {grpc} --http-ip 127.0.0.1 --http-port {http} {}/limits.yaml memory",
        directory.display()
    ));
    Server::start(program(&programs.limitador)?, &arguments, directory, &[grpc]).map(|server| (server, grpc))
}

fn program(found: &Found) -> Result<&Path, String> {
    found.as_deref().map_err(Clone::clone)
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("can't write {}: {error}", path.display()))
}
