//! `HELLO [2|3 [AUTH user password] [SETNAME name]]`: which protocol, and who is there.

use super::names::read_name;
use super::{Client, REDIS_VERSION, refuse};
use crate::App;
use crate::resp::login::{HELLO_NO_AUTH, Login, WRONG_PASS};
use crate::resp::number::integer;
use crate::resp::reply::{self, Version};

impl Client {
    pub(super) fn hello(&mut self, app: &App, login: &mut Login, arguments: &[&[u8]], out: &mut Vec<u8>) {
        let (version, options) = match arguments.split_first() {
            None => (self.version, &[][..]),
            Some((number, options)) => match integer(number) {
                Some(2) => (Version::Resp2, options),
                Some(3) => (Version::Resp3, options),
                Some(_) => return refuse(out, b"NOPROTO unsupported protocol version"),
                None => return refuse(out, b"ERR Protocol version is not an integer or out of range"),
            },
        };
        let options = match read_options(options) {
            Ok(options) => options,
            Err(text) => return refuse(out, &text),
        };
        if options.token.is_some_and(|token| !login.log_in(app, token)) {
            return refuse(out, WRONG_PASS);
        }
        if !login.is_known() {
            return refuse(out, HELLO_NO_AUTH);
        }
        if let Some(name) = options.name {
            self.name = name;
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

#[derive(Default)]
struct Options<'a> {
    token: Option<&'a [u8]>,
    /// An empty name takes the name away.
    name: Option<Option<Box<str>>>,
}

/// What the options say; else what is wrong.
fn read_options<'a>(mut options: &[&'a [u8]]) -> Result<Options<'a>, Vec<u8>> {
    let mut read = Options::default();
    while let [option, rest @ ..] = options {
        options = match rest {
            [_user, token, rest @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                read.token = Some(token);
                rest
            }
            [given, rest @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                read.name = Some(read_name(given).map_err(<[u8]>::to_vec)?);
                rest
            }
            _ => return Err([b"ERR Syntax error in HELLO option '", *option, b"'"].concat()),
        };
    }
    Ok(read)
}
