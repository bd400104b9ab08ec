//! Real streams without a process of their own: each follows, keeps its files and puts changes in force in an engine.

use crate::scene::Running;
use std::sync::Arc;
use std::thread;
use tidegate_control::stream::{Endpoints, FollowOptions, FollowView, FollowerRole, Identity, follow};
use tidegate_core::{FleetSecret, Nanos, Spec};
use tidegate_node::driver::Tenancy;
use tidegate_node::rules_driver::{RuleLoadOptions, RulesOnDisk};
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::envoy::Windows;
use tidegate_rules::{Attributes, Effect, Matches};
use tidegate_testkit::Directory;
use tokio::task::LocalSet;

#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) engines: Vec<Arc<Engine>>,
    _directories: Vec<Directory>,
}

impl Streams {
    /// So many, over these servers in turn. They live for as long as the process.
    pub(crate) fn start(count: usize, servers: &[&Running]) -> Result<Self, String> {
        let (mut engines, mut directories, mut followers) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..count {
            let directory = Directory::new();
            let reading = RuleLoadOptions {
                secret: FleetSecret::BUILT_IN,
                windows: Windows::Fixed,
                tenancy: Tenancy::DefaultOnly,
            };
            let on_disk = RulesOnDisk::read(directory.root(), reading).map_err(|error| error.to_string())?;
            let options = EngineOptions { secret: FleetSecret::BUILT_IN, keys_max: 1000 };
            let engine = Arc::new(Engine::new(options, on_disk.set.clone()));
            followers.push((on_disk.rule_store(engine.clone()), options_of(index, servers)?));
            engines.push(engine);
            directories.push(directory);
        }
        thread::Builder::new()
            .name("streams".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let (runtime, tasks) = (runtime.expect("a runtime"), LocalSet::new());
                for ((mut rule_store, _orders), options) in followers {
                    tasks.spawn_local(async move {
                        let view = FollowView::new(options.servers.clone(), 0);
                        follow(options, &mut rule_store, &view).await;
                    });
                }
                runtime.block_on(tasks);
            })
            .map_err(|error| error.to_string())?;
        Ok(Streams { engines, _directories: directories })
    }

    /// That all of them go by at least.
    pub(crate) fn lowest(&self) -> u64 {
        self.engines.iter().map(|engine| engine.rules().set.version()).min().unwrap_or(u64::MAX)
    }

    /// The number that limits a user in each of them.
    pub(crate) fn limits_of(&self, user: &str) -> Vec<Option<u64>> {
        self.engines.iter().map(|engine| limit_of(engine, user)).collect()
    }
}

fn limit_of(engine: &Engine, user: &str) -> Option<u64> {
    let (rules, mut matches) = (engine.rules(), Matches::new());
    rules.set.matches(
        "default",
        "api",
        Attributes(&[("user", user)]),
        Nanos::from_secs(1 << 30),
        &mut matches,
    );
    match matches.first()?.effect {
        Effect::Limited { spec: Spec::Sliding { limit, .. }, .. } => Some(limit.get()),
        _ => None,
    }
}

fn options_of(index: usize, servers: &[&Running]) -> Result<FollowOptions, String> {
    let urls: Vec<String> = servers.iter().map(|server| server.url()).collect();
    Ok(FollowOptions {
        identity: Identity {
            node: format!("stream-{index}").into(),
            region: "bars".into(),
            software: env!("CARGO_PKG_VERSION").into(),
            role: FollowerRole::Node,
        },
        servers: Endpoints::parse(&urls.join(",")).map_err(|error| error.to_string())?,
        token: None,
        seed: u64::try_from(index).unwrap_or(0),
        feed: None,
        answering: None,
    })
}
