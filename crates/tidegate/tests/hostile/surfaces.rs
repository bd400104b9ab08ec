//! The surfaces under attack, each with a node of its own and the same rules.

use crate::attacks::{Attack, Caller, Lever, Request, Rule};
use crate::proxies::{Proxy, start_caddy, start_envoy, start_nginx};
use crate::service_example::service;
use crate::support::{Directory, Node, Process, SOON, connect, poll};
use crate::{http, proxies};
use std::io::{Read, Write};
use std::process::Stdio;
use tidegate_core::identity::Shape;
use tidegate_core::{FleetSecret, KeyPrefix, Nanos, Period};

/// Sends a request and returns whether it was admitted.
type Send = Box<dyn Fn(&Request, &Caller) -> bool + Sync>;

/// What the attacker has found out: with it, names can be computed that fall into one shard of the counter table.
const SECRET: &str = "a secret that leaked";
/// A table of 16 shards, each with an even part of 1,024.
const KEYS_MAX: &str = "16384";
const SHARD_BITS: u32 = 4;
/// More than the even part of a shard, and far less than the table has room for.
const CROWD: usize = 1200;

pub(crate) struct Surface {
    pub(crate) name: &'static str,
    /// Where callers connect.
    pub(crate) address: String,
    send: Send,
    /// Says why an attack makes no sense here; `None` when it does.
    pub(crate) why_not: fn(&Attack) -> Option<&'static str>,
    crowd: Option<Crowd>,
    _running: Running,
}

/// How a surface that takes any number of names can be crowded.
struct Crowd {
    /// Of the keys of the rule by user.
    prefix: KeyPrefix,
    /// Returns the bytes that ask about a caller of this name.
    question: fn(&str) -> Vec<u8>,
    /// With what each answer begins.
    answer: &'static [u8],
}

/// What ends with the surface, in this order.
struct Running {
    _proxy: Option<Proxy>,
    _service: Option<Process>,
    _node: Node,
    _directory: Directory,
}

impl Surface {
    pub(crate) fn is_admitted(&self, request: &Request, caller: &Caller) -> bool {
        (self.send)(request, caller)
    }

    /// Names whose counters fall into the same shard as that of `name`.
    pub(crate) fn crowded_names(&self, name: &str) -> Vec<String> {
        let Some(Crowd { prefix, .. }) = &self.crowd else { return Vec::new() };
        let shard_of = |name: &str| prefix.key(name).get() >> (u128::BITS - SHARD_BITS);
        let shard = shard_of(name);
        let names = (0..).map(|number| format!("{name}-crowd-{number}"));
        names.filter(|name| shard_of(name) == shard).take(CROWD).collect()
    }

    /// Asks about each of these callers once, in one go.
    pub(crate) fn use_names(&self, names: &[String]) {
        let Some(crowd) = self.crowd.as_ref().filter(|_| !names.is_empty()) else { return };
        let mut stream = connect(&self.address);
        let mut writing = stream.try_clone().unwrap();
        let questions: Vec<u8> = names.iter().flat_map(|name| (crowd.question)(name)).collect();
        let writer = std::thread::spawn(move || writing.write_all(&questions).unwrap());
        let (mut answers, mut bytes, mut count) = (Vec::new(), [0; 65536], 0);
        while count < names.len() {
            let length = stream.read(&mut bytes).unwrap();
            assert!(length > 0, "closed after {count} answers");
            answers.extend_from_slice(&bytes[..length]);
            count = answers.windows(crowd.answer.len()).filter(|window| *window == crowd.answer).count();
        }
        writer.join().unwrap();
    }
}

