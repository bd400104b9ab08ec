//! Which override applies, what a change leaves, and where they end.

use super::*;
use std::borrow::Cow;
use tidegate_core::Nanos;

fn to(limit: u64) -> Option<Override> {
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    Some(Override::new(Limit::new(limit).unwrap(), period))
}

fn change(namespace: &str, identifier: &str, to: Option<Override>) -> Change {
    let named = LimitTarget { namespace: Cow::Borrowed(namespace), identifier: Cow::Borrowed(identifier) };
    Change::new("default", &named, to)
}

/// A namespace in which each identifier has its place as its limit.
fn in_force(identifiers: &[&str]) -> OverridesInForce {
    let mut in_force = OverridesInForce::default();
    for (limit, identifier) in (1..).zip(identifiers) {
        in_force.apply(&mut change("n", identifier, to(limit))).unwrap();
    }
    in_force
}

fn applied(in_force: &OverridesInForce, identifier: &str) -> Option<u64> {
    let namespace = in_force.namespace("default", "n")?;
    namespace.applied_to(identifier).map(|applied| applied.numbers().0.get())
}

#[test]
fn the_exact_one_comes_first_then_the_longest_literal_text_then_the_alphabet() {
    let orders = [
        ["*", "user_*", "user_42", "*_42", "user_*2", "vip*b", "vip*a"],
        ["vip*a", "vip*b", "user_*2", "*_42", "user_42", "user_*", "*"],
    ];
    for order in orders {
        let in_force = in_force(&order);
        let place = |name: &str| order.iter().position(|known| *known == name).map(|place| place as u64 + 1);
        for (identifier, wins) in [
            ("user_42", "user_42"),
            ("user_52", "user_*2"),
            ("user_7", "user_*"),
            ("x_42", "*_42"),
            ("x", "*"),
            ("", "*"),
            ("vipab", "vip*b"),
            ("vipba", "vip*a"),
            ("vip*a", "vip*a"),
        ] {
            assert_eq!(applied(&in_force, identifier), place(wins), "{identifier} of {order:?}");
        }
    }
    let tied = in_force(&["b*a", "*ba", "ba*"]);
    assert_eq!(applied(&tied, "ba"), Some(2), "`*` comes before letters");
}

#[test]
fn nothing_applies_where_nothing_was_set() {
    let in_force = in_force(&["a", "b*"]);
    assert_eq!(applied(&in_force, "c"), None);
    assert!(in_force.namespace("default", "other").is_none());
    assert!(in_force.namespace("other", "n").is_none(), "tenants don't meet");
    assert!(OverridesInForce::default().namespace("default", "n").is_none());
}

#[test]
fn one_that_is_set_again_keeps_its_id_and_one_that_was_deleted_gets_another() {
    let mut in_force = in_force(&["u*"]);
    let id = |in_force: &OverridesInForce| {
        let namespace = in_force.namespace("default", "n")?;
        namespace.named("u*").map(|(_, found)| found.id().to_owned())
    };
    let first = id(&in_force).unwrap();
    assert!(first.starts_with("ovr_"), "{first}");
    let mut again = change("n", "u*", to(7));
    in_force.apply(&mut again).unwrap();
    assert_eq!((id(&in_force), applied(&in_force, "u1")), (Some(first.clone()), Some(7)));
    assert_eq!(again.to.unwrap().id(), first, "the change is told");
    in_force.apply(&mut change("n", "u*", None)).unwrap();
    assert_eq!((applied(&in_force, "u1"), in_force.count()), (None, 0));
    assert!(in_force.tenants.is_empty(), "nothing is left of it");
    let rejected = in_force.apply(&mut change("n", "u*", None)).unwrap_err();
    assert_eq!(rejected.refusal().code, Code::UnknownOverride);
    in_force.apply(&mut change("n", "u*", to(9))).unwrap();
    assert_eq!(applied(&in_force, "u1"), Some(9));
    assert_ne!(id(&in_force), Some(first));
}

#[test]
fn a_change_leaves_those_alone_who_look_meanwhile() {
    let before = in_force(&["a", "b*"]);
    let mut after = before.clone();
    after.apply(&mut change("n", "a", to(50))).unwrap();
    after.apply(&mut change("n", "b*", None)).unwrap();
    assert_eq!((applied(&before, "a"), applied(&before, "bx")), (Some(1), Some(2)));
    assert_eq!((applied(&after, "a"), applied(&after, "bx")), (Some(50), None));
}

