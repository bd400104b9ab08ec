//! Finds out which servers there are, again and again, for as long as the origin lives.
//!
//! Looks at once, every few seconds, and soon after something seemed to change, but never in a hurry: a
//! thousand failed calls cause one look.

use super::backoff::{Backoff, jittered};
use super::servers::Servers;
use super::url::Topology;
use super::{cluster, sentinel};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Between the beginnings of two looks.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// While a server is gone: its successor is to be found soon, without wearing out who has to tell.
const POLL_DEGRADED_EVERY_MS: u64 = 500;

pub(super) async fn discover(servers: Arc<Servers>, place: Topology) {
    tokio::select! {
        () = discover_forever(&servers, place) => {}
        () = servers.stopped() => {}
    }
}

async fn discover_forever(servers: &Arc<Servers>, place: Topology) {
    let mut backoff = Backoff::new();
    let mut is_lost = false;
    let mut source = match place {
        // Nothing to find out: there is one address, and it stays.
        Topology::Standalone(_) => return,
        Topology::Cluster(seeds) => Source::Cluster(cluster::Members::new(seeds)),
        Topology::Sentinel { sentinels, master, .. } => {
            Source::Sentinels(sentinel::Sentinels::new(sentinels, master))
        }
    };
    loop {
        let began = Instant::now();
        let looked = source.poll(servers).await;
        report(&mut is_lost, looked.as_ref().err());
        let wait = match looked {
            Ok(()) => {
                backoff.succeeded();
                let usual_ms = servers.dialer.options.refresh_every_ms;
                jittered(if servers.are_connected() {
                    usual_ms
                } else {
                    POLL_DEGRADED_EVERY_MS.min(usual_ms)
                })
            }
            Err(problem) => {
                servers.set_ignorance(problem);
                backoff.wait()
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = servers.refresh_wanted() => {}
        }
        tokio::time::sleep_until(began + POLL_INTERVAL_MIN).await;
    }
}

enum Source {
    Cluster(cluster::Members),
    Sentinels(sentinel::Sentinels),
}

impl Source {
    async fn poll(&mut self, servers: &Arc<Servers>) -> Result<(), String> {
        match self {
            Source::Cluster(members) => members.poll(servers).await,
            Source::Sentinels(sentinels) => sentinels.poll(servers).await,
        }
    }
}

/// Says when the way is lost and found, not at each look.
fn report(is_lost: &mut bool, problem: Option<&String>) {
    match (problem, *is_lost) {
        (Some(problem), false) => {
            tracing::warn!(problem, "can't find out which servers there are; trying again in the background");
        }
        (None, true) => tracing::info!("found out again which servers there are"),
        _ => {}
    }
    *is_lost = problem.is_some();
}
