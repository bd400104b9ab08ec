//! The surfaces under attack, each with a node of its own and the same rules.

use crate::attacks::{Attack, Caller, Lever, Request, Rule};
use crate::proxies::{Proxy, start_caddy, start_envoy, start_nginx};
use crate::service_example::service;
use crate::support::{Directory, Node, Process, SOON, connect, poll, request};
use crate::{http, proxies};
use std::io::{Read, Write};
use std::process::Stdio;

/// Sends a request and returns whether it was admitted.
type Send = Box<dyn Fn(&Request, &Caller) -> bool>;

pub(crate) struct Surface {
    pub(crate) name: &'static str,
    /// Where callers connect.
    pub(crate) address: String,
    send: Send,
    /// Says why an attack makes no sense here; `None` when it does.
    pub(crate) why_not: fn(&Attack) -> Option<&'static str>,
    _running: Running,
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
    let node = Node::start(&directory, arguments);
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
            _ => None,
        },
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
            _ => None,
        },
        _running: Running { _proxy: None, _service: Some(service), _node: node, _directory: directory },
    }
}

const OWN_SERVICE: &str = "the caller's headers don't get here: your service names user, path and address";

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
            let burst = (Rule::User.limit() - 1).to_string();
            let count = Rule::User.limit().to_string();
            let words: [&[u8]; 5] = [b"CL.THROTTLE", &key, burst.as_bytes(), count.as_bytes(), b"31536000"];
            let mut command = format!("*{}\r\n", words.len()).into_bytes();
            for word in words {
                command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                command.extend_from_slice(word);
                command.extend_from_slice(b"\r\n");
            }
            let mut stream = connect(&server);
            stream.write_all(&command).unwrap();
            // Five numbers, the first of them 0 when the request passes; or an error.
            let mut reply = [0; 8];
            stream.read_exact(&mut reply).unwrap();
            reply == *b"*5\r\n:0\r\n"
        }),
        why_not: |attack| match attack.lever {
            Lever::Name | Lever::Sockets => None,
            Lever::Headers | Lever::Path | Lever::Address => Some(OWN_SERVICE),
        },
        _running: Running { _proxy: None, _service: None, _node: node, _directory: directory },
    }
}

/// A service that asks `/v1/check` with what its callers sent.
pub(crate) fn native() -> Surface {
    let (directory, node) = node(&[]);
    let server = node.http.clone();
    Surface {
        name: "native",
        address: node.http.clone(),
        send: Box::new(move |asked, caller| {
            let address = asked.claimed_address.clone().unwrap_or(caller.address.to_string());
            let mut attributes = serde_json::json!({ "path": asked.target, "ip": address });
            if let Some(user) = &asked.user {
                attributes["user"] = String::from_utf8_lossy(user).into();
            }
            let body = serde_json::json!({ "namespace": "api", "attributes": attributes }).to_string();
            request(&server, "POST", "/v1/check", &body).1["allowed"] == true
        }),
        why_not: |attack| match attack.lever {
            Lever::Headers => Some(OWN_SERVICE),
            _ => None,
        },
        _running: Running { _proxy: None, _service: None, _node: node, _directory: directory },
    }
}
