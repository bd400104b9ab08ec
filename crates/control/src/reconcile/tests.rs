//! Single steps of the reconciler. What many of them amount to, with faults, is in the model of `crates/node`.

use super::*;
use tidegate_core::slice::PARTS;
use tidegate_core::{Limit, Nanos, Period, SliceSize, Spec};
use tidegate_world::{
    AcknowledgedSlice, Acknowledgement, Demand, JoinRequest, OwnerId, PublishPolicy, PublishThreshold,
    SLICE_LEASE, Term, WorldStore,
};

const LIMIT: u64 = 900;
const PERIOD: Nanos = Nanos::from_secs(9);

/// A world store and its clock.
struct Fixture {
    store: WorldStore,
    now: Nanos,
    owners: Vec<OwnerId>,
}

impl Fixture {
    fn new(regions: usize) -> Self {
        let mut fixture =
            Fixture { store: WorldStore::default(), now: Nanos::from_secs(1_000), owners: Vec::new() };
        for index in 0..regions {
            let joined = fixture.join(index, 0);
            fixture.owners.push(joined);
            fixture.apply_all();
            fixture.pass();
        }
        fixture.apply_all();
        fixture
    }

    fn join(&mut self, index: usize, applied: u64) -> OwnerId {
        let policy = PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) };
        let region = format!("region-{index}");
        let origin = u64::try_from(index).unwrap();
        let joining =
            JoinRequest { region, origin, fingerprint: 7, policy, applied, known: 0, leaves: false };
        self.store.join(&joining, self.now).unwrap().me
    }

    fn apply_all(&mut self) {
        let version = self.store.membership().version;
        for index in 0..self.owners.len() {
            self.join(index, version);
            let said = self.goes_by(Vec::new());
            self.store.acknowledge(self.owners[index], &said, self.now);
        }
    }

    /// One pass, written. Says what it did.
    fn pass(&mut self) -> Figures {
        self.now = self.now.plus(Nanos::from_secs(1));
        let term = self.store.lead(tidegate_world::RECONCILER, 1, SLICE_LEASE, self.now).unwrap_or(Term(0));
        let reconciled = Reconciler::default().reconcile(&self.store.survey(self.now));
        if let Some(granted) = &reconciled.granted {
            self.store.grant(term, granted).unwrap();
        }
        reconciled.figures
    }

    /// Reports demand in hundredths of the limit.
    fn demand(&mut self, percents: &[u64]) {
        for (owner, percent) in self.owners.clone().iter().zip(percents) {
            let demand = Demand {
                key: KeyId::from_hash(5),
                spec: spec(LIMIT),
                is_abuse: false,
                milli_per_second: percent * 10 * LIMIT / 9,
                name: None,
            };
            self.store.report(*owner, &[demand], self.now).unwrap();
        }
    }

    fn goes_by(&self, slices: Vec<AcknowledgedSlice>) -> Acknowledgement {
        Acknowledgement { read: self.now, slices, known: Nanos::ZERO }
    }

    fn acknowledge(&mut self, index: usize) {
        let rows = self.store.slices(self.owners[index], self.now).slices;
        let all = rows.iter().map(|row| AcknowledgedSlice { key: row.key, generation: row.generation });
        let said = self.goes_by(all.collect());
        self.store.acknowledge(self.owners[index], &said, self.now);
    }

    fn amounts(&self) -> Vec<u64> {
        let row =
            |owner: &OwnerId| self.store.slices(*owner, self.now).slices.first().map(|row| row.size.amount);
        self.owners.iter().map(|owner| row(owner).unwrap_or(0)).collect()
    }
}

fn spec(limit: u64) -> Spec {
    Spec::Sliding { limit: Limit::new(limit).unwrap(), period: Period::new(PERIOD).unwrap() }
}

#[test]
fn regions_are_active_one_after_the_other_and_the_first_at_once() {
    let fixture = Fixture::new(3);
    let membership = fixture.store.membership();
    assert!(membership.members.len() == 3 && membership.members.iter().all(|member| member.is_active));
}

#[test]
fn who_waits_stays_out_until_everybody_has_made_room() {
    let mut fixture = Fixture::new(2);
    let newcomer = fixture.join(2, 0);
    let is_active = |fixture: &Fixture| {
        fixture.store.membership().members.iter().any(|member| member.owner == newcomer && member.is_active)
    };
    fixture.pass();
    fixture.pass();
    assert!(!is_active(&fixture), "the others divide by two");
    let version = fixture.store.membership().version;
    fixture.join(0, version);
    fixture.pass();
    assert!(!is_active(&fixture), "one of them still does");
    fixture.join(1, version);
    fixture.pass();
    assert!(is_active(&fixture));
}

