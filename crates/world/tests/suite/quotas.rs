//! Demands and slices.

use crate::fixture::{Fixture, LATER, joining, key, owner};
use std::time::Duration;
use tidegate_core::{Burst, Limit, Nanos, Period, Rate, Spec};
use tidegate_world::{
    AcknowledgedSlice, Acknowledgement, Demand, JoinRequest, OwnerId, RECONCILER, SliceGrants, SliceHolding,
    SliceRow, SliceSize, Term, WorldError,
};

pub(crate) fn demand(number: u128, milli_per_second: u64) -> Demand {
    let spec =
        Spec::Sliding { limit: Limit::new(100).unwrap(), period: Period::new(Nanos::from_secs(10)).unwrap() };
    Demand { key: key(number), spec, is_abuse: false, milli_per_second, name: None }
}

pub(crate) fn held(number: u128, owner: OwnerId, generation: u64, amount: u64) -> SliceHolding {
    let size = SliceSize { amount, rate_parts: 500_000_000 };
    let row = SliceRow { key: key(number), owner, generation, size, whole: 100, expires: LATER };
    SliceHolding { row, acknowledged: 0, before: None }
}

pub(crate) async fn demands_of_every_kind_come_back_as_they_were(fixture: Fixture) {
    let world = fixture.open();
    let (eu, us) = (owner(&world, "eu").await, owner(&world, "us").await);
    let gcra = |count, period: Nanos| Spec::Gcra {
        rate: Rate::new(count, period).unwrap(),
        burst: Burst::new(1 << 53).unwrap(),
    };
    let fixed = Spec::Fixed { limit: Limit::BLOCKED, period: Period::new(Nanos::from_secs(59)).unwrap() };
    let specs = [
        fixed,
        gcra(700_000, Nanos::from_secs(1)),
        gcra(1_000_000_000, Nanos::from_secs(1)),
        gcra(1, Period::MAX),
        gcra(7, Nanos::from_millis(1)),
    ];
    let demands: Vec<Demand> = (0..)
        .zip(specs)
        .map(|(number, spec)| Demand { spec, is_abuse: number % 2 == 0, ..demand(number, 1 << 40) })
        .collect();
    world.report(eu, &demands).await.unwrap();
    world.report(us, &[demand(0, 3), demand(0, 5)]).await.unwrap();
    let survey = world.survey().await.unwrap();
    let mut expected: Vec<(OwnerId, Demand)> = demands.into_iter().map(|demand| (eu, demand)).collect();
    expected.push((us, demand(0, 5)));
    expected.sort_by_key(|(owner, demand)| (demand.key, *owner));
    assert_eq!(survey.demands, expected);
    world.report(us, &[demand(0, 6)]).await.unwrap();
    let demands = world.survey().await.unwrap().demands;
    assert_eq!(demands.iter().filter(|(owner, _)| *owner == us).count(), 1, "replaced");
    assert_eq!(world.slices(eu).await.unwrap().slices, []);
}

pub(crate) async fn only_the_leader_grants_and_only_upon_its_last_survey(fixture: Fixture) {
    let (world, other) = (fixture.open(), fixture.open());
    let (eu, us) = (owner(&world, "eu").await, owner(&world, "us").await);
    let granted = |revision, generation, amount| SliceGrants {
        revision,
        slices: vec![held(1, eu, generation, amount), held(1, us, generation, 100 - amount)],
        ..SliceGrants::default()
    };
    assert_eq!(world.grant(Term(1), &granted(0, 1, 60)).await, Err(WorldError::Deposed { theirs: 0 }));
    let short = Nanos::from_millis(100);
    let first = world.lead(RECONCILER, 1, short).await.unwrap().unwrap();
    world.grant(first, &granted(0, 1, 60)).await.unwrap();
    assert_eq!(world.grant(first, &granted(0, 2, 70)).await, Err(WorldError::Outdated { theirs: 1 }));
    fixture.pass(Duration::from_millis(200)).await;
    let second = other.lead(RECONCILER, 2, Nanos::from_secs(60)).await.unwrap().unwrap();
    assert_eq!(world.grant(first, &granted(1, 2, 90)).await, Err(WorldError::Deposed { theirs: second.0 }));
    let survey = other.survey().await.unwrap();
    assert_eq!((survey.revision, survey.slices.len()), (1, 2));
    let slices = world.slices(eu).await.unwrap();
    assert_eq!(slices.slices, [held(1, eu, 1, 60).row]);
    assert!(slices.now > Nanos::ZERO && survey.now > Nanos::ZERO);
    other.grant(second, &granted(1, 2, 50)).await.unwrap();
    world.report(eu, &[demand(1, 10), demand(2, 10)]).await.unwrap();
    other
        .grant(second, &SliceGrants { revision: 2, dropped: vec![key(1)], ..SliceGrants::default() })
        .await
        .unwrap();
    let survey = other.survey().await.unwrap();
    assert_eq!((survey.slices.len(), survey.demands.len(), survey.revision), (0, 1, 3));
}

