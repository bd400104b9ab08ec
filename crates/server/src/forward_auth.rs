//! Forward-auth: nginx's `auth_request`, Traefik's `forwardAuth`, Caddy's `forward_auth`. The proxy asks about
//! a request before it passes it on; the answer is 204 or 429, with headers and without a body.
//!
//! Proxies pass the caller's own headers to this question, so a header counts only where the operator said that the
//! proxy sets it: the query names it (`attributes=user,ip`), or the setting `forward_auth.accept` does. Namespace and
//! cost of the query are final. The setting `forward_auth.attributes` takes attributes from other headers.
//!
//! A question that can't be judged is denied with 429: nginx turns a 400 into an error of its own, which
//! configurations often treat as "the limiter is down" and let pass.

use crate::access::Caller;
use crate::counters::COUNTERS;
use crate::decide::{self, TryDecision};
use crate::log_gate::LogGate;
use crate::rate_headers::{self, Header, RateLimitHeaders};
use crate::refusal::{Code, Refusal, excerpt};
use crate::request_id::{self, RequestId};
use crate::respond::{self, HttpResponse};
use crate::{App, answer};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Response, StatusCode};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use tidegate_core::{Cost, Decision, Nanos, Role, Spec};
use tidegate_node::request::{ATTRIBUTE_NAME_CHARS_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX};
use tidegate_node::{Answer, LimitOutcome, LimitSource, Purpose, Request, Subject};
use tidegate_rules::{Attributes, Rule};

const PREFIX: &str = "x-tidegate-";
const NAMESPACE: &str = "namespace";
const COST: &str = "cost";
const ATTRIBUTES: &str = "attributes";
/// A response names no more limits than this.
const LIMITS_MAX: usize = 8;
/// The proxy's own, and a secret: never an attribute.
const TOKEN: &str = "token";

/// Which headers `/auth` believes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForwardAuth {
    /// Names of `X-Tidegate-<name>` headers that the proxies set; `namespace` and `cost` may be among them.
    pub accepted: Vec<String>,
    pub mapped: Vec<MappedHeader>,
}

impl ForwardAuth {
    /// Reads `name, name, …`, the names in lower case as headers have them; returns what is wrong with it otherwise.
    pub fn parse_accepted(text: &str) -> Result<Vec<String>, String> {
        let mut list: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let name = name.to_ascii_lowercase();
            check_attribute_name(&name)?;
            if name.starts_with(PREFIX) {
                return Err(format!("`{}` is the header; give the attribute's name alone", excerpt(&name)));
            }
            if name == TOKEN {
                return Err("`token` is the proxy's secret, and never an attribute".to_owned());
            }
            if HeaderName::try_from(format!("{PREFIX}{name}")).is_err() {
                return Err(format!("`{}` can't be part of a header's name", excerpt(&name)));
            }
            if list.contains(&name) {
                return Err(format!("`{name}` comes twice"));
            }
            list.push(name);
        }
        if list.len() > ATTRIBUTES_MAX {
            return Err(format!("there are more than {ATTRIBUTES_MAX}"));
        }
        Ok(list)
    }
}

fn check_attribute_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().count() > ATTRIBUTE_NAME_CHARS_MAX {
        return Err(format!("an attribute's name has 1 to {ATTRIBUTE_NAME_CHARS_MAX} characters"));
    }
    Ok(())
}

/// An attribute that is taken from a header of the original request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappedHeader {
    pub attribute: String,
    pub header: HeaderName,
}

impl MappedHeader {
    /// `attribute=Header, …`; else what is wrong with it.
    pub fn parse_list(text: &str) -> Result<Vec<MappedHeader>, String> {
        let mut list: Vec<MappedHeader> = Vec::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (attribute, header) =
                pair.split_once('=').ok_or_else(|| format!("`{}` has no `=`", excerpt(pair)))?;
            let (attribute, header) = (attribute.trim(), header.trim());
            check_attribute_name(attribute)?;
            if list.iter().any(|mapped| mapped.attribute == attribute) {
                return Err(format!("`{attribute}` comes twice"));
            }
            let header = HeaderName::try_from(header)
                .map_err(|_| format!("`{}` isn't the name of a header", excerpt(header)))?;
            list.push(MappedHeader { attribute: attribute.to_owned(), header });
        }
        if list.len() > ATTRIBUTES_MAX {
            return Err(format!("there are more than {ATTRIBUTES_MAX}"));
        }
        Ok(list)
    }
}

