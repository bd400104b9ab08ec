//! From what somebody asks for to the changes that it takes, checked against the whole set.
//!
//! Nothing here writes. What a push would leave behind must be valid as a whole: all rules parse together, and every
//! override that it sets names a rule and fits it.

use super::items::{self, RecordedChange};
use super::meaning::{Line, Orphans, PushSummary, orphaning};
use super::rule_state::RuleState;
use super::{
    CHANGES_MAX, OverrideRetention, OverrideTarget, PlaneError, Push, PushChange, Replace, check, prune,
    push_writer, rollback, share,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tidegate_rules::{DocumentName, Mode, Override, OverrideName, PushedRules, RuleChange, Source};
use tidegate_world::{ENTRY_BYTES_MAX, RuleItemId, RuleItemsPage, RuleLog};

/// The overrides of one namespace that are compared with a file's.
const COMPARED_MAX: usize = 500_000;
/// Pages of overrides that are looked at to say how many no longer apply.
const COUNTED_PAGES_MAX: usize = 20;

/// What pushes that are being written change, before the store has it.
#[derive(Debug, Default)]
pub(super) struct Overlay(HashMap<RuleItemId, RuleChange>);

impl Overlay {
    pub(super) fn take(&mut self, changes: &[RecordedChange]) {
        self.0.extend(changes.iter().map(|change| (items::item_of(&change.after), change.after.clone())));
    }
}

#[derive(Debug)]
pub(super) struct Draft {
    pub(super) changes: Vec<RecordedChange>,
    /// The rules once they are made.
    pub(super) after: RuleState,
}

/// What a push is checked against.
struct PushBase<'a> {
    log: &'a dyn RuleLog,
    rules: &'a RuleState,
    overlay: &'a Overlay,
}

impl Draft {
    pub(super) async fn of(
        log: &dyn RuleLog,
        rules: &RuleState,
        overlay: &Overlay,
        push: &Push,
    ) -> Result<Self, PlaneError> {
        if let Some(expected) = push.if_version
            && expected != rules.version
        {
            let conflict = push_writer::conflict(log, rules, expected, push.tenant.as_deref()).await?;
            return Err(PlaneError::Conflict(Box::new(conflict)));
        }
        let before = PushBase { log, rules, overlay };
        let mut wanted = before.wanted(push).await?;
        if let (Some(tenant), PushChange::RollBack { to }) = (&push.tenant, &push.change) {
            prune::check_undoable(log, tenant, *to).await?;
            wanted.retain(|change| items::owner(change).is_some_and(|owner| owner.tenant == *tenant));
        }
        permitted(&wanted, push.tenant.as_deref())?;
        if wanted.len() > CHANGES_MAX {
            let message = format!("{} changes at once are too many: {CHANGES_MAX} at most", wanted.len());
            let fix = "push namespaces one by one, leave out --prune-overrides, or import overrides";
            return Err(PlaneError::refused(message, fix));
        }
        let after = before.after(&wanted, push.tenant.as_deref())?;
        before.check_patterns(&wanted, &after).await?;
        let changes = before.compared(wanted).await?;
        bounded(&changes)?;
        Ok(Draft { changes, after })
    }

    /// What it means.
    pub(super) async fn lines(&self, log: &dyn RuleLog, before: &RuleState) -> Result<Vec<Line>, PlaneError> {
        let mut orphans = BTreeMap::new();
        for (document, rule) in orphaning(before, &self.after) {
            let count = self.count_orphans(log, &document, &rule).await?;
            orphans.insert((document, rule), count);
        }
        Ok(PushSummary { before, after: &self.after, changes: &self.changes, orphans: &orphans }.lines())
    }

    async fn count_orphans(
        &self,
        log: &dyn RuleLog,
        document: &DocumentName,
        rule: &str,
    ) -> Result<Orphans, PlaneError> {
        let goes = |change: &RecordedChange| match &change.after {
            RuleChange::Override { name, value: None } => Some(name.clone()),
            _ => None,
        };
        let gone: BTreeSet<OverrideName> = self.changes.iter().filter_map(goes).collect();
        let mut count = 0;
        let mut page = RuleItemsPage { place: Some(items::overrides_of(document)), after: None };
        for _ in 0..COUNTED_PAGES_MAX {
            let found = log.items(page).await?;
            let Some(last) = found.last() else { return Ok(Orphans { count, are_all: true }) };
            page.after = Some(last.id);
            for item in &found {
                if let RuleChange::Override { name, .. } = items::change_of(item)? {
                    count += usize::from(*name.rule == *rule && !gone.contains(&name));
                }
            }
        }
        Ok(Orphans { count, are_all: false })
    }
}

