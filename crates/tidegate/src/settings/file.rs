//! Settings from `tidegate.toml`.
//!
//! Every value is taken as text with the line it stands on, and validated like any other. An error never
//! quotes a line of the file: it may hold a secret.

use super::error::{SettingError, ValueSource};
use super::table::TABLE;
use super::{GivenTexts, GivenValue, key};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};

const DEFAULT_FILE: &str = "tidegate.toml";
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Reads the file that was named, or the default one where it exists.
pub(super) fn read(named: Option<&Path>, given: &mut GivenTexts, errors: &mut Vec<SettingError>) {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    match read_text(path) {
        Ok(text) => read_from(path, &text, given, errors),
        Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            let source = path.display().to_string();
            let message = format!("can't read settings: {error}");
            let fix = "check the path, its permissions, and that it is a TOML file";
            errors.push(SettingError::unusable(source, message, fix));
        }
    }
}

/// What the file at `path` says.
pub(super) fn read_from(path: &Path, text: &str, given: &mut GivenTexts, errors: &mut Vec<SettingError>) {
    Reader { path, text, given, errors }.read();
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(io::Error::other("larger than 1 MiB"));
    }
    Ok(text)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    given: &'a mut GivenTexts,
    errors: &'a mut Vec<SettingError>,
}

impl Reader<'_> {
    fn read(mut self) {
        match DeTable::parse(self.text) {
            Ok(table) => self.table("", table.get_ref()),
            Err(error) => {
                let start = error.span().map_or(0, |span| span.start);
                let (line, column) = line_and_column(self.text, start);
                let source = format!("{}:{line}:{column}", self.path.display());
                let message = format!("isn't TOML: {}", error.message().replace('\n', ", "));
                let fix = "write settings as `key = value`, text in quotes";
                self.errors.push(SettingError::unusable(source, message, fix));
            }
        }
    }

    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key = match section {
                "" => name.get_ref().to_string(),
                section => format!("{section}.{}", name.get_ref()),
            };
            let source = self.place(&name.span());
            match (position(&key), value.get_ref()) {
                (Some(index), value) => self.value(index, value, source),
                (None, DeValue::Table(table)) if is_section(&key) => self.table(&key, table),
                (None, _) => self.errors.push(SettingError::unknown(&key, &source, suggestion(&key))),
            }
        }
    }

    fn value(&mut self, index: usize, value: &DeValue<'_>, source: ValueSource) {
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            // No setting takes one: refused with its value, as any other text.
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(is_set) if TABLE[index].value_name == "BOOLEAN" => is_set.to_string(),
            DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                let source = format!("{} ({source})", TABLE[index].key);
                let message = format!("takes text or a number; this is of type {}", value.type_str());
                let fix = "write one value, text in quotes";
                self.errors.push(SettingError::unusable(source, message, fix));
                return;
            }
        };
        self.given[index] = Some(GivenValue { text, source });
    }

    fn place(&self, span: &Range<usize>) -> ValueSource {
        ValueSource::File { path: self.path.to_owned(), line: line_and_column(self.text, span.start).0 }
    }
}

fn position(key: &str) -> Option<usize> {
    TABLE.iter().position(|setting| setting.key == key)
}

fn is_section(name: &str) -> bool {
    TABLE.iter().any(|setting| setting.key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// For a section that was given a value, its first key; otherwise what is spelt alike, the key that only lacks its unit,
/// or the section that is spelt alike.
fn suggestion(key: &str) -> Option<String> {
    let keys = || TABLE.iter().map(|setting| setting.key);
    let sections = || keys().filter_map(|key| key.split_once('.')).map(|(section, _)| section.to_owned());
    let lacks_unit = |full: &&str| full.strip_prefix(key).is_some_and(|rest| rest.starts_with('_'));
    keys()
        .find(|full| full.split('.').next() == Some(key))
        .map(str::to_owned)
        .or_else(|| key::nearest(key, keys().map(str::to_owned)))
        .or_else(|| keys().find(lacks_unit).map(str::to_owned))
        .or_else(|| key::nearest(key, sections()).map(|section| format!("[{section}]")))
}

/// Both from 1, the column in characters.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