impl fmt::Display for MappedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.attribute, self.header)
    }
}

pub(crate) async fn answer(
    app: &App,
    caller: &Caller,
    head: &Parts,
    id: RequestId,
) -> Result<HttpResponse, Refusal> {
    let decided = decide(app, caller, head, id.clone()).await;
    decided.or_else(|refusal| match refusal_status(app, &refusal) {
        StatusCode::TOO_MANY_REQUESTS => {
            COUNTERS.requests_refused.add_one();
            Ok(respond::json(StatusCode::TOO_MANY_REQUESTS, refusal.to_json(), id))
        }
        _ => Err(refusal),
    })
}

/// Returns the status of a question that was refused: a denial, unless it is about the proxy's token or a store. Logs
/// denials, at most once a minute, since the proxy hides them from the operator.
#[cold]
pub(crate) fn refusal_status(app: &App, refusal: &Refusal) -> StatusCode {
    // What is missing is the operator's mistake: a caller's mistakes don't keep it out of the log.
    static OPERATORS: LogGate = LogGate::new();
    static CALLERS: LogGate = LogGate::new();
    match refusal.code.status() {
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::SERVICE_UNAVAILABLE) => {
            status
        }
        _ => {
            COUNTERS.requests_unjudged.add_one();
            let gate = if refusal.code == Code::MissingField { &OPERATORS } else { &CALLERS };
            if gate.passes(app.clock.now().now) {
                let Refusal { message, fix, .. } = refusal;
                tracing::warn!("/auth denied a request that it can't judge: {message}; {fix}");
            }
            StatusCode::TOO_MANY_REQUESTS
        }
    }
}

async fn decide(app: &App, caller: &Caller, head: &Parts, id: RequestId) -> Result<HttpResponse, Refusal> {
    let asked = AuthRequest::read(app, head.uri.query().unwrap_or(""), &head.headers)?;
    let request = asked.request(caller);
    decide::name_request(app, id.as_str());
    let rules = app.engine.rules();
    match decide::try_engine(app, &rules, &request, |decided| response(app, decided, &id))? {
        TryDecision::Answered(response) => Ok(response),
        TryDecision::MustAsk(pending) => Ok(response(app, &Box::pin(pending.finish(app)).await, &id)),
    }
}

fn response(app: &App, decided: &Answer<'_>, id: &RequestId) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status(decided);
    each_header(decided, app.clock.now().now, |header, value| {
        respond::add_header(&mut response, header, value);
    });
    response.headers_mut().insert(request_id::HEADER, id.clone().into_header());
    response
}

pub(crate) fn status(decided: &Answer<'_>) -> StatusCode {
    if decided.allowed { StatusCode::NO_CONTENT } else { StatusCode::TOO_MANY_REQUESTS }
}

/// Gives each header about limits to `take`.
pub(crate) fn each_header(decided: &Answer<'_>, now: Nanos, take: impl FnMut(Header, &[u8])) {
    rate_headers::each(&limit_headers(decided, now), answer::retry_after_seconds(decided), take);
}

