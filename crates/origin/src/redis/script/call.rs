//! From messages to the keys and arguments of a script's call. The layout is in the scripts' headers.
//!
//! Numbers leave here as what a double holds exactly: counts at most 2^53, instants as seconds and
//! nanoseconds or as whole microseconds.

use super::name;
use super::{SYNCS_MAX, ScriptCall};
use crate::store::resolution::{FadingMicros, micros_ceil, sequence_before, units_ahead};
use crate::{Exchange, Grant, Heartbeat, Reset};
use std::collections::BTreeMap;
use tidegate_core::exchange::{CellSync, CountSync, KeySync, Wants, WindowSync};
use tidegate_core::gcra_sync::GcraSync;
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{KeyId, Nanos, Rate};

/// The calls that carry an exchange. In a cluster a call's keys must share a slot.
pub(crate) fn calls(exchange: &Exchange, topology_has_slots: bool) -> Vec<ScriptCall> {
    if exchange.syncs.is_empty() {
        return Vec::new();
    }
    let all = 0..exchange.syncs.len();
    if exchange.grant == Grant::Together {
        return vec![sync_call(exchange, all.collect())];
    }
    let mut by_slot: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for index in all {
        let slot = if topology_has_slots { name::slot_of(exchange.syncs[index].key) } else { 0 };
        by_slot.entry(slot).or_default().push(index);
    }
    let groups = by_slot.values().flat_map(|indices| indices.chunks(SYNCS_MAX));
    groups.map(|indices| sync_call(exchange, indices.to_vec())).collect()
}

pub(crate) fn resets_call(resets: &[Reset]) -> ScriptCall {
    let member = |reset: &Reset| format!("{:032x}:{}", reset.key.get(), reset.epoch).into_bytes();
    let args = resets.iter().map(member).collect();
    ScriptCall { slot: name::slot_of_nodes(), keys: vec![name::resets()], args, syncs: Vec::new() }
}

pub(crate) fn heartbeat_call(heartbeat: &Heartbeat) -> ScriptCall {
    let Heartbeat { node, fingerprint, alive_for, leaves } = heartbeat;
    let mut args = Arguments::default();
    args.text(&format!("{:016x}", node.0));
    args.text(&format!("{fingerprint:016x}"));
    args.number(micros_ceil(*alive_for));
    args.text(if *leaves { "leaves" } else { "stays" });
    let keys = vec![name::live_nodes(), name::fingerprint()];
    ScriptCall { slot: name::slot_of_nodes(), keys, args: args.0, syncs: Vec::new() }
}

pub(crate) fn reset_call(key: KeyId, expires: Nanos) -> ScriptCall {
    let mut args = Arguments::default();
    args.number(expires.as_millis_ceil());
    ScriptCall { slot: name::slot_of(key), keys: vec![name::epoch(key)], args: args.0, syncs: Vec::new() }
}

fn sync_call(exchange: &Exchange, syncs: Vec<usize>) -> ScriptCall {
    let chosen = || syncs.iter().map(|index| &exchange.syncs[*index]);
    let mut keys: Vec<Vec<u8>> = chosen().map(|sync| name::epoch(sync.key)).collect();
    let mut args = Arguments::default();
    args.text(&format!("c:{:016x}", exchange.node.0));
    args.instant(exchange.now);
    args.text(match exchange.grant {
        Grant::Each => "each",
        Grant::Together => "together",
    });
    args.number(syncs.len() as u64);
    args.text(&features(&chosen()));
    for sync in chosen() {
        push_names(&mut keys, sync);
        args.sync(sync);
    }
    // A call has at least one sync.
    let slot = chosen().next().map_or(0, |sync| name::slot_of(sync.key));
    ScriptCall { slot, keys, args: args.0, syncs }
}