/// What changes mean that were made already, from what they left.
pub(super) fn lines_between(after: &RuleState, changes: &[RecordedChange]) -> Vec<Line> {
    // What was valid once is so still, unless an older Tidegate let it pass.
    let before = after.with(changes.iter().map(|change| &change.before));
    let before = before.unwrap_or_else(|_| after.clone());
    PushSummary { before: &before, after, changes, orphans: &BTreeMap::new() }.lines()
}

fn permitted(wanted: &[RuleChange], tenant: Option<&str>) -> Result<(), PlaneError> {
    let Some(tenant) = tenant else { return Ok(()) };
    for change in wanted {
        match items::owner(change) {
            None => return Err(PlaneError::FleetIsForbidden),
            Some(owner) if *owner.tenant == *tenant => {}
            Some(owner) => return Err(PlaneError::Forbidden { tenant: owner.tenant.to_string() }),
        }
    }
    Ok(())
}

fn bounded(changes: &[RecordedChange]) -> Result<(), PlaneError> {
    let bytes = |side: fn(&RecordedChange) -> &RuleChange| {
        changes.iter().map(|change| size(side(change))).sum::<usize>()
    };
    if bytes(|change| &change.after).max(bytes(|change| &change.before)) > ENTRY_BYTES_MAX {
        let message = format!("one push has at most {} MiB", ENTRY_BYTES_MAX >> 20);
        return Err(PlaneError::refused(message, "push namespaces one by one, and import overrides"));
    }
    Ok(())
}

/// About what a change takes as bytes, at most.
fn size(change: &RuleChange) -> usize {
    let of_name = |name: &OverrideName| {
        let parts: usize = name.parts.iter().map(|part| part.len() + 2).sum();
        name.tenant.len() + name.namespace.len() + name.rule.len() + parts
    };
    64 + match change {
        RuleChange::Document { name, text } => {
            name.tenant.len() + name.namespace.len() + text.as_ref().map_or(0, |text| text.len())
        }
        RuleChange::Override { name, .. } | RuleChange::Reset { name, .. } => of_name(name),
        RuleChange::FleetMode(_) => 0,
    }
}

