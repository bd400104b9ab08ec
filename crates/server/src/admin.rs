//! What a node tells about itself: state, readiness, and the rules in force. Read-only.

mod following;

use crate::App;
use crate::access::{Caller, Permission};
use crate::counters::COUNTERS;
use crate::json::write;
use std::fmt::Display;
use tidegate_core::{Nanos, WorldPolicy};
use tidegate_node::quota::Quotas;
use tidegate_node::region::ShardHealth;
use tidegate_node::region_driver::{BreakerState, RegionDriver};
use tidegate_node::top::TopCaller;
use tidegate_node::world::WorkState;
use tidegate_node::world_driver::WorldDriver;
use tidegate_rules::{Namespace, NamespaceDescription, Policy, Rule, RuleDescription};

/// The most slices that are shown of a node.
const SLICES_SHOWN_MAX: usize = 100;

/// One JSON object, field by field.
struct Object<'o> {
    out: &'o mut Vec<u8>,
    open: u8,
}

impl<'o> Object<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        Object { out, open: b'{' }
    }

    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        self.out.push(std::mem::replace(&mut self.open, b','));
        write::string(self.out, name);
        self.out.push(b':');
        self.out
    }

    fn string(&mut self, name: &str, value: &str) -> &mut Self {
        write::string(self.name(name), value);
        self
    }

    fn shown(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.string(name, &value.to_string())
    }

    fn number(&mut self, name: &str, value: u64) -> &mut Self {
        write::number(self.name(name), value);
        self
    }

    fn count(&mut self, name: &str, value: usize) -> &mut Self {
        self.number(name, u64::try_from(value).unwrap_or(u64::MAX))
    }

    fn boolean(&mut self, name: &str, value: bool) -> &mut Self {
        write::boolean(self.name(name), value);
        self
    }

    /// To a tenth; what is no number is 0.
    fn decimal(&mut self, name: &str, value: f64) -> &mut Self {
        let shown = if value.is_finite() { format!("{value:.1}") } else { "0".to_owned() };
        self.name(name).extend_from_slice(shown.as_bytes());
        self
    }

    fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) -> &mut Self {
        let mut inner = Object::new(self.name(name));
        fill(&mut inner);
        inner.end();
        self
    }

    fn list<T>(&mut self, name: &str, items: &[T], item: impl Fn(&mut Vec<u8>, &T)) -> &mut Self {
        let out = self.name(name);
        out.push(b'[');
        for (index, value) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            item(out, value);
        }
        out.push(b']');
        self
    }

    fn end(&mut self) {
        if self.open == b'{' {
            self.out.push(b'{');
        }
        self.out.push(b'}');
    }
}

fn document(fill: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let mut object = Object::new(&mut out);
    fill(&mut object);
    object.end();
    out.push(b'\n');
    out
}

/// Whether it takes requests, and what it says about that.
pub(crate) fn ready(app: &App) -> (bool, Vec<u8>) {
    let is_ready = app.is_ready();
    let body = document(|object| {
        write::boolean(object.name("ready"), is_ready);
        if app.lacks_rules() {
            object.string("reason", "no rules have come from the control plane yet (rules.require)");
        }
        object.string("node", &app.node).string("region", &app.region);
        object.number("rule_version", app.engine.rules().version);
        if let Some(view) = &app.following {
            // However stale: a node that has rules decides, and so it is ready.
            object.object("rules", |inner| following::brief(inner, view));
        }
    });
    (is_ready, body)
}