#[test]
fn an_override_is_found_by_its_text_or_its_id_and_listed_by_the_alphabet() {
    let in_force = in_force(&["c", "a*", "b"]);
    let namespace = in_force.namespace("default", "n").unwrap();
    let names: Vec<&str> = namespace.from("").map(|(identifier, _)| identifier).collect();
    assert_eq!(names, ["a*", "b", "c"]);
    assert_eq!(namespace.from("aa").map(|(identifier, _)| identifier).collect::<Vec<_>>(), ["b", "c"]);
    assert!(namespace.named("a1").is_none(), "a pattern isn't found by what it fits");
    let (_, found) = namespace.named("a*").unwrap();
    assert_eq!(namespace.named(found.id()).map(|(identifier, _)| identifier), Some("a*"));
}

#[test]
fn a_namespace_has_room_for_so_many_texts_between_two_stars() {
    let mut in_force = OverridesInForce::default();
    let set = |in_force: &mut OverridesInForce, identifier: &str| {
        let mut change = change("n", identifier, to(1));
        in_force.leaves_room_for_others(&change)?;
        in_force.apply(&mut change)
    };
    for number in 0..NAMESPACE_SEARCHING_MAX {
        set(&mut in_force, &format!("*bot{number}*")).unwrap();
    }
    let refusal = set(&mut in_force, "*one more*").unwrap_err().refusal();
    assert_eq!(refusal.code, Code::TooMany);
    assert!(refusal.message.contains("250 overrides with a text between two stars"), "{}", refusal.message);
    for identifier in ["u", "*u", "u*", "a*u", "*bot1*"] {
        set(&mut in_force, identifier).unwrap();
    }
    in_force.apply(&mut change("n", "*bot1*", None)).unwrap();
    set(&mut in_force, "*one more*").unwrap();
    // What a node was told before stays.
    in_force.apply(&mut change("n", "*another*", to(1))).unwrap();
}

#[test]
fn a_namespace_and_a_node_have_room_for_so_many() {
    let mut in_force = OverridesInForce::default();
    for number in 0..NODE_OVERRIDES_MAX {
        let namespace = format!("n{}", number / NAMESPACE_OVERRIDES_MAX);
        in_force.apply(&mut change(&namespace, &format!("u{number}"), to(1))).unwrap();
    }
    let rejected = |in_force: &mut OverridesInForce, namespace: &str, identifier: &str| {
        let refusal = in_force.apply(&mut change(namespace, identifier, to(1))).unwrap_err().refusal();
        (refusal.code, refusal.message)
    };
    let (code, message) = rejected(&mut in_force, "n0", "one more");
    assert_eq!(code, Code::TooMany);
    assert!(message.contains("namespace `n0` has 10000"), "{message}");
    let (code, message) = rejected(&mut in_force, "new", "one more");
    assert_eq!(code, Code::TooMany);
    assert!(message.contains("this node has 200000"), "{message}");
    in_force.apply(&mut change("n0", "u0", to(2))).unwrap();
    in_force.apply(&mut change("n0", "u0", None)).unwrap();
    in_force.apply(&mut change("new", "one more", to(1))).unwrap();
    assert_eq!(in_force.count(), NODE_OVERRIDES_MAX);
}

#[test]
fn a_tenant_may_set_as_many_as_are_left_for_the_others() {
    let of = |tenant: &str, number: usize, to| {
        let namespace = format!("n{}", number / NAMESPACE_OVERRIDES_MAX);
        Change { tenant: tenant.into(), ..change(&namespace, &format!("u{number}"), to) }
    };
    let mut in_force = OverridesInForce::default();
    // As many as it may, of `NODE_OVERRIDES_MAX` at most.
    let mut fill = |tenant: &str| {
        let set = (0..NODE_OVERRIDES_MAX).find_map(|number| {
            let mut change = of(tenant, number, to(1));
            match in_force.leaves_room_for_others(&change) {
                Ok(()) => in_force.apply(&mut change).map(|()| None).unwrap(),
                Err(rejected) => Some((number, rejected)),
            }
        });
        let (number, rejected) = set.unwrap();
        assert_eq!(rejected, OverrideError::ShareSpent { count: number });
        number
    };
    assert_eq!([fill("greedy"), fill("second"), fill("third")], [100_000, 50_000, 25_000]);
    // What is there can still be changed and taken back, which makes room.
    for change in [of("greedy", 0, to(2)), of("greedy", 0, None)] {
        in_force.leaves_room_for_others(&change).unwrap();
    }
    assert_eq!(in_force.leaves_room_for_others(&of("fourth", 0, to(1))), Ok(()));
    let refusal = OverrideError::ShareSpent { count: 7 }.refusal();
    assert_eq!(refusal.code, Code::TooMany);
}
