//! From a script's answer to the message that it means. Every number is checked: a server that was tampered
//! with, or isn't ours, must cost a key its answer and nothing more.

use super::ScriptCall;
use super::world_reply::world_view;
use crate::redis::wire::Value;
use crate::store::REFUSED_BEFORE;
use crate::store::resolution::from_micros;
use crate::{Exchange, Heartbeat, HeartbeatReply, KeyError, OriginError, Reset, ResetLog, ResetPosition};
use smallvec::SmallVec;
use tidegate_core::counts::CellReply;
use tidegate_core::exchange::{CountReply, CountSync, KeyReply, KeySync};
use tidegate_core::gcra_sync::BusyPeriod;
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{KeyId, Nanos};

/// What of an answer is shown to an operator.
const SHOWN_MAX: usize = 200;

/// The store's present, and each sync's reply in the order of `call.syncs`.
pub(crate) fn replies(
    exchange: &Exchange,
    call: &ScriptCall,
    value: Value,
) -> Result<(Nanos, Vec<Result<KeyReply, KeyError>>), OriginError> {
    let mut fields = Fields::of(value)?;
    let now = fields.present()?;
    if fields.0.len() != call.syncs.len() {
        return Err(nonsense(&format!("{} entries for {} keys", fields.0.len(), call.syncs.len())));
    }
    let syncs = call.syncs.iter().map(|index| exchange.syncs.get(*index));
    let replies = syncs.zip(fields.0).map(|(sync, entry)| match sync {
        Some(sync) => entry_reply(sync, entry),
        None => Err(nonsense("an answer to nobody's sync").into()),
    });
    Ok((now, replies.collect()))
}

pub(crate) fn heartbeat_reply(heartbeat: &Heartbeat, value: Value) -> Result<HeartbeatReply, OriginError> {
    let mut fields = Fields::of(value)?;
    let now = fields.present()?;
    let outcome = fields.text()?;
    match outcome.as_str() {
        "alive" => {
            let nodes = fields.owners()?;
            let world = world_view(&fields.text()?)?;
            Ok(HeartbeatReply { nodes, now, world, keeps_no_records: fields.count()? == 1 })
        }
        "no secret" => Err(OriginError::Refused { message: REFUSED_BEFORE.to_owned() }),
        "other secret" => {
            let theirs = fields.text()?;
            let theirs = u64::from_str_radix(&theirs, 16).map_err(|_| nonsense("no fingerprint"))?;
            Err(OriginError::OtherSecret { theirs, ours: heartbeat.fingerprint })
        }
        _ => Err(nonsense(&outcome)),
    }
}

pub(crate) fn reset_reply(value: Value) -> Result<u16, OriginError> {
    match value {
        Value::Int(epoch) => u16::try_from(epoch).map_err(|_| nonsense("an epoch out of range")),
        Value::BulkString(problem) => Err(nonsense(&shown(&problem))),
        other => Err(nonsense(&format!("{other:?}"))),
    }
}

pub(crate) fn resets_reply(value: Value) -> Result<ResetLog, OriginError> {
    if let Value::BulkString(problem) = &value {
        return Err(nonsense(&shown(problem)));
    }
    let mut fields = Fields::of(value)?;
    let log = fields.text()?;
    let log = u64::from_str_radix(&log, 16).map_err(|_| nonsense(&log))?;
    let number = fields.count()?;
    let has_gap = fields.count()? != 0;
    let resets: Result<Vec<Reset>, OriginError> = fields.0.map(reset_member).collect();
    Ok(ResetLog { position: ResetPosition { log, number }, has_gap, resets: resets? })
}

fn reset_member(member: Value) -> Result<Reset, OriginError> {
    let Value::BulkString(text) = member else { return Err(nonsense("no reset")) };
    let text = shown(&text);
    let parts = text.split_once(':');
    let parsed =
        parts.and_then(|(key, epoch)| Some((u128::from_str_radix(key, 16).ok()?, epoch.parse().ok()?)));
    let (key, epoch) = parsed.ok_or_else(|| nonsense(&text))?;
    Ok(Reset { key: KeyId::from_hash(key), epoch })
}

fn entry_reply(sync: &KeySync, entry: Value) -> Result<KeyReply, KeyError> {
    match entry {
        Value::BulkString(problem) => Err(KeyError::Poisoned { what: shown(&problem) }),
        entry => key_reply(sync, Fields::of(entry)?).map_err(KeyError::Failed),
    }
}

fn key_reply(sync: &KeySync, mut fields: Fields) -> Result<KeyReply, OriginError> {
    let epoch = u16::try_from(fields.count()?).map_err(|_| nonsense("an epoch out of range"))?;
    if epoch < sync.epoch {
        return Err(nonsense("an epoch from before ours"));
    }
    let (counts, drawn, retry_after) = match sync.counts {
        CountSync::Window(window) => {
            let counts = fields.window_counts(window.previous.is_some())?;
            (counts, fields.count()?, fields.number()?.map(from_micros))
        }
        CountSync::Gcra { .. } => (fields.gcra_counts()?, fields.count()?, fields.optional_instant()?),
    };
    let granted = fields.granted(sync.request.asks.len())?;
    let component_before = fields.number()?;
    fields.end()?;
    Ok(KeyReply { epoch, counts, granted, drawn, retry_after, component_before })
}