#[test]
fn a_slice_is_lowered_first_and_raised_when_that_was_acknowledged() {
    let mut fixture = Fixture::new(3);
    fixture.demand(&[5, 5, 150]);
    fixture.pass();
    let floor = 75;
    assert_eq!(fixture.amounts(), [floor, floor, 300], "lowered, and nothing raised");
    fixture.pass();
    assert_eq!(fixture.amounts(), [floor, floor, 300], "nobody has acknowledged anything");
    for index in 0..3 {
        fixture.acknowledge(index);
    }
    fixture.pass();
    assert_eq!(fixture.amounts(), [floor, floor, 750]);
}

#[test]
fn what_is_free_is_given_out_at_once() {
    let mut fixture = Fixture::new(3);
    fixture.demand(&[5, 5, 150]);
    for _ in 0..3 {
        fixture.pass();
        (0..3).for_each(|index| fixture.acknowledge(index));
    }
    assert_eq!(fixture.amounts(), [75, 75, 750]);
    fixture.demand(&[5, 60, 30]);
    fixture.pass();
    assert_eq!(fixture.amounts()[2], 275, "lowered to what it asks for and its part of what nobody does");
    assert_eq!(fixture.amounts()[1], 75, "not before it is free");
    fixture.acknowledge(2);
    fixture.pass();
    assert_eq!(fixture.amounts(), [75, 545, 275]);
}

#[test]
fn a_region_that_says_nothing_keeps_its_even_part_and_the_others_make_room() {
    let mut fixture = Fixture::new(3);
    fixture.demand(&[5, 5, 150]);
    for _ in 0..3 {
        fixture.pass();
        (0..3).for_each(|index| fixture.acknowledge(index));
    }
    assert_eq!(fixture.amounts(), [75, 75, 750]);
    for _ in 0..17 {
        fixture.demand(&[5, 5, 150]);
        fixture.pass();
        (1..3).for_each(|index| fixture.acknowledge(index));
    }
    assert_eq!(fixture.amounts(), [75, 75, 525], "300 for who may be at its even part soon");
}

#[test]
fn what_nobody_asks_for_any_more_goes_back_to_the_even_split() {
    let mut fixture = Fixture::new(3);
    for _ in 0..4 {
        fixture.demand(&[5, 5, 150]);
        fixture.pass();
        (0..3).for_each(|index| fixture.acknowledge(index));
    }
    assert_eq!(fixture.amounts(), [75, 75, 750]);
    fixture.demand(&[0, 0, 1]);
    assert_eq!(fixture.pass().lowered, 1);
    assert_eq!(fixture.amounts(), [75, 75, 300], "the rest stays until that is acknowledged");
    assert_eq!(fixture.pass().dropped, 0);
    fixture.acknowledge(2);
    assert_eq!(fixture.pass().dropped, 1);
    assert_eq!(fixture.amounts(), [0, 0, 0], "no slices: everybody has an even part");
}

#[test]
fn trembling_demand_changes_nothing() {
    let mut fixture = Fixture::new(3);
    for _ in 0..4 {
        fixture.demand(&[40, 30, 30]);
        fixture.pass();
        (0..3).for_each(|index| fixture.acknowledge(index));
    }
    let before = fixture.amounts();
    assert_eq!(before.iter().sum::<u64>(), LIMIT);
    for demands in [[41, 29, 30], [39, 31, 31], [40, 31, 29]] {
        fixture.demand(&demands);
        let figures = fixture.pass();
        assert_eq!((figures.lowered, figures.raised), (0, 0), "{demands:?}");
    }
    assert_eq!(fixture.amounts(), before);
}

#[test]
fn another_number_of_the_limit_is_cut_anew_and_never_above_it() {
    let mut fixture = Fixture::new(3);
    for _ in 0..4 {
        fixture.demand(&[5, 5, 150]);
        fixture.pass();
        (0..3).for_each(|index| fixture.acknowledge(index));
    }
    let owner = fixture.owners[2];
    let demand = Demand {
        key: KeyId::from_hash(5),
        spec: spec(300),
        is_abuse: false,
        milli_per_second: 50_000,
        name: None,
    };
    fixture.store.report(owner, &[demand], fixture.now).unwrap();
    for _ in 0..3 {
        fixture.pass();
        assert!(fixture.amounts().iter().sum::<u64>() <= 300, "{:?}", fixture.amounts());
        (0..3).for_each(|index| fixture.acknowledge(index));
    }
    assert_eq!(fixture.amounts(), [25, 25, 250]);
}

