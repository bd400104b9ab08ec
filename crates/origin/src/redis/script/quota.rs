//! Quotas on the way to Redis and back: messages as texts, which people can read there too.
//!
//! A report is `<applied>,<version>|` and of every key `<key>,<kind>,<number>,<a>,<b>,<milli>,<abuse>;`, where kind, a and b
//! are `s` or `f`, the period in ns and 0, or `g`, the interval's numerator in ns and its denominator. News are
//! `<version>,<index>,<members>,<active>|` and of every slice `<key>,<amount>,<parts>,<whole>,<until>,<rises>;`.
//! Keys are hexadecimal, all else decimal. What can't be read costs its own key, or its own node's report.

use super::ScriptCall;
use super::name;
use super::reply::{Fields, nonsense, shown};
use crate::redis::wire::{Arguments, Value};
use crate::store::resolution::{from_micros, micros_ceil};
use crate::{
    OfferedDemand, OriginError, QUOTA_KEYS_MAX, QuotaNews, QuotaReply, QuotaReport, QuotaReports, Share,
    SliceReport,
};
use std::fmt::Write as _;
use std::sync::Arc;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::slice::Lease;
use tidegate_core::{Burst, KeyId, Limit, Nanos, Period, Rate, SliceSize, Spec};

pub(crate) fn report_call(report: &QuotaReport) -> ScriptCall {
    let mut args = Arguments::default();
    args.write(format_args!("{:016x}", report.node.0));
    args.text(&if report.leaves { String::new() } else { report_text(report) });
    args.number(report.applied);
    call(&[name::QUOTA_REPORTS, name::QUOTA_NEWS], args)
}

pub(crate) fn gather_call(silent_for: Nanos) -> ScriptCall {
    let mut args = Arguments::default();
    args.number(micros_ceil(silent_for));
    call(&[name::QUOTA_REPORTS], args)
}

pub(crate) fn publish_call(news: &QuotaNews) -> ScriptCall {
    let mut args = Arguments::default();
    args.number(news.stamp);
    args.text(&format!("{},{}", news.stamp, news_text(news)));
    call(&[name::QUOTA_NEWS], args)
}

pub(super) fn call(names: &[&str], args: Arguments) -> ScriptCall {
    let mut keys = Arguments::default();
    names.iter().for_each(|name| keys.text(name));
    ScriptCall { slot: name::slot_of_nodes(), keys, args, syncs: Vec::new(), is_reading: false }
}

/// In the place of news: the last that are known there are earlier than those that the node goes by.
pub(super) const BEHIND: &str = "-";

pub(crate) fn read_reply(value: Value) -> Result<QuotaReply, OriginError> {
    let mut fields = Fields::of(value)?;
    let now = fields.present()?;
    let text = fields.long_text()?;
    // What is wrong with the keys comes with a mark behind it.
    fields.end().map_err(|_| nonsense(&text))?;
    let is_behind = text == BEHIND;
    if text.is_empty() || is_behind {
        return Ok(QuotaReply { now, news: None, is_behind });
    }
    let news = parse_news(&text).ok_or_else(|| nonsense(&shown(text.as_bytes())))?;
    Ok(QuotaReply { now, news: Some(Arc::new(news)), is_behind })
}

pub(crate) fn gathered_reply(value: Value) -> Result<QuotaReports, OriginError> {
    let mut fields = Fields::of(value)?;
    let now = fields.present()?;
    let lost_data_at = lost_data_at(&mut fields)?;
    let mut reports = Vec::new();
    while let Ok(node) = fields.text() {
        let Ok(text) = fields.long_text() else { return Err(nonsense(&node)) };
        let Ok(id) = u64::from_str_radix(&node, 16) else { return Err(nonsense(&node)) };
        reports.extend(parse_report(NodeId(id), &text));
    }
    Ok(QuotaReports { now, lost_data_at, reports })
}

/// What is wrong with the key comes in its place.
pub(super) fn lost_data_at(fields: &mut Fields) -> Result<Nanos, OriginError> {
    match fields.next()? {
        Value::Int(micros) => Ok(from_micros(u64::try_from(micros).map_err(|_| nonsense("no time"))?)),
        Value::BulkString(problem) => Err(nonsense(&shown(&problem))),
        other => Err(nonsense(&format!("{other:?}"))),
    }
}

pub(crate) fn published_reply(value: Value) -> Result<(), OriginError> {
    match value {
        Value::Int(1) => Ok(()),
        Value::BulkString(problem) => Err(nonsense(&shown(&problem))),
        other => Err(nonsense(&format!("{other:?}"))),
    }
}

