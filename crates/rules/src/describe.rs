//! What a rule set means, for `tidegate rules check`: each namespace with its rules in plain words, and
//! what is most likely not meant.
//!
//! Data first, text second: a dashboard shows the same without parsing it.

use crate::error::Warning;
use crate::rule::{Declaration, LogSampling, Mode, OnMissing, Rule, Scope};
use crate::set::{Namespace, RuleSet};
use crate::words;
use std::borrow::Cow;
use std::fmt;
use tidegate_core::world::is_counted;
use tidegate_core::{Accuracy, Charge, Class, Nanos};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    pub fleet_mode: Mode,
    pub namespaces: Vec<NamespaceDescription>,
    pub warnings: Vec<Warning>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceDescription {
    pub tenant: String,
    pub namespace: String,
    pub mode: Mode,
    /// The attribute by which all keys of a request are kept together.
    pub place_by: Option<String>,
    /// Attributes whose values aren't taken as they are written, and what they are: `path`, `lower`, `address`.
    pub normalize: Vec<(String, String)>,
    pub rules: Vec<RuleDescription>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleDescription {
    pub name: String,
    pub description: Option<String>,
    pub declared: Declaration,
    /// `about 10 over a sliding 1 minute, for each user and endpoint, when endpoint is /search*`.
    pub meaning: String,
    /// What differs from the defaults, such as `class abuse`.
    pub options: Vec<Cow<'static, str>>,
    /// Where it is a limit of the world, regions have quotas of it: it is a rate, or its window is too short for
    /// counts to cross regions in time.
    pub has_quota: bool,
    pub exact_overrides: usize,
    pub pattern_overrides: usize,
    /// Overrides whose `until` has passed.
    pub ended_overrides: usize,
}

impl RuleSet {
    /// `now` tells which overrides have ended.
    pub fn describe(&self, now: Nanos) -> Description {
        let namespace = |namespace: &Namespace| NamespaceDescription {
            tenant: namespace.tenant.to_string(),
            namespace: namespace.name.to_string(),
            mode: namespace.mode,
            place_by: namespace.place_by.as_ref().map(|place_by| place_by.attribute().to_owned()),
            normalize: namespace
                .forms
                .0
                .iter()
                .map(|(name, form)| (name.to_string(), form.to_string()))
                .collect(),
            rules: namespace.rules.iter().map(|rule| describe_rule(self, namespace, rule, now)).collect(),
        };
        let domains = self.envoy().describe();
        Description {
            fleet_mode: self.fleet_mode(),
            namespaces: self.namespaces().iter().map(|shared| namespace(shared)).chain(domains).collect(),
            warnings: self.warnings().to_vec(),
        }
    }
}

fn describe_rule(set: &RuleSet, namespace: &Namespace, rule: &Rule, now: Nanos) -> RuleDescription {
    let (exact_overrides, pattern_overrides, ended_overrides) = set.overrides().counts(rule, now);
    let mut meaning = format!("{}, {}", words::policy(&rule.policy), words::key(&rule.key));
    if let Some(place_by) = namespace.place_by.as_ref().filter(|place_by| place_by.splits(&rule.key)) {
        meaning = format!("{meaning}, apart for each {}", place_by.attribute());
    }
    if !rule.when.0.is_empty() {
        let conditions: Vec<String> = rule.when.0.iter().map(words::condition).collect();
        meaning = format!("{meaning}, when {}", conditions.join(" and "));
    }
    RuleDescription {
        name: rule.name.to_string(),
        description: rule.description.as_deref().map(str::to_owned),
        declared: rule.declared.clone(),
        meaning,
        options: options(rule),
        has_quota: rule.scope != Some(Scope::Region) && !is_counted(&rule.policy.spec(now)),
        exact_overrides,
        pattern_overrides,
        ended_overrides,
    }
}

fn options(rule: &Rule) -> Vec<Cow<'static, str>> {
    let class = match rule.class {
        Class::Paid => None,
        Class::Free => Some("class free"),
        Class::Abuse => Some("class abuse"),
    };
    let accuracy = match rule.accuracy {
        Accuracy::Fast => Some("accuracy fast"),
        Accuracy::Bounded => None,
        Accuracy::Exact => Some("accuracy exact"),
        Accuracy::Async => Some("accuracy async"),
    };
    let scope = rule.scope.map(|scope| match scope {
        Scope::Region => "scope region",
        Scope::World => "scope world",
    });
    let shadow = rule.shadow.then_some("shadow: never denies");
    let on_missing = (rule.on_missing == OnMissing::Deny).then_some("denies requests that lack an attribute");
    let charge = (rule.charge == Charge::Always).then_some("charges denied requests too");
    let words = [class, accuracy, scope, shadow, on_missing, charge].into_iter().flatten().map(Cow::Borrowed);
    words.chain(logged(rule.log)).collect()
}

fn logged(log: LogSampling) -> impl Iterator<Item = Cow<'static, str>> {
    let default = LogSampling::default();
    let denials = (log.denials != default.denials).then_some(Cow::Borrowed("denials aren't logged"));
    let admissions =
        (log.admissions_one_in != default.admissions_one_in).then(|| match log.admissions_one_in {
            0 => Cow::Borrowed("admissions aren't logged"),
            1 => Cow::Borrowed("all admissions are logged"),
            many => Cow::Owned(format!("1 in {many} admissions is logged")),
        });
    denials.into_iter().chain(admissions)
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
            Mode::Off => "off",
        })
    }
}

impl NamespaceDescription {
    /// `namespace api, tenant default, mode shadow`, without its rules.
    pub fn heading(&self) -> String {
        let mut text = format!("namespace {}, tenant {}", self.namespace, self.tenant);
        if self.mode != Mode::Enforce {
            text = format!("{text}, mode {}", self.mode);
        }
        if let Some(attribute) = &self.place_by {
            text = format!("{text}, keys placed by {attribute}");
        }
        // Addresses are known by how rules use them: only what changes other texts is worth a word.
        for (attribute, form) in self.normalize.iter().filter(|(_, form)| form != "address") {
            text = format!("{text}, {attribute} normalized as {form}");
        }
        text
    }
}

impl fmt::Display for RuleDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.meaning)?;
        for option in &self.options {
            write!(f, "; {option}")?;
        }
        if self.exact_overrides + self.pattern_overrides > 0 {
            write!(f, "; overrides: {} exact, {} by pattern", self.exact_overrides, self.pattern_overrides)?;
        }
        if self.ended_overrides > 0 {
            write!(f, ", {} of them ended", self.ended_overrides)?;
        }
        Ok(())
    }
}

/// Ends with a line break unless it is empty.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fleet_mode != Mode::Enforce {
            writeln!(f, "fleet mode: {}", self.fleet_mode)?;
        }
        for namespace in &self.namespaces {
            writeln!(f, "{}", namespace.heading())?;
            for rule in &namespace.rules {
                writeln!(f, "  {rule}")?;
            }
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}
