//! `tidegate health`: whether a running node, control plane or broker is ready, for whoever supervises it.
//!
//! An image without a shell has nothing else to ask with. Changes nothing, spends nothing, shows no token: health
//! is told to everybody.

use crate::ask::{AskError, NodeArguments};
use crate::failure::Failure;
use crate::http_client::{self, Message, RequestOptions, Scheme, Url};
use crate::output;
use crate::settings::Settings;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio_rustls::TlsConnector;

const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

pub(crate) fn run(whom: NodeArguments) -> Result<ExitCode, Failure> {
    let url = match whom.url {
        Some(url) => url,
        None => format!("http://{}", Settings::listen_admin(whom.settings)?),
    };
    let server = Url::parse(&url).ok_or_else(|| AskError::Url(url.clone()))?;
    let tls = match (server.scheme, whom.authorities) {
        (Scheme::Http, _) => None,
        (Scheme::Https, None) => return Err(AskError::NoAuthority.into()),
        (Scheme::Https, Some(path)) => {
            Some(TlsConnector::from(tidegate_server::trusting(&path).map_err(AskError::from)?))
        }
    };
    let message = Message {
        method: "GET",
        path: "/readyz",
        body: b"",
        answer_within: REPLY_TIMEOUT,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(AskError::Start)?;
    let response =
        runtime.block_on(http_client::send(&server, &RequestOptions { token: None, tls }, message));
    runtime.shutdown_background();
    let response = response.map_err(|source| AskError::Unreachable { url: url.clone(), source })?;
    let not_ours = || AskError::NotANode { url: url.clone(), status: response.status };
    let said: Value = serde_json::from_slice(&response.body).map_err(|_| not_ours())?;
    let is_ready = said["ready"].as_bool().ok_or_else(not_ours)?;
    output::print(&format!("{}: {said}\n", if is_ready { "ready" } else { "not ready" }));
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
