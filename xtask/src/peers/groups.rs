//! What is compared with what: the subjects of each protocol in turn, in several rounds, and the bars.

use super::Length;
use super::cases::{Case, Section, measure, noted};
use super::everybody::{LASTING, THROTTLE_MESSAGE, THROTTLE_METHOD};
use super::figures::{Bar, Of};
use super::generator::Generator;
use super::program::Programs;
use super::server::directory;
use super::subjects::{self, write};

const OURS: &str = "Tidegate CL.THROTTLE";
const PING: &str = "Tidegate PING";
const STUB: &str = "stub: parses, answers a constant";
const INCR: &str = "redis INCR";
const CELL: &str = "redis-cell CL.THROTTLE";
const LUA: &str = "redis GCRA in Lua";
const OUR_LIMIT: &str = "Tidegate /v1/limit";
const OUR_AUTH: &str = "Tidegate /auth";
const NGINX: &str = "nginx limit_req";
const HAPROXY: &str = "HAProxy stick table";
const THROTTLECRAB: &str = "throttlecrab-server";
const OUR_GRPC: &str = "Tidegate ShouldRateLimit";
const LIMITADOR: &str = "limitador-server, memory";
const RATELIMIT: &str = "envoyproxy/ratelimit";

pub(super) fn resp(programs: &Programs, length: Length) -> Result<String, String> {
    let mut missing = Vec::new();
    let node = subjects::tidegate(programs, "resp")?;
    let (stub, stub_port) = subjects::stub("resp")?;
    let redis = noted("redis-server", subjects::redis(programs, "redis", None), &mut missing);
    let cell = subjects::redis(programs, "cell", Some(&programs.redis_cell));
    let cell = noted("redis-cell", cell, &mut missing);
    let lua = noted("redis-server", subjects::redis_lua(programs, "lua"), &mut missing);
    let throttle = &format!("CL.THROTTLE key:__rand_int__ {LASTING}");
    let mut cases = Vec::new();
    for (load, pipeline, requests) in
        [("-P 1", 1, 300_000), ("-P 16", 16, 2_400_000), ("-P 64", 64, 4_000_000)]
    {
        let mut case = |subject, server, port, command: &str| {
            // A script takes several times as long as any other subject: its share of the time stays the same.
            let requests = requests / length.divisor() / if subject == LUA { 6 } else { 1 };
            let generator =
                Generator::RedisBenchmark { port, pipeline, requests, command: command.to_owned() };
            cases.push(Case { load, subject, server, generator });
        };
        case(OURS, &node.server, node.resp, throttle);
        if let Some((server, port)) = &redis {
            case(INCR, server, *port, "INCR key:__rand_int__");
        }
        if let Some((server, port)) = &cell {
            case(CELL, server, *port, throttle);
        }
        if let Some((server, port, run)) = &lua {
            case(LUA, server, *port, &format!("{run} key:__rand_int__ {LASTING} 1"));
        }
        case(PING, &node.server, node.resp, "PING");
        case(STUB, &stub, stub_port, throttle);
    }
    let figures = measure(programs, &cases, length.rounds())?;
    let bar = |load, ours, than, of, at_least| Bar { load, ours, than, of, at_least };
    let bars = [
        bar("-P 16", OURS, &[CELL], Of::PerSecond, 2.0),
        bar("-P 64", OURS, &[CELL], Of::PerSecond, 2.0),
        bar("-P 16", OURS, &[INCR, STUB], Of::PerSecond, 1.0),
        bar("-P 1", OURS, &[INCR], Of::Cpu, 1.0),
        bar("-P 1", OURS, &[PING], Of::PerSecond, 0.9),
        bar("-P 16", OURS, &[STUB], Of::PerSecond, 0.6),
    ];
    let (title, rounds) = ("The Redis protocol, 50 connections", length.rounds());
    Section { group: "resp", title, rounds, cases: &cases, bars: &bars, missing: &missing }.body(&figures)
}

/// Requests made before the run, one for each key: the generator's own work stays small.
fn script(name: &str, method: &str, path: &str, headers: &str, body: &str) -> Result<String, String> {
    let text = format!(
        "local requests = {{}}\ninit = function()\n  for i = 1, 100000 do\n    \
         local key = string.format('%012d', i)\n    \
         requests[i] = wrk.format('{method}', '{path}', {{ {headers} }}, {body})\n  end\n  \
         math.randomseed(os.time())\nend\nrequest = function() return requests[math.random(100000)] end\n"
    );
    let path = directory("wrk")?.join(name);
    write(&path, &text)?;
    Ok(path.display().to_string())
}