fn report_text(report: &QuotaReport) -> String {
    let mut text = format!("{},{}|", report.applied, report.version);
    for offered in report.offered.iter().take(QUOTA_KEYS_MAX) {
        let (kind, number, a, b) = match offered.spec {
            Spec::Sliding { limit, period } => ('s', limit.get(), period.get(), 0),
            Spec::Fixed { limit, period } => ('f', limit.get(), period.get(), 0),
            Spec::Gcra { rate, burst } => {
                ('g', burst.get(), rate.interval_numerator_ns(), rate.interval_denominator())
            }
            // They are long, and shared by counts.
            Spec::Calendar { .. } => continue,
        };
        let (key, milli) = (offered.key.get(), offered.milli_per_second);
        // Writing to a string never fails.
        let _ = write!(text, "{key:032x},{kind},{number},{a},{b},{milli},{};", u8::from(offered.is_abuse));
    }
    text
}

fn parse_report(node: NodeId, text: &str) -> Option<QuotaReport> {
    let (head, entries) = text.split_once('|')?;
    let (applied, version) = head.split_once(',')?;
    let (applied, version) = (applied.parse().ok()?, version.parse().ok()?);
    let offered = entries.split_terminator(';').filter_map(parse_offered).take(QUOTA_KEYS_MAX).collect();
    Some(QuotaReport { node, applied, version, offered, leaves: false })
}

fn parse_offered(entry: &str) -> Option<OfferedDemand> {
    let mut parts = entry.split(',');
    let key = parse_key(parts.next()?)?;
    let kind = parts.next()?;
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (amount, a, b, milli_per_second, is_abuse) =
        (number()?, number()?, number()?, number()?, number()? == 1);
    let period = || Period::new(Nanos::new(a)).ok();
    let spec = match kind {
        "s" => Spec::Sliding { limit: Limit::new(amount).ok()?, period: period()? },
        "f" => Spec::Fixed { limit: Limit::new(amount).ok()?, period: period()? },
        "g" => Spec::Gcra { rate: parse_rate(a, b)?, burst: Burst::new(amount).ok()? },
        _ => return None,
    };
    Some(OfferedDemand { key, spec, is_abuse, milli_per_second })
}

/// A rate's period may be shorter than what a rate is given in: its parts are in lowest terms.
fn parse_rate(numerator_ns: u64, denominator: u64) -> Option<Rate> {
    let factor = Nanos::PER_MILLI.div_ceil(numerator_ns.max(1));
    Rate::new(denominator.checked_mul(factor)?, Nanos::new(numerator_ns.checked_mul(factor)?)).ok()
}

fn news_text(news: &QuotaNews) -> String {
    let Share { version, index, members, is_active } = news.share;
    let mut text = format!("{version},{index},{members},{}|", u8::from(is_active));
    for SliceReport { key, lease } in news.slices.iter().take(QUOTA_KEYS_MAX) {
        let Lease { size: SliceSize { amount, rate_parts }, whole, until, rises } = *lease;
        let (key, until, rises) = (key.get(), until.get(), rises.get());
        let _ = write!(text, "{key:032x},{amount},{rate_parts},{whole},{until},{rises};");
    }
    text
}

fn parse_news(text: &str) -> Option<QuotaNews> {
    let (head, entries) = text.split_once('|')?;
    let mut head = head.split(',');
    let mut number = || head.next()?.parse::<u64>().ok();
    let (stamp, version, index, members) = (number()?, number()?, number()?, number()?);
    let is_active = number()? == 1;
    let share = Share {
        version,
        index: u32::try_from(index).ok()?,
        members: u32::try_from(members).ok()?,
        is_active,
    };
    // All or nothing: a slice that is left out would be an even part.
    let slices = entries.split_terminator(';').map(parse_slice).collect::<Option<Vec<_>>>()?;
    (slices.len() <= QUOTA_KEYS_MAX).then_some(QuotaNews { stamp, share, slices })
}

fn parse_slice(entry: &str) -> Option<SliceReport> {
    let (key, rest) = entry.split_once(',')?;
    let mut parts = rest.split(',').map(|part| part.parse::<u64>().ok());
    let mut number = || parts.next()?;
    let size = SliceSize { amount: number()?, rate_parts: u32::try_from(number()?).ok()? };
    let (whole, until, rises) = (number()?, Nanos::new(number()?), Nanos::new(number()?));
    Some(SliceReport { key: parse_key(key)?, lease: Lease { size, whole, until, rises } })
}

