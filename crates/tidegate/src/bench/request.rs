//! What is sent: prebuilt, by protocol, from what the user wants asked.

use super::http2::Call;
use super::target::{Protocol, Target};
use super::template::{PLACEHOLDER, Template};
use std::fmt::Write as _;

const RATE_LIMIT_PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Envoy's number for it.
const MINUTE: u8 = 2;

/// What to ask, as it was typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    pub(crate) method: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Option<String>,
    pub(crate) command: Option<String>,
    /// By the target's own rules, instead of limits in the request.
    pub(crate) by_rules: bool,
    /// Of each limit, in a minute.
    pub(crate) limit: u64,
    /// In one request.
    pub(crate) limits: usize,
}

/// A request, made once.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Answered in order.
    Ordered(Template),
    Call(Call),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuestionError {
    #[error("{flag} means nothing to a {scheme} target; leave it out")]
    NotHere { flag: &'static str, scheme: &'static str },
    #[error(
        "--rules and --limits contradict each other: how many limits apply is the rules' affair; leave one out"
    )]
    RulesAndLimits,
    #[error(
        "the Redis protocol has no command for several limits; leave --limits out, or ask over http or grpc"
    )]
    SeveralLimits,
    #[error("--header {0:?} isn't a header; write it as 'Name: value'")]
    Header(String),
    #[error("--path {0:?} isn't a path; write it as /v1/limit, without spaces")]
    Path(String),
    #[error("--method {0:?} isn't a method; write it as GET or POST")]
    Method(String),
    #[error("--command is empty; write it as 'CL.THROTTLE {{key}} 15 30 60'")]
    Command,
    #[error(
        "--body {0:?} isn't a message; a grpc target's is in hexadecimal digits, with {PLACEHOLDER} for the key"
    )]
    Hexadecimal(String),
    #[error("the message is too long; a call's has at most 16 KiB, its path and host 1 KiB")]
    TooLong,
}

impl Request {
    pub(crate) fn new(target: &Target, question: &Question) -> Result<Self, QuestionError> {
        let refuse = |flag, scheme, is_given: bool| {
            if is_given { Err(QuestionError::NotHere { flag, scheme }) } else { Ok(()) }
        };
        if question.by_rules && question.limits != 1 {
            return Err(QuestionError::RulesAndLimits);
        }
        match target.protocol {
            Protocol::Http => {
                refuse("--command", "http", question.command.is_some())?;
                http(&target.authority, question).map(Request::Ordered)
            }
            Protocol::Grpc => {
                refuse("--command", "grpc", question.command.is_some())?;
                refuse("--header", "grpc", !question.headers.is_empty())?;
                refuse("--method", "grpc", question.method.is_some())?;
                grpc(&target.authority, question).map(Request::Call)
            }
            Protocol::Resp => {
                refuse("--rules", "redis", question.by_rules)?;
                refuse("--path", "redis", question.path.is_some())?;
                refuse("--body", "redis", question.body.is_some())?;
                refuse("--header", "redis", !question.headers.is_empty())?;
                refuse("--method", "redis", question.method.is_some())?;
                command(question).map(Request::Ordered)
            }
        }
    }
}

