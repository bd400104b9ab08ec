//! Who takes part, and who leads.

use crate::fixture::{Fixture, joining, owner};
use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_world::{
    JoinRequest, Member, Membership, OwnerId, PublishPolicy, PublishThreshold, RECONCILER, SliceGrants, Term,
    WorldError,
};

fn member(membership: &Membership, owner: OwnerId) -> &Member {
    membership.members.iter().find(|member| member.owner == owner).expect("a member")
}

pub(crate) async fn the_first_region_is_active_and_others_wait(fixture: Fixture) {
    let world = fixture.open();
    let first = world.join(&joining("eu", 1)).await.unwrap();
    assert_eq!((first.membership.version, first.membership.members.len()), (1, 1));
    assert!(first.membership.members[0].is_active && first.membership.members[0].owner == first.me);
    assert!(first.membership.members[0].seen <= first.now && first.membership.members[0].seen > Nanos::ZERO);
    let second = world.join(&JoinRequest { applied: 5, ..joining("us", 1) }).await.unwrap();
    let members = &second.membership.members;
    assert_eq!((second.membership.version, members.len()), (2, 2));
    assert_eq!(members.len(), 2);
    let (eu, us) = (first.me, second.me);
    let [of_eu, of_us] = [eu, us].map(|owner| member(&second.membership, owner));
    assert_eq!((of_eu.is_active, of_us.is_active, of_us.applied), (true, false, 5));
    // By the reconciler's word.
    let term = world.lead(RECONCILER, 1, Nanos::from_secs(60)).await.unwrap().unwrap();
    let mut membership = world.survey().await.unwrap().membership;
    membership.version += 1;
    membership.members.iter_mut().for_each(|member| member.is_active = true);
    let granted = SliceGrants { membership: Some(membership), ..SliceGrants::default() };
    world.grant(term, &granted).await.unwrap();
    let again = world.join(&joining("eu", 1)).await.unwrap();
    assert_eq!(again.membership.version, 3);
    assert!(again.membership.members.iter().all(|member| member.is_active));
    // Somebody came since: what was decided by an older membership isn't written.
    world.join(&joining("ap", 1)).await.unwrap();
    let granted = SliceGrants { revision: 1, membership: Some(again.membership), ..SliceGrants::default() };
    assert_eq!(world.grant(term, &granted).await, Err(WorldError::Outdated { theirs: 4 }));
}

pub(crate) async fn a_region_that_comes_again_is_who_it_was(fixture: Fixture) {
    let (world, other) = (fixture.open(), fixture.open());
    let (eu, us) = (owner(&world, "eu").await, owner(&world, "us").await);
    assert_eq!(owner(&other, "eu").await, eu);
    let elsewhere = world.join(&joining("eu", u64::MAX)).await.unwrap();
    assert!(elsewhere.me != eu && elsewhere.me != us, "another origin is another owner");
    let left = world.join(&JoinRequest { leaves: true, ..joining("us", 1) }).await.unwrap();
    assert_eq!((left.me, left.membership.version, left.membership.members.len()), (us, 3, 3));
    assert_eq!(member(&left.membership, us).seen, Nanos::ZERO, "to be given up by the reconciler");
    let left = world.join(&JoinRequest { leaves: true, ..joining("us", 1) }).await.unwrap();
    assert_eq!((left.me, left.membership.version), (us, 3), "it left already");
    let back = world.join(&joining("us", 1)).await.unwrap();
    assert_eq!((back.me, back.membership.version, back.membership.members.len()), (us, 3, 3));
    assert!(member(&back.membership, us).seen > Nanos::ZERO);
    let left = world.join(&JoinRequest { leaves: true, ..joining("eu", 1) }).await.unwrap();
    assert_eq!((left.me, member(&left.membership, eu).is_active), (eu, false), "it holds nothing");
    let new = world.join(&joining("new", 1)).await.unwrap();
    assert!(member(&new.membership, new.me).is_active, "nobody else does");
    for name in ["", "a b", "x\n", &"r".repeat(49)] {
        assert!(matches!(world.join(&joining(name, 1)).await, Err(WorldError::Refused { .. })), "{name:?}");
    }
    assert!(world.join(&joining(&"𝔘".repeat(48), 1)).await.is_ok());
}

pub(crate) async fn an_origin_whose_region_is_renamed_stays_the_owner_that_it_was(fixture: Fixture) {
    let (world, other) = (fixture.open(), fixture.open());
    let eu = world.join(&joining("eu", 1)).await.unwrap();
    let us = owner(&world, "us").await;
    let renamed = JoinRequest { region: "eu-west".to_owned(), ..joining("eu", 1) };
    for _ in 0..2 {
        let joined = other.join(&renamed).await.unwrap();
        assert_eq!((joined.me, joined.membership.version, joined.membership.members.len()), (eu.me, 2, 2));
        assert_eq!(member(&joined.membership, eu.me).region, "eu-west");
        assert_eq!((joined.namesakes, member(&joined.membership, us).region.as_str()), (0, "us"));
    }
    // The name is free for another origin, and two origins with one name are an alarm.
    assert_eq!(world.join(&joining("eu", 2)).await.unwrap().namesakes, 0);
    assert_eq!(world.join(&joining("eu-west", 7)).await.unwrap().namesakes, 1);
    assert_eq!(world.join(&joining("eu", 1)).await.unwrap().me, eu.me, "and back");
}

