//! From the settings to the region's store, and to another one while the node runs.

use crate::settings::{OriginUrl, Settings, Sources};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use tidegate_core::origin_cell::NodeId;
use tidegate_node::clock::Clock;
use tidegate_node::region::RegionOptions;
use tidegate_node::region_driver::RegionDriver;
use tidegate_node::{Engine, EngineOptions};
use tidegate_origin::{RedisOptions, RedisOrigin, RedisUrl};
use tidegate_rules::RuleSet;
use tidegate_server::App;
use tokio::runtime::Handle;

/// The engine, and what carries its messages when it isn't alone.
pub(crate) fn engine(
    settings: &Settings,
    options: EngineOptions,
    rules: RuleSet,
    clock: &Arc<Clock>,
    runtime: &Handle,
) -> (Arc<Engine>, Option<Arc<RegionDriver>>) {
    let OriginUrl::Redis(url) = &settings.origin else {
        return (Arc::new(Engine::new(options, rules)), None);
    };
    let random = || RandomState::new().hash_one("node");
    // A new number at each start, whatever the node is called: what an earlier one published still counts.
    let region = RegionOptions { node: NodeId(random()), fresh_for: settings.origin_fresh, seed: random() };
    let engine = Arc::new(Engine::sharing(options, region, rules));
    let origin = connect(url.clone(), runtime);
    let driver = RegionDriver::new(engine.clone(), clock.clone(), origin, settings.origin_timeout);
    (engine, driver)
}

/// Connects in the background: a store that can't be reached is a warning, and is tried again.
fn connect(url: RedisUrl, runtime: &Handle) -> Box<RedisOrigin> {
    Box::new(RedisOrigin::new(url, RedisOptions::default(), runtime))
}

/// What SIGHUP reads again: of all settings, the store's address can change while the node runs.
#[derive(Debug)]
pub(crate) struct Reload {
    pub(crate) sources: Sources,
    pub(crate) settings: Settings,
}

impl Reload {
    /// Within a runtime. What can't be done is said, and everything stays as it was.
    pub(crate) fn run(&mut self, app: &App) {
        let settings = match Settings::load(self.sources.clone()) {
            Ok(settings) => settings,
            Err(errors) => {
                tracing::error!(%errors, "SIGHUP: the settings can't be read; the old ones stay in force");
                return;
            }
        };
        if settings.origin == self.settings.origin {
            tracing::info!(
                "SIGHUP: origin.url is the same; other settings are read at a start, rules always"
            );
            return;
        }
        let (Some(driver), OriginUrl::Redis(url)) = (&app.sharing, &settings.origin) else {
            tracing::error!(
                "SIGHUP: from or to memory: is a matter of a restart; the old origin stays in use"
            );
            return;
        };
        let keys = driver.change_origin(connect(url.clone(), &Handle::current()));
        tracing::info!(origin = %settings.origin, keys, "SIGHUP: another origin; everything is published to it");
        self.settings = settings;
    }
}
