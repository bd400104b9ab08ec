//! `RateLimitRequest` from protobuf, borrowed from its bytes.
//!
//! Every field that Envoy 1.40 sends is read, because each changes what a request means. Fields that are unknown here
//! are skipped, as protobuf requires. Bounds are checked while reading, so that a small message can't become a large
//! list.

use crate::envoy::protobuf::{ProtobufError, Reader, Value, low_u32};
use crate::envoy::rate_limit_request::{
    DescriptorLimit, RateLimitRequest, RequestDescriptor, no_refunds, push_descriptor,
};
use crate::refusal::{Code, Refusal};

pub(crate) fn decode(bytes: &[u8]) -> Result<RateLimitRequest<'_>, Refusal> {
    let mut asked = RateLimitRequest::default();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, text) => asked.domain = text.text()?.unwrap_or(asked.domain),
            (2, Value::Bytes(message)) => descriptor(&mut asked, message)?,
            (3, Value::Number(hits)) => asked.hits_addend = low_u32(hits),
            _ => {}
        }
    }
    Ok(asked)
}

fn descriptor<'b>(asked: &mut RateLimitRequest<'b>, message: &'b [u8]) -> Result<(), Refusal> {
    let mut found = RequestDescriptor::default();
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Value::Bytes(message)) => {
                let (key, value) = entry(message)?;
                asked.push_entry(key, value)?;
            }
            (2, Value::Bytes(message)) => found.limit = Some(limit(message)?),
            (3, Value::Bytes(message)) => found.hits_addend = Some(wrapped(message)?),
            (4, Value::Number(1..)) => return Err(no_refunds()),
            _ => {}
        }
    }
    found.entries_end = asked.entries.len();
    push_descriptor(&mut asked.descriptors, found)
}

fn entry(message: &[u8]) -> Result<(&str, &str), ProtobufError> {
    let (mut key, mut value) = ("", "");
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.field()? {
        match number {
            1 => key = field.text()?.unwrap_or(key),
            2 => value = field.text()?.unwrap_or(value),
            _ => {}
        }
    }
    Ok((key, value))
}

fn limit(message: &[u8]) -> Result<DescriptorLimit, ProtobufError> {
    let mut limit = DescriptorLimit::default();
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.field()? {
        match (number, field) {
            (1, Value::Number(requests)) => limit.requests_per_unit = low_u32(requests),
            (2, Value::Number(unit)) => limit.unit = unit,
            (3, Value::Bytes(message)) => limit.unit_multiplier = Some(low_u32(wrapped(message)?)),
            _ => {}
        }
    }
    Ok(limit)
}

/// A `UInt64Value` or a `UInt32Value`: there, and 0 when it is empty.
fn wrapped(message: &[u8]) -> Result<u64, ProtobufError> {
    let mut reader = Reader::new(message);
    let mut number = 0;
    while let Some((field, value)) = reader.field()? {
        if let (1, Value::Number(given)) = (field, value) {
            number = given;
        }
    }
    Ok(number)
}

impl From<ProtobufError> for Refusal {
    #[cold]
    fn from(ProtobufError(problem): ProtobufError) -> Self {
        let message = format!("the message is not valid protobuf: {problem}");
        let fix = "send an envoy.service.ratelimit.v3.RateLimitRequest; reflection has its definition";
        Refusal::new(Code::InvalidProtobuf, message, fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::protobuf::{put_bytes, put_message, put_number};
    use proptest::prelude::*;

    type Drawn = (Vec<(String, String)>, Option<u64>, Option<(u32, u64)>);

    fn encoded(domain: &str, descriptors: &[Drawn], hits: u32) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, 1, domain.as_bytes());
        for (entries, hits, limit) in descriptors {
            put_message(&mut out, 2, |out| {
                for (key, value) in entries {
                    put_message(out, 1, |out| {
                        put_bytes(out, 1, key.as_bytes());
                        put_bytes(out, 2, value.as_bytes());
                    });
                }
                if let Some((requests, unit)) = limit {
                    put_message(out, 2, |out| {
                        put_number(out, 1, u64::from(*requests));
                        put_number(out, 2, *unit);
                    });
                }
                if let Some(hits) = hits {
                    put_message(out, 3, |out| put_number(out, 1, *hits));
                }
            });
        }
        put_number(&mut out, 3, u64::from(hits));
        out
    }