pub(super) fn parse_key(text: &str) -> Option<KeyId> {
    u128::from_str_radix(text, 16).ok().map(KeyId::from_hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota_keys_max;
    use crate::redis::wire::ANSWER_BYTES_MAX;
    use tidegate_core::limit::NUMBER_MAX;

    fn report() -> QuotaReport {
        let period = Period::new(Nanos::from_secs(10)).unwrap();
        let limit = Limit::new(1 << 53).unwrap();
        let gcra = |count, millis| Spec::Gcra {
            rate: Rate::new(count, Nanos::from_millis(millis)).unwrap(),
            burst: Burst::new(7).unwrap(),
        };
        let specs = [
            Spec::Sliding { limit, period },
            Spec::Fixed { limit: Limit::BLOCKED, period },
            gcra(700_000, 1_000),
            gcra(1, 366 * 86_400_000),
            gcra(1_000_000, 1),
        ];
        let offered = specs.into_iter().zip(1_u8..).map(|(spec, number)| OfferedDemand {
            key: KeyId::from_hash(u128::from(number) << 100),
            spec,
            is_abuse: number % 2 == 0,
            milli_per_second: u64::from(number) * 1_000,
        });
        QuotaReport { node: NodeId(9), applied: 77, version: 3, offered: offered.collect(), leaves: false }
    }

    fn news() -> QuotaNews {
        let lease = |amount| Lease {
            size: SliceSize { amount, rate_parts: 5 },
            whole: 100,
            until: Nanos::from_secs(1 << 30),
            rises: Nanos::MAX,
        };
        let slice = |number| SliceReport { key: KeyId::from_hash(u128::MAX / number), lease: lease(3) };
        let share = Share { version: 4, index: 1, members: 3, is_active: true };
        QuotaNews { stamp: 1 << 50, share, slices: vec![slice(2), slice(3)] }
    }

    #[test]
    fn messages_come_back_as_they_left() {
        assert_eq!(parse_report(NodeId(9), &report_text(&report())), Some(report()));
        let text = format!("{},{}", news().stamp, news_text(&news()));
        assert_eq!(parse_news(&text), Some(news()));
    }

    #[test]
    fn what_all_nodes_report_fits_one_answer_however_many_they_are() {
        let rate = Rate::new(9_007_199_254_740_991, Nanos::from_secs(366 * 86_400)).unwrap();
        let offered = OfferedDemand {
            key: KeyId::from_hash(u128::MAX),
            spec: Spec::Gcra { rate, burst: Burst::new(NUMBER_MAX).unwrap() },
            is_abuse: true,
            milli_per_second: u64::MAX,
        };
        let one = QuotaReport { offered: vec![offered], ..report() };
        for nodes in [1_u16, 10, 20, 33, 100, 1_000] {
            let keys = quota_keys_max(nodes.into());
            assert!((1..=QUOTA_KEYS_MAX).contains(&keys), "{nodes} nodes, {keys} keys each");
            let bytes = report_text(&one).len() * keys * usize::from(nodes);
            assert!(bytes < ANSWER_BYTES_MAX, "{nodes} nodes, {bytes} bytes");
        }
    }

    #[test]
    fn what_cannot_be_read_costs_its_key_or_its_message_and_never_panics() {
        let text = report_text(&report()).replacen(",s,", ",?,", 1);
        assert_eq!(parse_report(NodeId(9), &text).map(|report| report.offered.len()), Some(4));
        let told = format!("{},{}", news().stamp, news_text(&news()));
        for text in [told, report_text(&report())] {
            for end in 0..text.len() {
                let _ = (parse_report(NodeId(1), &text[..end]), parse_news(&text[..end]));
                let spoilt = format!("{}x{}", &text[..end], &text[end..]);
                let _ = (parse_report(NodeId(1), &spoilt), parse_news(&spoilt));
            }
        }
        for value in [Value::Nil, Value::Int(2), Value::Array(vec![]), Value::Array(vec![Value::Int(1); 3])] {
            assert!(
                read_reply(value.clone()).is_err() && published_reply(value.clone()).is_err(),
                "{value:?}"
            );
        }
        for third in [Value::Nil, Value::Int(-1), Value::BulkString(b"wrong".to_vec())] {
            let value = Value::Array(vec![Value::Int(1), Value::Int(1), third]);
            assert!(gathered_reply(value.clone()).is_err(), "{value:?}");
        }
    }
}