pub(crate) async fn a_database_that_lost_who_joined_gives_everybody_the_id_that_it_had(fixture: Fixture) {
    if fixture.is_memory() {
        return;
    }
    let world = fixture.open();
    let (eu, us) = (owner(&world, "eu").await, owner(&world, "us").await);
    fixture.sql("DELETE FROM tidegate_owners").await;
    fixture.sql("DELETE FROM tidegate_fleet").await;
    assert_eq!((owner(&world, "us").await, owner(&world, "eu").await), (us, eu));
}

pub(crate) async fn a_store_that_went_back_goes_on_behind_the_membership_that_its_regions_know(
    fixture: Fixture,
) {
    let world = fixture.open();
    owner(&world, "eu").await;
    let version = async |known| {
        world.join(&JoinRequest { known, ..joining("eu", 1) }).await.unwrap().membership.version
    };
    assert_eq!((version(0).await, version(1).await, version(7).await), (1, 1, 8));
    assert_eq!((version(7).await, version(8).await), (8, 8), "once");
    let us = world.join(&JoinRequest { known: 20, ..joining("us", 1) }).await.unwrap();
    assert_eq!((us.membership.version, us.membership.members.len()), (22, 2));
}

pub(crate) async fn policy_and_secret_are_the_first_regions(fixture: Fixture) {
    let world = fixture.open();
    let first = world.join(&joining("eu", 1)).await.unwrap();
    assert_eq!(first.policy, joining("eu", 1).policy);
    let other = PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(9) };
    let second = world.join(&JoinRequest { policy: other, ..joining("us", 1) }).await.unwrap();
    assert_eq!(second.policy, first.policy);
    let (theirs, ours) = (joining("eu", 1).fingerprint, u64::MAX);
    for region in ["eu", "ap"] {
        let stranger = JoinRequest { fingerprint: ours, applied: 99, ..joining(region, 1) };
        assert_eq!(world.join(&stranger).await, Err(WorldError::OtherSecret { theirs, ours }));
    }
    let survey = world.survey().await.unwrap();
    assert_eq!(survey.membership.members.len(), 2);
    assert!(
        survey.membership.members.iter().all(|member| member.applied == 0),
        "nothing of the stranger's stays"
    );
}

pub(crate) async fn a_namesake_is_told_of_while_it_is_heard(fixture: Fixture) {
    let world = fixture.open();
    assert_eq!(world.join(&joining("eu", 1)).await.unwrap().namesakes, 0);
    assert_eq!(world.join(&joining("us", 2)).await.unwrap().namesakes, 0);
    assert_eq!(world.join(&joining("eu", 2)).await.unwrap().namesakes, 1);
    assert_eq!(world.join(&joining("eu", 1)).await.unwrap().namesakes, 1);
    world.join(&JoinRequest { leaves: true, ..joining("eu", 2) }).await.unwrap();
    assert_eq!(world.join(&joining("eu", 1)).await.unwrap().namesakes, 0);
}

pub(crate) async fn one_leads_until_its_lease_ends(fixture: Fixture) {
    let (one, two) = (fixture.open(), fixture.open());
    let (long, short) = (Nanos::from_secs(60), Nanos::from_millis(200));
    assert_eq!(one.lead("job", u64::MAX, long).await, Ok(Some(Term(1))));
    assert_eq!(two.lead("job", 0, long).await, Ok(None));
    assert_eq!(two.lead("other job", 0, long).await, Ok(Some(Term(1))), "jobs are apart");
    assert_eq!(one.lead("job", u64::MAX, short).await, Ok(Some(Term(1))));
    fixture.pass(Duration::from_millis(300)).await;
    assert_eq!(two.lead("job", 0, long).await, Ok(Some(Term(2))));
    assert_eq!(one.lead("job", u64::MAX, long).await, Ok(None));
    assert_eq!(two.lead("job", 0, Nanos::ZERO).await, Ok(Some(Term(2))), "given up");
    assert_eq!(one.lead("job", u64::MAX, long).await, Ok(Some(Term(3))));
}

pub(crate) async fn a_dozen_first_comers_at_once_are_all_members(fixture: Fixture) {
    let comers = (0..12_u64).map(|number| {
        let world = fixture.open();
        tokio::spawn(async move { world.join(&joining(&format!("region-{number}"), 1)).await })
    });
    let mut ids = BTreeSet::new();
    for comer in comers.collect::<Vec<_>>() {
        ids.insert(comer.await.unwrap().unwrap().me);
    }
    assert_eq!(ids.len(), 12);
    let membership = fixture.open().survey().await.unwrap().membership;
    assert_eq!((membership.version, membership.members.len()), (12, 12));
    assert_eq!(membership.members.iter().filter(|member| member.is_active).count(), 1);
}

pub(crate) async fn tables_of_a_newer_version_are_refused(fixture: Fixture) {
    owner(&fixture.open(), "eu").await;
    fixture.sql("INSERT INTO tidegate_schema (version) VALUES (7)").await;
    let refused = fixture.open().join(&joining("eu", 1)).await;
    if !fixture.is_memory() {
        let Err(WorldError::Refused { message }) = refused else { panic!("{refused:?}") };
        assert!(message.contains("version 7") && message.contains("newer"), "{message}");
    }
}
