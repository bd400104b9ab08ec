//! Keeps pages of other sites from using a node through the browser of whoever opened them.
//!
//! Without tokens, loopback is all the protection there is, and a browser on this machine is inside of it:
//! it sends simple requests of any site without asking first. Must cost an ordinary caller next to nothing.

use crate::Surface;
use crate::access::Tokens;
use crate::refusal::{Code, Refusal, excerpt};
use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use std::net::{Ipv4Addr, Ipv6Addr};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses what another site's page sent; on the admin surface, also what was sent to a name that anybody
/// could have pointed here (DNS rebinding), unless it takes a token to get any further: a page hasn't one.
#[inline]
pub(crate) fn refuse(surface: Surface, tokens: &Tokens, headers: &HeaderMap) -> Result<(), Refusal> {
    if let Some(origin) = headers.get(ORIGIN)
        && !is_own(origin, headers.get(HOST))
    {
        return Err(of_another_site("Origin", origin));
    }
    if let Some(site) = headers.get(FETCH_SITE)
        && site.as_bytes().eq_ignore_ascii_case(b"cross-site")
    {
        return Err(of_another_site("Sec-Fetch-Site", site));
    }
    match surface {
        Surface::Api | Surface::ApiAndGrpc | Surface::Grpc | Surface::Resp => Ok(()),
        Surface::Admin if tokens.are_required() => Ok(()),
        // Every browser sends a host; a probe that speaks HTTP/1.0 may not.
        Surface::Admin => match headers.get(HOST) {
            Some(host) if !is_unforgeable(host) => Err(to_a_name(host)),
            _ => Ok(()),
        },
    }
}

/// Whether the page came from this very listener. An origin of `null` is nobody's.
fn is_own(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, rest)| rest);
    let host = host.and_then(|host| host.to_str().ok());
    authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

/// An IP address or `localhost`, with or without a port: no name server has a say in those.
fn is_unforgeable(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else { return false };
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
    Refusal::new(Code::CrossSite, message, "use the address, such as http://127.0.0.1:9090")
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
    fn only_addresses_and_localhost_are_beyond_rebinding() {
        let unforgeable = |host| is_unforgeable(&HeaderValue::from_static(host));
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