fn http(authority: &str, question: &Question) -> Result<Template, QuestionError> {
    let (default_path, default_body) = limits_in_json(question);
    let path = question.path.as_deref().unwrap_or(default_path);
    if !path.starts_with('/') || path.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(QuestionError::Path(path.to_owned()));
    }
    // Paths that aren't of limits, such as /auth, have no body that could be guessed.
    let body = match (&question.body, &question.path) {
        (Some(body), _) => Template::of(body),
        (None, Some(path)) if path != default_path => Template::default(),
        (None, _) => Template::of(&default_body),
    };
    let method = question.method.as_deref().unwrap_or(if body.len() == 0 { "GET" } else { "POST" });
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(QuestionError::Method(method.to_owned()));
    }
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {authority}\r\n");
    for header in &question.headers {
        let is_header = header.split_once(':').is_some_and(|(name, _)| !name.is_empty());
        if !is_header || header.contains(char::is_control) {
            return Err(QuestionError::Header(header.clone()));
        }
        let _ = write!(head, "{header}\r\n");
    }
    if body.len() > 0 {
        let _ = write!(head, "content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    }
    head.push_str("\r\n");
    let mut request = Template::of(&head);
    request.append(&body);
    Ok(request)
}

/// The path and the body that ask for as many limits as are wanted.
fn limits_in_json(question: &Question) -> (&'static str, String) {
    let limit = |namespace: &str| {
        format!(
            "{{\"namespace\":\"{namespace}\",\"identifier\":\"{PLACEHOLDER}\",\"limit\":{},\"duration_ms\":60000}}",
            question.limit
        )
    };
    if question.by_rules {
        let body = format!("{{\"namespace\":\"bench\",\"attributes\":{{\"key\":\"{PLACEHOLDER}\"}}}}");
        return ("/v1/check", body);
    }
    if question.limits == 1 {
        return ("/v1/limit", limit("bench"));
    }
    let limits: Vec<String> = (1..=question.limits).map(|index| limit(&format!("bench-{index}"))).collect();
    ("/v1/limit-many", format!("{{\"limits\":[{}]}}", limits.join(",")))
}

fn grpc(authority: &str, question: &Question) -> Result<Call, QuestionError> {
    let path = question.path.as_deref().unwrap_or(RATE_LIMIT_PATH);
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(QuestionError::Path(path.to_owned()));
    }
    let message = match &question.body {
        Some(body) => hexadecimal(body).ok_or_else(|| QuestionError::Hexadecimal(body.clone()))?,
        None => rate_limit_request(question),
    };
    Call::new(authority, path, &message).ok_or(QuestionError::TooLong)
}

/// Domain `bench`, and a descriptor for each limit that is wanted, with its own unless rules have it.
fn rate_limit_request(question: &Question) -> Template {
    let mut message = field(1, &Template::of("bench"));
    for index in 1..=question.limits {
        let name = if index == 1 { "key".to_owned() } else { format!("key-{index}") };
        let mut entry = field(1, &Template::of(&name));
        entry.append(&field(2, &Template::of(PLACEHOLDER)));
        let mut limit = Template::default();
        limit.push(&[8]);
        limit.push(&varint(question.limit));
        limit.push(&[16, MINUTE]);
        let mut descriptor = field(1, &entry);
        if !question.by_rules {
            descriptor.append(&field(2, &limit));
        }
        message.append(&field(2, &descriptor));
    }
    message
}

/// A field of bytes, as protobuf has it.
fn field(number: u8, bytes: &Template) -> Template {
    let mut field = Template::default();
    field.push(&[number << 3 | 2]);
    field.push(&varint(u64::try_from(bytes.len()).unwrap_or(u64::MAX)));
    field.append(bytes);
    field
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 128 {
        bytes.push(u8::try_from(number & 127).unwrap_or(0) | 128);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or(0));
    bytes
}

/// Digits in pairs, and the key's place; `None` when it is something else.
fn hexadecimal(text: &str) -> Option<Template> {
    let mut message = Template::default();
    for (index, piece) in text.split(PLACEHOLDER).enumerate() {
        if index > 0 {
            message.append(&Template::of(PLACEHOLDER));
        }
        for pair in piece.as_bytes().chunks(2) {
            let digits = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            message.push(&[u8::from_str_radix(digits, 16).ok()?]);
        }
    }
    Some(message)
}

