//! Which keys are to be started afresh: those of a request, or a caller's by its name, as the control plane orders it.

use super::{Engine, VersionedRules};
use crate::plan::{Plan, Target};
use crate::request::{Request, RequestError};
use crate::world::is_counted;
use tidegate_core::{Item, KeyId, LocalState, Moment, Nanos};
use tidegate_rules::{Attributes, OverrideName, Scope};

/// A reset is remembered this much longer than what it reset: nodes' clocks differ.
const RESET_MARGIN: Nanos = Nanos::from_secs(60);

/// A key to be started afresh, and when nobody will remember that it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetKey {
    pub key: KeyId,
    pub forgotten_at: Nanos,
    /// Other regions must hear of it too.
    pub is_world: bool,
}

impl Engine {
    /// The keys of a request, to be started afresh.
    pub fn keys(
        &self,
        rules: &VersionedRules,
        request: &Request<'_>,
        moment: Moment,
    ) -> Result<Vec<ResetKey>, RequestError> {
        request.validate()?;
        let mut plan = Plan::new(self.reach());
        plan.fill(&self.secret, &rules.set, request, moment)?;
        let reset_key = |(item, target): (&Item, &Target)| ResetKey {
            key: item.key,
            forgotten_at: moment.now.plus(item.spec.longest_memory()).plus(RESET_MARGIN),
            is_world: target.is_world,
        };
        Ok(plan.items.iter().zip(&plan.targets).map(reset_key).collect())
    }

    /// Starts keys afresh that only this node knows. Says how many there were.
    pub fn reset(&self, keys: &[ResetKey]) -> usize {
        let Some(table) = self.lone_table() else { return 0 };
        let fresh = |state: &mut LocalState| *state = LocalState::default();
        keys.iter().filter(|reset| table.update(reset.key, fresh)).count()
    }

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
