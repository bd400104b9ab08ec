//! Hot keys on the way to Redis and back: by the scripts that carry quotas, under names of their own.
//!
//! A report is of every key `<key>,<per second>;`, news are `<stamp>|` and the same. Keys are hexadecimal, all else
//! decimal. What can't be read costs its own key, or its own message.

use super::ScriptCall;
use super::name;
use super::quota::{BEHIND, call, lost_data_at, parse_key};
use super::reply::{Fields, nonsense, shown};
use crate::redis::wire::{Arguments, Value};
use crate::store::resolution::micros_ceil;
use crate::{HOT_KEYS_MAX, HotKey, HotKeysReply, HotNews, HotReport, OriginError};
use std::fmt::Write as _;
use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;

pub(crate) fn report_call(report: &HotReport) -> ScriptCall {
    let mut args = Arguments::default();
    args.write(format_args!("{:016x}", report.node.0));
    // An empty report would be that of a node that leaves.
    args.text(&format!("|{}", keys_text(&report.keys)));
    args.number(report.applied);
    call(&[name::HOT_REPORTS, name::HOT_NEWS], args)
}

pub(crate) fn gather_call(silent_for: Nanos) -> ScriptCall {
    let mut args = Arguments::default();
    args.number(micros_ceil(silent_for));
    call(&[name::HOT_REPORTS], args)
}

pub(crate) fn publish_call(news: &HotNews) -> ScriptCall {
    let mut args = Arguments::default();
    args.number(news.stamp);
    args.text(&format!("{}|{}", news.stamp, keys_text(&news.keys)));
    call(&[name::HOT_NEWS], args)
}

pub(crate) fn read_reply(value: Value) -> Result<HotKeysReply, OriginError> {
    let mut fields = Fields::of(value)?;
    let now = fields.present()?;
    let text = fields.long_text()?;
    // What is wrong with the keys comes with a mark behind it.
    fields.end().map_err(|_| nonsense(&text))?;
    if text.is_empty() || text == BEHIND {
        return Ok(HotKeysReply { now, news: None });
    }
    let (stamp, keys) = text.split_once('|').ok_or_else(|| nonsense(&shown(text.as_bytes())))?;
    let stamp = stamp.parse().map_err(|_| nonsense(&shown(stamp.as_bytes())))?;
    Ok(HotKeysReply { now, news: Some(HotNews { stamp, keys: parse_keys(keys) }) })
}

pub(crate) fn gathered_reply(value: Value) -> Result<Vec<HotReport>, OriginError> {
    let mut fields = Fields::of(value)?;
    fields.present()?;
    lost_data_at(&mut fields)?;
    let mut reports = Vec::new();
    while let Ok(node) = fields.text() {
        let Ok(text) = fields.long_text() else { return Err(nonsense(&node)) };
        let Ok(id) = u64::from_str_radix(&node, 16) else { return Err(nonsense(&node)) };
        if let Some(keys) = text.strip_prefix('|') {
            reports.push(HotReport { node: NodeId(id), applied: 0, keys: parse_keys(keys) });
        }
    }
    Ok(reports)
}

fn keys_text(keys: &[HotKey]) -> String {
    let mut text = String::new();
    for HotKey { key, per_second } in keys.iter().take(HOT_KEYS_MAX) {
        // Writing to a string never fails.
        let _ = write!(text, "{:032x},{per_second};", key.get());
    }
    text
}

fn parse_keys(text: &str) -> Vec<HotKey> {
    let parse = |entry: &str| {
        let (key, per_second) = entry.split_once(',')?;
        Some(HotKey { key: parse_key(key)?, per_second: per_second.parse().ok()? })
    };
    text.split_terminator(';').filter_map(parse).take(HOT_KEYS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::KeyId;

    #[test]
    fn keys_come_back_as_they_left_and_what_cannot_be_read_costs_itself() {
        let keys: Vec<HotKey> = (1..4_u64)
            .map(|number| HotKey {
                key: KeyId::from_hash(u128::MAX / u128::from(number)),
                per_second: number,
            })
            .collect();
        let text = keys_text(&keys);
        assert_eq!(parse_keys(&text), keys);
        assert_eq!(parse_keys(&text.replacen(",2;", ",two;", 1)), [keys[0], keys[2]]);
        for end in 0..text.len() {
            let _ = parse_keys(&text[..end]);
        }
        for value in [Value::Nil, Value::Int(2), Value::Array(vec![]), Value::Array(vec![Value::Int(1); 3])] {
            assert!(read_reply(value.clone()).is_err(), "{value:?}");
        }
    }
}
