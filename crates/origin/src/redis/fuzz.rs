//! What fuzzing calls: any bytes as a server's answer, and any text as the store's URL.

use super::wire::{Answers, Value};
use super::{cluster, script};
use crate::{Exchange, Grant, Heartbeat, RedisUrl};
use tidegate_core::exchange::{CellSync, CountSync, GrantRequest, KeySync, WindowSync};
use tidegate_core::gcra_sync::{BusyPeriod, GcraSync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos, Rate, Sequence};

/// A URL is refused or shown without its password.
pub fn url(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match RedisUrl::parse(text) {
        Ok(url) => {
            let shown = url.to_string();
            assert!(RedisUrl::parse(&shown).is_ok(), "what is shown is a URL: {shown}");
        }
        Err(error) => assert!(!error.message().is_empty() && !error.fix().is_empty()),
    }
}

/// A server's answers, the same however they were cut, read as everything that we ask for.
pub fn reply(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let (first, second) = rest.split_at(usize::from(*first).min(rest.len()));
    let answers = read(&[first, second]);
    assert_eq!(answers, read(&[rest]), "however they were cut");
    let answers = answers.0;
    let heartbeat = Heartbeat {
        node: NodeId(1),
        fingerprint: 2,
        alive_for: Nanos::from_secs(1),
        leaves: false,
        applied: 0,
        acceptance: crate::Acceptance::default(),
    };
    let exchange = exchange();
    for answer in &answers {
        for call in script::calls(&exchange, false) {
            if let Ok((_, replies)) = script::replies(&exchange, &call, answer.clone()) {
                assert_eq!(replies.len(), call.syncs.len());
            }
        }
        let _ = script::heartbeat_reply(&heartbeat, answer.clone());
        let _ = script::reset_reply(answer.clone());
        let _ = script::resets_reply(answer.clone());
        let _ = script::lead_reply(answer.clone());
        let _ = script::put_reply(answer.clone());
        let _ = script::take_reply(answer.clone());
        let _ = script::published_view_reply(answer.clone());
        let _ = script::cell_total(answer.clone());
        let _ = script::cell_taken(answer.clone());
    }
    cluster::fuzz(&answers);
}

/// A window's sync and a rate's.
fn exchange() -> Exchange {
    let cell = CellSync { component: 1, acked: 0, claim: 2, expires: Nanos::from_secs(3) };
    let window = WindowSync {
        limit: 5,
        regions: 1,
        sequence: Sequence(9),
        current: cell,
        previous: Some(cell),
        fading: None,
    };
    let rate = Rate::new(7, Nanos::from_secs(1)).unwrap_or_else(|_| unreachable!("7 a second is a rate"));
    let gcra = GcraSync {
        cumulative: 7,
        acked: 6,
        sent: 6,
        oldest: Nanos::new(1),
        busy: BusyPeriod::default(),
        rate,
    };
    let sync = |number, counts| KeySync {
        key: KeyId::from_hash(number),
        epoch: 1,
        counts,
        request: GrantRequest { asks: [1, 2].as_slice().into(), draw: true, ..GrantRequest::default() },
        ended_holds: Default::default(),
    };
    let syncs = vec![sync(1, CountSync::Window(window)), sync(2, CountSync::Gcra { sync: gcra, burst: 5 })];
    Exchange { node: NodeId(1), now: Nanos::from_secs(5), syncs, grant: Grant::Each, reads_record: false }
}

/// Up to the first that isn't one; and whether there was such.
fn read(pieces: &[&[u8]]) -> (Vec<Value>, bool) {
    let (mut answers, mut read) = (Answers::default(), Vec::new());
    for piece in pieces {
        answers.push(piece);
        loop {
            match answers.next() {
                Ok(Some(answer)) => read.push(answer),
                Ok(None) => break,
                Err(_) => return (read, true),
            }
        }
    }
    (read, false)
}
