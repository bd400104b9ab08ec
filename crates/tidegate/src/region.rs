//! From the settings to the region's store, and to another one while the node runs.

use crate::fleet_secret::Stores;
use crate::settings::{OriginUrl, Settings, Sources};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::origin_cell::NodeId;
use tidegate_node::clock::Clock;
use tidegate_node::known_nodes::KnownNodes;
use tidegate_node::region::RegionOptions;
use tidegate_node::region_driver::RegionDriver;
use tidegate_node::world::WorkerOptions;
use tidegate_node::world_driver::WorldDriver;
use tidegate_node::{Engine, EngineOptions};
use tidegate_origin::{MemoryOrigin, Origin, RedisOptions, RedisOrigin, RedisUrl};
use tidegate_rules::RuleSet;
use tidegate_server::App;
use tidegate_world::{SqlOptions, SqlWorld};
use tokio::runtime::Handle;

/// The engine, and what carries its messages to its region and to the others.
#[derive(Debug)]
pub(crate) struct Tiers {
    pub(crate) engine: Arc<Engine>,
    pub(crate) sharing: Option<Arc<RegionDriver>>,
    pub(crate) world: Option<Arc<WorldDriver>>,
}

/// Where what is carried is carried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runtimes<'r> {
    /// Where the region's store is spoken to.
    pub(crate) main: &'r Handle,
    /// Where the world's is, if there is one.
    pub(crate) apart: Option<&'r Handle>,
}

/// The stores of these settings, which connect in the background.
#[derive(Debug)]
pub(crate) struct Connected {
    origin: Option<Box<RedisOrigin>>,
    pub(crate) world: Option<Arc<SqlWorld>>,
}

impl Connected {
    /// What the fleet's secret lives in.
    pub(crate) fn secret_stores(&self) -> Stores<'_> {
        let region = self.origin.as_deref().map(|origin| origin as &dyn Origin);
        Stores { world: self.world.as_deref(), region }
    }
}

pub(crate) fn connect(settings: &Settings, runtimes: Runtimes<'_>) -> Connected {
    let origin = match &settings.origin {
        OriginUrl::Redis(url) => Some(connect_redis(url.clone(), settings.origin_timeout, runtimes.main)),
        OriginUrl::Memory => None,
    };
    let world = settings.world.url.clone().zip(runtimes.apart);
    let world = world.map(|(url, apart)| Arc::new(SqlWorld::new(url, SqlOptions::default(), apart)));
    Connected { origin, world }
}

/// The engine of these settings, and what it stands on.
pub(crate) fn engine(
    settings: &Settings,
    options: EngineOptions,
    rules: RuleSet,
    clock: &Arc<Clock>,
    connected: Connected,
) -> Tiers {
    if matches!((&settings.origin, &settings.world.url), (OriginUrl::Memory, None)) {
        return Tiers { engine: Arc::new(Engine::new(options, rules)), sharing: None, world: None };
    }
    let random = || RandomState::new().hash_one("node");
    // A new number at each start, whatever the node is called: what an earlier one published still counts.
    let region = RegionOptions { node: NodeId(random()), fresh_for: settings.origin_fresh, seed: random() };
    let engine = Arc::new(match settings.world.url {
        Some(_) => Engine::sharing_with_world(options, region, rules),
        None => Engine::sharing(options, region, rules),
    });
    let origin: Box<dyn Origin> = match connected.origin {
        Some(origin) => origin,
        // Other regions are told, and nobody else: the counts of this one are in this process.
        None => {
            let clock = clock.clone();
            Box::new(MemoryOrigin::new(Box::new(move || clock.now().now)))
        }
    };
    let sharing = RegionDriver::new(engine.clone(), clock.clone(), origin, settings.origin_timeout);
    if let (Some(driver), OriginUrl::Redis(_)) = (&sharing, &settings.origin) {
        driver.set_known_nodes(KnownNodes::open(&settings.data_directory));
    }
    let world = sharing
        .as_ref()
        .zip(connected.world)
        .and_then(|(sharing, store)| world(settings, sharing, &engine, clock, store));
    Tiers { engine, sharing, world }
}

/// What carries counts to the other regions. A store that can't be reached is a warning, and is tried again.
fn world(
    settings: &Settings,
    sharing: &Arc<RegionDriver>,
    engine: &Arc<Engine>,
    clock: &Arc<Clock>,
    store: Arc<SqlWorld>,
) -> Option<Arc<WorldDriver>> {
    let options = WorkerOptions {
        region: settings.region.clone(),
        fingerprint: settings.fleet_secret().fingerprint(),
        policy: settings.world.policy(),
        is_alone: settings.origin == OriginUrl::Memory,
        seed: RandomState::new().hash_one("worker"),
    };
    WorldDriver::new(sharing.clone(), engine.clone(), clock.clone(), store, options)
}

/// Connects in the background. A store that can't be reached is a warning, and is tried again.
///
/// A call takes at least as long as a request may wait: otherwise a store that is 80 ms away would never answer in
/// time, however long `origin.timeout_ms` lets requests wait.
fn connect_redis(url: RedisUrl, origin_timeout: Duration, runtime: &Handle) -> Box<RedisOrigin> {
    let default = RedisOptions::default();
    let wait_ms = u64::try_from(origin_timeout.as_millis()).unwrap_or(u64::MAX);
    let options = RedisOptions { call_timeout_ms: default.call_timeout_ms.max(wait_ms), ..default };
    Box::new(RedisOrigin::new(url, options, runtime))
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
                "SIGHUP: origin.url is unchanged; other settings need a restart, changed rules files need no SIGHUP"
            );
            return;
        }
        let (Some(driver), OriginUrl::Redis(_), OriginUrl::Redis(url)) =
            (&app.sharing, &self.settings.origin, &settings.origin)
        else {
            tracing::error!(
                "SIGHUP: a change of origin.url from or to memory: needs a restart; the old origin.url stays in force"
            );
            return;
        };
        let keys = driver.change_origin(connect_redis(
            url.clone(),
            self.settings.origin_timeout,
            &Handle::current(),
        ));
        tracing::info!(origin = %settings.origin, keys, "SIGHUP: origin.url changed; all keys are published to the new store");
        self.settings = settings;
    }
}