    proptest! {
        #[test]
        fn a_request_comes_back_as_it_was_written(
            domain in ".{0,20}",
            descriptors in prop::collection::vec(
                (
                    prop::collection::vec((".{0,8}", ".{0,200}"), 0..5),
                    prop::option::of(any::<u64>()),
                    prop::option::of((any::<u32>(), 0_u64..9)),
                ),
                0..6,
            ),
            hits in any::<u32>(),
        ) {
            let bytes = encoded(&domain, &descriptors, hits);
            let asked = decode(&bytes).unwrap();
            prop_assert_eq!((asked.domain, asked.hits_addend), (domain.as_str(), hits));
            prop_assert_eq!(asked.descriptors.len(), descriptors.len());
            let mut begin = 0;
            for (found, (entries, hits, limit)) in asked.descriptors.iter().zip(&descriptors) {
                let limit = limit.map(|(requests_per_unit, unit)| DescriptorLimit {
                    requests_per_unit,
                    unit,
                    unit_multiplier: None,
                });
                prop_assert_eq!((found.hits_addend, found.limit), (*hits, limit));
                let found_entries: Vec<_> =
                    asked.entries[begin..found.entries_end].iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
                prop_assert_eq!(&found_entries, entries);
                begin = found.entries_end;
            }
        }

        #[test]
        fn garbage_is_a_request_or_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(asked) = decode(&bytes) {
                let _ = asked.descriptors();
            }
        }

        #[test]
        fn a_spoilt_request_is_a_request_or_a_refusal(at in 0_usize..60, byte in any::<u8>()) {
            let entry = ("user".to_owned(), "42".to_owned());
            let mut bytes = encoded("api", &[(vec![entry; 2], Some(3), Some((5, 1)))], 1);
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(asked) = decode(&bytes) {
                let _ = asked.descriptors();
            }
        }
    }

    fn with_descriptor(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, 1, b"api");
        put_message(&mut out, 2, |out| {
            put_message(out, 1, |out| {
                put_bytes(out, 1, b"user");
                put_bytes(out, 2, b"42");
            });
            put(out);
        });
        out
    }

    #[test]
    fn a_refund_is_refused_and_never_charged() {
        let bytes = with_descriptor(|out| put_number(out, 4, 1));
        assert_eq!(decode(&bytes).map_err(|refusal| refusal.code), Err(Code::Unsupported));
        let bytes = with_descriptor(|out| put_number(out, 4, 0));
        assert!(decode(&bytes).is_ok());
    }

    #[test]
    fn a_limit_of_several_units_is_read() {
        let limit = |multiplier: &[u8]| {
            let bytes = with_descriptor(|out| {
                put_message(out, 2, |out| {
                    put_number(out, 1, 10);
                    put_number(out, 2, 2);
                    put_bytes(out, 3, multiplier);
                });
            });
            decode(&bytes).unwrap().descriptors().map(|list| list[0].limit.unwrap().period.length())
        };
        assert_eq!(limit(&[8, 5]), Ok(tidegate_core::Nanos::from_secs(300)));
        assert_eq!(limit(&[]).map_err(|refusal| refusal.code), Err(Code::OutOfRange));
    }

    #[test]
    fn more_than_the_bounds_are_refused_while_reading() {
        let entry = ("k".to_owned(), "v".to_owned());
        let many = vec![(vec![entry.clone()], None, None); 101];
        assert_eq!(decode(&encoded("api", &many, 1)).map_err(|refusal| refusal.code), Err(Code::TooMany));
        assert!(decode(&encoded("api", &many[..100], 1)).is_ok());
        let wide = [(vec![entry; 65], None, None)];
        assert_eq!(decode(&encoded("api", &wide, 1)).map_err(|refusal| refusal.code), Err(Code::TooMany));
    }
}