/// Returns the limits that headers are written for, the strictest first, without shadow limits.
fn limit_headers<'r>(answer: &Answer<'r>, now: Nanos) -> SmallVec<[RateLimitHeaders<'r>; LIMITS_MAX]> {
    let enforced = answer.limits.iter().filter(|limit| limit.role != Role::Shadow);
    let mut decided: SmallVec<[(&'r Rule, Decision); LIMITS_MAX]> = enforced
        .filter_map(|limit| match (limit.outcome, limit.source) {
            (LimitOutcome::Decided(decision), LimitSource::Rule(rule)) => Some((rule, decision)),
            _ => None,
        })
        .collect();
    decided.sort_by_key(|(_, decision)| (decision.is_admitted(), decision.remaining));
    let told = |(rule, decision): &(&'r Rule, Decision)| RateLimitHeaders {
        name: &rule.name,
        limit: decision.limit,
        remaining: decision.remaining,
        // Rounded up: whoever waits so long has waited long enough.
        reset_seconds: decision.reset.minus(now).get().div_ceil(Nanos::PER_SECOND),
        window_seconds: window_seconds(rule, now),
    };
    decided.iter().take(LIMITS_MAX).map(told).collect()
}

/// How long the window of a rule is, which no override changes; GCRA has none.
fn window_seconds(rule: &Rule, now: Nanos) -> Option<u64> {
    let length = match rule.policy.spec(now) {
        Spec::Sliding { period, .. } | Spec::Fixed { period, .. } => period.length(),
        Spec::Calendar { cell, .. } => cell.end.minus(cell.start),
        Spec::Gcra { .. } => return None,
    };
    Some(length.get().div_ceil(Nanos::PER_SECOND))
}

/// A forward-auth request: its headers and its query.
pub(crate) struct AuthRequest<'a> {
    namespace: Cow<'a, str>,
    cost: Cost,
    attributes: Vec<(&'a str, &'a str)>,
}

impl<'a> AuthRequest<'a> {
    pub(crate) fn read(app: &'a App, query: &'a str, headers: &'a HeaderMap) -> Result<Self, Refusal> {
        let ForwardAuth { accepted, mapped } = &app.forward_auth;
        let query = Query::read(query)?;
        if query.attributes.is_none() && accepted.is_empty() && mapped.is_empty() {
            return Err(nothing_accepted());
        }
        let is_accepted = |name: &str| accepted.iter().any(|accepted| accepted == name);
        let (mut namespace, mut cost) = (query.namespace, query.cost);
        let mut attributes = Vec::new();
        for header in headers.keys() {
            let Some(name) = header.as_str().strip_prefix(PREFIX) else { continue };
            match name {
                TOKEN => {}
                NAMESPACE if namespace.is_none() && is_accepted(name) => {
                    namespace = Some(Cow::Borrowed(only_value(headers, header)?));
                }
                COST if cost.is_none() && is_accepted(name) => {
                    cost = Some(Cow::Borrowed(only_value(headers, header)?));
                }
                NAMESPACE | COST => {}
                _ => {
                    let is_believed = match query.attributes {
                        Some(names) => names_in(names).any(|named| named == name),
                        None => is_accepted(name),
                    };
                    if is_believed {
                        push_unless_empty(&mut attributes, name, only_value(headers, header)?);
                    } else {
                        report_ignored(app, name);
                    }
                }
            }
        }
        for MappedHeader { attribute, header } in mapped {
            let is_given = attributes.iter().any(|(name, _)| name == attribute);
            if !is_given && headers.contains_key(header) {
                push_unless_empty(&mut attributes, attribute, only_value(headers, header)?);
            }
        }
        if attributes.len() > ATTRIBUTES_MAX {
            let message = format!("the request has more than {ATTRIBUTES_MAX} attributes");
            return Err(Refusal::new(Code::TooMany, message, "send only the attributes that rules name"));
        }
        let cost = cost.map_or(Ok(Cost::ONE), |text| read_cost(&text))?;
        Ok(AuthRequest { namespace: namespace.ok_or_else(no_namespace)?, cost, attributes })
    }

    pub(crate) fn request<'q>(&'q self, caller: &'q Caller) -> Request<'q> {
        let AuthRequest { namespace, cost, attributes } = self;
        let subject = Subject::Rules { namespace, attributes: Attributes(attributes), cost: *cost };
        Request { tenant: caller.tenant(), purpose: Purpose::Check, subject }
    }
}

/// Adds an attribute. A proxy that copies a header which the caller left out sends an empty one (Caddy) or none
/// (nginx): both mean that the attribute is missing.
fn push_unless_empty<'a>(attributes: &mut Vec<(&'a str, &'a str)>, name: &'a str, value: &'a str) {
    if !value.is_empty() {
        attributes.push((name, value));
    }
}

/// Logs a header that isn't believed, at most once a minute: either a caller sends it, or the operator forgot to name
/// it and its rules don't apply.
#[cold]
fn report_ignored(app: &App, name: &str) {
    static GATE: LogGate = LogGate::new();
    if GATE.passes(app.clock.now().now) {
        tracing::warn!(
            "/auth ignored the header X-Tidegate-{}: if the proxy sets it, name it in `attributes=` of the query or in \
             forward_auth.accept",
            excerpt(name)
        );
    }
}

/// What the operator wrote into the proxy's configuration.
#[derive(Default)]
struct Query<'a> {
    namespace: Option<Cow<'a, str>>,
    cost: Option<Cow<'a, str>>,
    /// The names of the attribute headers that count, separated by commas. They replace the setting's.
    attributes: Option<&'a str>,
}