/// The rest of an array, read from the front.
pub(super) struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    pub(super) fn of(value: Value) -> Result<Self, OriginError> {
        match value {
            Value::Array(values) => Ok(Fields(values.into_iter())),
            other => Err(nonsense(&format!("{other:?}"))),
        }
    }

    pub(super) fn next(&mut self) -> Result<Value, OriginError> {
        self.0.next().ok_or_else(|| nonsense("too short"))
    }

    pub(super) fn end(&mut self) -> Result<(), OriginError> {
        if self.0.len() == 0 { Ok(()) } else { Err(nonsense("too long")) }
    }

    /// −1 stands for none.
    pub(super) fn number(&mut self) -> Result<Option<u64>, OriginError> {
        match self.next()? {
            Value::Int(-1) => Ok(None),
            Value::Int(number) => match u64::try_from(number) {
                Ok(number) if number <= NUMBER_MAX => Ok(Some(number)),
                _ => Err(nonsense(&format!("{number}"))),
            },
            other => Err(nonsense(&format!("{other:?}"))),
        }
    }

    pub(super) fn count(&mut self) -> Result<u64, OriginError> {
        self.number()?.ok_or_else(|| nonsense("a count is missing"))
    }

    pub(super) fn owners(&mut self) -> Result<u32, OriginError> {
        Ok(u32::try_from(self.count()?).unwrap_or(u32::MAX))
    }

    pub(super) fn text(&mut self) -> Result<String, OriginError> {
        match self.next()? {
            Value::BulkString(text) => Ok(shown(&text)),
            other => Err(nonsense(&format!("{other:?}"))),
        }
    }

    /// A text of any length: not to be shown to anybody.
    pub(super) fn long_text(&mut self) -> Result<String, OriginError> {
        match self.next()? {
            Value::BulkString(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            other => Err(nonsense(&format!("{other:?}"))),
        }
    }

    /// Seconds and microseconds.
    pub(super) fn present(&mut self) -> Result<Nanos, OriginError> {
        let (seconds, micros) = (self.count()?, self.count()?);
        if micros >= 1_000_000 {
            return Err(nonsense("no time"));
        }
        Ok(Nanos::from_secs(seconds).plus(from_micros(micros)))
    }

    fn instant(&mut self) -> Result<Nanos, OriginError> {
        self.optional_instant()?.ok_or_else(|| nonsense("an instant is missing"))
    }

    /// Seconds and nanoseconds.
    fn optional_instant(&mut self) -> Result<Option<Nanos>, OriginError> {
        let (seconds, nanos) = (self.number()?, self.count()?);
        if nanos >= Nanos::PER_SECOND {
            return Err(nonsense("no instant"));
        }
        Ok(seconds.map(|seconds| Nanos::from_secs(seconds).plus(Nanos::new(nanos))))
    }

    fn cell(&mut self) -> Result<Option<CellReply>, OriginError> {
        let (component, total, world) = (self.number()?, self.count()?, self.count()?);
        let published = self.count()?;
        Ok(component.map(|component| CellReply { component, total, world, published }))
    }

    fn window_counts(&mut self, names_previous: bool) -> Result<CountReply, OriginError> {
        let current = self.cell()?.ok_or_else(|| nonsense("the cell is missing"))?;
        let owners = self.owners()?;
        let previous = self.cell()?;
        if previous.is_some() != names_previous {
            return Err(nonsense("another cell than was named"));
        }
        Ok(CountReply::Window { current, previous, owners })
    }

    fn gcra_counts(&mut self) -> Result<CountReply, OriginError> {
        let (stored, owners) = (self.count()?, self.owners()?);
        let busy = BusyPeriod { tat: self.instant()?, since: self.instant()? };
        Ok(CountReply::Gcra { busy, stored, owners })
    }

    /// A digit for each ask.
    fn granted(&mut self, asks: usize) -> Result<SmallVec<[bool; 4]>, OriginError> {
        let Value::BulkString(digits) = self.next()? else { return Err(nonsense("no verdicts")) };
        if digits.len() != asks || digits.iter().any(|digit| !matches!(digit, b'0' | b'1')) {
            return Err(nonsense(&format!("verdicts {} for {asks} asks", shown(&digits))));
        }
        Ok(digits.iter().map(|digit| *digit == b'1').collect())
    }
}

pub(super) fn nonsense(what: &str) -> OriginError {
    OriginError::Nonsense { what: what.chars().take(SHOWN_MAX).collect() }
}

pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(SHOWN_MAX).collect()
}
