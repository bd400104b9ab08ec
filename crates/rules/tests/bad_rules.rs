//! Wrong rule files: each is refused with the field, a place and a remedy, and fast.

mod reading;

use reading::{parse, source};
use std::time::{Duration, Instant};
use tidegate_core::FleetSecret;
use tidegate_rules::{RuleErrors, RuleSet};

/// What is in the file, the field that its first error names, and a piece of the error's remedy.
type Case = (Vec<u8>, &'static str, &'static str);

fn case(text: impl AsRef<[u8]>, field: &'static str, remedy: &'static str) -> Case {
    (text.as_ref().to_vec(), field, remedy)
}

/// A rule of these fields, all others being right.
fn rule(fields: &str) -> String {
    format!("namespace: api\nrules:\n  - {{ name: r, key: [user], {fields} }}\n")
}

/// An override of these fields, of a rule with a limit (`r`), a calendar (`month`) or a rate (`pace`).
fn change(fields: &str) -> String {
    format!(
        "namespace: api\nrules:\n  - {{ name: r, key: [user], limit: 1 per 1m }}\n  \
         - {{ name: month, key: [user], limit: 1 per month }}\n  - {{ name: pace, key: [ip/64], rate: 1/s }}\n\
         overrides:\n  - {{ {fields} }}\n"
    )
}

fn wrong_quantities() -> Vec<Case> {
    let limit = |text: &str, remedy| case(rule(&format!("limit: {text}")), "rules[0].limit", remedy);
    let rate = |text: &str, remedy| case(rule(&format!("rate: {text}")), "rules[0].rate", remedy);
    let burst = |text: &str| {
        case(rule(&format!("rate: 1/s, burst: {text}")), "rules[0].burst", "whole number from 0")
    };
    let mut cases: Vec<Case> =
        ["-5 per 1m", "1.5 per 1m", ".nan per 1m", "NaN per 1m", "1e308 per 1m", "0x10 per 1m"]
            .into_iter()
            .chain(["9223372036854775808 per 1m", "18446744073709551616 per 1m", "9007199254740993 per 1m"])
            .chain(["-1", "1.5", ".inf", "1__0 per 1m"])
            .map(|text| limit(text, "whole number from 0"))
            .collect();
    cases.extend([
        limit("ten per minute", "`10 per 1m`"),
        limit("10", "`10 per 1m`"),
        limit("0", "`0 per 1m`"),
        limit("''", "`10 per 1m`"),
        limit("", "give one value"),
        limit("10 per 500ms", "use `rate`"),
        limit("10 per 0s", "units are"),
        limit("10 per 400d", "`366d`"),
        limit("10 per fortnight", "units are"),
        limit("10 per h", "`10 per hour`"),
        limit("10 per 2 months", "`10 per 30d`"),
        limit("10/hour", "`10 per 1h`"),
        limit("10 requests per minute", "`10 per minute`"),
        limit("1,000 per 1m", "1000 or 1_000"),
        rate("0.5/s", "`1 per 2s`"),
        limit("[10]", "give one value"),
        limit("{ count: 10 }", "give one value"),
        limit(&"9".repeat(1 << 20), "at most 64 characters"),
        limit("\"10 per 1m\\0\"", "remove it"),
        rate("100", "`100/s`"),
        rate("0/s", "to block"),
        rate("-1/s", "whole number"),
        rate("1.5/s", "whole number"),
        rate("1/month", "`1000/30d`"),
        rate("2000000000/s", "`100/s`"),
        rate("100 s", "`100/s`"),
        rate("true", "`100/s`"),
        burst("-1"),
        burst("1.5"),
        burst("NaN"),
        burst("18446744073709551616"),
        burst("many"),
    ]);
    cases
}

