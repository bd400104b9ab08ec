//! What is wrong with a set of rules, where, and what to do about it.
//!
//! Errors are gathered, not returned at the first: whoever mends a file wants to mend it once. A value that
//! is quoted back is cut short and escaped, so that no file can flood a log or a terminal.

use crate::bounds::{ERRORS_MAX, WARNINGS_MAX};
use std::fmt;
use std::sync::Arc;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleError {
    pub file: Arc<str>,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// Such as `rules[2].limit`; counts within its document.
    pub field: String,
    pub message: String,
    pub fix: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleError { file, line, column, field, message, fix } = self;
        write!(f, "{file}:{line}:{column}: {field}: {message}; {fix}")
    }
}

impl std::error::Error for RuleError {}

/// Why a set was refused: never empty, in the order of the files, at most 50 and a count of the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleErrors {
    errors: Vec<RuleError>,
    more: usize,
}

impl RuleErrors {
    pub fn iter(&self) -> std::slice::Iter<'_, RuleError> {
        self.errors.iter()
    }

    /// What is wrong with a set as a whole.
    pub(crate) fn of_set(message: String, fix: &str) -> Self {
        let error = RuleError {
            file: "rules".into(),
            line: 1,
            column: 1,
            field: "document".to_owned(),
            message,
            fix: fix.to_owned(),
        };
        RuleErrors { errors: vec![error], more: 0 }
    }

    /// Only those of files whose names begin like this; `None` when there are none.
    pub fn of_files(&self, prefix: &str) -> Option<Self> {
        let errors: Vec<RuleError> =
            self.errors.iter().filter(|error| error.file.starts_with(prefix)).cloned().collect();
        (!errors.is_empty()).then_some(RuleErrors { errors, more: 0 })
    }

    /// What is wrong with two parts of a set, in the order of its files.
    pub(crate) fn and(mut self, other: RuleErrors, file_order: impl Fn(&str) -> usize) -> Self {
        self.errors.extend(other.errors);
        self.errors.sort_by_key(|error| (file_order(&error.file), error.line, error.column));
        let more = self.errors.len().saturating_sub(ERRORS_MAX);
        self.errors.truncate(ERRORS_MAX);
        RuleErrors { errors: self.errors, more: self.more + other.more + more }
    }

    /// How many there are, those past the first 50 included.
    pub fn total(&self) -> usize {
        self.errors.len() + self.more
    }
}

impl<'a> IntoIterator for &'a RuleErrors {
    type Item = &'a RuleError;
    type IntoIter = std::slice::Iter<'a, RuleError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for RuleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleErrors {}

/// Something that is valid and most likely not meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
    pub field: String,
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { file, line, column, field, message } = self;
        write!(f, "{file}:{line}:{column}: {field}: {message}")
    }
}

/// A message and a remedy that don't know their place yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) fix: String,
}

impl Refusal {
    pub(crate) fn new(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Refusal { message: message.into(), fix: fix.into() }
    }
}

/// Where the reading of a set gathers what it finds.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    errors: Vec<RuleError>,
    more: usize,
    pub(crate) warnings: Vec<Warning>,
    /// Fields of rules that were found beside the rules and told of: a rule that lacks one isn't told of again.
    pub(crate) strays: Vec<String>,
}

impl Problems {
    pub(crate) fn push(&mut self, error: RuleError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn warn(&mut self, warning: Warning) {
        if self.warnings.len() < WARNINGS_MAX {
            self.warnings.push(warning);
        }
    }

    /// How many errors so far: lets a reader tell whether a part of the file added any.
    pub(crate) fn count(&self) -> usize {
        self.errors.len() + self.more
    }

    /// The warnings of a good set, or the errors of a bad one, in the order of its files.
    pub(crate) fn finish(mut self, file_order: impl Fn(&str) -> usize) -> Result<Vec<Warning>, RuleErrors> {
        if self.errors.is_empty() {
            return Ok(self.warnings);
        }
        self.errors.sort_by_key(|error| (file_order(&error.file), error.line, error.column));
        Err(RuleErrors { errors: self.errors, more: self.more })
    }
}

/// A value as a message quotes it: escaped, and cut after 40 characters.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 40;
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_what_and_what_to_do() {
        let error = RuleError {
            file: "rules.yaml".into(),
            line: 12,
            column: 14,
            field: "rules[2].limit".into(),
            message: "\"ten per minute\" isn't a limit".into(),
            fix: "write it as `10 per 1m`".into(),
        };
        let text =
            "rules.yaml:12:14: rules[2].limit: \"ten per minute\" isn't a limit; write it as `10 per 1m`";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_quoted_value_is_escaped_and_cut() {
        assert_eq!(quoted("a\u{1b}[2J\0"), r#""a\u{1b}[2J\0""#);
        assert_eq!(quoted(&"é".repeat(1000)), format!("{:?}… (2000 bytes)", "é".repeat(40)));
    }

    #[test]
    fn only_the_first_fifty_errors_are_kept_and_the_rest_counted() {
        let mut problems = Problems::default();
        for line in 0..70 {
            problems.push(RuleError {
                file: "a".into(),
                line,
                column: 1,
                field: String::new(),
                message: String::new(),
                fix: String::new(),
            });
        }
        let errors = problems.finish(|_| 0).unwrap_err();
        assert_eq!((errors.iter().count(), errors.total()), (50, 70));
        assert!(errors.to_string().ends_with("and 20 more"));
    }
}
