//! A terminal that answers key by key. Given back as it was, whatever happens.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, IsTerminal, Read, Stdin, Stdout, Write};
use std::time::Duration;

/// Where nobody says how large it is.
const SIZE: (usize, usize) = (24, 80);
/// Another screen, no cursor; and back.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const CLEAR_LINE: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Character(char),
    Enter,
    Backspace,
    Escape,
    Interrupt,
}

pub(super) fn can_be_used() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

pub(super) struct Terminal {
    before: Termios,
    stdin: Stdin,
    stdout: Stdout,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There is nobody to tell that it can't be.
        let _ = tcsetattr(&self.stdin, OptionalActions::Flush, &self.before);
        let _ = write!(self.stdout, "{LEAVE}").and_then(|()| self.stdout.flush());
    }
}

impl Terminal {
    pub(super) fn take() -> io::Result<Self> {
        let (stdin, mut stdout) = (io::stdin(), io::stdout());
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Flush, &raw)?;
        write!(stdout, "{ENTER}").and_then(|()| stdout.flush())?;
        Ok(Terminal { before, stdin, stdout })
    }

    /// Rows and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.stdout) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => SIZE,
        }
    }

    /// Line by line over what was there: nothing flickers.
    pub(super) fn draw(&self, text: &str) {
        let lines: Vec<String> = text.lines().map(|line| format!("{line}{CLEAR_LINE}")).collect();
        let mut stdout = self.stdout.lock();
        let _ = write!(stdout, "{HOME}{}\r\n{CLEAR_BELOW}", lines.join("\r\n")).and_then(|()| stdout.flush());
    }

    /// The next key, if one comes in time.
    pub(super) fn key(&self, within: Duration) -> Option<Key> {
        let mut waiting = [PollFd::new(&self.stdin, PollFlags::IN)];
        let seconds = i64::try_from(within.as_secs()).unwrap_or(i64::MAX);
        let within = Timespec { tv_sec: seconds, tv_nsec: within.subsec_nanos().into() };
        // A signal, such as for another size of the window, is as good as a second that passed.
        if poll(&mut waiting, Some(&within)).unwrap_or(0) == 0 {
            return None;
        }
        let mut bytes = [0; 64];
        match self.stdin.lock().read(&mut bytes) {
            // Whoever typed is gone.
            Ok(0) | Err(_) => Some(Key::Interrupt),
            Ok(length) => Some(key(&bytes[..length])),
        }
    }
}

/// What a terminal sends for one key; of several that came at once, the first.
fn key(bytes: &[u8]) -> Key {
    match bytes {
        [3 | 4, ..] => Key::Interrupt,
        [b'\r' | b'\n', ..] => Key::Enter,
        [8 | 127, ..] => Key::Backspace,
        _ => match std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next()) {
            Some(character) if !character.is_control() => Key::Character(character),
            // Arrows and the like begin as Escape does, and mean nothing here.
            _ => Key::Escape,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_terminals_send_for_them() {
        let keys = [&b"q"[..], b"\r", b"\x7f", b"\x1b", b"\x1b[A", b"\x03", "é".as_bytes()].map(key);
        let [q, enter, backspace, escape, arrow, interrupt, letter] = keys;
        assert_eq!([q, letter], [Key::Character('q'), Key::Character('é')]);
        assert_eq!([enter, backspace, escape], [Key::Enter, Key::Backspace, Key::Escape]);
        assert_eq!([arrow, interrupt], [Key::Escape, Key::Interrupt]);
    }
}