fn wrong_fields() -> Vec<Case> {
    let with = |fields: &str| rule(&format!("limit: 1 per 1m, {fields}"));
    vec![
        case(rule("limit: 1 per 1m, rate: 1/s"), "rules[0].rate", "two rules"),
        case(rule("class: paid"), "rules[0].limit", "add `limit"),
        case(with("burst: 5"), "rules[0].burst", "write a `rate`"),
        case(rule("rate: 1/d, burst: 200_000"), "rules[0].burst", "use a smaller burst"),
        case(with("class: gold"), "rules[0].class", "paid, free, abuse"),
        case(with("class: [paid]"), "rules[0].class", "give one value"),
        case(with("accuracy: exakt"), "rules[0].accuracy", "did you mean `exact`"),
        case(with("scope: galaxy"), "rules[0].scope", "region, world"),
        case(with("shadow: 1"), "rules[0].shadow", "`true` or `false`"),
        case(with("shadow: yes"), "rules[0].shadow", "`true` or `false`"),
        case(with("on_missing: allow"), "rules[0].on_missing", "skip, deny"),
        case(with("charge: never"), "rules[0].charge", "admitted, always"),
        case(with("log: none"), "rules[0].log", "{ denials: all, admissions: 1 in 1000 }"),
        case(with("log: { denial: all }"), "rules[0].log.denial", "did you mean `denials`"),
        case(with("log: { denials: some }"), "rules[0].log.denials", "all, none"),
        case(with("log: { admissions: 1000 }"), "rules[0].log.admissions", "write `1 in 1000`"),
        case(with("log: { admissions: 2 in 1000 }"), "rules[0].log.admissions", "write `1 in 1000`"),
        case(with("log: { admissions: 1 in 0 }"), "rules[0].log.admissions", "from 1 in 1"),
        case(with("log: { admissions: 1 in 1_000_001 }"), "rules[0].log.admissions", "1 in 1_000_000"),
        case(with("algorithm: gcra"), "rules[0].algorithm", "sliding, fixed"),
        case(with("time_zone: UTC"), "rules[0].time_zone", "`per day`"),
        case(rule("rate: 1/s, time_zone: UTC"), "rules[0].time_zone", "write a `limit`"),
        case(rule("rate: 1/s, algorithm: fixed"), "rules[0].algorithm", "write a `limit`"),
        case(rule("limit: 1 per day, time_zone: Mars/Olympus"), "rules[0].time_zone", "IANA"),
        case(rule("limit: 1 per day, time_zone: ''"), "rules[0].time_zone", "IANA"),
        case(rule("limit: 1 per day, time_zone: ../../etc/passwd"), "rules[0].time_zone", "IANA"),
        case(rule("limit: 1 per day, algorithm: fixed"), "rules[0].algorithm", "remove `algorithm`"),
        case(with(&format!("description: {}", "x".repeat(513))), "rules[0].description", "at most 512"),
        case(with("description: \"\\0\""), "rules[0].description", "remove it"),
        case(with("limits: 5"), "rules[0].limits", "did you mean `limit`"),
        case(with("colour: red"), "rules[0].colour", "use one of: name, key"),
        case(with("? [a]\n    : b"), "rules[0]", "`name: value`"),
        case(with("limit: 2 per 1m"), "rules[0].limit", "keep one"),
        case(with("class: !gold paid"), "rules[0].class", "remove it"),
    ]
}

