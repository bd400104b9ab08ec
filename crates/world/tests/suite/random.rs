//! Random calls, on a store and in memory: the same answers, but for what the clock says.

use crate::fixture::{Fixture, LATER, cell, import_all, joining, key, row};
use crate::quotas::{demand, held};
use std::sync::Arc;
use tidegate_core::{Nanos, Sequence};
use tidegate_world::{
    AcknowledgedSlice, Acknowledgement, CellId, JoinRequest, Membership, OwnerId, RECONCILER, Row,
    SliceGrants, Survey, Term, World,
};

const CALLS: u32 = 1000;
const REGIONS: [&str; 4] = ["eu", "us", "ap", "sa"];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

pub(crate) async fn a_thousand_random_calls_do_what_they_do_in_memory(fixture: Fixture) {
    let given = std::env::var("TIDEGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    let replay = format!("TIDEGATE_SEED={seed} cargo test -p tidegate-world --test suite random");
    let (store, memory) = (fixture.open(), Fixture::memory().open());
    let mut random = Random(seed);
    for number in 0..CALLS {
        let outcome = call(&store, &memory, &mut random).await;
        outcome.unwrap_or_else(|difference| panic!("{replay}: call {number}: {difference}"));
    }
    assert_eq!(import_all(&store).await, import_all(&memory).await, "{replay}");
}

#[expect(clippy::needless_pass_by_value, reason = "answers are made to be compared")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, store: T, memory: T) -> Result<(), String> {
    if store == memory { Ok(()) } else { Err(format!("{what}: {store:?} is not {memory:?}")) }
}

fn timeless(membership: Membership) -> Membership {
    let members = membership.members.into_iter().map(|mut member| {
        (member.seen, member.confirmed) = (Nanos::ZERO, Nanos::ZERO);
        member
    });
    Membership { members: members.collect(), ..membership }
}

fn timeless_survey(survey: Survey) -> Survey {
    Survey { membership: timeless(survey.membership), now: Nanos::ZERO, ..survey }
}

async fn call(store: &Arc<dyn World>, memory: &Arc<dyn World>, random: &mut Random) -> Result<(), String> {
    let owner = OwnerId(u32::try_from(random.below(5)).unwrap());
    match random.below(10) {
        0..4 => {
            let rows: Vec<Row> = (0..random.below(20)).map(|_| any_row(random)).collect();
            same("published", store.publish(owner, &rows).await, memory.publish(owner, &rows).await)
        }
        4 => {
            let region = REGIONS[usize::try_from(random.below(4)).unwrap()];
            let leaves = random.below(4) == 0;
            let joining = JoinRequest {
                leaves,
                applied: random.below(9),
                known: random.below(99) / 11,
                ..joining(region, random.below(2))
            };
            let answer = |joined: tidegate_world::JoinReply| {
                (joined.me, joined.policy, timeless(joined.membership), joined.namesakes)
            };
            same("joined", store.join(&joining).await.map(answer), memory.join(&joining).await.map(answer))
        }
        5 => {
            let (job, holder) =
                ([RECONCILER, "other"][usize::try_from(random.below(2)).unwrap()], random.below(3));
            let lease = if random.below(2) == 0 { Nanos::ZERO } else { Nanos::from_secs(1_000_000) };
            same("led", store.lead(job, holder, lease).await, memory.lead(job, holder, lease).await)
        }
        6 => {
            let demands: Vec<_> =
                (0..random.below(6)).map(|_| demand(u128::from(random.below(9)), random.below(99))).collect();
            same("reported", store.report(owner, &demands).await, memory.report(owner, &demands).await)
        }
        7 => {
            let slices = (0..random.below(6)).map(|_| any_acknowledged(random)).collect();
            let [read, known] = [9, 3].map(|most| Nanos::from_secs(random.below(most)));
            let said = Acknowledgement { read, slices, known };
            let (ours, theirs) = (store.acknowledge(owner, &said), memory.acknowledge(owner, &said));
            same("acknowledged", ours.await, theirs.await)
        }
        8 => grant(store, memory, random).await,
        _ => {
            let slices = |slices: tidegate_world::Slices| slices.slices;
            same("slices", store.slices(owner).await.map(slices), memory.slices(owner).await.map(slices))
        }
    }
}

async fn grant(store: &Arc<dyn World>, memory: &Arc<dyn World>, random: &mut Random) -> Result<(), String> {
    let (Ok(ours), Ok(survey)) = (store.survey().await, memory.survey().await) else { return Ok(()) };
    same("survey", timeless_survey(ours), timeless_survey(survey.clone()))?;
    let mut slices: Vec<_> = (0..random.below(6))
        .map(|_| {
            let owner = OwnerId(u32::try_from(random.below(5)).unwrap());
            held(u128::from(random.below(9)), owner, random.below(20), random.below(100))
        })
        .collect();
    // A slice comes once in a grant.
    slices.sort_by_key(|held| (held.row.key, held.row.owner));
    slices.dedup_by_key(|held| (held.row.key, held.row.owner));
    let dropped = (0..random.below(2)).map(|_| key(u128::from(random.below(9)))).collect();
    let mut membership = survey.membership.clone();
    membership.version += u64::from(random.below(4) != 0);
    membership.members.iter_mut().for_each(|member| member.is_active = random.below(3) != 0);
    membership.members.truncate(usize::try_from(4 + random.below(4)).unwrap());
    let granted = SliceGrants {
        revision: survey.revision + u64::from(random.below(5) == 0),
        slices,
        dropped,
        membership: (random.below(3) == 0).then_some(membership),
    };
    let term = Term(random.below(3) + 1);
    same("granted", store.grant(term, &granted).await, memory.grant(term, &granted).await)
}

fn any_row(random: &mut Random) -> Row {
    let cell = CellId {
        epoch: u16::try_from(random.below(2) * 65_535).unwrap(),
        sequence: Sequence(random.below(3)),
        ..cell(u128::from(random.below(30)))
    };
    let expires = LATER.plus(Nanos::from_millis(cell.sequence.0));
    let count = if random.below(50) == 0 { u64::MAX } else { random.below(1 << 40) };
    Row { cell, count, limit: random.below(1000), expires, ..row(0, 0) }
}

fn any_acknowledged(random: &mut Random) -> AcknowledgedSlice {
    AcknowledgedSlice { key: key(u128::from(random.below(9))), generation: random.below(20) }
}