pub(crate) async fn a_slice_never_goes_back_to_an_older_generation(fixture: Fixture) {
    let world = fixture.open();
    let me = owner(&world, "eu").await;
    let term = world.lead(RECONCILER, 1, Nanos::from_secs(60)).await.unwrap().unwrap();
    let mut revision = 0;
    let mut grant = async |held: SliceHolding| {
        world
            .grant(term, &SliceGrants { revision, slices: vec![held], ..SliceGrants::default() })
            .await
            .unwrap();
        revision += 1;
        world.survey().await.unwrap().slices[0]
    };
    let sooner = LATER.minus(Nanos::from_secs(5));
    let before = Some((SliceSize { amount: 3, rate_parts: 7 }, sooner));
    let second = SliceHolding { acknowledged: 1, before, ..held(1, me, 2, 60) };
    assert_eq!(grant(second).await, second);
    assert_eq!(grant(held(1, me, 1, 99)).await, second);
    world.acknowledge(me, &acknowledged(2)).await.unwrap();
    // A renewal: never shorter, and what was acknowledged stays so.
    let mut renewed = second;
    renewed.row.expires = sooner;
    assert_eq!(grant(renewed).await, SliceHolding { acknowledged: 2, ..second });
    let third = SliceHolding { acknowledged: 0, ..held(1, me, 3, 10) };
    let third = SliceHolding { row: SliceRow { expires: sooner, ..third.row }, ..third };
    assert_eq!(grant(third).await, SliceHolding { acknowledged: 2, ..third });
    // Nobody can go by what was never written, and nothing is taken back.
    world.acknowledge(me, &acknowledged(9)).await.unwrap();
    world.acknowledge(me, &acknowledged(1)).await.unwrap();
    assert_eq!(world.survey().await.unwrap().slices[0].acknowledged, 2);
}

pub(crate) async fn who_leaves_holds_nothing(fixture: Fixture) {
    let world = fixture.open();
    let (eu, us) = (owner(&world, "eu").await, owner(&world, "us").await);
    let term = world.lead(RECONCILER, 1, Nanos::from_secs(60)).await.unwrap().unwrap();
    let slices = vec![held(1, eu, 1, 60), held(1, us, 1, 40)];
    world.grant(term, &SliceGrants { slices, ..SliceGrants::default() }).await.unwrap();
    world.report(us, &[demand(1, 5)]).await.unwrap();
    world.join(&JoinRequest { leaves: true, ..joining("us", 1) }).await.unwrap();
    let survey = world.survey().await.unwrap();
    assert_eq!((survey.slices.len(), survey.demands.len()), (1, 0));
    assert_eq!(world.slices(us).await.unwrap().slices, []);
}

pub(crate) async fn an_acknowledgement_confirms_its_owner(fixture: Fixture) {
    let world = fixture.open();
    let me = owner(&world, "eu").await;
    assert_eq!(world.survey().await.unwrap().membership.members[0].confirmed, Nanos::ZERO);
    let confirmed = async || {
        let confirmed = world.slices(me).await.unwrap().confirmed;
        assert_eq!(world.survey().await.unwrap().membership.members[0].confirmed, confirmed);
        confirmed
    };
    assert_eq!(confirmed().await, Nanos::ZERO);
    let read = world.slices(me).await.unwrap().now;
    fixture.pass(Duration::from_millis(5)).await;
    // However late it comes, it is about what was read then.
    world.acknowledge(me, &Acknowledgement { read, slices: Vec::new(), known: Nanos::ZERO }).await.unwrap();
    assert_eq!(confirmed().await, read);
    let later = world.slices(me).await.unwrap().now;
    world.acknowledge(me, &Acknowledgement { read: later, ..acknowledged(2) }).await.unwrap();
    world.acknowledge(me, &Acknowledgement { read, ..acknowledged(2) }).await.unwrap();
    assert_eq!(confirmed().await, later);
    // Nothing was read that isn't yet.
    world.acknowledge(me, &Acknowledgement { read: LATER, ..acknowledged(2) }).await.unwrap();
    let last = confirmed().await;
    assert!(last >= later && last <= world.slices(me).await.unwrap().now);
    // Beside slices as without them, and of nobody else.
    let term = world.lead(RECONCILER, 1, Nanos::from_secs(60)).await.unwrap().unwrap();
    world
        .grant(term, &SliceGrants { slices: vec![held(1, me, 1, 60)], ..SliceGrants::default() })
        .await
        .unwrap();
    assert_eq!((confirmed().await, world.slices(me).await.unwrap().slices.len()), (last, 1));
    // A store that never confirmed what the owner knows is an older copy of the one that this was meant for.
    let known = last.plus(Nanos::from_millis(1));
    world.acknowledge(me, &Acknowledgement { read: known, known, ..acknowledged(1) }).await.unwrap();
    assert_eq!((confirmed().await, world.survey().await.unwrap().slices[0].acknowledged), (last, 0));
    world.acknowledge(me, &Acknowledgement { known: last, ..acknowledged(1) }).await.unwrap();
    assert_eq!((confirmed().await, world.survey().await.unwrap().slices[0].acknowledged), (last, 1));
    let other = owner(&world, "us").await;
    assert_eq!(world.slices(other).await.unwrap().confirmed, Nanos::ZERO);
    let unknown = OwnerId(me.0 ^ other.0 ^ 1);
    assert_eq!(world.slices(unknown).await.unwrap().confirmed, Nanos::ZERO);
}

fn acknowledged(generation: u64) -> Acknowledgement {
    let slices = vec![AcknowledgedSlice { key: key(1), generation }];
    Acknowledgement { read: Nanos::ZERO, slices, known: Nanos::ZERO }
}
