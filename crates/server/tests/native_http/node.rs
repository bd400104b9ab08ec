//! A node to test against: both listeners, on ports of their own.

use crate::client::{Client, Reply};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_node::clock::{Clock, ManualTime};
use tidegate_node::region::RegionOptions;
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::{RuleSet, Source};
use tidegate_server::{App, ForwardAuth, MappedHeader, Surface, serve};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) const START_MS: u64 = 1_800_000_000_000;
pub(crate) const NO_RULES: &str = "namespace: empty\nrules: []\n";

const ENGINE: EngineOptions = EngineOptions { secret: FleetSecret::BUILT_IN, keys_max: 100_000 };

fn rule_set(rules: &str) -> RuleSet {
    let source = Source { name: "rules.yaml".to_owned(), text: rules.as_bytes().to_vec() };
    RuleSet::parse(&[source], &ENGINE.secret).expect("the test's rules are valid")
}

pub(crate) struct Node {
    pub api: SocketAddr,
    pub admin: SocketAddr,
    pub time: ManualTime,
    pub stop: watch::Sender<bool>,
    pub listeners: Vec<JoinHandle<()>>,
}

impl Node {
    pub(crate) async fn start() -> Self {
        Node::with_rules(NO_RULES).await
    }

    pub(crate) async fn with_rules(rules: &str) -> Self {
        Node::with_drain(rules, Duration::from_secs(30)).await
    }

    pub(crate) async fn with_forward_auth(rules: &str, forward_auth: ForwardAuth) -> Self {
        Node::with_options(rules, Duration::from_secs(30), forward_auth).await
    }

    pub(crate) async fn with_drain(rules: &str, drain: Duration) -> Self {
        let forward_auth = ForwardAuth {
            accepted: ForwardAuth::parse_accepted("user, ip").unwrap(),
            mapped: MappedHeader::parse_list("user=X-User").unwrap(),
        };
        Node::with_options(rules, drain, forward_auth).await
    }

    /// A node of a region whose store nobody reaches: every first request of a key has to ask.
    pub(crate) async fn in_a_region(rules: &str) -> Self {
        let region = RegionOptions { node: NodeId(1), fresh_for: Nanos::from_secs(5), seed: 1 };
        let engine = Engine::sharing(ENGINE, region, rule_set(rules));
        Node::with_engine(engine, Duration::from_secs(30), ForwardAuth::default()).await
    }

    async fn with_options(rules: &str, drain: Duration, forward_auth: ForwardAuth) -> Self {
        Node::with_engine(Engine::new(ENGINE, rule_set(rules)), drain, forward_auth).await
    }

    async fn with_engine(engine: Engine, drain: Duration, forward_auth: ForwardAuth) -> Self {
        let (clock, time) = Clock::manual(Nanos::from_millis(START_MS));
        let app = Arc::new(App { forward_auth, ..App::new(Arc::new(engine), Arc::new(clock)) });
        let (stop, stopped) = watch::channel(false);
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for surface in [Surface::Api, Surface::Admin] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(listener.local_addr().unwrap());
            listeners.push(tokio::spawn(serve(
                listener.into(),
                surface,
                Arc::clone(&app),
                stopped.clone(),
                drain,
            )));
        }
        Node { api: addresses[0], admin: addresses[1], time, stop, listeners }
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.api).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Reply {
        self.client().await.post(path, body.as_bytes()).await
    }

    /// The answer of a request that is valid.
    pub(crate) async fn answer(&self, path: &str, body: &str) -> Value {
        let reply = self.post(path, body).await;
        assert_eq!(reply.status, 200, "{body}: {}", reply.text());
        reply.json()
    }

    pub(crate) async fn get_admin(&self, path: &str) -> Reply {
        Client::connect(self.admin).await.get(path).await
    }

    pub(crate) async fn key_count(&self) -> u64 {
        self.get_admin("/v1/state").await.json()["keys"].as_u64().unwrap()
    }

    pub(crate) fn advance_ms(&self, millis: u64) {
        self.time.advance(Nanos::from_millis(millis));
    }
}