fn wrong_names_and_keys() -> Vec<Case> {
    let named = |name: &str| {
        format!("namespace: api\nrules:\n  - {{ name: {name}, key: [user], limit: 1 per 1m }}\n")
    };
    let keyed =
        |key: &str| format!("namespace: api\nrules:\n  - {{ name: r, key: {key}, limit: 1 per 1m }}\n");
    let twice = format!("{}---\n{}", named("same"), named("same"));
    vec![
        case(named("''"), "rules[0].name", "1 to 128"),
        case(named(""), "rules[0].name", "give one value"),
        case(named(&"n".repeat(129)), "rules[0].name", "at most 128"),
        case(named(&"n".repeat(1 << 20)), "rules[0].name", "at most 128"),
        case(named("\"a\\0b\""), "rules[0].name", "remove it"),
        case(named("\"a\\nb\""), "rules[0].name", "remove it"),
        case(named("[a]"), "rules[0].name", "give one value"),
        case("namespace: api\nrules: [{ key: [user], limit: 1 per 1m }]", "rules[0].name", "add `name"),
        case(twice, "rules[0].name", "another name"),
        case("namespace: api\nrules: [{ name: r, limit: 1 per 1m }]", "rules[0].key", "add `key: [user]`"),
        case(keyed("user"), "rules[0].key", "`[user]`"),
        case(keyed(""), "rules[0].key", "`[]`"),
        case(keyed("{ user: 1 }"), "rules[0].key", "`[user]`"),
        case(keyed("['']"), "rules[0].key[0]", "letters, digits"),
        case(keyed("[user, 'a b']"), "rules[0].key[1]", "letters, digits"),
        case(keyed("[[user]]"), "rules[0].key[0]", "give one value"),
        case(keyed(&format!("[{}]", "a".repeat(65))), "rules[0].key[0]", "1 to 64"),
        case(keyed("[user, user]"), "rules[0].key[1]", "once"),
        case(keyed("[ip, ip/64]"), "rules[0].key[1]", "once"),
        case(keyed("[a, b, c, d, e, f, g, h, i]"), "rules[0].key", "at most 8"),
        case(keyed("[ip/0]"), "rules[0].key[0]", "1 to 128"),
        case(keyed("[ip/129]"), "rules[0].key[0]", "1 to 128"),
        case(keyed("[ip/x]"), "rules[0].key[0]", "1 to 128"),
        case(keyed("[/64]"), "rules[0].key[0]", "letters, digits"),
        case(keyed("[limit]"), "rules[0].key[0]", "another name"),
    ]
}

fn wrong_conditions() -> Vec<Case> {
    let when = |when: &str| rule(&format!("limit: 1 per 1m, when: {when}"));
    let many: Vec<String> = (0..17).map(|n| format!("a{n}: x")).collect();
    let values = vec!["x"; 1001].join(", ");
    vec![
        case(when("endpoint"), "rules[0].when", "`{ endpoint:"),
        case(when("[a]"), "rules[0].when", "`{ endpoint:"),
        case(when("{ a: { b: c } }"), "rules[0].when.a", "give one value"),
        case(when("{ a: }"), "rules[0].when.a", "in quotes if it is empty"),
        case(when("{ a: [] }"), "rules[0].when.a", "at least one"),
        case(when("{ a: [x, [y]] }"), "rules[0].when.a[1]", "give one value"),
        case(when("{ 'a b': x }"), "rules[0].when.a b", "letters, digits"),
        case(when("{ '': x }"), "rules[0].when.", "letters, digits"),
        case(when("{ ip: 10.0.0.0/33 }"), "rules[0].when.ip", "`10.0.0.0/8`"),
        case(when("{ ip: [10.0.0.0/8, 300.1.1.1/8] }"), "rules[0].when.ip[1]", "`10.0.0.0/8`"),
        case(when("{ ip: '2001:db8::/129' }"), "rules[0].when.ip", "`10.0.0.0/8`"),
        case(when(&format!("{{ a: '{}*' }}", "x".repeat(512))), "rules[0].when.a", "at most 512"),
        case(when(&format!("{{ {} }}", many.join(", "))), "rules[0].when", "at most 16"),
        case(when(&format!("{{ a: [{values}] }}")), "rules[0].when.a", "patterns or networks"),
        case(when("{ a: \"x\\0\" }"), "rules[0].when.a", "remove it"),
        case(when("{ a: x, a: y }"), "rules[0].when.a", "keep one"),
        case(when("{ a: *b }"), "rules[0].when.a", "in quotes"),
        case(when("{ a: * }"), "rules[0]", "in quotes"),
    ]
}

