//! The fleet's secret in Redis: the call that reads or stores it, and what its answer means.
//!
//! No error here shows what is stored: a message may be logged.

use super::ScriptCall;
use super::name;
use crate::OriginError;
use crate::redis::wire::{Arguments, Value};
use tidegate_core::{FleetSecret, StoredSecret};

pub(crate) fn secret_call(ours: Option<&FleetSecret>) -> ScriptCall {
    let (mut keys, mut args) = (Arguments::default(), Arguments::default());
    keys.text(name::STORED_SECRET);
    keys.text(name::FINGERPRINT);
    match ours {
        Some(secret) => {
            args.text(&StoredSecret::text_of(secret));
            args.write(format_args!("{:016x}", secret.fingerprint()));
        }
        None => ["", ""].into_iter().for_each(|none| args.text(none)),
    }
    ScriptCall { slot: name::slot_of_nodes(), keys, args, syncs: Vec::new(), is_reading: false }
}

pub(crate) fn secret_reply(value: Value) -> Result<StoredSecret, OriginError> {
    let Value::Array(fields) = value else { return Err(nonsense("no list")) };
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).map_err(|_| nonsense("no text")),
        _ => Err(nonsense("no text")),
    };
    match fields.as_slice() {
        [stored, marker] => {
            Ok(StoredSecret { secret: secret(&text(stored)?)?, marker: fingerprint(&text(marker)?)? })
        }
        [problem] => Err(OriginError::Refused { message: text(problem)? }),
        _ => Err(nonsense("neither a secret nor a problem")),
    }
}

fn secret(text: &str) -> Result<Option<FleetSecret>, OriginError> {
    if text.is_empty() {
        return Ok(None);
    }
    let unread = || OriginError::Refused {
        message: format!(
            "{} isn't a secret that this version reads; start the newer Tidegate here too",
            name::STORED_SECRET
        ),
    };
    StoredSecret::read(text).map(Some).ok_or_else(unread)
}

fn fingerprint(text: &str) -> Result<Option<u64>, OriginError> {
    if text.is_empty() {
        return Ok(None);
    }
    u64::from_str_radix(text, 16).map(Some).map_err(|_| nonsense("no fingerprint"))
}

fn nonsense(what: &str) -> OriginError {
    OriginError::Nonsense { what: format!("of the fleet's secret: {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_secret_is_refused_and_never_shown() {
        let secret = FleetSecret::new(*b"0123456789abcdef");
        let stored = StoredSecret::text_of(&secret);
        let read = |stored: &str| {
            let fields = [stored, ""].map(|text| Value::BulkString(text.as_bytes().to_vec()));
            secret_reply(Value::Array(fields.into())).map(|stored| stored.secret)
        };
        assert_eq!((read(&stored), read("")), (Ok(Some(secret)), Ok(None)));
        let digits = &stored[2..];
        for bad in
            [format!("2:{digits}"), digits.to_owned(), format!("1:{digits}0"), format!("1:+{}", &digits[1..])]
        {
            let error = read(&bad).unwrap_err().to_string();
            assert!(!error.contains(&digits[2..]), "{error}");
        }
    }
}
