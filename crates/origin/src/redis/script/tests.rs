//! How exchanges are cut into calls, and that no answer, however mad, does harm.

use super::{ScriptCall, calls, heartbeat_reply, replies, reset_reply, slot_of};
use crate::redis::wire::Value;
use crate::{Exchange, Grant, Heartbeat, KeyError, OriginError};
use tidegate_core::exchange::{CellSync, CountSync, GrantRequest, KeySync, WindowSync};
use tidegate_core::gcra_sync::{BusyPeriod, GcraSync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos, Rate, Sequence, WorldPolicy, WorldView};

fn sync(number: u128) -> KeySync {
    let cell = CellSync { component: 1, acked: 0, claim: 2, expires: Nanos::from_secs(3) };
    let counts = if number.is_multiple_of(2) {
        let sequence = Sequence(9);
        CountSync::Window(WindowSync {
            limit: 5,
            regions: 1,
            sequence,
            current: cell,
            previous: Some(cell),
            fading: None,
        })
    } else {
        let rate = Rate::new(700_000, Nanos::from_secs(1)).unwrap();
        let (oldest, busy) = (Nanos::new(1_000_000_002), BusyPeriod::default());
        CountSync::Gcra { sync: GcraSync { cumulative: 7, acked: 6, sent: 6, oldest, busy, rate }, burst: 5 }
    };
    let request = GrantRequest { asks: [1, 2].as_slice().into(), draw: true, ..GrantRequest::default() };
    KeySync { key: KeyId::from_hash(number), epoch: 1, counts, request, ended_holds: Default::default() }
}

fn exchange(count: u128, grant: Grant) -> Exchange {
    let syncs = (0..count).map(|number| sync(number * 0x9e37_79b9)).collect();
    Exchange { node: NodeId(0xab), now: Nanos::new(5_000_000_006), syncs, grant, reads_record: false }
}

/// Every sync is in one call, and a call is no longer than allowed.
fn check(calls: &[ScriptCall], count: usize) {
    let mut carried: Vec<usize> = calls.iter().flat_map(|call| call.syncs.clone()).collect();
    carried.sort_unstable();
    assert_eq!(carried, (0..count).collect::<Vec<_>>());
    assert!(calls.iter().all(|call| !call.syncs.is_empty()));
}

#[test]
fn without_slots_calls_are_as_few_as_can_be() {
    let exchange = exchange(70, Grant::Each);
    let calls = calls(&exchange, false);
    check(&calls, 70);
    assert_eq!(calls.iter().map(|call| call.syncs.len()).collect::<Vec<_>>(), [32, 32, 6]);
}

#[test]
fn with_slots_a_calls_keys_share_one() {
    let mut exchange = exchange(70, Grant::Each);
    exchange.syncs.extend((1..=40).map(|high: u128| sync((high << 40) | 6)));
    let calls = calls(&exchange, true);
    check(&calls, 110);
    for call in &calls {
        assert!(call.syncs.len() <= 32);
        assert!(call.syncs.iter().all(|index| slot_of(exchange.syncs[*index].key) == call.slot));
    }
    let crowded = calls.iter().filter(|call| call.slot == slot_of(KeyId::from_hash(6)));
    assert_eq!(crowded.map(|call| call.syncs.len()).sum::<usize>(), 40);
}

#[test]
fn together_is_one_call() {
    for has_slots in [false, true] {
        let calls = calls(&exchange(100, Grant::Together), has_slots);
        check(&calls, 100);
        assert_eq!(calls.len(), 1);
        assert!(super::calls(&exchange(0, Grant::Together), has_slots).is_empty());
    }
}

#[test]
fn the_arguments_are_as_the_scripts_header_says() {
    let call = &calls(&exchange(2, Grant::Each), false)[0];
    assert_eq!(
        call.args.texts().join(" "),
        "c:00000000000000ab 5.000000006 each 2 wga \
         w 1  1,2 d 5 1 2 3000 1 2 3000   1 0 0 \
         g 1  1,2 d 5 7000 7 6 1.000000002 0.000000000 0.000000000 0:1428:4:7 6"
    );
    assert_eq!(call.keys.len(), 2 + 2 + 1);
}

fn good_reply() -> Value {
    let window = [1, 3, 4, 0, 3, 2, 1, 2, 0, 2, 6, -1];
    let gcra = [1, 7, 2, 5, 6, 4, 0, 0, 1, 500];
    let entry = |numbers: &[i64]| {
        let granted = Value::BulkString(b"10".to_vec());
        let before = Value::Int(3);
        Value::Array(numbers.iter().copied().map(Value::Int).chain([granted, before]).collect())
    };
    Value::Array(vec![Value::Int(8), Value::Int(9), entry(&window), entry(&gcra)])
}