fn wrong_overrides() -> Vec<Case> {
    vec![
        case(change("rule: nobody, limit: 1"), "overrides[0].rule", "same namespace"),
        case(change("rule: mnth, limit: 1"), "overrides[0].rule", "did you mean `month`"),
        case(change("user: u, limit: 1"), "overrides[0].rule", "add `rule"),
        case(change("rule: r, user: u"), "overrides[0]", "`hot: true`"),
        case(change("rule: r, user: u, hot: false"), "overrides[0]", "`hot: true`"),
        case(change("rule: r, org: u, limit: 1"), "overrides[0].org", "has: user"),
        case(change("rule: r, usr: u, limit: 1"), "overrides[0].usr", "did you mean `user`"),
        case(change("rule: pace, ip: localhost, limit: 0"), "overrides[0].ip", "one address"),
        case(change("rule: pace, ip: 10.0.0.0/8, limit: 0"), "overrides[0].ip", "a rule with `when`"),
        case(change("rule: r, user: u, limit: 5 per 1h"), "overrides[0].limit", "a rule of its own"),
        case(change("rule: month, user: u, limit: 5 per 1m"), "overrides[0].limit", "a rule of its own"),
        case(change("rule: month, user: u, limit: 5 per day"), "overrides[0].limit", "a rule of its own"),
        case(change("rule: pace, limit: 5"), "overrides[0].limit", "`limit: 0` blocks"),
        case(change("rule: pace, limit: 5 per 1m"), "overrides[0].limit", "`limit: 0` blocks"),
        case(change("rule: r, user: u, rate: 5/s"), "overrides[0].rate", "`limit: N`"),
        case(change("rule: r, user: u, burst: 5"), "overrides[0].burst", "`limit: N`"),
        case(change("rule: r, user: u, unlimited: true, limit: 5"), "overrides[0].unlimited", "keep one"),
        case(change("rule: pace, unlimited: true, rate: 5/s"), "overrides[0].unlimited", "keep one"),
        case(change("rule: pace, limit: 0, rate: 5/s"), "overrides[0].limit", "keep one"),
        case(change("rule: r, user: u, limit: -1"), "overrides[0].limit", "whole number"),
        case(change("rule: r, user: u, unlimited: maybe"), "overrides[0].unlimited", "`true` or `false`"),
        case(change("rule: r, user: u, hot: hot"), "overrides[0].hot", "`true` or `false`"),
        case(change("rule: r, limit: 1, until: tomorrow"), "overrides[0].until", "2026-12-01T00:00:00Z"),
        case(change("rule: r, limit: 1, until: 2026-12-01"), "overrides[0].until", "2026-12-01T00:00:00Z"),
        case(change("rule: r, limit: 1, until: 2026-13-01T00:00:00Z"), "overrides[0].until", "offset"),
        case(change("rule: r, limit: 1, until: 1700000000"), "overrides[0].until", "offset"),
        case(change("rule: r, user: [u], limit: 1"), "overrides[0].user", "give one value"),
        case(change("rule: r, user: , limit: 1"), "overrides[0].user", "in quotes if it is empty"),
        case(
            change(&format!("rule: r, user: {}, limit: 1", "u".repeat(513))),
            "overrides[0].user",
            "at most 512",
        ),
        case("namespace: api\noverrides: nothing", "overrides", "entries"),
        case("namespace: api\noverrides: [5]", "overrides[0]", "`{ rule: per-user"),
    ]
}

