//! Exports, imports, backups and restores: JSON lines, a page at a time, however many there are.

use super::RulesError;
use super::client::{Client, LINE_BYTES_MAX, author, encoded};
use super::command_line::Terms;
use super::propose::confirm;
use crate::output::{self, grouped};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read as _, Write};
use std::path::Path;
use std::process::ExitCode;

/// One request's lines: a version of their own, for an import.
const CHUNK_LINES: usize = 10_000;
const CHUNK_BYTES: usize = 4 << 20;

pub(super) fn export(client: &Client, path: Option<&Path>) -> Result<ExitCode, RulesError> {
    pages(client, "/v1/rules/export", path, "export")
}

pub(super) fn backup(client: &Client, path: Option<&Path>) -> Result<ExitCode, RulesError> {
    pages(client, "/v1/rules/backup", path, "backup")
}

fn pages(client: &Client, url: &str, path: Option<&Path>, what: &str) -> Result<ExitCode, RulesError> {
    let shown = path.unwrap_or(Path::new("stdout"));
    let failed = |source: io::Error| RulesError::File { path: shown.to_owned(), source };
    // A file that was there before stays until this one is whole.
    let partial = path.map(|path| path.with_added_extension("partial"));
    let mut out: Box<dyn Write> = match &partial {
        Some(partial) => Box::new(File::create(partial).map_err(failed)?),
        None => Box::new(io::stdout().lock()),
    };
    let mut progress = Progress::new(what, 0);
    let mut after = String::new();
    loop {
        let page = client.ask("GET", &format!("{url}{after}"), b"")?;
        out.write_all(&page.body).map_err(failed)?;
        progress.add(page.body.iter().filter(|byte| **byte == b'\n').count(), page.body.len());
        match page.next {
            Some(next) => after = format!("?after={}", encoded(&next)),
            None => break,
        }
    }
    out.flush().map_err(failed)?;
    drop(out);
    if let (Some(partial), Some(path)) = (&partial, path) {
        let sync = File::open(partial).and_then(|file| file.sync_all());
        sync.and_then(|()| std::fs::rename(partial, path)).map_err(failed)?;
    }
    progress.end();
    Ok(ExitCode::SUCCESS)
}

pub(super) fn import(client: &Client, path: &Path, terms: &Terms) -> Result<ExitCode, RulesError> {
    if !terms.is_confirmed {
        confirm(&format!("take over the lines of {}, a version for each {CHUNK_LINES}?", path.display()))?;
    }
    let reason = terms.reason.clone().unwrap_or_else(|| format!("import of {}", path.display()));
    let reason: String = reason.chars().filter(|c| !c.is_control()).take(400).collect();
    let url = format!("/v1/rules/import?author={}&reason={}", encoded(&author()), encoded(&reason));
    let mut version = terms.if_version;
    let last = chunks(path, "import", |chunk| {
        // Nobody else may have changed anything in between, where that was asked for.
        let upon = version.map_or(String::new(), |version| format!("&if_version={version}"));
        let response = client.ask("POST", &format!("{url}{upon}"), chunk)?;
        let answer: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
        version = version.and(answer["version"].as_u64());
        Ok(answer["version"].as_u64())
    })?;
    print_version(last);
    Ok(ExitCode::SUCCESS)
}

pub(super) fn restore(client: &Client, path: &Path, terms: &Terms) -> Result<ExitCode, RulesError> {
    if !terms.is_confirmed {
        confirm(&format!("write every version of {} into the store of this control plane?", path.display()))?;
    }
    let last = chunks(path, "restore", |chunk| {
        let response = client.ask("POST", "/v1/rules/restore", chunk)?;
        let answer: serde_json::Value = serde_json::from_slice(&response.body).unwrap_or_default();
        Ok(answer["version"].as_u64())
    })?;
    print_version(last);
    Ok(ExitCode::SUCCESS)
}

fn print_version(version: Option<u64>) {
    let version = version
        .map_or_else(|| "there was nothing in it".to_owned(), |v| format!("the rules are at version {v}"));
    output::print(&format!("{version}\n"));
}

/// Sends a file's lines, some thousand at a time. Says what the last answer was.
fn chunks(
    path: &Path,
    what: &str,
    mut send: impl FnMut(&[u8]) -> Result<Option<u64>, RulesError>,
) -> Result<Option<u64>, RulesError> {
    let failed = |source: io::Error| RulesError::File { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let mut reader = BufReader::new(file);
    let mut progress = Progress::new(what, bytes);
    let (mut chunk, mut lines, mut read, mut last) = (Vec::new(), 0, 0_u64, None);
    loop {
        let bytes_max = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
        let count = reader.by_ref().take(bytes_max).read_until(b'\n', &mut chunk).map_err(failed)?;
        read += 1;
        if count == LINE_BYTES_MAX && !chunk.ends_with(b"\n") {
            return Err(RulesError::LongLine { path: path.to_owned(), line: read });
        }
        lines += usize::from(count > 0);
        let is_full = lines >= CHUNK_LINES || chunk.len() >= CHUNK_BYTES;
        if lines > 0 && (is_full || count == 0) {
            last = send(&chunk)?.or(last);
            progress.add(lines, chunk.len());
            (chunk, lines) = (Vec::new(), 0);
        }
        if count == 0 {
            progress.end();
            return Ok(last);
        }
    }
}

/// A line on a terminal that tells how far it is.
struct Progress<'w> {
    what: &'w str,
    bytes_total: u64,
    lines: usize,
    bytes: u64,
    is_shown: bool,
}

impl<'w> Progress<'w> {
    fn new(what: &'w str, bytes_total: u64) -> Self {
        Progress { what, bytes_total, lines: 0, bytes: 0, is_shown: io::stderr().is_terminal() }
    }

    fn add(&mut self, lines: usize, bytes: usize) {
        self.lines += lines;
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.is_shown {
            let part = match self.bytes_total {
                0 => String::new(),
                total => format!(", {} %", self.bytes.saturating_mul(100) / total),
            };
            // Nobody may be looking.
            let _ = write!(io::stderr(), "\r{}: {} lines{part}", self.what, grouped(self.lines));
        }
    }

    fn end(&self) {
        if self.is_shown {
            let _ = writeln!(io::stderr());
        }
    }
}