/// The same limits for callers of proxies (`api`, and Envoy's domain `shop`) and of the native API.
fn rules() -> String {
    let [user, search, address] = [Rule::User, Rule::Search, Rule::Address].map(Rule::limit);
    ["api", "shop"]
        .map(|namespace| {
            format!(
                "namespace: {namespace}\n\
                 normalize: {{ path: path, remote_address: address }}\n\
                 rules:\n\
                 - {{ name: per-user, key: [user], limit: {user} per 365d }}\n\
                 - {{ name: search, key: [user, path], when: {{ path: \"/search*\" }}, limit: {search} per 365d }}\n\
                 - {{ name: per-ip, key: [ip], limit: {address} per 365d }}\n\
                 - {{ name: per-address, key: [remote_address], limit: {address} per 365d }}\n"
            )
        })
        .join("---\n")
}

fn node(arguments: &[&str]) -> (Directory, Node) {
    let directory = Directory::new();
    directory.write("rules.yaml", rules());
    directory.write("secret", SECRET);
    let fixed = ["--cluster-secret-file", "secret", "--memory-max-keys", KEYS_MAX];
    let node = Node::start(&directory, &[&fixed, arguments].concat());
    (directory, node)
}

fn of_proxy(name: &'static str, start: fn(&Directory, &Node) -> Proxy) -> Surface {
    let (directory, node) = node(&[]);
    let proxy = start(&directory, &node);
    let address = proxy.address.clone();
    let server = address.clone();
    Surface {
        name,
        address,
        send: Box::new(move |request, caller| http::send(&server, request, caller) == Some(200)),
        why_not: |attack| match attack.lever {
            Lever::Address => Some("the proxy sends the connection's address"),
            Lever::Question => Some(OWN_QUESTION),
            Lever::Names => {
                Some("the rule by address denies all but 8 of the names, and those get no counter")
            }
            _ => None,
        },
        crowd: None,
        _running: Running { _proxy: Some(proxy), _service: None, _node: node, _directory: directory },
    }
}

pub(crate) fn nginx() -> Surface {
    of_proxy("nginx", start_nginx)
}

pub(crate) fn caddy() -> Surface {
    of_proxy("Caddy", start_caddy)
}

pub(crate) fn envoy() -> Surface {
    of_proxy("Envoy", start_envoy)
}

/// The example service, whose layer asks the node over a Unix socket.
pub(crate) fn tower() -> Surface {
    let (directory, node) = node(&["--listen-unix", "tidegate.sock"]);
    let address = proxies::free_address();
    let mut command = std::process::Command::new(service());
    command.arg(&address).current_dir(directory.path("")).stdin(Stdio::null()).stdout(Stdio::null());
    let service = Process(command.spawn().unwrap());
    poll("the service", SOON, || std::net::TcpStream::connect(&address).ok());
    let server = address.clone();
    Surface {
        name: "tower",
        address,
        send: Box::new(move |request, caller| {
            // The service has one page, and it is limited.
            let request = Request { target: "/".to_owned(), ..request.clone() };
            http::send(&server, &request, caller) == Some(200)
        }),
        why_not: |attack| match (attack.lever, attack.rule) {
            (Lever::Path, _) => Some("the service sends no path"),
            (Lever::Address, _) => Some("the service sends no address"),
            (Lever::Headers, Rule::Address) => Some("the service sends no address"),
            (Lever::Question, _) => Some(OWN_QUESTION),
            (Lever::Names, _) => Some("the layer asks as native HTTP does, which has this attack"),
            _ => None,
        },
        crowd: None,
        _running: Running { _proxy: None, _service: Some(service), _node: node, _directory: directory },
    }
}

const OWN_QUESTION: &str = "the caller doesn't write the question";

/// `CL.THROTTLE` by the limit of the rule by user.
fn throttle(key: &[u8], more: &[&str]) -> Vec<u8> {
    let (burst, count) = ((Rule::User.limit() - 1).to_string(), Rule::User.limit().to_string());
    let words = [b"CL.THROTTLE", key, burst.as_bytes(), count.as_bytes(), b"31536000"];
    let words = words.into_iter().chain(more.iter().map(|word| word.as_bytes()));
    let mut command = format!("*{}\r\n", 5 + more.len()).into_bytes();
    for word in words {
        command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        command.extend_from_slice(word);
        command.extend_from_slice(b"\r\n");
    }
    command
}

