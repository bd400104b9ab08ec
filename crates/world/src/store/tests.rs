//! What only a plain value can show: exact instants. The rest is in the conformance suite, for all stores.

use super::*;
use crate::{After, CellId, PublishPolicy, PublishThreshold};
use tidegate_core::{KeyId, Sequence};

fn at(millis: u64) -> Nanos {
    Nanos::from_secs(1_000).plus(Nanos::from_millis(millis))
}

fn row(key: u128, count: u64) -> Row {
    let cell = CellId { key: KeyId::from_hash(key), epoch: 0, sequence: Sequence(7) };
    Row { cell, count, limit: 100, expires: at(60_000), name: None }
}

fn joining(region: &str) -> JoinRequest {
    JoinRequest {
        region: region.to_owned(),
        origin: u64::from(region.as_bytes()[0]),
        fingerprint: 9,
        policy: PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) },
        applied: 0,
        known: 0,
        leaves: false,
    }
}

#[test]
fn rows_of_one_instant_come_once_each_over_pages() {
    let mut store = WorldStore::default();
    for key in 0..10 {
        assert_eq!(store.publish(OwnerId(1), &[row(key, 1)], at(0)), PublishReply::default());
    }
    let (mut since, mut seen) = (Cursor::default(), Vec::new());
    loop {
        let page = store.import(since, 3, at(5));
        seen.extend(page.components.iter().map(|component| component.cell.key.get()));
        since = page.next;
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    assert_eq!(since, Cursor { changed: at(5), after: After::Nothing, writes: 10 });
    assert!(store.import(since, 3, at(6)).components.is_empty());
    assert_eq!(store.import(since.back(Nanos::from_millis(5)), 100, at(6)).components.len(), 10);
}

#[test]
fn what_did_not_grow_did_not_change() {
    let mut store = WorldStore::default();
    store.publish(OwnerId(1), &[row(1, 5)], at(0));
    store.publish(OwnerId(1), &[row(1, 5)], at(10));
    store.publish(OwnerId(1), &[row(1, 4)], at(20));
    let since = Cursor { changed: at(1), after: After::Nothing, writes: 1 };
    assert!(store.import(since, 9, at(30)).components.is_empty());
    store.publish(OwnerId(1), &[row(1, 6)], at(40));
    assert_eq!(store.import(since, 9, at(50)).components[0].count, 6);
}

#[test]
fn a_store_that_went_back_is_read_from_the_beginning() {
    let mut store = WorldStore::default();
    store.publish(OwnerId(1), &[row(1, 5)], at(0));
    let backup = store.clone();
    store.publish(OwnerId(1), &[row(2, 5)], at(10));
    let since = store.import(Cursor::default(), 9, at(20)).next;
    assert!(!store.import(since, 9, at(30)).is_restart);
    let restarted = backup.import(since, 9, at(30));
    assert_eq!((restarted.is_restart, restarted.components.len()), (true, 1));
    assert!(!backup.import(restarted.next, 9, at(40)).is_restart, "once");
}

#[test]
fn a_lease_is_kept_by_its_holder_and_taken_when_it_ran_out() {
    let mut store = WorldStore::default();
    let second = Nanos::from_secs(1);
    assert_eq!(store.lead("job", 1, second, at(0)), Some(Term(1)));
    assert_eq!(store.lead("job", 2, second, at(999)), None);
    assert_eq!(store.lead("job", 1, second, at(999)), Some(Term(1)));
    assert_eq!(store.lead("job", 2, second, at(1_998)), None);
    assert_eq!(store.lead("job", 2, second, at(1_999)), Some(Term(2)));
    assert_eq!(store.lead("job", 2, Nanos::ZERO, at(2_000)), Some(Term(2)), "given up");
    assert_eq!(store.lead("job", 1, second, at(2_000)), Some(Term(3)));
}

#[test]
fn a_second_region_waits_until_the_reconciler_has_let_it_in() {
    let mut store = WorldStore::default();
    let first = store.join(&joining("eu"), at(0)).unwrap();
    assert!(first.membership.members[0].is_active);
    let second = store.join(&joining("us"), at(1)).unwrap();
    let mut membership = second.membership;
    let is_active = |membership: &Membership, owner| {
        membership.members.iter().any(|member| member.owner == owner && member.is_active)
    };
    assert_eq!((membership.version, is_active(&membership, second.me)), (2, false));
    membership.version += 1;
    membership.members.iter_mut().for_each(|member| member.is_active = true);
    let granted = SliceGrants { membership: Some(membership.clone()), ..SliceGrants::default() };
    assert_eq!(store.grant(Term(1), &granted), Err(WorldError::Deposed { theirs: 0 }));
    store.lead(RECONCILER, 1, Nanos::from_secs(1), at(2));
    assert_eq!(store.grant(Term(1), &granted), Ok(()));
    assert_eq!(store.membership(), membership);
    assert_eq!(store.grant(Term(1), &granted), Err(WorldError::Outdated { theirs: 1 }), "granted since");
    let granted = SliceGrants { revision: 1, ..granted };
    assert_eq!(store.grant(Term(1), &granted), Err(WorldError::Outdated { theirs: 3 }), "joined since");
    let left = store.join(&JoinRequest { leaves: true, ..joining("eu") }, at(3)).unwrap();
    let eu = left.membership.members.iter().find(|member| member.owner == left.me).unwrap();
    assert_eq!((left.membership.version, eu.is_active, eu.seen), (4, false, Nanos::ZERO), "to be given up");
}
