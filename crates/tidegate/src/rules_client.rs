//! `tidegate rules push` and its like: what people ask a control plane.
//!
//! The control plane decides; here its words are shown, and a person is asked before anything changes. Without a
//! terminal nobody can be asked, so `--yes` must have been said.

mod client;
mod command_line;
mod propose;
mod shadow;
mod show;
mod text_diff;
mod transfer;

pub(crate) use command_line::{Action, commands};

use crate::ask::NodeArguments;
use crate::http_client::HttpError;
use crate::settings::SettingErrors;
pub(crate) use client::Client;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use tidegate_rules::ReadError;
use tidegate_server::ServerTlsError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesError {
    #[error(transparent)]
    Settings(#[from] SettingErrors),
    #[error(
        "{0:?} isn't an address; write it as http://127.0.0.1:7070 (a control plane), http://127.0.0.1:9090 (a node's admin listener) or https://host:7070 (no path)"
    )]
    Url(String),
    #[error(
        "the address says https; if a certificate is set there (tls.certificate), name the authority that signed it: --ca PATH; if none is, write http://"
    )]
    NoAuthority,
    #[error("--ca: {0}")]
    Authority(#[from] ServerTlsError),
    #[error("the token isn't one (it is never shown); give it whole, as `tidegate token new` printed it")]
    Token,
    #[error(
        "{url}: {source}; is it running there? start it (`tidegate control`, or `tidegate` for a node), or give its address (--control, --admin)"
    )]
    Unreachable { url: String, source: HttpError },
    #[error("can't start: {0}; check the limits of this process (`ulimit -a`)")]
    Start(io::Error),
    #[error("{0}")]
    Refused(String),
    #[error(
        "{url} answered with status {status} and something that isn't an answer of Tidegate; check the address"
    )]
    Foreign { url: String, status: u16 },
    #[error(
        "{0} isn't a control plane; name one with --control (control.listen, port 7070 unless it is set)"
    )]
    NotAControlPlane(String),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0:?} isn't an attribute; write it as name=value, such as user=42")]
    Attribute(String),
    #[error(
        "this change needs a confirmation, and this is no terminal to ask on; look at the change with `tidegate rules diff`, then add --yes"
    )]
    NobodyToAsk,
    #[error("nothing was changed")]
    Declined,
    #[error("{}: {source}; check the path, its permissions and the room on the disk", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: line {line} is longer than {} MiB; is it an export?", .path.display(), client::LINE_BYTES_MAX >> 20)]
    LongLine { path: PathBuf, line: u64 },
}

impl RulesError {
    /// 1: it was asked and refused. 2: it couldn't be asked.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            RulesError::Refused(_) | RulesError::Declined => ExitCode::from(1),
            _ => ExitCode::from(2),
        }
    }
}

pub(crate) fn run(whom: NodeArguments, action: Action) -> Result<ExitCode, RulesError> {
    if let Action::ShadowReport(report) = &action {
        return shadow::run(&whom, report);
    }
    let client = Client::new(whom)?;
    match action {
        Action::Push { files, terms } => propose::push(&client, &files, &terms),
        Action::Diff { files } => propose::diff(&client, &files),
        Action::Single { ask, terms } => propose::single(&client, &ask, &terms),
        Action::Get(get) => show::get(&client, &get),
        Action::History(history) => show::history(&client, &history),
        Action::Watch { form } => show::watch(&client, form),
        Action::Export { path } => transfer::export(&client, path.as_deref()),
        Action::Backup { path } => transfer::backup(&client, path.as_deref()),
        Action::Import { path, terms } => transfer::import(&client, &path, &terms),
        Action::Restore { path, terms } => transfer::restore(&client, &path, &terms),
        Action::ShadowReport(_) => Ok(ExitCode::SUCCESS),
    }
}
