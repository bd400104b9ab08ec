//! What a domain means, for `tidegate rules check`: each limit in plain words.

use super::descriptor::Level;
use super::domain::EnvoyRules;
use super::limit::{Allowance, EnvoyLimit};
use super::path::DescriptorPath;
use crate::describe::{NamespaceDescription, RuleDescription};
use crate::rule::Mode;
use crate::words;
use tidegate_core::Nanos;
use tidegate_core::world::is_counted;

impl EnvoyRules {
    pub(crate) fn describe(&self) -> Vec<NamespaceDescription> {
        let describe = |domain: &super::domain::Domain| {
            let mut rules = Vec::new();
            describe_level(&domain.top, &mut DescriptorPath::default(), &mut rules);
            NamespaceDescription {
                tenant: self.tenant().to_owned(),
                namespace: domain.name.to_string(),
                mode: Mode::Enforce,
                place_by: None,
                normalize: Vec::new(),
                rules,
            }
        };
        self.domains().iter().map(describe).collect()
    }
}

fn describe_level<'d>(level: &'d Level, path: &mut DescriptorPath<'d>, rules: &mut Vec<RuleDescription>) {
    for descriptor in level.in_file_order() {
        path.0.push((&descriptor.key, &descriptor.value));
        rules.extend(descriptor.limit.as_ref().map(|limit| describe_limit(limit, path)));
        describe_level(&descriptor.below, path, rules);
        path.0.pop();
    }
}

fn describe_limit(limit: &EnvoyLimit, path: &DescriptorPath<'_>) -> RuleDescription {
    let allowed = match limit.allowance {
        Allowance::Unlimited => "unlimited".to_owned(),
        Allowance::Limited { .. } => words::policy(&limit.rule.policy),
    };
    let shadow = limit.shadow.then_some("shadow: never denies");
    let quota = limit.quota.then_some("denies only together with all other quotas of the request");
    let replaces = (!limit.replaces.is_empty()).then_some("replaces others");
    RuleDescription {
        name: limit.rule.name.to_string(),
        description: None,
        declared: limit.rule.declared.clone(),
        meaning: format!("{allowed}, for descriptors {path}"),
        options: [shadow, quota, replaces].into_iter().flatten().map(Into::into).collect(),
        has_quota: !is_counted(&limit.rule.policy.spec(Nanos::ZERO)),
        exact_overrides: 0,
        pattern_overrides: 0,
        ended_overrides: 0,
    }
}
