//! Keeps pages of other sites from using a node through the browser of whoever opened them.
//!
//! Without tokens, loopback is all the protection there is, and a browser on this machine is inside of it:
//! it sends simple requests of any site without asking first. Must cost an ordinary caller next to nothing.

use crate::access::Tokens;
use crate::refusal::{Code, Refusal, excerpt};
use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use std::net::{Ipv4Addr, Ipv6Addr};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Which headers of a request are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guard {
    /// None: a proxy asks about a browser's request, and forwards the browser's own `Host` and `Origin`.
    Forwarded,
    /// `Origin` and `Sec-Fetch-Site`.
    Origin,
    /// The same, and `Host` on any request: it changes or shows what others rely on.
    Host,
}

/// Refuses what another site's page sent. Where a page needs no token, it may also have pointed its own name here
/// (DNS rebinding): then `Host` and `Origin` both are that name, so only hosts that no name server answers for count.
#[inline]
pub(crate) fn refuse(guard: Guard, tokens: &Tokens, headers: &HeaderMap) -> Result<(), Refusal> {
    if guard == Guard::Forwarded {
        return Ok(());
    }
    let host = headers.get(HOST);
    let mut checks_host = guard == Guard::Host;
    if let Some(origin) = headers.get(ORIGIN) {
        if !is_own(origin, host) {
            return Err(of_another_site("Origin", origin));
        }
        checks_host = true;
    }
    if let Some(site) = headers.get(FETCH_SITE)
        && site.as_bytes().eq_ignore_ascii_case(b"cross-site")
    {
        return Err(of_another_site("Sec-Fetch-Site", site));
    }
    match host {
        // Every browser sends a host; a probe that speaks HTTP/1.0 may not.
        Some(host) if checks_host && !tokens.are_required() && !is_unforgeable(host.as_bytes()) => {
            Err(to_a_name(host))
        }
        _ => Ok(()),
    }
}

/// Whether the page came from this very listener. An origin of `null` is nobody's.
fn is_own(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
    let host = host.and_then(|host| host.to_str().ok());
    authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

/// An IP address or `localhost`, with or without a port: no name server has a say in those.
pub(crate) fn is_unforgeable(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cold]
fn of_another_site(header: &str, value: &HeaderValue) -> Refusal {
    let message = format!("`{header}: {}` says that a page of another site sent this", shown(value));
    Refusal::new(Code::CrossSite, message, "call the node from a server or a command, not from such a page")
}

#[cold]
fn to_a_name(host: &HeaderValue) -> Refusal {
    let message = format!("`Host: {}` is neither an IP address nor `localhost`", shown(host));
    let fix = "use the address, such as http://127.0.0.1:8080, or require tokens (auth.tokens)";
    Refusal::new(Code::CrossSite, message, fix)
}

fn shown(value: &HeaderValue) -> String {
    excerpt(&String::from_utf8_lossy(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_origin_with_the_same_host_and_port_is_own() {
        let own =
            |origin, host| is_own(&HeaderValue::from_static(origin), Some(&HeaderValue::from_static(host)));
        assert!(own("http://127.0.0.1:8080", "127.0.0.1:8080"));
        assert!(own("https://Limits.example", "limits.example"));
        assert!(own("http://[::1]:8080", "[::1]:8080"));
        for origin in ["null", "", "http://", "http://127.0.0.1", "http://127.0.0.1:3000", "127.0.0.1:8080"] {
            assert!(!own(origin, "127.0.0.1:8080"), "{origin}");
        }
        assert!(!is_own(&HeaderValue::from_static("http://a"), None));
    }

    #[test]
    fn a_page_that_pointed_its_name_here_is_refused_unless_it_needs_a_token() {
        let headers = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            headers
        };
        let (open, closed) = (Tokens::not_required(), Tokens::required(Vec::new()));
        let rebound = headers("evil.example:8080", Some("http://evil.example:8080"));
        for (guard, tokens, is_refused) in [
            (Guard::Forwarded, &open, false),
            (Guard::Origin, &open, true),
            (Guard::Host, &open, true),
            (Guard::Origin, &closed, false),
            (Guard::Host, &closed, false),
        ] {
            assert_eq!(refuse(guard, tokens, &rebound).is_err(), is_refused, "{guard:?}");
        }
        let named = headers("node.internal:8080", None);
        assert!(refuse(Guard::Origin, &open, &named).is_ok(), "a server that calls it by name");
        assert!(refuse(Guard::Host, &open, &named).is_err());
        let own = headers("127.0.0.1:8080", Some("http://127.0.0.1:8080"));
        assert!(refuse(Guard::Host, &open, &own).is_ok());
        assert!(refuse(Guard::Forwarded, &open, &headers("shop.example", Some("https://a.example"))).is_ok());
    }

    #[test]
    fn only_addresses_and_localhost_are_beyond_rebinding() {
        let unforgeable = |host: &str| is_unforgeable(host.as_bytes());
        for host in ["127.0.0.1", "127.0.0.1:9090", "[::1]", "[::1]:9090", "localhost", "LocalHost:9090"] {
            assert!(unforgeable(host), "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:9090", "localhost.evil.example", "127.0.0.1.evil.example"]
        {
            assert!(!unforgeable(host), "{host}");
        }
        for host in ["[evil.example]", "[127.0.0.1]", "evil.example:127.0.0.1", ":9090", "localhost:x"] {
            assert!(!unforgeable(host), "{host}");
        }
    }
}