fn wrong_documents() -> Vec<Case> {
    // Nine levels of nine: a gigabyte, were it written out.
    let mut bomb = "namespace: [&a0 [x, x, x, x, x, x, x, x, x]".to_owned();
    for level in 1..9 {
        let below = level - 1;
        bomb += &format!(", &a{level} [{}]", vec![format!("*a{below}"); 9].join(", "));
    }
    bomb += "]";
    let deep_block: String = (0..1000).map(|n| " ".repeat(n) + "a:\n").collect();
    let utf16: Vec<u8> = "namespace: api".encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        case("rules: [{ name: r, key: [], limit: 1 per 1m }]", "namespace", "add `namespace"),
        case("overrides: [{ rule: r, limit: 0 }]", "namespace", "add `namespace"),
        case("mode: off", "namespace", "add `namespace"),
        case("- name: r", "document", "`namespace: api`"),
        case("just text", "document", "`namespace: api`"),
        case("namespace: ''", "namespace", "1 to 128"),
        case("namespace: [a]", "namespace", "give one value"),
        case("namespace: api\ntenant: ''", "tenant", "1 to 128"),
        case(format!("namespace: {}", "n".repeat(1 << 20)), "namespace", "at most 128"),
        case("namespace: api\nmode: on", "mode", "enforce, shadow, off"),
        case("namespace: api\nmode: off\n---\nnamespace: api\nmode: shadow", "mode", "say it once"),
        case("namespace: api\nplace_by: [org]", "place_by", "give one value"),
        case("namespace: api\nplace_by: a b", "place_by", "letters, digits"),
        case("namespace: api\nplace_by: org\n---\nnamespace: api\nplace_by: user", "place_by", "say it once"),
        case("place_by: org", "namespace", "add `namespace"),
        case("fleet_mode: off\n---\nfleet_mode: shadow", "fleet_mode", "say it once"),
        case("fleet_mode: halt", "fleet_mode", "enforce, shadow, off"),
        case("namespace: api\nnamespace: web", "namespace", "keep one"),
        case("namespace: api\nrule: []", "rule", "did you mean `rules`"),
        case("namespace: api\nrules: {}", "rules", "entries"),
        case("namespace: api\nrules: 5", "rules", "entries"),
        case("namespace: api\nrules: [per-user]", "rules[0]", "`{ name: per-user"),
        case("namespace: api\nrules: [null]", "rules[0]", "`{ name: per-user"),
        case("namespace: api\nrules:\n\t- name: r", "rules", "spaces"),
        case("namespace: api\nrules: [{ name: r", "rules[0]", "brackets"),
        case("namespace: \"api", "namespace", "quotes"),
        case("namespace: api\n rules: []", "document", "indentation"),
        case("a: b: c", "document", "in quotes"),
        case(b"namespace: a\xff\xfepi", "document", "UTF-8"),
        case(utf16, "document", "YAML"),
        case(b"namespace: a\0pi", "namespace", "correct the YAML"),
        case(bomb, "namespace[1][0]", "write the value out"),
        case("[".repeat(100_000), "document", "at most 16 levels"),
        case("{a: ".repeat(10_000), "document", "at most 16 levels"),
        case(deep_block, "a.a.a", "at most 16 levels"),
        case("- ".repeat(10_000), "[0][0]", "at most 16 levels"),
        case("x".repeat(1 << 20), "document", "`namespace: api`"),
        case(format!("{}: 1", "k".repeat(1000)), "kkkk", "use one of: tenant"),
        case(format!("{}: 1", "k".repeat(1 << 20)), "document", "`namespace: api`"),
        case("%YAML 3.0\n---\nnamespace: api", "document", "correct the YAML"),
        case("<<: *x", "<<", "in quotes"),
        case("namespace: &a api\ntenant: *a", "tenant", "write the value out"),
    ]
}

fn all_cases() -> Vec<Case> {
    let groups = [
        wrong_quantities(),
        wrong_fields(),
        wrong_names_and_keys(),
        wrong_conditions(),
        wrong_overrides(),
        wrong_documents(),
    ];
    groups.into_iter().flatten().collect()
}

/// The refusal and the time it took: the best of three, for the machine may be busy elsewhere.
#[expect(clippy::disallowed_methods, reason = "the bound is on the wall clock: refusing must be fast")]
fn refused(text: &[u8]) -> Result<(RuleErrors, Duration), String> {
    let mut fastest = Duration::MAX;
    let mut refusal = None;
    for _ in 0..3 {
        let start = Instant::now();
        refusal = parse(text).err();
        fastest = fastest.min(start.elapsed());
    }
    refusal.map(|errors| (errors, fastest)).ok_or_else(|| "accepted".to_owned())
}

