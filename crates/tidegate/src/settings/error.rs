//! What is wrong with the settings: which key, what was given, where, and what to do about it.
//!
//! Gathered, not returned at the first: whoever mends settings wants to mend them once. A value that is
//! quoted back is escaped and cut short, and what may be a secret is never quoted, also not where the path
//! of its file should be.

use super::parse::Refusal;
use super::table::{Secrecy, Setting};
use std::fmt;
use std::path::{Path, PathBuf};

/// The source of a setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ValueSource {
    Default,
    File {
        path: PathBuf,
        line: usize,
    },
    Environment(String),
    /// The file that an `…_FILE` variable names.
    EnvironmentFile {
        variable: String,
        path: String,
    },
    Flag(String),
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueSource::Default => f.write_str("default"),
            ValueSource::File { path, line } => write!(f, "{}:{line}", path.display()),
            ValueSource::Environment(variable) => write!(f, "environment {variable}"),
            ValueSource::EnvironmentFile { variable, path } => {
                write!(f, "file {} of environment {variable}", Quoted(path))
            }
            ValueSource::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingError {
    #[error("{key} = {value} ({place}): {message}; {fix}")]
    Refused { key: &'static str, value: String, place: String, message: String, fix: String },
    #[error("{name} ({place}): no such setting; {fix}")]
    Unknown { name: String, place: String, fix: String },
    /// The place itself can't be used: an unreadable file, bad TOML, a variable that isn't UTF-8.
    #[error("{place}: {message}; {fix}")]
    Unusable { place: String, message: String, fix: String },
}

impl SettingError {
    pub(super) fn refused(setting: &Setting, text: &str, place: &ValueSource, refusal: Refusal) -> Self {
        match setting.secrecy {
            Secrecy::Open => Self::quoted(setting, text, place, refusal),
            Secrecy::PathOfSecret if Path::new(text).exists() => Self::quoted(setting, text, place, refusal),
            Secrecy::PathOfSecret => Self::hidden(setting, place, not_a_path(refusal)),
            Secrecy::Secret => Self::hidden(setting, place, refusal),
        }
    }

    /// Of the path that an `…_FILE` variable gave. It may be the secret itself, put in the wrong variable.
    pub(super) fn bad_path(setting: &Setting, path: &str, place: &ValueSource, refusal: Refusal) -> Self {
        match setting.secrecy {
            Secrecy::Open => Self::quoted(setting, path, place, refusal),
            Secrecy::Secret | Secrecy::PathOfSecret => {
                let refusal = if Path::new(path).exists() { refusal } else { not_a_path(refusal) };
                Self::hidden(setting, place, refusal)
            }
        }
    }

    fn quoted(setting: &Setting, text: &str, place: &ValueSource, refusal: Refusal) -> Self {
        Self::of_value(setting, Quoted(text).to_string(), place, refusal)
    }

    fn hidden(setting: &Setting, place: &ValueSource, refusal: Refusal) -> Self {
        Self::of_value(setting, "(hidden)".to_owned(), place, refusal)
    }

    fn of_value(setting: &Setting, value: String, place: &ValueSource, refusal: Refusal) -> Self {
        let Refusal { message, fix } = refusal;
        SettingError::Refused { key: setting.key, value, place: place.to_string(), message, fix }
    }

    pub(super) fn unknown(name: &str, place: &ValueSource, suggestion: Option<String>) -> Self {
        let fix = match suggestion {
            Some(suggestion) => format!("did you mean `{suggestion}`?"),
            None => "remove it; `tidegate serve --help` lists the settings".to_owned(),
        };
        SettingError::Unknown { name: Quoted(name).to_string(), place: place.to_string(), fix }
    }

    pub(super) fn unusable(place: impl Into<String>, message: impl Into<String>, fix: &str) -> Self {
        SettingError::Unusable { place: place.into(), message: message.into(), fix: fix.to_owned() }
    }
}

fn not_a_path(refusal: Refusal) -> Refusal {
    let message = format!("{}; that takes the path of a file, not the secret itself", refusal.message);
    Refusal { message, ..refusal }
}

/// Never empty.
#[derive(Debug)]
pub(crate) struct SettingErrors(pub(super) Vec<SettingError>);

impl fmt::Display for SettingErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingErrors {}

/// A text that somebody gave, fit for a terminal: escaped, and cut after 60 characters.
#[derive(Debug)]
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_CHARS_MAX: usize = 60;
        let text = self.0;
        match text.char_indices().nth(SHOWN_CHARS_MAX) {
            None => write!(f, "{text:?}"),
            Some((end, _)) => write!(f, "{:?}… ({} bytes)", &text[..end], text.len()),
        }
    }
}