/// What is among the syncs, so that the script makes only the functions that it needs.
fn features<'a>(syncs: &(impl Iterator<Item = &'a KeySync> + Clone)) -> String {
    let any = |letter, has: fn(&KeySync) -> bool| syncs.clone().any(has).then_some(letter);
    let windows = any('w', |sync| matches!(sync.counts, CountSync::Window(_)));
    let gcra = any('g', |sync| matches!(sync.counts, CountSync::Gcra { .. }));
    let asks = any('a', |sync| sync.wants != Wants::default() || !sync.settled.is_empty());
    [windows, gcra, asks].into_iter().flatten().collect()
}

fn push_names(keys: &mut Vec<Vec<u8>>, sync: &KeySync) {
    match &sync.counts {
        CountSync::Window(window) => {
            keys.push(name::window_cell(sync.key, sync.epoch, window.sequence));
            if window.previous.is_some() {
                keys.push(name::window_cell(sync.key, sync.epoch, sequence_before(window.sequence)));
            }
        }
        CountSync::Gcra { .. } => keys.push(name::gcra_state(sync.key, sync.epoch)),
    }
}

#[derive(Default)]
struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    fn text(&mut self, text: &str) {
        self.0.push(text.as_bytes().to_vec());
    }

    fn number(&mut self, number: u64) {
        self.0.push(number.min(NUMBER_MAX).to_string().into_bytes());
    }

    fn instant(&mut self, instant: Nanos) {
        let (seconds, nanos) = (instant.get() / Nanos::PER_SECOND, instant.get() % Nanos::PER_SECOND);
        self.text(&format!("{seconds}.{nanos:09}"));
    }

    fn sync(&mut self, sync: &KeySync) {
        self.text(match sync.counts {
            CountSync::Window(_) => "w",
            CountSync::Gcra { .. } => "g",
        });
        self.number(u64::from(sync.epoch));
        let settled: Vec<String> = sync.settled.iter().map(|id| format!("{:016x}", id.0)).collect();
        self.text(&settled.join(","));
        self.wants(&sync.wants);
        match &sync.counts {
            CountSync::Window(window) => self.window(window),
            CountSync::Gcra { sync, burst } => self.gcra(sync, *burst),
        }
    }

    fn wants(&mut self, wants: &Wants) {
        let asks: Vec<String> = wants.asks.iter().map(|ask| (*ask).min(NUMBER_MAX).to_string()).collect();
        self.text(&asks.join(","));
        let draw = if wants.draw { "d" } else { "" };
        let reserve = wants.reserve.map(|id| format!("r{:016x}", id.0)).unwrap_or_default();
        self.text(&format!("{draw}{reserve}"));
    }

    fn window(&mut self, window: &WindowSync) {
        self.number(window.limit);
        self.cell(&window.current);
        match &window.previous {
            Some(previous) => self.cell(previous),
            None => self.nothing(3),
        }
        match window.fading.map(FadingMicros::from) {
            Some(FadingMicros { end_us, period_us }) => {
                self.number(end_us);
                self.number(period_us);
            }
            None => self.nothing(2),
        }
    }

    fn cell(&mut self, cell: &CellSync) {
        self.number(cell.component);
        self.number(cell.claim);
        self.number(cell.expires.as_millis_ceil());
    }

    fn nothing(&mut self, count: usize) {
        self.0.extend(std::iter::repeat_n(Vec::new(), count));
    }

    fn gcra(&mut self, sync: &GcraSync, burst: u64) {
        self.number(burst);
        self.number(units_ahead(sync.rate));
        self.number(sync.cumulative);
        self.number(sync.acked);
        self.instant(sync.oldest);
        self.instant(sync.busy.tat);
        self.instant(sync.busy.since);
        self.interval(sync.rate);
    }

    /// Exact: whole seconds, whole nanoseconds, and what is left as a fraction of a nanosecond.
    fn interval(&mut self, rate: Rate) {
        let (numerator_ns, denominator) = (rate.interval_numerator_ns(), rate.interval_denominator());
        let (whole_ns, part) = (numerator_ns / denominator, numerator_ns % denominator);
        let (seconds, nanos) = (whole_ns / Nanos::PER_SECOND, whole_ns % Nanos::PER_SECOND);
        self.text(&format!("{seconds}:{nanos}:{part}:{denominator}"));
    }
}
