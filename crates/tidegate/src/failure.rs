//! Why the program ends without having done what it was asked, and the code that it ends with.
//!
//! 1: it tried (`rules check`: the rules are bad; `check`: denied). 2: it was asked wrongly, or couldn't ask.

use crate::ask::AskError;
use crate::bench::{BenchError, PlanError};
use crate::capacity::{InputsError, PictureError};
use crate::origin_init::OriginInitError;
use crate::rules_client::RulesError;
use crate::settings::SettingErrors;
use crate::simulate;
use crate::tokens::{FileError, TokenError};
use crate::why::WhyError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use tidegate_control::stream::StoredRulesError;
use tidegate_rules::{ReadError, RuleErrors};
use tidegate_server::ServerTlsError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Settings(#[from] SettingErrors),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    OriginInit(#[from] OriginInitError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("not started: {0}")]
    Tokens(#[from] FileError),
    #[error("not started: tls: {0}")]
    Tls(#[from] ServerTlsError),
    #[error(transparent)]
    RulesClient(#[from] RulesError),
    #[error(transparent)]
    Why(#[from] WhyError),
    #[error(transparent)]
    BenchPlan(#[from] PlanError),
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Capacity(#[from] InputsError),
    #[error(transparent)]
    CapacityPicture(#[from] PictureError),
    #[error(transparent)]
    Simulate(#[from] simulate::InputsError),
    #[error(transparent)]
    Simulation(#[from] simulate::SimError),
    #[error("there is no {}; name the rules to check: `tidegate rules check PATH`", .default.display())]
    NothingToCheck { default: PathBuf },
    #[error(transparent)]
    RulesToCheck(ReadError),
    #[error("rules.file: {0}")]
    Rules(#[from] ReadError),
    #[error("not started: the directory for rules of a control plane: {0}")]
    RulesDirectory(#[from] StoredRulesError),
    #[error(
        "not started: the rules have errors; correct them, and check them with `tidegate rules check`\n{0}"
    )]
    BadRules(#[from] RuleErrors),
    #[error("{key}: can't listen on {address}: {source}; {fix}")]
    Listen { key: &'static str, address: SocketAddr, source: io::Error, fix: String },
    #[error("listen.unix: can't listen on {}: {source}; {fix}", .path.display())]
    ListenUnix { path: PathBuf, source: io::Error, fix: String },
    #[error("can't start {what}: {source}; check the limits of this process (`ulimit -a`)")]
    Start { what: &'static str, source: io::Error },
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::RulesClient(error) => error.exit_code(),
            Failure::Settings(_)
            | Failure::Ask(_)
            | Failure::OriginInit(_)
            | Failure::Token(_)
            | Failure::Why(_)
            | Failure::BenchPlan(_)
            | Failure::Bench(_)
            | Failure::Capacity(_)
            | Failure::CapacityPicture(_)
            | Failure::Simulate(_)
            | Failure::Simulation(_)
            | Failure::NothingToCheck { .. }
            | Failure::RulesToCheck(_) => ExitCode::from(2),
            Failure::Rules(_)
            | Failure::RulesDirectory(_)
            | Failure::Tokens(_)
            | Failure::Tls(_)
            | Failure::BadRules(_)
            | Failure::Listen { .. }
            | Failure::ListenUnix { .. }
            | Failure::Start { .. } => ExitCode::from(1),
        }
    }
}
