//! A shard's record on its way: pulses, and the reading that follows an exchange.

use super::ScriptCall;
use super::call::count;
use super::name;
use super::reply::{Fields, nonsense};
use crate::OriginError;
use crate::record::{Eviction, Incarnation, Pulse, PulseReply, RecordReading, ShardRecord};
use crate::redis::wire::{Arguments, Value};
use crate::store::resolution::micros_ceil;

pub(crate) fn pulse_call(pulse: &Pulse, slot: u16) -> ScriptCall {
    let (mut keys, mut args) = (Arguments::default(), Arguments::default());
    name::record_names(slot).iter().for_each(|name| keys.text(name));
    let incarnation = |args: &mut Arguments, one: Option<Incarnation>| match one {
        Some(one) => args.write(format_args!("{:016x}", one.0)),
        None => args.text(""),
    };
    args.write(format_args!("{:016x}", pulse.node.0));
    incarnation(&mut args, Some(pulse.next));
    count(&mut args, pulse.number);
    count(&mut args, pulse.acked);
    incarnation(&mut args, pulse.known);
    incarnation(&mut args, pulse.confirmed);
    count(&mut args, micros_ceil(pulse.alive_for));
    args.text(if pulse.leaves { "leaves" } else { "stays" });
    args.text(if pulse.adopts { "adopts" } else { "loss" });
    ScriptCall { slot, keys, args, syncs: Vec::new(), is_reading: false }
}

pub(crate) fn pulse_reply(value: Value) -> Result<PulseReply, OriginError> {
    let mut fields = Fields::of(value)?;
    let now = fields.present()?;
    let incarnation = fields.text()?;
    let Ok(parsed) = u64::from_str_radix(&incarnation, 16) else { return Err(nonsense(&incarnation)) };
    let is_recovering = match fields.text()?.as_str() {
        "whole" => false,
        "recovering" => true,
        other => return Err(nonsense(other)),
    };
    let unconfirmed = u32::try_from(fields.count()?).unwrap_or(u32::MAX);
    let (keys, policy) = (fields.number()?, fields.text()?);
    fields.end()?;
    let eviction =
        keys.filter(|_| !policy.is_empty()).map(|keys| Eviction { is_allowed: policy != "noeviction", keys });
    let record = ShardRecord { incarnation: Incarnation(parsed), is_recovering };
    Ok(PulseReply { record, unconfirmed, now, eviction })
}

/// Reads the record of the shard that owns `slot`.
pub(crate) fn record_call(slot: u16) -> ScriptCall {
    let mut keys = Arguments::default();
    let [record, _] = name::record_names(slot);
    keys.text(&record);
    ScriptCall { slot, keys, args: Arguments::default(), syncs: Vec::new(), is_reading: true }
}

/// A record that can't be read is as good as none: what was granted beside it isn't verified.
pub(crate) fn record_reply(value: Value) -> RecordReading {
    let Value::BulkString(text) = value else { return RecordReading::Missing };
    let text = String::from_utf8_lossy(&text);
    let mut parts = text.split(':');
    let (Some("1"), Some(incarnation), Some(since)) = (parts.next(), parts.next(), parts.next()) else {
        return RecordReading::Missing;
    };
    match u64::from_str_radix(incarnation, 16) {
        Ok(incarnation) => RecordReading::Found(ShardRecord {
            incarnation: Incarnation(incarnation),
            is_recovering: since != "0",
        }),
        Err(_) => RecordReading::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_and_anything_else_is_none() {
        let read = |text: &str| record_reply(Value::BulkString(text.as_bytes().to_vec()));
        let found = |is_recovering| {
            RecordReading::Found(ShardRecord { incarnation: Incarnation(0xab), is_recovering })
        };
        assert_eq!(read("1:00000000000000ab:0:77aa"), found(false));
        assert_eq!(read("1:00000000000000ab:1700000000000000:"), found(true));
        for other in ["", "2:ab:0:", "1:xyz:0:", "1:ab", "nonsense"] {
            assert_eq!(read(other), RecordReading::Missing, "{other:?}");
        }
        assert_eq!(record_reply(Value::Int(3)), RecordReading::Missing);
    }
}
