//! From messages to the keys and arguments of a script's call. The layout is in the scripts' headers.
//!
//! Numbers leave here as what a double holds exactly: counts at most 2^53, instants as seconds and
//! nanoseconds or as whole microseconds.

use super::name::{self, Names};
use super::{SYNCS_MAX, ScriptCall};
use crate::redis::wire::{Arguments, decimal, hexadecimal};
use crate::store::resolution::{FadingMicros, micros_ceil, sequence_before, units_ahead};
use crate::{Acceptance, DoneReset, Exchange, Expiry, Grant, Heartbeat, ResetNews};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use tidegate_core::exchange::{CellSync, CountSync, GrantRequest, KeySync, LeaseRequest, WindowSync};
use tidegate_core::gcra_sync::GcraSync;
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{KeyId, Nanos, Rate};

/// What the three names of a window take, what every call says, and what it says of a window: about that much.
const KEYS_BYTES: usize = 256;
const HEAD_BYTES: usize = 128;
const SYNC_BYTES: usize = 192;

/// The calls that carry an exchange. In a cluster a call's keys must share a slot.
pub(crate) fn calls(exchange: &Exchange, topology_has_slots: bool) -> Vec<ScriptCall> {
    if exchange.syncs.is_empty() {
        return Vec::new();
    }
    let all = 0..exchange.syncs.len();
    let slot_of = |sync: &KeySync| if topology_has_slots { name::slot_of(sync.key) } else { 0 };
    if exchange.grant == Grant::Together || all.len() == 1 {
        return vec![sync_call(exchange, slot_of(&exchange.syncs[0]), all.collect())];
    }
    let mut by_slot: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for index in all {
        by_slot.entry(slot_of(&exchange.syncs[index])).or_default().push(index);
    }
    let groups =
        by_slot.iter().flat_map(|(slot, indices)| indices.chunks(SYNCS_MAX).map(|some| (*slot, some)));
    groups.map(|(slot, indices)| sync_call(exchange, slot, indices.to_vec())).collect()
}

pub(crate) fn resets_call(news: &ResetNews) -> ScriptCall {
    let (mut keys, mut args) = (Arguments::default(), Arguments::default());
    [name::RESET_LOG, name::RESET_HEAD, name::RESETS].iter().for_each(|name| keys.text(name));
    match news.known {
        Some(known) => args.write(format_args!("{:016x}", known.log)),
        None => args.text(""),
    }
    count(&mut args, news.known.map_or(0, |known| known.number));
    args.write(format_args!("{:016x}", news.next_log));
    for reset in &news.resets {
        args.write(format_args!("{:032x}:{}", reset.key.get(), reset.epoch));
    }
    ScriptCall { slot: name::slot_of_nodes(), keys, args, syncs: Vec::new(), is_reading: false }
}

pub(crate) fn heartbeat_call(heartbeat: &Heartbeat) -> ScriptCall {
    let Heartbeat { node, fingerprint, alive_for, leaves, applied, acceptance } = heartbeat;
    let (mut keys, mut args) = (Arguments::default(), Arguments::default());
    keys.text(name::LIVE_NODES);
    keys.text(name::FINGERPRINT);
    keys.text(name::APPLIED_VERSIONS);
    keys.text(name::WORLD);
    keys.text(name::FORMAT);
    keys.text(name::PROVEN);
    args.write(format_args!("{:016x}", node.0));
    args.write(format_args!("{fingerprint:016x}"));
    count(&mut args, micros_ceil(*alive_for));
    args.text(if *leaves { "leaves" } else { "stays" });
    count(&mut args, *applied);
    match (acceptance, acceptance.weight()) {
        (Acceptance::Refused, _) => args.text("refused"),
        (_, 0) => args.text("new"),
        (_, weight) => count(&mut args, u64::from(weight)),
    }
    ScriptCall { slot: name::slot_of_nodes(), keys, args, syncs: Vec::new(), is_reading: false }
}

pub(crate) fn reset_call(key: KeyId, known: u16, expiry: Expiry, order: Option<u64>) -> ScriptCall {
    let (mut keys, mut args) = (Arguments::default(), Arguments::default());
    let names = Names::of(key);
    names.epoch(&mut keys);
    count(&mut args, expiry.at.as_millis_ceil());
    count(&mut args, expiry.now.as_millis_ceil());
    count(&mut args, u64::from(known));
    if let Some(order) = order {
        // Only then: about a slot on its way, servers answer calls with one key alone.
        names.order(&mut keys);
        count(&mut args, order);
    }
    ScriptCall { slot: name::slot_of(key), keys, args, syncs: Vec::new(), is_reading: false }
}

/// The same script, for what was carried out before.
pub(crate) fn restore_call(done: &DoneReset, now: Nanos) -> ScriptCall {
    let expiry = Expiry { at: done.expires, now };
    let mut call = reset_call(done.reset.key, done.reset.epoch, expiry, done.reset_id);
    if done.reset_id.is_none() {
        call.args.text("");
    }
    call.args.text("done");
    call
}

fn sync_call(exchange: &Exchange, slot: u16, syncs: Vec<usize>) -> ScriptCall {
    let chosen = || syncs.iter().map(|index| &exchange.syncs[*index]);
    let names: SmallVec<[Names; 1]> = chosen().map(|sync| Names::of(sync.key)).collect();
    let mut keys = Arguments::with_room(KEYS_BYTES * syncs.len());
    let mut args = Arguments::with_room(HEAD_BYTES + SYNC_BYTES * syncs.len());
    names.iter().for_each(|names| names.epoch(&mut keys));
    let mut node = [0; 16];
    hexadecimal(&mut node, u128::from(exchange.node.0));
    args.joined(&[b"c:", &node]);
    instant(&mut args, exchange.now);
    args.text(match exchange.grant {
        Grant::Each => "each",
        Grant::Together => "together",
    });
    args.number(syncs.len() as u64);
    push_features(&mut args, &chosen());
    for (sync, names) in chosen().zip(&names) {
        push_names(&mut keys, sync, names);
        push_sync(&mut args, sync);
    }
    ScriptCall { slot, keys, args, syncs, is_reading: false }
}

