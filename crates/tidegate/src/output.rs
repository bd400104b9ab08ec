//! What people read: stdout for what was asked, stderr for what went wrong, colours on a terminal only.
//!
//! A reader that has gone away (`tidegate rules check | head -1`) is no reason to panic.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;

pub(crate) fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    // The reader may have gone away: there is nobody left to tell.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Tells that a process has started. Where the banner would stand among the lines of the log (one file for both, or a
/// container's output), it is one line of that log.
pub(crate) fn announce(banner: &str) {
    if io::stdout().is_terminal() || !is_among_logs() {
        print(banner);
        return;
    }
    let facts: Vec<String> = banner
        .lines()
        .take_while(|line| *line != "try:")
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    tracing::info!(banner = facts.join("; "), "started");
}

/// Whether stdout ends where the log does.
fn is_among_logs() -> bool {
    let file = |path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let [stdout, stderr] = ["/proc/self/fd/1", "/proc/self/fd/2"].map(file);
    // The first process of a container: its two outputs are one log.
    std::process::id() == 1 || (stdout.is_some() && stdout == stderr)
}

/// One `tidegate: ` before the first line only: the other lines are of the same complaint.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "tidegate: {text}");
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    On,
    Off,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Colour {
    Bold,
    Red,
    Green,
    Yellow,
}

impl Colours {
    pub(crate) fn of_stdout() -> Self {
        Self::on(io::stdout().is_terminal(), |name| std::env::var(name).ok())
    }

    pub(crate) fn of_stderr() -> Self {
        Self::on(io::stderr().is_terminal(), |name| std::env::var(name).ok())
    }

    /// See <https://no-color.org>: set and not empty means no colours.
    fn on(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = variable("TERM").is_some_and(|terminal| terminal == "dumb");
        if is_terminal && !refused && !dumb { Colours::On } else { Colours::Off }
    }

    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Bold => 1,
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
        };
        match self {
            Colours::On => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Colours::Off => text.to_owned(),
        }
    }
}

/// A text of somebody else's, fit for a terminal: control characters are escaped.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// `80000000` as `80,000,000`.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 rule`, `2 rules`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let none = |_: &str| None;
        assert_eq!(Colours::on(true, none), Colours::On);
        assert_eq!(Colours::on(false, none), Colours::Off);
        let refused = |name: &str| (name == "NO_COLOR").then(|| "1".to_owned());
        assert_eq!(Colours::on(true, refused), Colours::Off);
        let empty = |name: &str| (name == "NO_COLOR").then(String::new);
        assert_eq!(Colours::on(true, empty), Colours::On);
        let dumb = |name: &str| (name == "TERM").then(|| "dumb".to_owned());
        assert_eq!(Colours::on(true, dumb), Colours::Off);
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1000, 80_000_000].map(grouped), ["0", "999", "1,000", "80,000,000"]);
        assert_eq!([counted(1, "rule"), counted(2, "rule")], ["1 rule", "2 rules"]);
    }

    #[test]
    fn no_text_of_others_steers_the_terminal() {
        assert_eq!(plain("é\u{1b}[2J\n"), "é\\u{1b}[2J\\n");
    }
}
