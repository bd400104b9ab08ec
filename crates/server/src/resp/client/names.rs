//! `CLIENT`: what a connection is called, and what client libraries tell of themselves.

use super::{Client, unknown_subcommand, wrong_count};
use crate::resp::client::refuse;
use crate::resp::reply;

/// Longer names tell nobody more.
const NAME_BYTES_MAX: usize = 256;

impl Client {
    pub(super) fn client(&mut self, subcommand: &[u8], arguments: &[&[u8]], out: &mut Vec<u8>) {
        let mut upper = [0; 8];
        match (super::capitals(subcommand, &mut upper), arguments) {
            (b"ID", []) => reply::integer(out, self.id),
            (b"GETNAME", []) => match &self.name {
                Some(name) => reply::bulk(out, name.as_bytes()),
                None => reply::null(out, self.version),
            },
            (b"SETNAME", [name]) => match read_name(name) {
                Ok(name) => {
                    self.name = name;
                    reply::simple(out, "OK");
                }
                Err(text) => refuse(out, text),
            },
            (b"LIST", _) | (b"INFO", []) => reply::bulk(out, self.line().as_bytes()),
            // Nothing is evicted or touched for a client, and libraries introduce themselves to nobody.
            (b"SETINFO", [_, _]) | (b"NO-EVICT" | b"NO-TOUCH", [_]) => reply::simple(out, "OK"),
            (b"REPLY", [word]) if word.eq_ignore_ascii_case(b"ON") => reply::simple(out, "OK"),
            (b"ID" | b"GETNAME" | b"SETNAME" | b"INFO" | b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH", _) => {
                wrong_count(out, &[b"client|", subcommand].concat());
            }
            _ => unknown_subcommand(out, "CLIENT", subcommand),
        }
    }

    /// This connection; what others do is nobody's business.
    fn line(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        format!("id={} name={name} db=0 resp={}\n", self.id, self.version.number())
    }
}

/// A name as Redis allows it: printable, without spaces. An empty one takes the name away.
pub(super) fn read_name(name: &[u8]) -> Result<Option<Box<str>>, &'static [u8]> {
    if name.len() > NAME_BYTES_MAX {
        return Err(b"ERR a client name has at most 256 bytes");
    }
    let text = std::str::from_utf8(name).ok().filter(|_| name.iter().all(u8::is_ascii_graphic));
    match text {
        Some("") => Ok(None),
        Some(name) => Ok(Some(name.into())),
        None => Err(b"ERR Client names cannot contain spaces, newlines or special characters."),
    }
}
