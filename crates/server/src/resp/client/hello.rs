//! `HELLO [2|3 [AUTH user password] [SETNAME name]]`: which protocol, and who is there.

use super::names::read_name;
use super::{Client, REDIS_VERSION, refuse};
use crate::resp::number::integer;
use crate::resp::reply::{self, Version};

impl Client {
    pub(super) fn hello(&mut self, arguments: &[&[u8]], out: &mut Vec<u8>) {
        let (version, options) = match arguments.split_first() {
            None => (self.version, &[][..]),
            Some((number, options)) => match integer(number) {
                Some(2) => (Version::Resp2, options),
                Some(3) => (Version::Resp3, options),
                Some(_) => return refuse(out, b"NOPROTO unsupported protocol version"),
                None => return refuse(out, b"ERR Protocol version is not an integer or out of range"),
            },
        };
        match read_options(options) {
            Ok(Some(name)) => self.name = name,
            Ok(None) => {}
            Err(text) => return refuse(out, &text),
        }
        self.version = version;
        self.write_hello(out);
    }

    fn write_hello(&self, out: &mut Vec<u8>) {
        reply::map(out, self.version, 7);
        let text = |out: &mut Vec<u8>, name: &str, value: &str| {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, value.as_bytes());
        };
        text(out, "server", "tidegate");
        text(out, "version", REDIS_VERSION);
        for (name, value) in [("proto", self.version.number()), ("id", self.id)] {
            reply::bulk(out, name.as_bytes());
            reply::integer(out, value);
        }
        text(out, "mode", "standalone");
        text(out, "role", "master");
        reply::bulk(out, b"modules");
        reply::array(out, 0);
    }
}

/// The name that was set, if one was; else what is wrong.
#[expect(clippy::option_option, reason = "an empty name takes the name away")]
fn read_options(mut options: &[&[u8]]) -> Result<Option<Option<Box<str>>>, Vec<u8>> {
    let mut name = None;
    while let [option, rest @ ..] = options {
        options = match rest {
            // Without tokens there is nothing to compare them with.
            [_user, _password, rest @ ..] if option.eq_ignore_ascii_case(b"AUTH") => rest,
            [given, rest @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(read_name(given).map_err(<[u8]>::to_vec)?);
                rest
            }
            _ => return Err([b"ERR Syntax error in HELLO option '", *option, b"'"].concat()),
        };
    }
    Ok(name)
}
