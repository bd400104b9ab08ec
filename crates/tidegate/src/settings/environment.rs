//! Settings from the environment: `TIDEGATE_LISTEN_HTTP`, or `TIDEGATE_LISTEN_HTTP_FILE` with a path.
//!
//! A variable that starts with our prefix and means nothing is an error, as a misspelt key is. What
//! Kubernetes adds for a Service named `tidegate` isn't: nobody wrote it.

use super::error::{SettingError, SettingErrors, ValueSource};
use super::parse::{Refusal, bounded_file};
use super::table::TABLE;
use super::{GivenTexts, GivenValue, key};
use std::ffi::{OsStr, OsString};
use std::path::Path;

const FILE_SUFFIX: &str = "_FILE";
const TOKEN_VARIABLE: &str = "TIDEGATE_TOKEN";

pub(super) fn read(
    variables: &[(OsString, OsString)],
    given: &mut GivenTexts,
    errors: &mut Vec<SettingError>,
) {
    // Sorted, so that errors come in the same order each time.
    let mut ours: Vec<(String, &OsStr)> = variables
        .iter()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.as_os_str()))
        .filter(|(name, _)| name.starts_with(key::ENVIRONMENT_PREFIX))
        .collect();
    ours.sort();
    let mut reader = Reader { given, errors, taken: [false; TABLE.len()] };
    for (name, value) in ours {
        reader.variable(&name, value);
    }
}

struct Reader<'a> {
    given: &'a mut GivenTexts,
    errors: &'a mut Vec<SettingError>,
    /// Which settings a variable gave already.
    taken: [bool; TABLE.len()],
}

impl Reader<'_> {
    fn variable(&mut self, name: &str, value: &OsStr) {
        let source = ValueSource::Environment(name.to_owned());
        let Some(text) = value.to_str() else {
            let fix = "write it in UTF-8, or unset it";
            self.errors.push(SettingError::unusable(source.to_string(), "isn't UTF-8", fix));
            return;
        };
        if let Some(index) = position(name) {
            self.give(index, text.to_owned(), source);
        } else if let Some(index) = name.strip_suffix(FILE_SUFFIX).and_then(position) {
            match read_value(text) {
                Ok(read) => {
                    let source =
                        ValueSource::EnvironmentFile { variable: name.to_owned(), path: text.to_owned() };
                    self.give(index, read, source);
                }
                Err(refusal) => {
                    self.errors.push(SettingError::bad_path(&TABLE[index], text, &source, refusal));
                }
            }
        } else if !is_of_callers(name) && !is_of_kubernetes(name, text) {
            self.errors.push(SettingError::unknown(name, &source, suggestion(name)));
        }
    }

    fn give(&mut self, index: usize, text: String, source: ValueSource) {
        if std::mem::replace(&mut self.taken[index], true) {
            let message = format!("{} is set both directly and by a file", TABLE[index].key);
            self.errors.push(SettingError::unusable(
                source.to_string(),
                message,
                "unset one of the two variables",
            ));
        }
        self.given[index] = Some(GivenValue { text, source });
    }
}

fn read_value(path: &str) -> Result<String, Refusal> {
    let not_text = |_| Refusal::new("that file isn't UTF-8", "write the value in UTF-8");
    let text = String::from_utf8(bounded_file(Path::new(path))?).map_err(not_text)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

fn position(name: &str) -> Option<usize> {
    TABLE.iter().position(|setting| key::environment(setting.key) == name)
}

fn suggestion(name: &str) -> Option<String> {
    let names = TABLE.iter().map(|setting| key::environment(setting.key));
    key::nearest(name, names.clone().chain(names.map(|name| name + FILE_SUFFIX)))
}

/// What `tidegate check` and its like present to a node: no setting of the node itself.
fn is_of_callers(name: &str) -> bool {
    name.strip_suffix(FILE_SUFFIX).unwrap_or(name) == TOKEN_VARIABLE
}

/// The caller's token, given directly or by a file; `None` when neither is set.
pub(crate) fn token(variables: &[(OsString, OsString)]) -> Result<Option<String>, SettingErrors> {
    let of_file = format!("{TOKEN_VARIABLE}{FILE_SUFFIX}");
    let value = |wanted: &str| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let refused = |variable: &str, refusal: Refusal| {
        let message = refusal.message;
        SettingErrors(vec![SettingError::unusable(format!("environment {variable}"), message, &refusal.fix)])
    };
    if let Some(token) = value(TOKEN_VARIABLE) {
        let not_text =
            || refused(TOKEN_VARIABLE, Refusal::new("isn't UTF-8", "give the token as it was printed"));
        return token.to_str().map(|token| Some(token.to_owned())).ok_or_else(not_text);
    }
    let Some(path) = value(&of_file) else { return Ok(None) };
    read_value(&path.to_string_lossy()).map(Some).map_err(|refusal| refused(&of_file, refusal))
}

/// `TIDEGATE_SERVICE_HOST`, `TIDEGATE_PORT=tcp://…`, `TIDEGATE_PORT_8080_TCP_ADDR` and their like.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let numbered_port = name.split_once("_PORT_").is_some_and(|(_, rest)| {
        rest.starts_with(|c: char| c.is_ascii_digit())
            && ["TCP", "UDP", "SCTP"].iter().any(|p| rest.contains(p))
    });
    let linked_port = name.ends_with("_PORT") && value.contains("://");
    numbered_port || linked_port || name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT")
}