fn command(question: &Question) -> Result<Template, QuestionError> {
    if question.limits != 1 {
        return Err(QuestionError::SeveralLimits);
    }
    let (burst, limit) = (question.limit.saturating_sub(1), question.limit);
    let default = || format!("CL.THROTTLE {PLACEHOLDER} {burst} {limit} 60");
    let text = question.command.clone().unwrap_or_else(default);
    let words: Vec<Template> = text.split_whitespace().map(Template::of).collect();
    if words.is_empty() {
        return Err(QuestionError::Command);
    }
    let mut command = Template::of(&format!("*{}\r\n", words.len()));
    for word in words {
        command.push(format!("${}\r\n", word.len()).as_bytes());
        command.append(&word);
        command.push(b"\r\n");
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question { limit: 100, limits: 1, ..Question::default() }
    }

    fn written(target: &str, question: &Question) -> Result<String, QuestionError> {
        match Request::new(&Target::parse(target).unwrap(), question)? {
            Request::Ordered(template) => {
                let mut out = Vec::new();
                template.write(7, &mut out);
                Ok(String::from_utf8(out).unwrap())
            }
            Request::Call(_) => Ok("a call".to_owned()),
        }
    }

    #[test]
    fn a_limit_is_asked_by_default_in_each_protocol() {
        assert_eq!(
            written("http://127.0.0.1:1", &question()).unwrap(),
            "POST /v1/limit HTTP/1.1\r\nhost: 127.0.0.1:1\r\ncontent-type: application/json\r\n\
             content-length: 81\r\n\r\n\
             {\"namespace\":\"bench\",\"identifier\":\"000000000007\",\"limit\":100,\"duration_ms\":60000}"
        );
        assert_eq!(
            written("redis://127.0.0.1:1", &question()).unwrap(),
            "*5\r\n$11\r\nCL.THROTTLE\r\n$12\r\n000000000007\r\n$2\r\n99\r\n$3\r\n100\r\n$2\r\n60\r\n"
        );
        assert_eq!(written("grpc://127.0.0.1:1", &question()).unwrap(), "a call");
    }

    #[test]
    fn several_limits_are_one_request() {
        let several = Question { limits: 5, ..question() };
        let asked = written("http://127.0.0.1:1", &several).unwrap();
        assert!(asked.starts_with("POST /v1/limit-many ") && asked.contains("bench-5"), "{asked}");
        assert_eq!(written("redis://127.0.0.1:1", &several), Err(QuestionError::SeveralLimits));
    }

    #[test]
    fn forward_auth_is_a_get_with_a_header() {
        let headers = vec!["X-Tidegate-user: {key}".to_owned()];
        let question = Question { path: Some("/auth".into()), headers, ..question() };
        assert_eq!(
            written("http://127.0.0.1:1", &question).unwrap(),
            "GET /auth HTTP/1.1\r\nhost: 127.0.0.1:1\r\nX-Tidegate-user: 000000000007\r\n\r\n"
        );
    }

    #[test]
    fn what_cant_be_asked_is_refused() {
        let refused = |target, question: Question| written(target, &question).unwrap_err();
        let path = |path: &str| Question { path: Some(path.into()), ..question() };
        assert_eq!(
            refused("redis://127.0.0.1:1", path("/a")),
            QuestionError::NotHere { flag: "--path", scheme: "redis" }
        );
        assert_eq!(refused("http://127.0.0.1:1", path("a")), QuestionError::Path("a".into()));
        assert_eq!(refused("http://127.0.0.1:1", path("/a b")), QuestionError::Path("/a b".into()));
        let headers = vec!["a\r\nb: c".to_owned()];
        assert!(matches!(
            refused("http://127.0.0.1:1", Question { headers, ..question() }),
            QuestionError::Header(_)
        ));
        let body = |body: &str| Question { body: Some(body.into()), ..question() };
        assert!(matches!(refused("grpc://127.0.0.1:1", body("0a0")), QuestionError::Hexadecimal(_)));
        let command = Question { command: Some(" ".into()), ..question() };
        assert_eq!(refused("redis://127.0.0.1:1", command), QuestionError::Command);
    }

    #[test]
    fn a_message_in_hexadecimal_has_the_key_in_its_place() {
        let message = hexadecimal("0a0c{key}10ff").unwrap();
        let mut out = Vec::new();
        message.write(1, &mut out);
        assert_eq!(out, b"\x0a\x0c000000000001\x10\xff");
    }

    #[test]
    fn the_rate_limit_request_is_protobuf() {
        let mut out = Vec::new();
        rate_limit_request(&question()).write(5, &mut out);
        assert_eq!(
            out,
            b"\x0a\x05bench\x12\x1b\x0a\x13\x0a\x03key\x12\x0c000000000005\x12\x04\x08\x64\x10\x02"
        );
    }
}
