//! `tidegate check` and `tidegate reset`: one question to a running node, its answer for people or programs.
//!
//! The node decides; nothing is limited here. An answer that makes no sense is an error, never "allowed".

mod answer;

use crate::http_client::{self, HttpError, RequestOptions, Response, Scheme, Url};
use crate::output;
use crate::settings::{self, SettingErrors, Settings, Sources};
use answer::{Answer, NodeRefusal, Reset};
use serde_json::{Map, Value, json};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use tidegate_node::clock::Clock;
use tidegate_server::ServerTlsError;
use tokio::runtime::Builder;
use tokio_rustls::TlsConnector;

/// The arguments that choose the node to ask.
pub(crate) struct NodeArguments {
    /// As it was typed; otherwise the node that is started by the settings.
    pub(crate) url: Option<String>,
    /// As it was typed; otherwise of the environment.
    pub(crate) token: Option<String>,
    /// For https.
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) settings: Sources,
}

/// A node's URL, and the token to ask it with. Holds a secret: has no `Debug`.
pub(crate) struct NodeEndpoint {
    url: String,
    token: Option<String>,
    authorities: Option<PathBuf>,
}

impl NodeArguments {
    pub(crate) fn endpoint(self) -> Result<NodeEndpoint, SettingErrors> {
        let token = match self.token {
            Some(token) => Some(token),
            None => settings::token(&self.settings.environment)?,
        };
        let url = match self.url {
            Some(url) => url,
            None => format!("http://{}", Settings::listen_http(self.settings)?),
        };
        Ok(NodeEndpoint { url, token, authorities: self.authorities })
    }
}

/// What to ask, as it was typed.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) namespace: String,
    /// `name=value` each.
    pub(crate) attributes: Vec<String>,
    pub(crate) cost: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(
        "--url {0:?} isn't a node's address; write it as http://127.0.0.1:8080 or https://host:8080 (no path)"
    )]
    Url(String),
    #[error(
        "--url says https; if the node has a certificate (tls.certificate), name the authority that signed it: --ca PATH; if it has none, write http://"
    )]
    NoAuthority,
    #[error("--ca: {0}")]
    Authority(#[from] ServerTlsError),
    #[error("the token isn't one (it is never shown); give it whole, as `tidegate token new` printed it")]
    Token,
    #[error("{0:?} isn't an attribute; write it as name=value, such as user=42")]
    Attribute(String),
    #[error("{0:?} is an attribute, and the namespace comes first; write it as `api {0}`")]
    NoNamespace(String),
    #[error("attribute {0:?} is given twice; give it once")]
    AttributeTwice(String),
    #[error("{url}: {source}; is a node running there? start one with `tidegate`, or name it with --url")]
    Unreachable { url: String, source: HttpError },
    #[error("can't start: {0}; check the limits of this process (`ulimit -a`)")]
    Start(io::Error),
    #[error("the node refused: {0}")]
    Refused(String),
    #[error("{url} answered with status {status} and something that isn't a node's answer; check --url")]
    NotANode { url: String, status: u16 },
}

pub(crate) fn check(asked: &NodeEndpoint, question: &Question, form: Form) -> Result<ExitCode, AskError> {
    let response = ask(asked, question, "/v1/check")?;
    let answer: Answer = understood(&asked.url, &response)?;
    match form {
        Form::Text => output::print(&answer.in_words(Clock::system().now().now)),
        Form::Json => output::print(&format!("{}\n", String::from_utf8_lossy(&response.body).trim_end())),
    }
    Ok(if answer.allowed { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

pub(crate) fn reset(asked: &NodeEndpoint, question: &Question) -> Result<ExitCode, AskError> {
    let response = ask(asked, question, "/v1/reset")?;
    let reset: Reset = understood(&asked.url, &response)?;
    output::print(&reset.in_words());
    Ok(ExitCode::SUCCESS)
}

fn ask(asked: &NodeEndpoint, question: &Question, path: &str) -> Result<Response, AskError> {
    let NodeEndpoint { url, token, authorities } = asked;
    let token = token.as_deref();
    if token.is_some_and(|token| !is_fit_for_a_header(token)) {
        return Err(AskError::Token);
    }
    let node = Url::parse(url).ok_or_else(|| AskError::Url(url.clone()))?;
    let tls = match (node.scheme, authorities) {
        (Scheme::Http, _) => None,
        (Scheme::Https, None) => return Err(AskError::NoAuthority),
        (Scheme::Https, Some(path)) => Some(TlsConnector::from(tidegate_server::trusting(path)?)),
    };
    let manner = RequestOptions { token, tls };
    let body = body(question)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(AskError::Start)?;
    let response = runtime.block_on(http_client::post(&node, path, &manner, &body));
    // A name that is still being resolved isn't worth waiting for.
    runtime.shutdown_background();
    response.map_err(|source| AskError::Unreachable { url: url.clone(), source })
}

pub(crate) fn is_fit_for_a_header(token: &str) -> bool {
    const TOKEN_CHARS_MAX: usize = 256;
    (1..=TOKEN_CHARS_MAX).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic())
}

fn body(question: &Question) -> Result<String, AskError> {
    // No rules file of a person has a namespace like this, and a limit that isn't there would look like one that admits.
    if question.namespace.contains('=') {
        return Err(AskError::NoNamespace(question.namespace.clone()));
    }
    let mut attributes = Map::new();
    for attribute in &question.attributes {
        let (name, value) = attribute
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| AskError::Attribute(attribute.clone()))?;
        if attributes.insert(name.to_owned(), value.into()).is_some() {
            return Err(AskError::AttributeTwice(name.to_owned()));
        }
    }
    let mut body = json!({ "namespace": question.namespace, "attributes": Value::Object(attributes) });
    if let Some(cost) = question.cost {
        body["cost"] = cost.into();
    }
    Ok(body.to_string())
}

fn understood<T: serde::de::DeserializeOwned>(url: &str, response: &Response) -> Result<T, AskError> {
    let not_a_node = || AskError::NotANode { url: url.to_owned(), status: response.status };
    if response.status == 200 {
        return serde_json::from_slice(&response.body).map_err(|_| not_a_node());
    }
    let refused: NodeRefusal = serde_json::from_slice(&response.body).map_err(|_| not_a_node())?;
    Err(AskError::Refused(refused.in_words()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(attributes: &[&str]) -> Question {
        let attributes = attributes.iter().map(|&attribute| attribute.to_owned()).collect();
        Question { namespace: "api".into(), attributes, cost: None }
    }

    #[test]
    fn attributes_are_split_at_their_first_equals_sign() {
        let text = body(&question(&["user=a=b", "empty="])).unwrap();
        assert_eq!(text, r#"{"attributes":{"empty":"","user":"a=b"},"namespace":"api"}"#);
    }

    #[test]
    fn an_attribute_without_a_name_or_given_twice_is_refused() {
        assert!(matches!(body(&question(&["user"])), Err(AskError::Attribute(_))));
        assert!(matches!(body(&question(&["=x"])), Err(AskError::Attribute(_))));
        assert!(matches!(body(&question(&["a=1", "a=2"])), Err(AskError::AttributeTwice(_))));
        let forgotten = Question { namespace: "user=42".into(), attributes: Vec::new(), cost: None };
        assert!(matches!(body(&forgotten), Err(AskError::NoNamespace(_))));
    }
}