impl<'a> Query<'a> {
    fn read(text: &'a str) -> Result<Self, Refusal> {
        let mut query = Query::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let earlier = match name {
                NAMESPACE => query.namespace.replace(decoded(name, value)?).is_some(),
                COST => query.cost.replace(decoded(name, value)?).is_some(),
                ATTRIBUTES => query.attributes.replace(checked_names(value)?).is_some(),
                _ => return Err(unknown_parameter(name)),
            };
            if earlier {
                return Err(repeated_parameter(name));
            }
        }
        Ok(query)
    }
}

fn names_in(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|name| !name.is_empty())
}

/// Refuses names that no attribute header can have: a typing mistake there would switch rules off.
fn checked_names(list: &str) -> Result<&str, Refusal> {
    let is_name = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b',');
    let is_reserved = |name: &str| matches!(name, NAMESPACE | COST | TOKEN);
    if list.bytes().all(is_name) && !names_in(list).any(is_reserved) {
        return Ok(list);
    }
    let message = format!("`attributes` of the query is `{}`", excerpt(list));
    let fix = "name attributes in lower case, such as attributes=user,ip; namespace, cost and token are none";
    Err(Refusal::of_field(Code::UnknownValue, ATTRIBUTES, message, fix))
}

/// A value of the query without its percent signs.
fn decoded<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>, Refusal> {
    if !value.contains('%') {
        return Ok(Cow::Borrowed(value));
    }
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *byte == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let code = code.filter(|code| code.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| {
        let message = format!("`{name}` of the query isn't UTF-8");
        Refusal::of_field(Code::InvalidUtf8, name, message, "percent-encode the bytes of UTF-8")
    })
}

fn only_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, Refusal> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        let message = format!("the header `{name}` comes twice");
        let fix = "let the proxy replace the header, not add to what a caller sent";
        return Err(Refusal::of_field(Code::DuplicateField, name.as_str(), message, fix));
    }
    let text = first.map_or(Ok(""), |value| text(name, value))?;
    if text.len() > ATTRIBUTE_VALUE_BYTES_MAX {
        let message = format!("the header `{name}` has more than {ATTRIBUTE_VALUE_BYTES_MAX} bytes");
        return Err(Refusal::of_field(
            Code::InvalidText,
            name.as_str(),
            message,
            "send a hash of it instead",
        ));
    }
    Ok(text)
}

fn text<'a>(name: &HeaderName, value: &'a HeaderValue) -> Result<&'a str, Refusal> {
    std::str::from_utf8(value.as_bytes()).map_err(|_| {
        let message = format!("the header `{name}` isn't UTF-8");
        Refusal::of_field(Code::InvalidUtf8, name.as_str(), message, "percent-encode what isn't")
    })
}

fn read_cost(text: &str) -> Result<Cost, Refusal> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let cost = text.parse().ok().filter(|_| is_number).and_then(|number| Cost::new(number).ok());
    cost.ok_or_else(|| {
        let message = format!("the cost is `{}`", excerpt(text));
        let fix = "give a whole number from 0 to 9007199254740992";
        Refusal::of_field(Code::OutOfRange, COST, message, fix)
    })
}

#[cold]
fn no_namespace() -> Refusal {
    let fix = "have the proxy call /auth?namespace=NAME; the header X-Tidegate-Namespace counts only where \
               forward_auth.accept names `namespace`";
    Refusal::of_field(Code::MissingField, NAMESPACE, "no namespace was named", fix)
}

#[cold]
fn unknown_parameter(name: &str) -> Refusal {
    let message = format!("the query has `{}`, which means nothing here", excerpt(name));
    let fix = "the query takes namespace, cost and attributes; values of attributes go into headers, X-Tidegate-<name>";
    Refusal::of_field(Code::UnknownField, excerpt(name), message, fix)
}

#[cold]
fn repeated_parameter(name: &str) -> Refusal {
    let message = format!("the query has `{name}` twice");
    let fix = "write it once in the proxy's configuration, and append nothing of the caller's query";
    Refusal::of_field(Code::DuplicateField, name, message, fix)
}

#[cold]
fn nothing_accepted() -> Refusal {
    let message = "every request is denied, because nothing says which attribute headers the proxy sets";
    let fix = "name them in the proxy's configuration (/auth?namespace=NAME&attributes=user,ip) or in the setting \
               forward_auth.accept; `attributes=` with no name is for rules without attributes";
    Refusal::of_field(Code::MissingField, ATTRIBUTES, message, fix)
}