fn check((text, field, remedy): &Case) -> Result<(), String> {
    const SLOWEST: Duration = Duration::from_millis(50);
    let (errors, elapsed) = refused(text)?;
    let error = errors.iter().next().ok_or("no error")?;
    let shown = error.to_string();
    let complaint = if elapsed > SLOWEST {
        format!("took {elapsed:?}")
    } else if !error.field.starts_with(field) {
        format!("names {:?}, not {field:?}", error.field)
    } else if !error.fix.contains(remedy) {
        format!("has no {remedy:?} in its remedy")
    } else if error.line == 0 || error.column == 0 || shown.len() > 1000 || !shown.contains(&error.field) {
        "has no place, or is too long".to_owned()
    } else {
        return Ok(());
    };
    Err(format!("{complaint}: {shown}"))
}

#[test]
fn each_is_refused_with_its_field_place_and_remedy_within_50_ms() {
    let cases = all_cases();
    assert!(cases.len() >= 60, "{}", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let shown = String::from_utf8_lossy(&case.0[..case.0.len().min(300)]).into_owned();
            check(case).err().map(|complaint| format!("{shown}\n=> {complaint}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n\n"));
}

#[test]
fn a_set_with_one_bad_file_is_refused_whole_and_names_that_file() {
    let good = "namespace: api\nrules: [{ name: r, key: [], limit: 1 per 1m }]";
    let sources = [
        source("good.yaml", good),
        source("bad.yaml", "namespace: api\nrules: [{ name: r, key: [], limit: 2 per 1m }]"),
    ];
    let errors = RuleSet::parse(&sources, &FleetSecret::BUILT_IN).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "bad.yaml:2:17: rules[0].name: the rule \"r\" exists already, at good.yaml:2; give one of the two another name"
    );
}

#[test]
fn a_syntax_error_in_one_document_hides_no_error_in_the_next() {
    let errors = parse("namespace: [\n---\nnamespace: api\nrules: 5\n---\nmode: off").unwrap_err();
    let places: Vec<(u32, &str)> = errors.iter().map(|error| (error.line, error.field.as_str())).collect();
    assert_eq!(places.last(), Some(&(6, "namespace")), "{errors}");
    assert!(places.contains(&(4, "rules")), "{errors}");
}

#[test]
fn a_thousand_mistakes_are_told_as_fifty_and_a_count() {
    let rule = "  - { name: '', key: [], limit: 1 per 1m }\n".repeat(1000);
    let errors = parse(format!("namespace: api\nrules:\n{rule}")).unwrap_err();
    assert_eq!((errors.iter().count(), errors.total()), (50, 1000));
}

#[test]
fn one_rule_more_than_the_bound_is_refused() {
    let mut text = String::new();
    for n in 0..=tidegate_rules::RULES_MAX {
        if n % 10_000 == 0 {
            text += &format!("---\nnamespace: api-{n}\nrules:\n");
        }
        text += &format!("- {{name: r{n}, key: [], when: {{ n: {n} }}, limit: 1 per 1m}}\n");
    }
    let errors = parse(text).unwrap_err();
    assert_eq!(errors.total(), 1);
    assert!(errors.to_string().contains("at most 100000 rules"), "{errors}");
}

