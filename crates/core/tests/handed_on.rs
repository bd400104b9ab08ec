//! States and clock steps handed on to another table: it decides as the first one would have.

use proptest::prelude::*;
use std::convert::Infallible;
use tidegate_core::state::State;
use tidegate_core::table::STEPS_HANDED_ON_MAX;
use tidegate_core::{
    Burst, Calendar, CalendarUnit, ClockStep, Cost, Decision, Item, KeyId, Limit, LocalState, Moment, Nanos,
    Period, Rate, Spec, StepId, Table,
};

const START: Nanos = Nanos::from_secs(1_800_000_000);

/// A key for each algorithm, and a few of each.
fn item(key: u8, cost: u64, now: Nanos) -> Item {
    let (limit, minutes) = (Limit::new(10).unwrap(), Period::new(Nanos::from_secs(600)).unwrap());
    let calendar = Calendar::new(CalendarUnit::Hour, "Asia/Kathmandu").unwrap();
    let spec = match key % 4 {
        0 => Spec::Sliding { limit, period: minutes },
        1 => Spec::Fixed { limit, period: minutes },
        2 => Spec::Calendar { limit, unit: CalendarUnit::Hour, cell: calendar.cell_at(now) },
        _ => {
            Spec::Gcra { rate: Rate::new(7, Nanos::from_secs(900)).unwrap(), burst: Burst::new(10).unwrap() }
        }
    };
    let hash = u128::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    Item::new(KeyId::from_hash(hash), spec, Cost::new(cost).unwrap())
}

#[derive(Clone, Debug)]
enum Event {
    Decide { key: u8, cost: u64 },
    Pass { seconds: u64 },
    Step { seconds: i64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0_u8..12, 0_u64..6).prop_map(|(key, cost)| Event::Decide { key, cost }),
        2 => (0_u64..400).prop_map(|seconds| Event::Pass { seconds }),
        1 => (-4000_i64..4000).prop_map(|seconds| Event::Step { seconds }),
    ]
}

fn apply(table: &Table<LocalState>, event: &Event, moment: &mut Moment) -> Option<Decision> {
    match *event {
        Event::Decide { key, cost } => return table.decide(&item(key, cost, moment.now), *moment).ok(),
        Event::Pass { seconds } => moment.now = moment.now.plus(Nanos::from_secs(seconds)),
        Event::Step { seconds } => {
            let delta_ns = seconds * 1_000_000_000;
            moment.now = moment.now.shifted(delta_ns);
            moment.step = table.clock_stepped(delta_ns, moment.now);
        }
    }
    None
}

/// What a process that starts afresh knows: the words, and the steps before them.
fn handed_on(table: &Table<LocalState>, latest: StepId) -> Table<LocalState> {
    let second = Table::new(1000);
    second.take_over_steps(&table.steps().1);
    let taken: Result<(), Infallible> = table.for_each_batch(|batch| {
        for (key, state) in batch {
            let kept = LocalState::from_words(state.to_words()).unwrap();
            let kept = kept.with_step(StepId(0).aged(state.step().age_at(latest)));
            second.upsert(*key, Moment::at(START), |state| *state = kept).unwrap();
        }
        Ok(())
    });
    taken.unwrap();
    second
}

proptest! {
    #[test]
    fn another_table_goes_on_where_the_first_one_was(
        before in prop::collection::vec(event(), 1..60),
        after in prop::collection::vec(event(), 1..60),
    ) {
        let first = Table::new(1000);
        let mut moment = Moment::at(START);
        for event in &before {
            apply(&first, event, &mut moment);
        }
        let second = handed_on(&first, moment.step);
        prop_assert_eq!(first.len(), second.len());
        let mut fresh = Moment::at(moment.now);
        for event in &after {
            prop_assert_eq!(apply(&first, event, &mut moment), apply(&second, event, &mut fresh));
        }
    }
}

#[test]
fn only_steps_that_a_state_can_still_need_are_handed_on() {
    let table: Table<LocalState> = Table::new(1000);
    assert_eq!(table.steps(), (StepId(0), vec![]));
    let step = |number: i64| ClockStep { delta_ns: number, lands_at: START };
    for number in 1..=1000 {
        table.clock_stepped(number, START);
    }
    let (latest, steps) = table.steps();
    assert_eq!((latest, steps.len()), (StepId(232), STEPS_HANDED_ON_MAX));
    assert_eq!((steps[0], steps[1]), (step(1000), step(999)));
    let second: Table<LocalState> = Table::new(1000);
    second.take_over_steps(&steps);
    assert_eq!(second.steps(), (StepId(0), steps));
}

#[test]
fn words_that_no_state_has_are_refused() {
    let gcra = |numerator: u64| numerator << 1 | 1;
    for words in [
        [1 << 63, 0, 5, 0],
        [0, u64::MAX, 5, 0],
        [0, 0, 0, gcra(1000)],
        [0, 0, 1, gcra(0)],
        [0, 7, 7, gcra(1000)],
        [0, 0, 1001, gcra(1000)],
        [0, 0, 1, gcra(Period::MAX.get() + 1)],
    ] {
        assert_eq!(LocalState::from_words(words), None, "{words:?}");
    }
    assert_eq!(LocalState::from_words([0; 4]), Some(LocalState::default()));
}

proptest! {
    /// Whatever is accepted can be decided on: nothing panics.
    #[test]
    fn any_words_that_are_accepted_can_be_decided_on(
        words in prop::array::uniform4(prop_oneof![any::<u64>(), 0_u64..1000, Just(u64::MAX >> 1)]),
        now in prop_oneof![any::<u64>(), Just(START.get())],
    ) {
        let Some(state) = LocalState::from_words(words) else { return Ok(()) };
        for key in 0..4 {
            for cost in [0, 1, 1 << 53] {
                let item = item(key, cost, Nanos::new(now));
                // The key's identity holds its algorithm: a state is read only by the one that wrote it.
                if matches!(item.spec, Spec::Gcra { .. }) == (words[3] & 1 == 1) {
                    let mut copy = state;
                    let _ = copy.decide(&item, 1, Nanos::new(now));
                    let _ = copy.expires();
                }
            }
        }
    }
}
