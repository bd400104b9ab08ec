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

fn verified(node: &Member, limit: &Limit) {
    let answer = node.ask(limit);
    assert!(answer.is_allowed() && !answer.is_unverified(), "{}", answer.body);
}

fn poison_and_cure(redis: &Redis, node: &Member, algorithm: Algorithm, poison: Poison) {
    let limit = Limit::new(&format!("{poison:?}").replace('"', ""), 1000).exact().algorithm(algorithm);
    let others: Vec<Limit> = (0..OTHERS)
        .map(|number| Limit { identifier: format!("{}-{number}", limit.identifier), ..limit.clone() })
        .collect();
    others.iter().chain([&limit]).for_each(|limit| verified(node, limit));
    let cell = cell_of(redis, &limit).unwrap();
    let own = cell.components().into_keys().next().unwrap().to_owned();
    put(redis, &cell.name, &own, poison);

    let mut admitted = 1;
    for _ in 0..3 {
        let paid = node.ask(&limit);
        assert!(paid.is_allowed() && paid.is_unverified(), "{algorithm:?} {poison:?}: {}", paid.body);
        admitted += 1;
        let abuse = node.ask(&limit.clone().class("abuse"));
        assert!(!abuse.is_allowed() && abuse.is_unverified(), "{algorithm:?} {poison:?}: {}", abuse.body);
        others.iter().for_each(|limit| verified(node, limit));
    }
    assert_eq!(node.is_open(&redis.address().to_string()), Some(false), "one key isn't a shard");

    command(redis, &["DEL", &cell.name]);
    poll("a key that works again", SOON, || {
        let answer = node.ask(&limit);
        assert!(answer.is_allowed(), "{}", answer.body);
        admitted += 1;
        (!answer.is_unverified()).then_some(())
    });
    poll("the count of all that was admitted", SOON, || (total_of(redis, &limit) == admitted).then_some(()));
    others.iter().for_each(|limit| assert_eq!(total_of(redis, limit), 4, "{algorithm:?} {poison:?}"));
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