/// What a caller may know: everything for operators, and what a tenant could count itself for others.
pub(crate) fn state(app: &App, caller: &Caller) -> Vec<u8> {
    let rules = app.engine.rules();
    if !caller.is_operator() {
        return state_for_tenant(app, caller);
    }
    let counts = rules.set.counts();
    let stats = app.engine.stats().counts_by_name();
    let clock_steps = stats.iter().find(|(name, _)| *name == "clock_steps").map_or(0, |(_, count)| *count);
    document(|object| {
        object.string("node", &app.node).string("region", &app.region);
        object.string("version", env!("CARGO_PKG_VERSION")).number("rule_version", rules.version);
        object.count("namespaces", counts.namespaces).count("rules", counts.rules);
        object.count("overrides", counts.overrides).count("keys", app.engine.key_count());
        object.number("clock_steps", clock_steps).string("fleet_secret", app.secret_source);
        object.object("caller", |inner| who(inner, caller));
        if let Some(path) = &app.rules_path {
            object.string("rules_path", path);
        }
        if let Some(problem) = app.engine.stats().rules_problem() {
            object.string("rules_problem", &problem);
        }
        if let Some(url) = app.http_url.get() {
            object.string("http_url", url);
        }
        if let Some(view) = &app.following {
            object.object("rules_stream", |inner| following::whole(inner, view));
        }
        if let Some(driver) = &app.sharing {
            object.object("origin", |inner| origin(inner, app, driver));
        }
        if let Some(driver) = &app.world {
            object.object("world", |inner| world(inner, app, driver));
        }
        object.object("stats", |inner| {
            let journal = app.engine.journal().map(|journal| journal.recorder().counters().counts_by_name());
            for (name, count) in
                stats.into_iter().chain(COUNTERS.counts_by_name()).chain(journal.into_iter().flatten())
            {
                inner.number(name, count);
            }
        });
    })
}

/// As whom the node was asked: a page shows nobody what they may not do.
fn who(object: &mut Object<'_>, caller: &Caller) {
    object.string("tenant", caller.tenant()).boolean("is_operator", caller.is_operator());
    object.boolean("may_change", caller.may(Permission::Admin));
}

fn state_for_tenant(app: &App, caller: &Caller) -> Vec<u8> {
    let rules = app.engine.rules();
    let description = rules.set.describe(app.clock.now().now);
    let own = description.namespaces.iter().filter(|namespace| namespace.tenant == caller.tenant());
    document(|object| {
        object.string("tenant", caller.tenant()).string("version", env!("CARGO_PKG_VERSION"));
        object.object("caller", |inner| who(inner, caller));
        object.number("rule_version", rules.version).count("namespaces", own.clone().count());
        object.count("rules", own.map(|namespace| namespace.rules.len()).sum());
    })
}

/// The region tier: who is alive, what is reachable, what waits.
fn origin(object: &mut Object<'_>, app: &App, driver: &RegionDriver) {
    let Some(sharing) = app.engine.shared() else { return };
    let origin = driver.origin();
    object.number("live_nodes", u64::from(sharing.table.live_nodes()));
    object.count("keys_waiting_for_a_shard", sharing.region.held());
    if driver.is_held() {
        object.string("problem", "the fleet's secret isn't known yet: nothing is sent to the store");
    } else if driver.is_foreign() {
        object.string("problem", "the store was set up with another fleet secret: nothing is sent to it");
    } else if let Some(problem) = driver.never_answered_because() {
        object.shown("problem", format_args!("the store has never answered: {problem}"));
    }
    let (breakers, conditions) = (sharing.region.breakers(), sharing.region.shard_conditions());
    object.list("shards", &origin.shards(), |out, shard| {
        let mut object = Object::new(out);
        object.string("address", &origin.shard_name(*shard));
        let breaker = breakers.iter().find(|(of, _, _)| of == shard);
        let is_open = breaker.is_some_and(|(_, state, _)| matches!(state, BreakerState::Open { .. }));
        object.string("breaker", if is_open { "open" } else { "closed" });
        object.number("breaker_opened", breaker.map_or(0, |(_, _, opens)| *opens));
        let condition = conditions.iter().find(|condition| condition.shard == *shard);
        object.string("data", condition.map_or(ShardHealth::Unknown, |condition| condition.health).name());
        if let Some(problem) = condition.and_then(|condition| condition.problem.as_ref()) {
            object.shown("problem", problem);
        }
        object.count("keys_to_republish", condition.map_or(0, |condition| condition.keys_to_republish));
        object.end();
    });
    for (name, count) in sharing.region.counters().counts_by_name() {
        object.number(name, count);
    }
}

