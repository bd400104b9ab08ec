//! A hundred thousand random overrides and patterns, changed all the time, against an oracle that knows only the
//! definition: a million look-ups, in sets from files, from deltas, over new files and after restarts.

use crate::made::{Chance, NOW, SEED, Scratch, document, named, options};
use std::collections::BTreeMap;
use tidegate_core::{Limit, Nanos};
use tidegate_rules::{
    Attributes, Delta, Override, OverrideEffect, OverrideName, Rule, RuleChange, RuleFiles, RuleSet,
    SnapshotWriter,
};

const RULES: usize = 1000;
/// The first rules have a fifth of all overrides, and few of the look-ups: the oracle looks at each of them.
const LARGE_RULES: usize = 2;
const ROUNDS: usize = 20;
const LOOKUPS_PER_ROUND: usize = 50_000;
const OVERRIDES: usize = 100_000;
const LETTERS: &str = "abé-";

/// An override, and of its texts what the definition asks for.
#[derive(Clone)]
struct OverrideEntry {
    patterns: Vec<Vec<char>>,
    is_exact: bool,
    literal_letters: usize,
    applied: Override,
}

impl OverrideEntry {
    fn new(texts: &[String], applied: Override) -> Self {
        let letters = || texts.iter().flat_map(|text| text.chars());
        OverrideEntry {
            patterns: texts.iter().map(|text| text.chars().collect()).collect(),
            is_exact: letters().all(|letter| letter != '*'),
            literal_letters: letters().filter(|letter| *letter != '*').count(),
            applied,
        }
    }
}

/// Each rule's overrides, by the texts of their parts.
#[derive(Clone)]
struct Oracle(Vec<BTreeMap<Vec<String>, OverrideEntry>>);

fn glob(pattern: &[char], value: &[char]) -> bool {
    match pattern.split_first() {
        None => value.is_empty(),
        Some(('*', rest)) => (0..=value.len()).any(|skipped| glob(rest, &value[skipped..])),
        Some((letter, rest)) => value.first() == Some(letter) && glob(rest, &value[1..]),
    }
}

impl Oracle {
    /// Goes through all of a rule's, and keeps the better one by the words of the definition.
    fn winner(&self, rule: usize, values: &[String]) -> Option<Override> {
        let values: Vec<Vec<char>> = values.iter().map(|value| value.chars().collect()).collect();
        let mut best: Option<(&Vec<String>, &OverrideEntry)> = None;
        for (texts, entry) in &self.0[rule] {
            let is_better = match best {
                None => true,
                Some((_, held)) if held.is_exact != entry.is_exact => entry.is_exact,
                Some((_, held)) if held.literal_letters != entry.literal_letters => {
                    entry.literal_letters > held.literal_letters
                }
                Some((held, _)) => texts < held,
            };
            let is_live = NOW < entry.applied.until;
            if is_better
                && is_live
                && entry.patterns.iter().zip(&values).all(|(pattern, value)| glob(pattern, value))
            {
                best = Some((texts, entry));
            }
        }
        best.map(|(_, entry)| entry.applied)
    }
}

fn rule_name(rule: usize) -> String {
    format!("rule-{rule}")
}

/// Every other rule has two parts.
fn part_count(rule: usize) -> usize {
    1 + rule % 2
}

fn text() -> String {
    let rules = (0..RULES).map(|rule| {
        let key = if part_count(rule) == 1 { "[a]" } else { "[a, b]" };
        format!(
            "  - {{ name: {}, key: {key}, limit: 1 per 1m, when: {{ rule: r{rule} }} }}\n",
            rule_name(rule)
        )
    });
    format!("namespace: api\nrules:\n{}", rules.collect::<String>())
}

/// Short texts of few letters, so that they meet.
fn value(chance: &mut Chance) -> String {
    chance.text(LETTERS, 0..8)
}

