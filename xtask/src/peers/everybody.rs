//! Everybody that can be run here at once, and how `tidegate bench` asks each.

use super::cases::{Case, noted};
use super::generator::Generator;
use super::program::Programs;
use super::server::Server;
use super::subjects::{self, Tidegate};

/// Of each key 100,000 in a year: one hit is remembered for five minutes, so that nobody forgets a key while it is
/// measured, and nobody ever denies.
pub(super) const LASTING: &str = "100000 100000 31536000";
const JSON: &str = "content-type: application/json";
const BY_KEY: &str = "x-tidegate-key: {key}";
const THROTTLE_BODY: &str =
    r#"{"key":"{key}","max_burst":100000,"count_per_period":100000,"period":31536000,"quantity":1}"#;
/// Key, burst, count, period and quantity of the same.
pub(super) const THROTTLE_MESSAGE: &str = "0a0c{key}10a08d0618a08d062080e7840f2801";
pub(super) const THROTTLE_METHOD: &str = "/throttlecrab.RateLimiter/Throttle";

type OnePort = Option<(Server, u16)>;

pub(super) struct Everybody {
    node: Tidegate,
    lua: Option<(Server, u16, String)>,
    cell: OnePort,
    crab: Option<(Server, u16, u16)>,
    limitador: OnePort,
    nginx: OnePort,
    haproxy: OnePort,
    pub(super) missing: Vec<String>,
}

/// One subject, by one protocol.
pub(super) struct SubjectEndpoint<'s> {
    /// Of which `protocol` is the end.
    pub(super) name: &'static str,
    pub(super) protocol: &'static str,
    pub(super) server: &'s Server,
    words: Vec<String>,
}

impl<'s> SubjectEndpoint<'s> {
    pub(super) fn generator(&self, more: &[&str]) -> Generator {
        let more = more.iter().map(|&word| word.to_owned());
        Generator::Bench { arguments: self.words.iter().cloned().chain(more).collect() }
    }

    pub(super) fn case(&self, load: &'static str, more: &[&str]) -> Case<'s> {
        Case { load, subject: self.name, server: self.server, generator: self.generator(more) }
    }
}

/// `name` ends with the protocol: `Tidegate, RESP`.
fn asked<'s>(name: &'static str, server: &'s Server, port: u16, more: &[&str]) -> SubjectEndpoint<'s> {
    let protocol = name.rsplit(' ').next().unwrap_or_default();
    let scheme = match protocol {
        "RESP" => "redis",
        "gRPC" => "grpc",
        _ => "http",
    };
    let target = format!("{scheme}://127.0.0.1:{port}");
    let words = std::iter::once(target).chain(more.iter().map(|&word| word.to_owned())).collect();
    SubjectEndpoint { name, protocol, server, words }
}

/// A node by each of its protocols.
pub(super) fn ours(node: &Tidegate) -> [SubjectEndpoint<'_>; 3] {
    let throttle = format!("CL.THROTTLE {{key}} {LASTING}");
    [
        asked("Tidegate, HTTP", &node.server, node.http, &["--limit", "1000000"]),
        asked("Tidegate, gRPC", &node.server, node.grpc, &["--rules"]),
        asked("Tidegate, RESP", &node.server, node.resp, &["--command", &throttle]),
    ]
}

impl Everybody {
    pub(super) fn start(programs: &Programs, name: &str) -> Result<Self, String> {
        let node = subjects::tidegate(programs, name)?;
        let mut missing = Vec::new();
        let lua = subjects::redis_lua(programs, &format!("{name}-lua"));
        let cell = subjects::redis(programs, &format!("{name}-cell"), Some(&programs.redis_cell));
        Ok(Everybody {
            node,
            lua: noted("redis-server", lua, &mut missing),
            cell: noted("redis-cell", cell, &mut missing),
            crab: noted("throttlecrab-server", subjects::throttlecrab(programs), &mut missing),
            limitador: noted("limitador-server", subjects::limitador(programs), &mut missing),
            nginx: noted("nginx", subjects::nginx(programs), &mut missing),
            haproxy: noted("HAProxy", subjects::haproxy(programs), &mut missing),
            missing,
        })
    }

    /// By protocol, ours first.
    pub(super) fn asked(&self) -> Vec<SubjectEndpoint<'_>> {
        let [http, grpc, resp] = ours(&self.node);
        let mut all = vec![http, grpc, resp];
        if let Some((server, http, grpc)) = &self.crab {
            let by_http = ["--path", "/throttle", "--header", JSON, "--body", THROTTLE_BODY];
            all.push(asked("throttlecrab, HTTP", server, *http, &by_http));
            let by_grpc = ["--path", THROTTLE_METHOD, "--body", THROTTLE_MESSAGE];
            all.push(asked("throttlecrab, gRPC", server, *grpc, &by_grpc));
        }
        for (name, started) in [("nginx limit_req, HTTP", &self.nginx), ("HAProxy, HTTP", &self.haproxy)] {
            if let Some((server, port)) = started {
                all.push(asked(name, server, *port, &["--method", "GET", "--path", "/", "--header", BY_KEY]));
            }
        }
        if let Some((server, port)) = &self.limitador {
            all.push(asked("limitador, gRPC", server, *port, &["--rules"]));
        }
        if let Some((server, port)) = &self.cell {
            let command = format!("CL.THROTTLE {{key}} {LASTING}");
            all.push(asked("redis-cell, RESP", server, *port, &["--command", &command]));
        }
        if let Some((server, port, run)) = &self.lua {
            let command = format!("{run} {{key}} {LASTING} 1");
            all.push(asked("redis GCRA in Lua, RESP", server, *port, &["--command", &command]));
        }
        all.sort_by_key(|asked| ["HTTP", "gRPC", "RESP"].iter().position(|name| *name == asked.protocol));
        all
    }
}