#[test]
fn a_good_reply_is_read() {
    let exchange = exchange(2, Grant::Each);
    let call = &calls(&exchange, false)[0];
    let (now, replies) = replies(&exchange, call, good_reply()).unwrap();
    assert_eq!(now, Nanos::new(8_000_009_000));
    let [Ok(window), Ok(gcra)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(
        (window.drawn, window.retry_after, window.granted.as_slice()),
        (6, None, [true, false].as_slice())
    );
    assert_eq!((gcra.drawn, gcra.retry_after), (0, Some(Nanos::new(1_000_000_500))));
}

#[test]
fn a_mad_entry_costs_only_its_key_and_a_mad_frame_the_call() {
    let exchange = exchange(2, Grant::Each);
    let call = &calls(&exchange, false)[0];
    let Value::Array(good) = good_reply() else { unreachable!() };
    let with = |entry: Value| Value::Array(vec![good[0].clone(), good[1].clone(), entry, good[3].clone()]);
    let poisoned = replies(&exchange, call, with(Value::BulkString(b"no count".to_vec()))).unwrap().1;
    assert_eq!(poisoned[0], Err(KeyError::Poisoned { what: "no count".to_owned() }));
    for entry in
        [Value::Nil, Value::Int(1), Value::Array(vec![]), Value::Array(vec![Value::Nil; 11]), good_reply()]
    {
        let (_, replies) = replies(&exchange, call, with(entry)).unwrap();
        assert!(matches!(replies[0], Err(KeyError::Failed(OriginError::Nonsense { .. }))), "{replies:?}");
        assert!(replies[1].is_ok());
    }
    let short = Value::Array(good[..3].to_vec());
    for frame in [Value::Nil, Value::SimpleString("OK".to_owned()), Value::Array(vec![]), short] {
        assert!(matches!(replies(&exchange, call, frame), Err(OriginError::Nonsense { .. })));
    }
}

/// One number or text of a value, changed to something that it shouldn't be; `at` counts them.
fn spoil(value: &mut Value, at: &mut usize, with: &Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| spoil(value, at, with)),
        value => {
            if *at == 0 {
                *value = with.clone();
            }
            *at = at.wrapping_sub(1);
        }
    }
}

#[test]
fn no_spoilt_field_panics_or_reaches_the_neighbour() {
    let exchange = exchange(2, Grant::Each);
    let call = &calls(&exchange, false)[0];
    let mad = [
        Value::Nil,
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Int((1 << 53) + 1),
        Value::Int(-2),
        Value::BulkString(vec![0xff; 5_000]),
        Value::Array(vec![Value::Int(1)]),
    ];
    for with in &mad {
        for at in 0..28 {
            let mut value = good_reply();
            spoil(&mut value, &mut at.clone(), with);
            match replies(&exchange, call, value) {
                Ok((_, replies)) => assert!(at >= 2 && replies.iter().any(Result::is_ok), "{at} {with:?}"),
                Err(_) => assert!(at < 2),
            }
        }
    }
}

#[test]
fn mad_answers_to_heartbeats_and_resets_are_nonsense() {
    let heartbeat = Heartbeat {
        node: NodeId(1),
        fingerprint: 2,
        alive_for: Nanos::ZERO,
        leaves: false,
        applied: 0,
        acceptance: crate::Acceptance::default(),
    };
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    let frame = |rest: Vec<Value>| Value::Array([vec![Value::Int(1), Value::Int(2)], rest].concat());
    assert_eq!(
        heartbeat_reply(&heartbeat, frame(vec![text("alive"), Value::Int(3), text(""), Value::Int(0)]))
            .unwrap()
            .nodes,
        3
    );
    let world = text("7:3:floor 250");
    let alive =
        heartbeat_reply(&heartbeat, frame(vec![text("alive"), Value::Int(3), world, Value::Int(1)])).unwrap();
    let policy = WorldPolicy::Floor { thousandths: 250 };
    assert_eq!(alive.world, Some(WorldView { regions: 3, version: 7, policy }));
    let other = heartbeat_reply(&heartbeat, frame(vec![text("other secret"), text("00000000000000ff")]));
    assert_eq!(other, Err(OriginError::OtherSecret { theirs: 255, ours: 2 }));
    let mad = [
        Value::Nil,
        frame(vec![]),
        frame(vec![text("alive")]),
        frame(vec![text("alive"), Value::Int(-5), text("")]),
        frame(vec![text("alive"), Value::Int(3), text("7:3:best")]),
        frame(vec![text("other secret"), text("xyz")]),
        frame(vec![text("WRONGTYPE")]),
    ];
    for value in mad {
        assert!(matches!(heartbeat_reply(&heartbeat, value), Err(OriginError::Nonsense { .. })));
    }
    assert_eq!(reset_reply(Value::Int(65_535)), Ok(65_535));
    for value in [Value::Int(65_536), Value::Int(-1), Value::Nil, text("no epoch")] {
        assert!(matches!(reset_reply(value), Err(OriginError::Nonsense { .. })));
    }
}