#[test]
fn a_namespace_that_makes_a_request_dear_is_refused() {
    let set = |rules: usize, values: usize, pattern: &str| {
        let mut text = "namespace: api\nrules:\n".to_owned();
        for rule in 0..rules {
            let values: Vec<String> = (0..values)
                .map(|n| pattern.replace('N', &format!("{rule}-{n}")))
                .map(|value| format!("'{value}'"))
                .collect();
            text += &format!(
                "- {{ name: r{rule}, key: [], when: {{ a: [{}] }}, limit: 1 per 1m }}\n",
                values.join(", ")
            );
        }
        parse(text).map(drop)
    };
    for (rules, values, pattern) in
        [(200, 1000, "*N"), (200, 1000, "a*N"), (1, 100, "*a*N*"), (21_000, 1, "N")]
    {
        let errors = set(rules, values, pattern).unwrap_err().to_string();
        assert!(errors.contains("may take over 1 ms"), "{pattern}: {errors}");
    }
    for (rules, values, pattern) in [(200, 1000, "N"), (100, 1000, "/N*"), (4, 1000, "*N"), (1, 50, "*a*N*")]
    {
        set(rules, values, pattern).unwrap_or_else(|errors| panic!("{pattern}: {errors}"));
    }
}

#[test]
fn a_set_that_says_nothing_is_refused() {
    for text in ["", "# all gone", "---\n---\n", "null"] {
        let errors = parse(text).unwrap_err();
        assert!(errors.to_string().contains("write `namespace: default`"), "{errors}");
    }
    assert!(parse("namespace: default").is_ok());
}

#[test]
fn more_rules_than_a_request_can_have_are_refused() {
    let rules = |count: usize| -> String {
        let rule = |n| format!("- {{name: r{n}, key: [], limit: 1 per 1m}}\n");
        "namespace: api\nrules:\n".to_owned() + &(0..count).map(rule).collect::<String>()
    };
    assert!(parse(rules(100)).is_ok());
    let errors = parse(rules(101)).unwrap_err();
    assert_eq!(errors.total(), 1);
    assert!(errors.to_string().contains("rules[100]: a request is decided by at most 100 rules"), "{errors}");
}

#[test]
fn an_override_that_names_no_caller_is_refused() {
    let rules = "namespace: api\nrules:\n- {name: r, key: [user], limit: 1 per 1m}\noverrides:\n";
    let errors = parse(format!("{rules}- {{rule: r, unlimited: true}}\n")).unwrap_err();
    assert!(errors.to_string().contains("write `user: \"*\"` for all"), "{errors}");
    assert!(parse(format!("{rules}- {{rule: r, user: '*', unlimited: true}}\n")).is_ok());
}

#[test]
fn an_alias_bomb_is_refused_by_its_first_alias() {
    let text = "namespace: &a api\nrules: [*a, *a]";
    let errors = parse(text).unwrap_err();
    assert!(errors.to_string().contains("rules.yaml:2:9: rules[0]: YAML aliases aren't allowed"), "{errors}");
}

#[test]
fn a_misspelt_namespace_or_field_hides_no_other_mistake() {
    let text = "namspace: api\nrules:\n  - { nmae: a, keys: [user], limit: ten }\n  - { name: b, key: [user], rate: fast }\n";
    let errors = parse(text).expect_err("mistakes").to_string();
    for mistake in [
        "did you mean `namespace`?",
        "did you mean `name`?",
        "did you mean `key`?",
        "\"ten\" isn't a limit",
        "\"fast\" isn't a rate",
    ] {
        assert!(errors.contains(mistake), "{mistake}: {errors}");
    }
    assert_eq!(errors.lines().count(), 5, "each is told once: {errors}");
}

#[test]
fn a_file_with_windows_of_the_clock_and_others_of_the_same_length_is_warned_of() {
    let text = "namespace: api\nrules:\n  - { name: a, key: [user], limit: 5 per hour }\n  - { name: b, key: [user], limit: 5 per 1h }\n";
    let set = parse(text).expect("valid");
    let [warning] = set.warnings() else { panic!("{:?}", set.warnings()) };
    assert!(
        warning.to_string().contains("`per hour` starts afresh with each hour of the clock"),
        "{warning}"
    );
    let alike = text.replace("per hour", "per 1h");
    assert!(parse(&alike).expect("valid").warnings().is_empty());
}
