//! What a hostile caller tries. Each attack says which rule must hold against it.

use crate::surfaces::Surface;
use std::net::{Ipv4Addr, TcpStream};

/// Who sends a request: the name in X-User, and the address that the connection comes from.
pub(crate) struct Caller {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
}

/// A request to the protected service, as bytes that a caller may choose freely.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    /// `{server}` in it is where the request is sent.
    pub(crate) target: String,
    /// The value of X-User; `None` leaves the header out.
    pub(crate) user: Option<Vec<u8>>,
    /// What the caller claims to be its address, where it can.
    pub(crate) claimed_address: Option<String>,
    pub(crate) headers: Vec<(&'static str, Vec<u8>)>,
    pub(crate) body: &'static str,
    /// What is added to the question that a service asks, where the caller can.
    pub(crate) forged: Option<Forged>,
}

/// Parts of a question that Tidegate doesn't define, or that come twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forged {
    pub(crate) json_fields: &'static str,
    pub(crate) resp_words: &'static [&'static str],
}

/// The rules of the attacked node, all for a year.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    User,
    Search,
    Address,
}

impl Rule {
    pub(crate) const fn limit(self) -> u32 {
        match self {
            Rule::Search => 2,
            Rule::User => 3,
            Rule::Address => 8,
        }
    }
}

/// What a surface lets a caller choose: attacks on anything else don't apply there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lever {
    /// Headers of an HTTP request.
    Headers,
    /// The bytes that name the caller.
    Name,
    /// The path of the request.
    Path,
    /// An address that isn't the connection's.
    Address,
    /// The words of the question itself.
    Question,
    /// As many names as it likes, at no cost.
    Names,
    /// Connections.
    Sockets,
}

pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) lever: Lever,
    pub(crate) rule: Rule,
    pub(crate) request: fn(&Caller, u32) -> Request,
    /// What is held open during the attack.
    pub(crate) hold: fn(&Surface) -> Vec<TcpStream>,
    /// Names that are used before the attack.
    pub(crate) names: fn(&Surface, &Caller) -> Vec<String>,
    /// Whether all requests are sent at the same time.
    pub(crate) is_at_once: bool,
}

pub(crate) fn plain(caller: &Caller, _round: u32) -> Request {
    Request {
        method: "GET",
        target: "/things".to_owned(),
        user: Some(caller.name.clone().into_bytes()),
        claimed_address: None,
        headers: Vec::new(),
        body: "",
        forged: None,
    }
}

fn with(caller: &Caller, headers: &[(&'static str, &str)]) -> Request {
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())).collect();
    Request { headers, ..plain(caller, 0) }
}

fn named(caller: &Caller, user: Option<Vec<u8>>) -> Request {
    Request { user, ..plain(caller, 0) }
}

fn at(caller: &Caller, target: impl Into<String>) -> Request {
    Request { target: target.into(), ..plain(caller, 0) }
}

fn nothing(_: &Surface) -> Vec<TcpStream> {
    Vec::new()
}

fn no_names(_: &Surface, _: &Caller) -> Vec<String> {
    Vec::new()
}

const fn attack(
    name: &'static str,
    lever: Lever,
    rule: Rule,
    request: fn(&Caller, u32) -> Request,
) -> Attack {
    Attack { name, lever, rule, request, hold: nothing, names: no_names, is_at_once: false }
}