pub(super) fn http(programs: &Programs, length: Length) -> Result<String, String> {
    let mut missing = Vec::new();
    let node = subjects::tidegate(programs, "http")?;
    let crab = noted("throttlecrab-server", subjects::throttlecrab(programs), &mut missing);
    let nginx = noted("nginx", subjects::nginx(programs), &mut missing);
    let haproxy = noted("HAProxy", subjects::haproxy(programs), &mut missing);
    let (stub, stub_port) = subjects::stub("http")?;
    let json = "['content-type'] = 'application/json'";
    let ours = "'{\"namespace\":\"bench\",\"identifier\":\"' .. key .. '\",\"limit\":1000000,\"duration_ms\":60000}'";
    let theirs = "'{\"key\":\"' .. key .. '\",\"max_burst\":1000000,\"count_per_period\":1000000,\"period\":60,\"quantity\":1}'";
    let by_key = "['x-tidegate-key'] = key";
    let scripts = [
        script("limit.lua", "POST", "/v1/limit", json, ours)?,
        script("throttle.lua", "POST", "/throttle", json, theirs)?,
        script("auth.lua", "GET", "/auth?namespace=bench&attributes=key", by_key, "nil")?,
        script("nginx.lua", "GET", "/", by_key, "nil")?,
    ];
    let [limit, throttle, auth, plain] = scripts;
    let mut cases = Vec::new();
    let mut case = |load, subject, server, port: u16, script: String| {
        let generator =
            Generator::Wrk { url: format!("http://127.0.0.1:{port}"), script, seconds: length.seconds() };
        cases.push(Case { load, subject, server, generator });
    };
    case("JSON", OUR_LIMIT, &node.server, node.http, limit.clone());
    case("JSON", STUB, &stub, stub_port, limit);
    if let Some((server, http, _)) = &crab {
        case("JSON", THROTTLECRAB, server, *http, throttle);
    }
    case("by header", OUR_AUTH, &node.server, node.http, auth);
    for (subject, started) in [(NGINX, &nginx), (HAPROXY, &haproxy)] {
        if let Some((server, port)) = started {
            case("by header", subject, server, *port, plain.clone());
        }
    }
    let figures = measure(programs, &cases, length.rounds())?;
    let bars = [
        Bar { load: "JSON", ours: OUR_LIMIT, than: &[THROTTLECRAB], of: Of::PerSecond, at_least: 1.4 },
        // What no server can pass, by the same generator on the same cores.
        Bar { load: "JSON", ours: STUB, than: &[THROTTLECRAB], of: Of::PerSecond, at_least: 1.4 },
        Bar { load: "JSON", ours: OUR_LIMIT, than: &[THROTTLECRAB], of: Of::Cpu, at_least: 1.4 },
        Bar { load: "by header", ours: OUR_AUTH, than: &[NGINX], of: Of::PerSecond, at_least: 1.0 },
    ];
    let (title, rounds) = ("HTTP/1.1, 50 connections", length.rounds());
    Section { group: "http", title, rounds, cases: &cases, bars: &bars, missing: &missing }.body(&figures)
}

pub(super) fn grpc(programs: &Programs, length: Length) -> Result<String, String> {
    let mut missing = Vec::new();
    let node = subjects::tidegate(programs, "grpc")?;
    let crab = noted("throttlecrab-server", subjects::throttlecrab(programs), &mut missing);
    let limitador = noted("limitador-server", subjects::limitador(programs), &mut missing);
    if let Err(why) = &programs.ratelimit {
        missing.push(format!(
            "envoyproxy/ratelimit: {why}; 18k and 23k requests/s at 94 and 83 µs were seen before"
        ));
    }
    let mut cases = Vec::new();
    for (load, connections, streams) in [("50 × 1", "50", "1"), ("4 × 32", "4", "32")] {
        let mut case = |subject, server, port: u16, more: &[&str]| {
            let seconds = length.seconds().to_string();
            let target = format!("grpc://127.0.0.1:{port}");
            let common = [&target, "-c", connections, "-p", streams, "--warm-up", "0.5", "-d", &seconds];
            let arguments = common.iter().chain(more).map(|&word| word.to_owned()).collect();
            cases.push(Case { load, subject, server, generator: Generator::Bench { arguments } });
        };
        case(OUR_GRPC, &node.server, node.grpc, &["--rules"]);
        if let Some((server, port)) = &limitador {
            case(LIMITADOR, server, *port, &["--rules"]);
        }
        if let Some((server, _, grpc)) = &crab {
            case(THROTTLECRAB, server, *grpc, &["--path", THROTTLE_METHOD, "--body", THROTTLE_MESSAGE]);
        }
    }
    let figures = measure(programs, &cases, length.rounds())?;
    let mut bars = Vec::new();
    for load in ["50 × 1", "4 × 32"] {
        let peers: [(&'static [&'static str], f64); 3] =
            [(&[LIMITADOR], 1.5), (&[THROTTLECRAB], 1.2), (&[RATELIMIT], 3.0)];
        for (than, at_least) in peers {
            let ours = OUR_GRPC;
            bars.extend([Of::PerSecond, Of::Cpu].map(|of| Bar { load, ours, than, of, at_least }));
        }
    }
    let (title, rounds) = ("gRPC, connections × streams", length.rounds());
    Section { group: "grpc", title, rounds, cases: &cases, bars: &bars, missing: &missing }.body(&figures)
}