/// The world tier: who else is there, who works for this region, and how that goes.
fn world(object: &mut Object<'_>, app: &App, driver: &WorldDriver) {
    let Some(node) = app.engine.world() else { return };
    let (state, now) = (driver.state(), app.clock.now().now);
    if let Some(view) = node.view() {
        match view.policy {
            WorldPolicy::Headroom => object.string("policy", "headroom"),
            WorldPolicy::Floor { thousandths } => {
                object.string("policy", "floor").number("floor_thousandths", u64::from(thousandths))
            }
        };
        object.number("regions_sharing", u64::from(view.regions)).number("membership", view.version);
    }
    object.count("keys", node.index_len());
    write::boolean(object.name("is_worker"), state.is_worker);
    if state.is_worker {
        world_work(object, &state, now);
    }
    for (name, count) in node.counters().counts_by_name() {
        object.number(name, count);
    }
    if let Some(quotas) = app.engine.quotas() {
        object.object("quotas", |inner| world_quotas(inner, quotas, driver, now));
    }
}

/// Which part of limits is enforced here, and who divides them.
fn world_quotas(object: &mut Object<'_>, quotas: &Quotas, driver: &WorldDriver, now: Nanos) {
    let (share, slices) = quotas.shown(SLICES_SHOWN_MAX, now);
    if let Some(share) = share {
        object.number("membership", share.version).number("members", u64::from(share.members));
        write::boolean(object.name("is_active"), share.is_active);
    }
    object.count("slices", quotas.slice_count()).count("keys_tracked", quotas.tracked_keys());
    object.list("in_force", &slices, |out, slice| {
        let mut object = Object::new(out);
        object.string("key", &format!("{:032x}", slice.key.get()));
        object.number("amount", slice.amount).number("of", slice.limit);
        object.number("rate_billionths", u64::from(slice.rate_parts));
        write::boolean(object.name("is_leased"), slice.is_leased);
        object.end();
    });
    let counters = driver.reconciler();
    for (name, count) in quotas
        .counters()
        .counts_by_name()
        .into_iter()
        .chain(counters.counts_by_name())
        .chain(counters.gauges())
    {
        object.number(name, count);
    }
}

/// What only the worker knows.
fn world_work(object: &mut Object<'_>, state: &WorkState, now: Nanos) {
    let ago =
        |instant: Option<Nanos>| instant.map_or(u64::MAX, |instant| now.minus(instant).as_millis_ceil());
    write::boolean(object.name("connected"), state.is_connected);
    if let Some(owner) = state.owner {
        object.number("owner", u64::from(owner));
    }
    object.list("regions", &state.regions, |out, region| {
        let mut object = Object::new(out);
        object.string("name", &region.region).number("owner", u64::from(region.owner));
        write::boolean(object.name("is_self"), region.is_self);
        write::boolean(object.name("is_active"), region.is_active);
        object.number("seen_ms_ago", region.seen_ago.as_millis_ceil()).end();
    });
    object.string("breaker", if state.is_breaker_open { "open" } else { "closed" });
    object.number("breaker_opened", state.breaker_opened).number("namesakes", u64::from(state.namesakes));
    for (name, instant) in [("published_ms_ago", state.published_at), ("imported_ms_ago", state.imported_at)]
    {
        if instant.is_some() {
            object.number(name, ago(instant));
        }
    }
    object.count("rows_in_last_import", state.rows_in_last_import);
    object.count("cells_waiting", state.cells_waiting).count("cells_known", state.cells_known);
    if state.namesakes > 0 {
        let alarm = "another origin has this region's name: give every region a name of its own";
        object.string("alarm", alarm);
    }
    if let Some(problem) = &state.problem {
        object.string("problem", problem);
    }
}