impl PushBase<'_> {
    async fn wanted(&self, push: &Push) -> Result<Vec<RuleChange>, PlaneError> {
        match &push.change {
            PushChange::Files { pushed, replace, overrides } => {
                self.files(pushed, *replace, *overrides, push.tenant.as_deref()).await
            }
            PushChange::SetOverride { document, entry } => {
                let read = self.rules.set.read_override(document, entry);
                let (name, value) =
                    read.ok_or_else(|| no_namespace(document))?.map_err(PlaneError::Invalid)?;
                Ok(vec![RuleChange::Override { name, value: Some(value) }])
            }
            PushChange::RemoveOverride { document, target } => {
                let name = match target {
                    OverrideTarget::Entry(entry) => self.name(document, entry)?,
                    OverrideTarget::Name(name) => name.clone(),
                };
                Ok(vec![RuleChange::Override { name, value: None }])
            }
            PushChange::FleetMode(mode) => Ok(vec![RuleChange::FleetMode(*mode)]),
            PushChange::Reset { document, entry } => self.reset(self.name(document, entry)?).await,
            PushChange::RollBack { to } => {
                if *to > self.rules.version {
                    return Err(PlaneError::Unknown(format!("version {to}")));
                }
                rollback::undoing(self.log, *to, self.rules.version).await
            }
            PushChange::Changes(changes) => Ok(changes.clone()),
        }
    }

    fn name(&self, document: &DocumentName, entry: &Source) -> Result<OverrideName, PlaneError> {
        let read = self.rules.set.read_override_name(document, entry);
        read.ok_or_else(|| no_namespace(document))?.map_err(PlaneError::Invalid)
    }

    async fn reset(&self, name: OverrideName) -> Result<Vec<RuleChange>, PlaneError> {
        if name.parts.iter().any(|part| part.contains('*')) {
            let fix = "name one caller, with all attributes of the rule's `key`";
            return Err(PlaneError::refused("a pattern can't start afresh", fix));
        }
        let before = self.values(&[RuleChange::Reset { name: name.clone(), epoch: 0 }]).await?;
        let known = before.values().find_map(|change| match change {
            RuleChange::Reset { epoch, .. } => Some(*epoch),
            _ => None,
        });
        Ok(vec![RuleChange::Reset { name, epoch: known.unwrap_or(0).saturating_add(1) }])
    }

    async fn files(
        &self,
        pushed: &PushedRules,
        replace: Replace,
        retention: OverrideRetention,
        tenant: Option<&str>,
    ) -> Result<Vec<RuleChange>, PlaneError> {
        let document =
            |name: &DocumentName, text: Option<Arc<str>>| RuleChange::Document { name: name.clone(), text };
        let mut wanted: Vec<RuleChange> =
            pushed.documents.iter().map(|(name, text)| document(name, Some(text.clone()))).collect();
        let mut replaced: Vec<DocumentName> = pushed.documents.keys().cloned().collect();
        if replace == Replace::All {
            let is_own = |name: &&DocumentName| tenant.is_none_or(|tenant| *name.tenant == *tenant);
            for name in self.rules.documents.keys().filter(is_own) {
                if !pushed.documents.contains_key(name) {
                    wanted.push(document(name, None));
                    replaced.push(name.clone());
                }
            }
        }
        match pushed.fleet_mode {
            Some(mode) => wanted.push(RuleChange::FleetMode(mode)),
            None if replace == Replace::All && tenant.is_none() => {
                wanted.push(RuleChange::FleetMode(Mode::Enforce));
            }
            None => {}
        }
        let new: BTreeMap<&OverrideName, &Override> =
            pushed.overrides.iter().map(|(name, value)| (name, value)).collect();
        if retention == OverrideRetention::Pruned {
            for document in &replaced {
                for name in self.override_names(document).await? {
                    if !new.contains_key(&name) {
                        wanted.push(RuleChange::Override { name, value: None });
                    }
                }
            }
        }
        let set = new
            .into_iter()
            .map(|(name, value)| RuleChange::Override { name: name.clone(), value: Some(*value) });
        wanted.extend(set);
        Ok(wanted)
    }

    async fn override_names(&self, document: &DocumentName) -> Result<Vec<OverrideName>, PlaneError> {
        let place = items::overrides_of(document);
        let mut names = BTreeSet::new();
        let mut page = RuleItemsPage { place: Some(place), after: None };
        loop {
            let found = self.log.items(page).await?;
            let Some(last) = found.last() else { break };
            page.after = Some(last.id);
            for item in &found {
                if let RuleChange::Override { name, .. } = items::change_of(item)? {
                    names.insert(name);
                }
            }
            if names.len() > COMPARED_MAX {
                let message = format!("{} has more than {COMPARED_MAX} overrides", document.namespace);
                let fix = "leave out --prune-overrides, and remove them one by one or by import";
                return Err(PlaneError::refused(message, fix));
            }
        }
        for change in self.overlay.0.values() {
            match change {
                RuleChange::Override { name, value: Some(_) } if items::document_of(name) == *document => {
                    names.insert(name.clone());
                }
                RuleChange::Override { name, value: None } => drop(names.remove(name)),
                _ => {}
            }
        }
        Ok(names.into_iter().collect())
    }

    /// The rules with all of that, if they are valid.
    fn after(&self, wanted: &[RuleChange], tenant: Option<&str>) -> Result<RuleState, PlaneError> {
        check::check_documents(wanted)?;
        let after = self.rules.with(wanted).map_err(|errors| match tenant {
            None => PlaneError::Invalid(errors),
            Some(tenant) => share::own_errors(&errors, tenant),
        })?;
        if let Some(tenant) = tenant {
            share::check(self.rules, &after, tenant)?;
        }
        check::fits(wanted, &after)?;
        Ok(after)
    }

    /// Whether requests still cost little among the patterns that overrides have.
    async fn check_patterns(&self, wanted: &[RuleChange], after: &RuleState) -> Result<(), PlaneError> {
        let mut added: BTreeMap<DocumentName, BTreeSet<&OverrideName>> = BTreeMap::new();
        for change in wanted {
            if let RuleChange::Override { name, value: Some(_) } = change
                && !name.is_exact()
            {
                added.entry(items::document_of(name)).or_default().insert(name);
            }
        }
        for (document, added) in &added {
            let gone: BTreeSet<&OverrideName> =
                wanted.iter().filter_map(|change| overridden(change)).collect();
            let known = self.pattern_names(document).await?;
            let kept = known.iter().filter(|name| !gone.contains(name));
            after.set.check_patterns(document, kept, added.iter().copied()).map_err(PlaneError::Invalid)?;
        }
        Ok(())
    }

    /// The patterns among a namespace's overrides; of more than are compared, those among the first.
    async fn pattern_names(&self, document: &DocumentName) -> Result<BTreeSet<OverrideName>, PlaneError> {
        let (mut names, mut seen) = (BTreeSet::new(), 0);
        let mut page = RuleItemsPage { place: Some(items::overrides_of(document)), after: None };
        while seen < COMPARED_MAX {
            let found = self.log.items(page).await?;
            let Some(last) = found.last() else { break };
            page.after = Some(last.id);
            seen += found.len();
            for item in &found {
                if let RuleChange::Override { name, .. } = items::change_of(item)? {
                    names.extend(Some(name).filter(|name| !name.is_exact()));
                }
            }
        }
        for change in self.overlay.0.values() {
            match change {
                RuleChange::Override { name, value: None } => drop(names.remove(name)),
                RuleChange::Override { name, .. }
                    if !name.is_exact() && items::document_of(name) == *document =>
                {
                    names.insert(name.clone());
                }
                _ => {}
            }
        }
        Ok(names)
    }

    /// What they replace; what changes nothing falls out.
    async fn compared(&self, wanted: Vec<RuleChange>) -> Result<Vec<RecordedChange>, PlaneError> {
        let known = self.values(&wanted).await?;
        let mut seen = BTreeSet::new();
        let mut changes = Vec::with_capacity(wanted.len());
        // Of a thing that comes twice, the last counts.
        for after in wanted.into_iter().rev() {
            let id = items::item_of(&after);
            if !seen.insert(id) {
                continue;
            }
            let before = match &after {
                RuleChange::Document { name, .. } => {
                    let text = self.rules.documents.get(name).cloned();
                    RuleChange::Document { name: name.clone(), text }
                }
                RuleChange::FleetMode(_) => RuleChange::FleetMode(self.rules.fleet_mode),
                other => known.get(&id).cloned().unwrap_or_else(|| items::absent(other)),
            };
            if before != after {
                changes.push(RecordedChange { after, before });
            }
        }
        changes.reverse();
        Ok(changes)
    }

    /// The overrides and resets among these as they are now.
    async fn values(&self, wanted: &[RuleChange]) -> Result<HashMap<RuleItemId, RuleChange>, PlaneError> {
        let is_kept_there =
            |change: &&RuleChange| matches!(change, RuleChange::Override { .. } | RuleChange::Reset { .. });
        let mut known = HashMap::new();
        let mut asked = Vec::new();
        for change in wanted.iter().filter(is_kept_there) {
            let id = items::item_of(change);
            match self.overlay.0.get(&id) {
                Some(change) => drop(known.insert(id, change.clone())),
                None => asked.push(id),
            }
        }
        if !asked.is_empty() {
            for item in self.log.find(&asked).await? {
                known.insert(item.id, items::change_of(&item)?);
            }
        }
        Ok(known)
    }
}

fn overridden(change: &RuleChange) -> Option<&OverrideName> {
    match change {
        RuleChange::Override { name, .. } => Some(name),
        _ => None,
    }
}

fn no_namespace(document: &DocumentName) -> PlaneError {
    PlaneError::Unknown(format!("namespace {} of tenant {}", document.namespace, document.tenant))
}
