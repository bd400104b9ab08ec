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
    /// Half a character.
    unread: Vec<u8>,
    /// The size of what was drawn last.
    drawn: (usize, usize),
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
        Ok(Terminal { before, stdin, stdout, unread: Vec::new(), drawn: SIZE })
    }

    /// Rows and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.stdout) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => SIZE,
        }
    }

    /// Line by line over what was there: nothing flickers, and nothing scrolls.
    pub(super) fn draw(&mut self, text: &str) {
        self.drawn = self.size();
        let (rows, _) = self.drawn;
        let lines: Vec<String> = text.lines().take(rows).map(|line| format!("{CLEAR_LINE}{line}")).collect();
        let below = if lines.len() < rows { format!("\r\n{CLEAR_BELOW}") } else { String::new() };
        let mut stdout = self.stdout.lock();
        let _ = write!(stdout, "{HOME}{}{below}", lines.join("\r\n")).and_then(|()| stdout.flush());
    }

    /// What is typed, if something is in time; all of it where several keys came at once.
    pub(super) fn keys(&mut self, within: Duration) -> Typed {
        // Windows change their size without a word.
        const LOOKS: u32 = 10;
        for _ in 0..LOOKS {
            match self.poll(within / LOOKS) {
                Typed::Nothing if self.size() != self.drawn => return Typed::Resized,
                Typed::Nothing => {}
                typed => return typed,
            }
        }
        Typed::Nothing
    }

    fn poll(&mut self, within: Duration) -> Typed {
        let mut waiting = [PollFd::new(&self.stdin, PollFlags::IN)];
        let seconds = i64::try_from(within.as_secs()).unwrap_or(i64::MAX);
        let within = Timespec { tv_sec: seconds, tv_nsec: within.subsec_nanos().into() };
        if poll(&mut waiting, Some(&within)).unwrap_or(0) == 0 {
            return Typed::Nothing;
        }
        let mut bytes = [0; 4096];
        match self.stdin.lock().read(&mut bytes) {
            // Whoever typed is gone.
            Ok(0) | Err(_) => Typed::Keys(vec![Key::Interrupt]),
            Ok(length) => {
                self.unread.extend_from_slice(&bytes[..length]);
                Typed::Keys(keys_of(&mut self.unread))
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    Keys(Vec<Key>),
    Nothing,
    Resized,
}

/// Takes the keys that a terminal sent; half a character stays for later.
pub(super) fn keys_of(bytes: &mut Vec<u8>) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest: &[u8] = bytes;
    while let Some((first, after)) = rest.split_first() {
        let all = rest;
        rest = after;
        match *first {
            3 | 4 => keys.push(Key::Interrupt),
            b'\r' | b'\n' => keys.push(Key::Enter),
            8 | 127 => keys.push(Key::Backspace),
            // Arrows and the like, and the marks around what is pasted, mean nothing here.
            0x1b if after.first() == Some(&b'[') || after.first() == Some(&b'O') => {
                let end = after[1..].iter().position(|byte| (0x40..=0x7e).contains(byte));
                rest = end.map_or(&[], |end| &after[end + 2..]);
            }
            0x1b => keys.push(Key::Escape),
            control if control < b' ' => {}
            _ => {
                let character =
                    (1..=all.len().min(4)).find_map(|length| std::str::from_utf8(&all[..length]).ok());
                match character.and_then(|text| text.chars().next()) {
                    Some(character) => {
                        keys.push(Key::Character(character));
                        rest = &all[character.len_utf8()..];
                    }
                    None if all.len() < 4 && *first >= 0xc0 => {
                        *bytes = all.to_vec();
                        return keys;
                    }
                    None => {}
                }
            }
        }
    }
    bytes.clear();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_terminals_send_for_them() {
        let keys = |bytes: &[u8]| keys_of(&mut bytes.to_vec());
        for (bytes, key) in [
            (&b"q"[..], Key::Character('q')),
            ("é".as_bytes(), Key::Character('é')),
            (b"\r", Key::Enter),
            (b"\x7f", Key::Backspace),
            (b"\x1b", Key::Escape),
            (b"\x03", Key::Interrupt),
        ] {
            assert_eq!(keys(bytes), [key]);
        }
        assert_eq!(keys(b"\x1b[A\x1bOP\x1b[200~a\x1b[201~"), [Key::Character('a')]);
    }

    #[test]
    fn what_is_pasted_is_taken_whole_and_half_a_character_waits() {
        let mut bytes = b"/acme".to_vec();
        bytes.extend_from_slice(&"é".as_bytes()[..1]);
        let typed: Vec<Key> = keys_of(&mut bytes);
        assert_eq!(typed, "/acme".chars().map(Key::Character).collect::<Vec<_>>());
        assert_eq!(bytes.len(), 1);
        bytes.push("é".as_bytes()[1]);
        assert_eq!(keys_of(&mut bytes), [Key::Character('é')]);
        assert!(bytes.is_empty());
        assert!(keys_of(&mut vec![0xff, 0xfe]).is_empty());
    }
}