#[test]
fn a_changed_number_raises_no_slice_before_the_others_are_lowered() {
    use tidegate_world::{SliceHolding, SliceRow};
    let mut fixture = Fixture::new(3);
    let key = KeyId::from_hash(5);
    let sizes =
        [1, 1, 3].map(|amount| SliceSize { amount, rate_parts: PARTS / 5 * u32::try_from(amount).unwrap() });
    let expires = fixture.now.plus(SLICE_LEASE);
    let held = |(owner, size): (&OwnerId, SliceSize)| SliceHolding {
        row: SliceRow { key, owner: *owner, generation: 1, size, whole: 5, expires },
        acknowledged: 1,
        before: None,
    };
    let mut survey = fixture.store.survey(fixture.now);
    survey.slices = fixture.owners.iter().zip(sizes).map(held).collect();
    // The limit is 7 by now, and the first two ask for nearly all of it.
    for (owner, milli_per_second) in fixture.owners.iter().zip([700, 700, 10]) {
        let demand = Demand { key, spec: spec(7), is_abuse: false, milli_per_second, name: None };
        fixture.store.report(*owner, &[demand], fixture.now).unwrap();
    }
    survey.demands = fixture.store.survey(fixture.now).demands;
    let granted = Reconciler::default().reconcile(&survey).granted.expect("slices of another whole");
    for held in &granted.slices {
        let index = fixture.owners.iter().position(|owner| *owner == held.row.owner).unwrap();
        let before = sizes[index].scaled_down(5, 7);
        assert!(held.row.size.amount <= before.amount, "{held:?} was {before:?}");
    }
    assert_eq!(granted.slices.len(), 3);
}

#[test]
fn peaks_see_the_instant_at_which_a_silent_region_rises() {
    use super::holding::{Holding, peak};
    let now = Nanos::from_secs(100);
    let even = SliceSize { amount: 30, rate_parts: PARTS / 3 };
    let row = |amount, expires| tidegate_world::SliceRow {
        key: KeyId::from_hash(1),
        owner: OwnerId(1),
        generation: 1,
        size: SliceSize { amount, rate_parts: 0 },
        whole: 90,
        expires,
    };
    let held = |amount, expires| {
        Some(tidegate_world::SliceHolding { row: row(amount, expires), acknowledged: 1, before: None })
    };
    let end = now.plus(SLICE_LEASE);
    let lowered = |confirmed| Holding { is_active: true, even, confirmed, held: held(10, end) };
    let raised = Holding { is_active: true, even, confirmed: now, held: held(80, end) };
    assert_eq!(peak(&[lowered(now), raised], now).amount, 90);
    let long_ago = now.minus(SLICE_LEASE).minus(Nanos::from_secs(1));
    assert_eq!(
        peak(&[lowered(long_ago), raised], now).amount,
        110,
        "it may rise before the other's lease ends"
    );
    let over = Holding { held: held(80, now.minus(Nanos::new(1))), ..raised };
    assert_eq!(peak(&[lowered(long_ago), over], now).amount, 60);
}

#[test]
fn a_region_whose_store_was_replaced_is_waited_for_no_longer_than_its_slices_last() {
    let mut fixture = Fixture::new(2);
    let policy = PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) };
    let (silent, began) = (fixture.owners[1], fixture.now);
    let mut has_taken_part_after = None;
    while has_taken_part_after.is_none() && fixture.now < began.plus(Nanos::from_secs(100)) {
        let version = fixture.store.membership().version;
        fixture.join(0, version);
        fixture.store.acknowledge(fixture.owners[0], &fixture.goes_by(Vec::new()), fixture.now);
        // The same name on another origin.
        let region = "region-1".to_owned();
        let origin = 99;
        let joining =
            JoinRequest { region, origin, fingerprint: 7, policy, applied: version, known: 0, leaves: false };
        let successor = fixture.store.join(&joining, fixture.now).unwrap().me;
        fixture.store.acknowledge(successor, &fixture.goes_by(Vec::new()), fixture.now);
        fixture.pass();
        let members = fixture.store.membership().members;
        let is_in = members.iter().any(|member| member.owner == successor && member.is_active);
        let is_out = members.iter().all(|member| member.owner != silent);
        assert!(!is_in || is_out, "both at once");
        has_taken_part_after = is_in.then(|| fixture.now.minus(began));
    }
    let after = has_taken_part_after.expect("within a hundred seconds");
    assert!(after > SLICE_LEASE.plus(SLICE_LEASE) && after < Nanos::from_secs(60), "{after:?}");
}