pub(crate) const ATTACKS: [Attack; 37] = [
    attack("cost 0 in a header", Lever::Headers, Rule::User, |caller, _| {
        with(caller, &[("X-Tidegate-Cost", "0")])
    }),
    attack("cost that is no number", Lever::Headers, Rule::User, |caller, _| {
        with(caller, &[("X-Tidegate-Cost", "bad")])
    }),
    attack("another namespace in a header", Lever::Headers, Rule::User, |caller, _| {
        with(caller, &[("X-Tidegate-Namespace", "nope")])
    }),
    attack("another user in Tidegate's header", Lever::Headers, Rule::User, |caller, round| {
        with(caller, &[("X-Tidegate-User", &format!("somebody-{round}"))])
    }),
    attack("another address in Tidegate's header", Lever::Headers, Rule::Address, |caller, round| {
        let address = format!("10.9.8.{round}");
        Request {
            user: Some(format!("{}-{round}", caller.name).into_bytes()),
            ..with(caller, &[("X-Tidegate-Ip", &address)])
        }
    }),
    attack("addresses in forwarding headers", Lever::Headers, Rule::Address, |caller, round| {
        let address = format!("10.9.7.{round}");
        let forwarded = format!("for={address}");
        let headers = [
            ("X-Forwarded-For", &*address),
            ("X-Real-IP", &*address),
            ("Forwarded", &*forwarded),
            ("True-Client-IP", &*address),
        ];
        Request { user: Some(format!("{}-{round}", caller.name).into_bytes()), ..with(caller, &headers) }
    }),
    attack("unknown Tidegate headers", Lever::Headers, Rule::User, |caller, round| {
        let value = format!("value-{round}");
        with(
            caller,
            &[("X-Tidegate-Plan", &value), ("X-Tidegate-Attributes", "none"), ("X-Tidegate-", &value)],
        )
    }),
    attack("Tidegate's headers twice", Lever::Headers, Rule::User, |caller, round| {
        let other = format!("somebody-{round}");
        with(
            caller,
            &[
                ("X-Tidegate-User", &other),
                ("X-Tidegate-User", "another"),
                ("x-tidegate-cost", "0"),
                ("X-TIDEGATE-COST", "0"),
            ],
        )
    }),
    attack("underscores instead of hyphens", Lever::Headers, Rule::User, |caller, _| {
        with(caller, &[("X_Tidegate_Cost", "0"), ("X_Tidegate_Namespace", "nope")])
    }),
    attack("a token of the caller's own", Lever::Headers, Rule::User, |caller, _| {
        with(caller, &[("X-Tidegate-Token", "tg_wrong"), ("Authorization", "Bearer tg_wrong")])
    }),
    attack("proxy headers named in Connection", Lever::Headers, Rule::Address, |caller, round| {
        let listed = [("Connection", "close, X-Tidegate-User, X-Tidegate-Ip, X-Tidegate-Path, X-User")];
        Request { user: Some(format!("{}-{round}", caller.name).into_bytes()), ..with(caller, &listed) }
    }),
    attack("headers of a browser on another site", Lever::Headers, Rule::User, |caller, _| {
        with(
            caller,
            &[
                ("Origin", "http://evil.example"),
                ("Sec-Fetch-Site", "cross-site"),
                ("Referer", "http://evil.example/"),
            ],
        )
    }),
    attack("an idempotency key that is repeated", Lever::Headers, Rule::User, |caller, _| {
        with(caller, &[("Idempotency-Key", "the-same")])
    }),
    attack("headers with meanings of their own", Lever::Headers, Rule::User, |caller, _| {
        with(
            caller,
            &[("Expect", "100-continue"), ("TE", "trailers"), ("Upgrade", "h2c"), ("X-Request-Id", "\u{e9}")],
        )
    }),
    attack("a header that fills the head", Lever::Headers, Rule::User, |caller, _| {
        let filler = "x".repeat(7000);
        with(caller, &[("X-Filler", &filler), ("X-Filler-2", &filler), ("X-Filler-3", &filler)])
    }),
    attack("other methods", Lever::Headers, Rule::User, |caller, round| {
        let method = ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"][round as usize % 5];
        let body = if matches!(method, "POST" | "PUT") { "hello" } else { "" };
        Request { method, body, ..plain(caller, 0) }
    }),
    attack("a chunked body with trailers", Lever::Headers, Rule::User, |caller, _| Request {
        method: "POST",
        body: "5\r\nhello\r\n0\r\nX-Tidegate-Cost: 0\r\nX-Tidegate-Namespace: nope\r\nX-User: y\r\n\r\n",
        ..with(caller, &[("Transfer-Encoding", "chunked"), ("Trailer", "X-Tidegate-Cost, X-User")])
    }),
    attack("a body of two lengths", Lever::Headers, Rule::User, |caller, _| Request {
        method: "POST",
        body: "0\r\n\r\nGET /things HTTP/1.1\r\nHost: x\r\n\r\n",
        ..with(caller, &[("Content-Length", "4"), ("Transfer-Encoding", "chunked")])
    }),
    attack("a name that comes twice", Lever::Headers, Rule::Address, |caller, round| {
        with(caller, &[("X-User", &format!("somebody-{round}")), ("x-user", "another")])
    }),
    attack("a proxy's own headers", Lever::Headers, Rule::Address, |caller, round| {
        let address = format!("10.9.6.{round}");
        let headers = [
            ("X-Envoy-Original-Path", "/free"),
            ("X-Envoy-External-Address", &*address),
            ("X-Envoy-Internal", "true"),
            ("X-Original-URI", "/free"),
            ("X-Forwarded-Uri", "/free"),
            ("X-Forwarded-Method", "OPTIONS"),
            ("X-HTTP-Method-Override", "OPTIONS"),
        ];
        Request { user: Some(format!("{}-{round}", caller.name).into_bytes()), ..with(caller, &headers) }
    }),
    attack("a name of 600 characters", Lever::Name, Rule::User, |caller, _| {
        named(caller, Some(format!("{}{}", caller.name, "x".repeat(600)).into_bytes()))
    }),
    attack("a name of 7,000 characters", Lever::Name, Rule::User, |caller, _| {
        named(caller, Some(format!("{}{}", caller.name, "x".repeat(7000)).into_bytes()))
    }),
    attack("a name that is not UTF-8", Lever::Name, Rule::User, |caller, _| {
        named(caller, Some([caller.name.as_bytes(), b"\xff\xfe\x80"].concat()))
    }),
    attack("no name", Lever::Name, Rule::Address, |caller, _| named(caller, None)),
    attack("an empty name", Lever::Name, Rule::Address, |caller, _| named(caller, Some(Vec::new()))),
    attack("another query each time", Lever::Path, Rule::Search, |caller, round| {
        at(caller, format!("/search?q={round}"))
    }),
    attack("other spellings of a path", Lever::Path, Rule::Search, |caller, round| {
        let spellings = [
            "/search",
            "//search",
            "/%73earch",
            "/./search",
            "/x/../search",
            "/%73%65arch?q=%2F",
            "/search?",
        ];
        at(caller, spellings[round as usize % spellings.len()])
    }),
    attack("Tidegate's parameters in the query", Lever::Path, Rule::User, |caller, round| {
        at(caller, format!("/things?namespace=nope&cost=0&attributes=none&user=somebody-{round}"))
    }),
    attack("a target with a host", Lever::Path, Rule::Search, |caller, round| {
        at(caller, format!("http://{{server}}/search?q={round}"))
    }),
    attack("a path of 20,000 characters", Lever::Path, Rule::User, |caller, round| {
        at(caller, format!("/{round}{}", "x".repeat(20_000)))
    }),
    attack("line breaks and names in a path", Lever::Path, Rule::User, |caller, round| {
        at(
            caller,
            format!("/x%0d%0aX-Tidegate-User:%20other-{round}%0d%0aX-Tidegate-Cost:%200?%0d%0aX-User:%20y"),
        )
    }),
    attack("malformed addresses", Lever::Address, Rule::Address, |caller, round| {
        let forms = [
            "1.2.3.4, 9.9.9.9",
            "garbage",
            "",
            "999.1.1.1",
            "fe80::g%eth0",
            "[::1",
            "1.2.3.4:x",
            ":::ffff",
            "-",
            "\u{e9}",
        ];
        let claimed = format!("{}{}", forms[round as usize % forms.len()], if round > 9 { "x" } else { "" });
        Request {
            user: Some(format!("{}-{round}", caller.name).into_bytes()),
            claimed_address: Some(claimed),
            ..plain(caller, 0)
        }
    }),
    attack("IPv6 spellings of an address", Lever::Address, Rule::Address, |caller, round| {
        let [a, b, c, d] = caller.address.octets();
        let forms = [
            format!("::ffff:{a}.{b}.{c}.{d}"),
            format!("[::FFFF:{a}.{b}.{c}.{d}]:{}", 1000 + round),
            format!("0:0:0:0:0:ffff:{:x}:{:x}", u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
            format!("{a}.{b}.{c}.{d}:{}", 1000 + round),
            format!("::ffff:{a}.{b}.{c}.{d}%eth{round}"),
        ];
        Request {
            user: Some(format!("{}-{round}", caller.name).into_bytes()),
            claimed_address: Some(forms[round as usize % forms.len()].clone()),
            ..plain(caller, 0)
        }
    }),
    attack("fields that are unknown or come twice", Lever::Question, Rule::User, |caller, round| {
        let forged = [
            Forged { json_fields: r#""cost":1,"cost":0"#, resp_words: &["1", "0"] },
            Forged { json_fields: r#""Cost":0"#, resp_words: &["0x1"] },
            Forged { json_fields: r#""namespace":"nope""#, resp_words: &["-1"] },
            Forged { json_fields: r#""\u006eamespace":"nope""#, resp_words: &["1", "NAMESPACE", "nope"] },
            Forged { json_fields: r#""attributes":{}"#, resp_words: &[""] },
            Forged { json_fields: r#""cost":-1"#, resp_words: &["99999999999999999999"] },
        ];
        Request { forged: Some(forged[round as usize % forged.len()]), ..plain(caller, 0) }
    }),
    Attack {
        names: |surface, caller| surface.crowded_names(&caller.name),
        ..attack("names that were computed to crowd a shard", Lever::Names, Rule::User, plain)
    },
    Attack { is_at_once: true, ..attack("all requests at once", Lever::Sockets, Rule::User, plain) },
    Attack {
        hold: |surface| (0..200).filter_map(|_| TcpStream::connect(&surface.address).ok()).collect(),
        ..attack("200 silent sockets", Lever::Sockets, Rule::User, plain)
    },
];
