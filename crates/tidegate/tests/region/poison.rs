//! Something in the store that doesn't belong there, under one key's name: that key follows its class, no
//! other notices, and all is well once it is gone.

use crate::fleet::{Algorithm, Limit, Member, PATIENT, wait_for};
use crate::store::{cell_of, command, total_of};
use crate::support::{SOON, poll};
use tidegate_testkit::Redis;

const OTHERS: usize = 5;

/// What stands in the place of a cell.
#[derive(Clone, Copy, Debug)]
enum Poison {
    Text,
    List,
    Field {
        name: &'static str,
        value: &'static str,
    },
    /// The component of the node itself.
    Component {
        value: &'static str,
    },
}

const OF_A_WINDOW: [Poison; 8] = [
    Poison::Text,
    Poison::List,
    Poison::Component { value: "-5" },
    Poison::Component { value: "many" },
    Poison::Component { value: "9223372036854775807" },
    Poison::Field { name: "s", value: "9223372036854775807" },
    Poison::Field { name: "f", value: "-1" },
    Poison::Field { name: "n", value: "" },
];

const OF_A_GCRA: [Poison; 6] = [
    Poison::Text,
    Poison::List,
    Poison::Component { value: "-5" },
    Poison::Field { name: "tat", value: "soon" },
    Poison::Field { name: "tat", value: "-1.000000000" },
    Poison::Field { name: "i", value: "0" },
];

fn put(redis: &Redis, cell: &str, own: &str, poison: Poison) {
    match poison {
        Poison::Text => drop(command(redis, &["SET", cell, "some text"])),
        Poison::List => {
            command(redis, &["DEL", cell]);
            command(redis, &["RPUSH", cell, "1", "2"]);
        }
        Poison::Field { name, value } => drop(command(redis, &["HSET", cell, name, value])),
        Poison::Component { value } => drop(command(redis, &["HSET", cell, own, value])),
    }
}

fn poison_and_cure(redis: &Redis, node: &Member, algorithm: Algorithm, poison: Poison) {
    let limit = Limit::new(&format!("{poison:?}").replace('"', ""), 1000).exact().algorithm(algorithm);
    let others: Vec<Limit> = (0..OTHERS)
        .map(|number| Limit { identifier: format!("{}-{number}", limit.identifier), ..limit.clone() })
        .collect();
    let ask_others = || -> Vec<u64> { others.iter().map(|limit| node.ask_until_verified(limit).0).collect() };
    let mut admitted_others = vec![ask_others()];
    let (mut admitted, _) = node.ask_until_verified(&limit);
    let cell = cell_of(redis, &limit).unwrap();
    let own = cell.components().into_keys().next().unwrap().to_owned();
    put(redis, &cell.name, &own, poison);

    for _ in 0..3 {
        let paid = node.ask(&limit);
        assert!(paid.is_allowed() && paid.is_unverified(), "{algorithm:?} {poison:?}: {}", paid.body);
        admitted += 1;
        let abuse = node.ask(&limit.clone().class("abuse"));
        assert!(!abuse.is_allowed() && abuse.is_unverified(), "{algorithm:?} {poison:?}: {}", abuse.body);
        admitted_others.push(ask_others());
    }
    assert_eq!(node.is_open(&redis.address().to_string()), Some(false), "one key isn't a shard");

    command(redis, &["DEL", &cell.name]);
    admitted += node.ask_until_verified(&limit).0;
    poll("the count of all that was admitted", SOON, || (total_of(redis, &limit) == admitted).then_some(()));
    for (index, other) in others.iter().enumerate() {
        let admitted: u64 = admitted_others.iter().map(|counts| counts[index]).sum();
        assert_eq!(total_of(redis, other), admitted, "{algorithm:?} {poison:?}");
    }
}

#[test]
fn a_poisoned_window_is_nobody_elses_business() {
    let redis = wait_for(Redis::start());
    let node = Member::join(&redis.url(), &PATIENT);
    for poison in OF_A_WINDOW {
        poison_and_cure(&redis, &node, Algorithm::Fixed, poison);
    }
    poison_and_cure(&redis, &node, Algorithm::Sliding, Poison::Text);
}

#[test]
fn a_poisoned_gcra_is_nobody_elses_business() {
    let redis = wait_for(Redis::start());
    let node = Member::join(&redis.url(), &PATIENT);
    for poison in OF_A_GCRA {
        poison_and_cure(&redis, &node, Algorithm::Gcra, poison);
    }
}