/// A service that names its callers by what they sent, over the Redis protocol.
pub(crate) fn resp() -> Surface {
    let (directory, node) = node(&[]);
    let server = node.resp.clone();
    Surface {
        name: "RESP",
        address: node.resp.clone(),
        send: Box::new(move |request, caller| {
            let user = request.user.clone().unwrap_or_default();
            // A caller without a name is its address: a key may not be empty.
            let key = if user.is_empty() { caller.address.to_string().into_bytes() } else { user };
            let mut stream = connect(&server);
            let more = request.forged.map_or(&[][..], |forged| forged.resp_words);
            stream.write_all(&throttle(&key, more)).unwrap();
            // Five numbers, the first of them 0 when the request passes; or an error.
            let mut reply = [0; 8];
            stream.read_exact(&mut reply).unwrap();
            reply == *b"*5\r\n:0\r\n"
        }),
        why_not: |attack| match attack.lever {
            Lever::Name | Lever::Names | Lever::Question | Lever::Sockets => None,
            Lever::Headers => Some("a command has no headers"),
            Lever::Path => Some("a command names a key and no path"),
            Lever::Address => Some("a command names a key and no address"),
        },
        crowd: Some(Crowd {
            prefix: prefix("resp", "", Shape::Gcra),
            question: |name| throttle(name.as_bytes(), &[]),
            answer: b"*5\r\n",
        }),
        _running: Running { _proxy: None, _service: None, _node: node, _directory: directory },
    }
}

fn prefix(namespace: &str, rule: &str, shape: Shape<'_>) -> KeyPrefix {
    KeyPrefix::new(&FleetSecret::from_bytes(SECRET.as_bytes()), "default", namespace, rule, shape)
}

/// A service that asks `/v1/check` with what its callers sent, and passes on their headers too.
pub(crate) fn native() -> Surface {
    let (directory, node) = node(&[]);
    let server = node.http.clone();
    let year = Period::new(Nanos::from_secs(365 * 24 * 3600)).unwrap();
    Surface {
        name: "native",
        address: node.http.clone(),
        send: Box::new(move |asked, caller| {
            let address = asked.claimed_address.clone().unwrap_or(caller.address.to_string());
            let mut attributes = serde_json::json!({ "path": asked.target, "ip": address });
            if let Some(user) = &asked.user {
                attributes["user"] = String::from_utf8_lossy(user).into();
            }
            let mut body = serde_json::json!({ "namespace": "api", "attributes": attributes }).to_string();
            if let Some(forged) = asked.forged {
                body.insert_str(body.len() - 1, &format!(",{}", forged.json_fields));
            }
            let head = http::head(&server, "POST", "/v1/check");
            let answer = http::exchange(&server, head, &asked.headers, body.as_bytes(), caller);
            http::status(&answer) == Some(200)
                && String::from_utf8_lossy(&answer).contains("{\"allowed\":true")
        }),
        why_not: |attack| match attack.name {
            "other methods" => Some("the service asks by POST, whatever its caller's method was"),
            "an idempotency key that is repeated" => Some("the key of a question is the service's own"),
            name if name.contains("body") => Some("the body is the service's question"),
            _ => None,
        },
        crowd: Some(Crowd {
            prefix: prefix("api", "per-user", Shape::Sliding(year)),
            question: |name| {
                let body = format!(r#"{{"namespace":"api","attributes":{{"user":"{name}"}}}}"#);
                let mut question = http::head("localhost", "POST", "/v1/check");
                let rest = format!("Content-Length: {}\r\n\r\n{body}", body.len());
                question.extend_from_slice(rest.as_bytes());
                question
            },
            answer: b"HTTP/1.1 200",
        }),
        _running: Running { _proxy: None, _service: None, _node: node, _directory: directory },
    }
}