/// The rules of the caller's tenant; of all for operators.
pub(crate) fn rules(app: &App, caller: &Caller) -> Vec<u8> {
    let rules = app.engine.rules();
    let mut description = rules.set.describe(app.clock.now().now);
    if !caller.is_operator() {
        description.namespaces.retain(|namespace| namespace.tenant == caller.tenant());
        // They name files and rules of whomever.
        description.warnings.clear();
    }
    document(|object| {
        object.number("rule_version", rules.version).shown("fleet_mode", description.fleet_mode);
        object.list("namespaces", &description.namespaces, |out, described| {
            namespace(out, described, rules.set.namespace(&described.tenant, &described.namespace));
        });
        object.list("warnings", &description.warnings, |out, warning| {
            write::string(out, &warning.to_string());
        });
    })
}

/// Whom shadow rules would have denied, of the caller's tenant; of all for operators.
pub(crate) fn shadow(app: &App, caller: &Caller) -> Vec<u8> {
    let tenant = (!caller.is_operator()).then(|| caller.tenant());
    let report = app.engine.shadows().report(tenant);
    document(|object| {
        object.list("rules", &report, |out, rule| {
            let mut object = Object::new(out);
            object.string("tenant", &rule.tenant).string("namespace", &rule.namespace);
            object.string("rule", &rule.rule).number("denials", rule.denials);
            object.list("callers", &rule.callers, |out, caller| {
                let mut object = Object::new(out);
                object.string("identifier", &caller.identifier).number("denials", caller.denials);
                object.number("at_most_too_many", caller.at_most_too_many).end();
            });
            object.end();
        });
    })
}

/// Who comes most often, and who is denied most, of the caller's tenant; of all for operators.
pub(crate) fn top(app: &App, caller: &Caller) -> Vec<u8> {
    let tenant = (!caller.is_operator()).then(|| caller.tenant());
    let report = app.engine.top_report(tenant, app.clock.now().now);
    document(|object| {
        object.list("busiest", &report.busiest, top_caller);
        object.list("denied", &report.denied, top_caller);
        object.list("would_deny", &report.would_deny, top_caller);
    })
}

fn top_caller(out: &mut Vec<u8>, caller: &TopCaller) {
    let mut object = Object::new(out);
    object.string("tenant", &caller.tenant).string("namespace", &caller.namespace);
    object.string("rule", &caller.rule).string("identifier", &caller.identifier);
    object.decimal("per_second", caller.per_second);
    object.decimal("denied_per_second", caller.denied_per_second);
    object.decimal("would_deny_per_second", caller.would_deny_per_second);
    object.boolean("hot", caller.is_hot).boolean("leased", caller.is_leased).end();
}

fn namespace(out: &mut Vec<u8>, described: &NamespaceDescription, known: Option<&Namespace>) {
    let mut object = Object::new(out);
    object.string("tenant", &described.tenant).string("namespace", &described.namespace);
    object.shown("mode", described.mode);
    object.list("rules", &described.rules, |out, of| {
        let known = known.and_then(|known| known.rules.iter().find(|rule| *rule.name == *of.name));
        rule(out, of, known);
    });
    object.end();
}

/// `key`: the attributes that tell its callers apart.
fn rule(out: &mut Vec<u8>, rule: &RuleDescription, known: Option<&Rule>) {
    let mut object = Object::new(out);
    object.string("name", &rule.name).string("meaning", &rule.meaning);
    let key = known.map_or(&[][..], |rule| &rule.key);
    object.list("key", key, |out, part| write::string(out, &part.attribute));
    object.boolean("is_rate", known.is_some_and(|rule| matches!(rule.policy, Policy::Gcra { .. })));
    write::optional_string(object.name("description"), rule.description.as_deref());
    object.shown("declared", &rule.declared);
    object.list("options", &rule.options, |out, option| write::string(out, option));
    object.object("overrides", |inner| {
        inner.count("exact", rule.exact_overrides).count("pattern", rule.pattern_overrides);
        inner.count("ended", rule.ended_overrides);
    });
    object.end();
}
