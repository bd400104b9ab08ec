//! Requests to a control plane, and its answers, understood or refused.

use super::RulesError;
use crate::ask::{NodeArguments, is_fit_for_a_header};
use crate::http_client::{self, Message, RequestOptions, Response, Scheme, Url};
use crate::output::plain;
use crate::settings::{self, Settings};
use serde_json::Value;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

/// Of an export or a backup.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;
/// A push waits for a database, and who watches waits for a push.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// A control plane, and who asks it. Holds a secret: can't be shown.
pub(crate) struct Client {
    shown: String,
    url: Url,
    token: Option<String>,
    tls: Option<TlsConnector>,
    runtime: Runtime,
}

impl Client {
    pub(super) fn new(whom: NodeArguments) -> Result<Self, RulesError> {
        let shown = match &whom.url {
            Some(url) => url.clone(),
            None => format!("http://{}", Settings::control_listen(whom.settings.clone())?),
        };
        Self::at(shown, whom)
    }

    /// Whatever `whom` says of the address.
    pub(crate) fn at(shown: String, whom: NodeArguments) -> Result<Self, RulesError> {
        let token = match whom.token {
            Some(token) => Some(token),
            None => settings::token(&whom.settings.environment)?,
        };
        if token.as_deref().is_some_and(|token| !is_fit_for_a_header(token)) {
            return Err(RulesError::Token);
        }
        let url = Url::parse(&shown).ok_or_else(|| RulesError::Url(shown.clone()))?;
        let tls = match (url.scheme, whom.authorities) {
            (Scheme::Http, _) => None,
            (Scheme::Https, None) => return Err(RulesError::NoAuthority),
            (Scheme::Https, Some(path)) => Some(TlsConnector::from(tidegate_server::trusting(&path)?)),
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(RulesError::Start)?;
        Ok(Client { shown, url, token, tls, runtime })
    }

    /// An answer that isn't a refusal.
    pub(super) fn ask(&self, method: &'static str, path: &str, body: &[u8]) -> Result<Response, RulesError> {
        let message =
            Message { method, path, body, answer_within: REPLY_TIMEOUT, answer_bytes_max: ANSWER_BYTES_MAX };
        let manner = RequestOptions { token: self.token.as_deref(), tls: self.tls.clone() };
        let sent = self.runtime.block_on(http_client::send(&self.url, &manner, message));
        let response = sent.map_err(|source| RulesError::Unreachable { url: self.shown.clone(), source })?;
        match response.status {
            200 => Ok(response),
            // A node has no such paths on its listener for callers.
            404 if is_of_control_planes(path) && is_unknown_path(&response) => {
                Err(RulesError::NotAControlPlane(self.shown.clone()))
            }
            _ => Err(self.refused(&response)),
        }
    }

    pub(super) fn json(&self, method: &'static str, path: &str, body: &Value) -> Result<Value, RulesError> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let response = self.ask(method, path, body.as_bytes())?;
        serde_json::from_slice(&response.body).map_err(|_| self.foreign(&response))
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, RulesError> {
        self.json("GET", path, &Value::Null)
    }

    fn foreign(&self, response: &Response) -> RulesError {
        RulesError::Foreign { url: self.shown.clone(), status: response.status }
    }

    fn refused(&self, response: &Response) -> RulesError {
        let Ok(answer) = serde_json::from_slice::<Value>(&response.body) else {
            return self.foreign(response);
        };
        let error = &answer["error"];
        let Some(message) = error["message"].as_str() else { return self.foreign(response) };
        let mut words = String::new();
        match error["errors"].as_array() {
            Some(errors) if !errors.is_empty() => {
                words.push_str("the rules have errors; nothing was changed");
                errors.iter().for_each(|error| words.push_str(&format!("\n{}", rule_error(error))));
                let more = error["errors_total"].as_u64().unwrap_or(0);
                let told = u64::try_from(errors.len()).unwrap_or(u64::MAX);
                if more > told {
                    words.push_str(&format!("\nand {} more", more - told));
                }
            }
            _ => {
                let field =
                    error["field"].as_str().map_or(String::new(), |field| format!("{}: ", plain(field)));
                let fix = error["fix"].as_str().map_or(String::new(), |fix| format!("; {}", plain(fix)));
                words.push_str(&format!("refused: {field}{}{fix}", plain(message)));
            }
        }
        if let Some(lines) = error["lines"].as_array() {
            words.push_str(&format!("\nsince version {} this has changed:", error["if_version"]));
            for entry in error["history"].as_array().into_iter().flatten() {
                words.push_str(&format!("\n  {}", super::show::summary(entry)));
            }
            for line in lines {
                words.push_str(&format!("\n  {}", super::show::plain_line(line)));
            }
        }
        RulesError::Refused(words)
    }
}

fn is_of_control_planes(path: &str) -> bool {
    path.starts_with("/v1/rules") || path.starts_with("/v1/overrides")
}

fn is_unknown_path(response: &Response) -> bool {
    let answer: Value = serde_json::from_slice(&response.body).unwrap_or_default();
    // A broker knows them, and says whom to ask.
    answer["error"]["message"].as_str().is_some_and(|message| message.starts_with("there is nothing at"))
}

fn rule_error(error: &Value) -> String {
    let text = |name: &str| plain(error[name].as_str().unwrap_or(""));
    format!(
        "{}:{}:{}: {}: {}; {}",
        text("file"),
        error["line"],
        error["column"],
        text("field"),
        text("message"),
        text("fix")
    )
}

/// A text within a URL's query.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

/// Who changes the rules, for the history.
pub(super) fn author() -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let user = user.filter(|user| !user.is_empty()).unwrap_or_else(|| "somebody".to_owned());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let author = if host.is_empty() { user } else { format!("{user}@{host}") };
    author.chars().filter(|c| !c.is_control()).take(64).collect()
}