/// What is among the syncs, so that the script makes only the functions that it needs.
fn push_features<'a>(args: &mut Arguments, syncs: &(impl Iterator<Item = &'a KeySync> + Clone)) {
    let any =
        |letter, has: fn(&KeySync) -> bool| -> &[u8] { if syncs.clone().any(has) { letter } else { b"" } };
    let windows = any(b"w", |sync| matches!(sync.counts, CountSync::Window(_)));
    let gcra = any(b"g", |sync| matches!(sync.counts, CountSync::Gcra { .. }));
    let asks = any(b"a", |sync| sync.request != GrantRequest::default() || !sync.ended_holds.is_empty());
    args.joined(&[windows, gcra, asks]);
}

fn push_names(keys: &mut Arguments, sync: &KeySync, names: &Names) {
    match &sync.counts {
        CountSync::Window(window) => {
            names.window_cell(keys, sync.epoch, window.sequence);
            if window.previous.is_some() {
                names.window_cell(keys, sync.epoch, sequence_before(window.sequence));
            }
        }
        CountSync::Gcra { .. } => names.gcra_state(keys, sync.epoch),
    }
}

fn push_sync(args: &mut Arguments, sync: &KeySync) {
    args.text(match sync.counts {
        CountSync::Window(_) => "w",
        CountSync::Gcra { .. } => "g",
    });
    count(args, u64::from(sync.epoch));
    list(args, sync.ended_holds.iter().map(|id| format!("{:016x}", id.0)));
    push_grant_request(args, &sync.request);
    match &sync.counts {
        CountSync::Window(window) => push_window(args, window),
        CountSync::Gcra { sync, burst } => push_gcra(args, sync, *burst),
    }
}

fn push_grant_request(args: &mut Arguments, request: &GrantRequest) {
    match request.asks.as_slice() {
        [] => args.text(""),
        [ask] => count(args, *ask),
        asks => list(args, asks.iter().map(|ask| (*ask).min(NUMBER_MAX).to_string())),
    }
    if request.peek {
        return args.text("p");
    }
    let draw = if request.draw { "d" } else { "" };
    match (request.hold, request.lease) {
        (None, None) => args.text(draw),
        (Some(id), None) => args.write(format_args!("{draw}r{:016x}", id.0)),
        (None, Some(lease)) => args.write(format_args!("{draw}{}", LeaseText(lease))),
        (Some(id), Some(lease)) => args.write(format_args!("{draw}{}r{:016x}", LeaseText(lease), id.0)),
    }
}

struct LeaseText(LeaseRequest);

impl fmt::Display for LeaseText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "l{}:{};", self.0.most.min(NUMBER_MAX), self.0.parts)
    }
}

fn push_window(args: &mut Arguments, window: &WindowSync) {
    count(args, window.limit);
    push_cell(args, &window.current);
    match &window.previous {
        Some(previous) => push_cell(args, previous),
        None => push_nothing(args, 3),
    }
    match window.fading.map(FadingMicros::from) {
        Some(FadingMicros { end_us, period_us }) => {
            count(args, end_us);
            count(args, period_us);
        }
        None => push_nothing(args, 2),
    }
    count(args, u64::from(window.regions));
    count(args, window.current.acked);
    match &window.previous {
        Some(previous) => count(args, previous.acked),
        None => push_nothing(args, 1),
    }
}

fn push_cell(args: &mut Arguments, cell: &CellSync) {
    count(args, cell.component);
    count(args, cell.claim);
    count(args, cell.expires.as_millis_ceil());
}

fn push_gcra(args: &mut Arguments, sync: &GcraSync, burst: u64) {
    count(args, burst);
    count(args, units_ahead(sync.rate));
    count(args, sync.cumulative);
    count(args, sync.acked);
    instant(args, sync.oldest);
    instant(args, sync.busy.tat);
    instant(args, sync.busy.since);
    interval(args, sync.rate);
    count(args, sync.sent);
}

fn push_nothing(args: &mut Arguments, times: usize) {
    (0..times).for_each(|_| args.text(""));
}

/// What a double holds exactly.
pub(super) fn count(args: &mut Arguments, number: u64) {
    args.number(number.min(NUMBER_MAX));
}

fn list(args: &mut Arguments, items: impl Iterator<Item = String>) {
    args.text(&items.collect::<Vec<_>>().join(","));
}

fn instant(args: &mut Arguments, instant: Nanos) {
    let (seconds, nanos) = (instant.get() / Nanos::PER_SECOND, instant.get() % Nanos::PER_SECOND);
    let (mut whole, mut part) = ([0; 20], [0; 20]);
    // One digit more, so that none at the front is missing.
    let part = &decimal(&mut part, Nanos::PER_SECOND + nanos)[1..];
    args.joined(&[decimal(&mut whole, seconds), b".", part]);
}

/// Exact: whole seconds, whole nanoseconds, and what is left as a fraction of a nanosecond.
fn interval(args: &mut Arguments, rate: Rate) {
    let (numerator_ns, denominator) = (rate.interval_numerator_ns(), rate.interval_denominator());
    let (whole_ns, part) = (numerator_ns / denominator, numerator_ns % denominator);
    let (seconds, nanos) = (whole_ns / Nanos::PER_SECOND, whole_ns % Nanos::PER_SECOND);
    args.write(format_args!("{seconds}:{nanos}:{part}:{denominator}"));
}