fn random_name(chance: &mut Chance, rule: usize) -> OverrideName {
    let is_pattern = chance.one_in(3);
    let parts: Vec<String> = (0..part_count(rule))
        .map(|_| if is_pattern { chance.text("abé-**", 0..6) } else { value(chance) })
        .collect();
    named("api", &rule_name(rule), &parts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn random_value(chance: &mut Chance) -> Override {
    let limit = Limit::new(chance.number() >> 11).unwrap();
    let change = if chance.one_in(5) { OverrideEffect::Unlimited } else { OverrideEffect::Limit(limit) };
    let until = match chance.below(6) {
        0 => NOW,
        1 => NOW.plus(Nanos::new(1)),
        _ => Nanos::MAX,
    };
    Override { change, hot: chance.one_in(4), until }
}

struct Model {
    chance: Chance,
    oracle: Oracle,
    names: Vec<OverrideName>,
}

impl Model {
    /// A new override, another value for one, or one less.
    fn change(&mut self) -> RuleChange {
        let is_known = !self.names.is_empty() && self.chance.one_in(3);
        let name = if is_known {
            let known = self.chance.below(self.names.len());
            self.names[known].clone()
        } else {
            let rule = self.rule(5);
            random_name(&mut self.chance, rule)
        };
        let value = (!is_known || self.chance.one_in(2)).then(|| random_value(&mut self.chance));
        self.take(&name, value);
        RuleChange::Override { name, value }
    }

    /// One of the large ones in so many cases.
    fn rule(&mut self, large_one_in: usize) -> usize {
        let is_large = self.chance.one_in(large_one_in);
        self.chance.below(if is_large { LARGE_RULES } else { RULES })
    }

    fn take(&mut self, name: &OverrideName, value: Option<Override>) {
        let rule: usize = name.rule.strip_prefix("rule-").unwrap().parse().unwrap();
        let texts: Vec<String> = name.parts.iter().map(|part| part.to_string()).collect();
        match value {
            Some(value) => {
                let entry = OverrideEntry::new(&texts, value);
                self.oracle.0[rule].insert(texts, entry);
                self.names.push(name.clone());
            }
            None => {
                self.oracle.0[rule].remove(&texts);
            }
        }
    }

    fn count(&self) -> usize {
        self.oracle.0.iter().map(BTreeMap::len).sum()
    }

    /// Disagreements among so many look-ups.
    fn compare(&mut self, set: &RuleSet, lookups: usize) -> usize {
        let rules: Vec<&Rule> = (0..RULES)
            .map(|rule| {
                set.namespaces()[0].rules.iter().find(|found| *found.name == *rule_name(rule)).unwrap()
            })
            .collect();
        let mut disagreements = 0;
        for _ in 0..lookups {
            let rule = self.rule(200);
            let values: Vec<String> = (0..part_count(rule)).map(|_| value(&mut self.chance)).collect();
            let attributes: Vec<(&str, &str)> =
                ["a", "b"].into_iter().zip(values.iter().map(String::as_str)).collect();
            let found = set.override_of(rules[rule], Attributes(&attributes), NOW);
            let wanted = self.oracle.winner(rule, &values);
            if found != wanted {
                disagreements += 1;
                eprintln!("rule {rule}, {values:?}: {found:?} instead of {wanted:?}");
            }
        }
        disagreements
    }
}

#[test]
fn a_million_look_ups_say_what_the_definition_says() {
    let scratch = Scratch::new();
    let mut model =
        Model { chance: Chance(11), oracle: Oracle(vec![BTreeMap::new(); RULES]), names: Vec::new() };
    let mut writer = SnapshotWriter::new(&scratch.path("1.rules"), 1, SEED).unwrap();
    writer.document(&document("api"), &text()).unwrap();
    while model.count() < OVERRIDES / 2 {
        model.change();
    }
    for (rule, overrides) in model.oracle.clone().0.iter().enumerate() {
        for (texts, entry) in overrides {
            let parts: Vec<&str> = texts.iter().map(String::as_str).collect();
            writer.set(&named("api", &rule_name(rule), &parts), &entry.applied).unwrap();
        }
    }
    writer.finish().unwrap();
    let (mut files, _) = RuleFiles::open(&scratch.0).unwrap();
    let mut set = RuleSet::from_snapshot(files.snapshot().unwrap(), options()).unwrap();
    let mut disagreements = 0;
    for round in 0..ROUNDS {
        disagreements += model.compare(&set, LOOKUPS_PER_ROUND);
        let wanted = OVERRIDES / 2 + OVERRIDES / 2 * (round + 1) / ROUNDS;
        while model.count() < wanted {
            let changes = if model.chance.one_in(50) { 500 } else { 1 };
            let delta =
                Delta { version: set.version() + 1, changes: (0..changes).map(|_| model.change()).collect() };
            set = set.apply(&delta, options()).unwrap();
            files.append(&[(delta.version, &delta.encode().unwrap())]).unwrap();
        }
        match round % 6 {
            2 => {
                let compacted = files.compaction().unwrap().unwrap().run().unwrap();
                set = set.rebase(&files.adopt(compacted).unwrap().unwrap()).unwrap();
            }
            5 => (files, set) = restarted(&scratch, files),
            _ => {}
        }
        assert_eq!(set.counts().overrides, model.count());
    }
    disagreements += model.compare(&set, LOOKUPS_PER_ROUND);
    println!(
        "\nbar=6; case={} overrides and patterns; figure=disagreements in {} look-ups; value={disagreements}; high=0; by=worst",
        model.count(),
        LOOKUPS_PER_ROUND * (ROUNDS + 1)
    );
    assert_eq!(disagreements, 0);
}

fn restarted(scratch: &Scratch, files: RuleFiles) -> (RuleFiles, RuleSet) {
    drop(files);
    let (files, findings) = RuleFiles::open(&scratch.0).unwrap();
    assert_eq!(findings, []);
    let mut set = RuleSet::from_snapshot(files.snapshot().unwrap(), options()).unwrap();
    while let Some(bytes) = files.delta(set.version() + 1).unwrap() {
        set = set.apply(&Delta::decode(&bytes).unwrap(), options()).unwrap();
    }
    (files, set)
}
