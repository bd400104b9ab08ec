//! Which key a caller of a rule has, by its name: what the control plane orders to be started afresh.

use super::{Engine, RESET_MARGIN, ResetKey, VersionedRules};
use crate::world::is_counted;
use tidegate_core::Moment;
use tidegate_rules::{Attributes, OverrideName, Scope};

impl Engine {
    /// `None` where there is no such rule, or its key has other parts.
    pub fn key_of(&self, rules: &VersionedRules, name: &OverrideName, moment: Moment) -> Option<ResetKey> {
        let namespace = rules.set.namespace(&name.tenant, &name.namespace)?;
        let rule = namespace.rules.iter().find(|rule| rule.name == name.rule)?;
        if rule.key.len() != name.parts.len() {
            return None;
        }
        let key = match &*name.parts {
            [only] => rule.prefix.key(only),
            parts => rule.prefix.key_of_parts(parts.iter().map(|part| &**part)),
        };
        // A place that depends on what isn't in the key can't be known: such a caller has a key for each place.
        let attributes: Vec<(&str, &str)> =
            rule.key.iter().zip(&name.parts).map(|(part, value)| (&*part.attribute, &**value)).collect();
        let spec = rule.policy.spec(moment.now);
        Some(ResetKey {
            key: namespace.placed(key, Attributes(&attributes)),
            forgotten_at: moment.now.plus(spec.longest_memory()).plus(RESET_MARGIN),
            is_world: self.reach().has_world && rule.scope != Some(Scope::Region) && is_counted(&spec),
        })
    }
}
