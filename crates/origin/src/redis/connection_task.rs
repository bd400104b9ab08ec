//! Keeps one shard connected: connects, notices the end of a connection, waits a little, connects again.
//!
//! One task per shard, on the runtime that owns the origin. It never makes a call wait: calls see what stands.

use super::backoff::Backoff;
use super::dial::Connected;
use super::link::Link;
use super::servers::Servers;
use super::shard::{ConnectionStatus, Shard};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A connection that nobody used but that lasted so long was a good one.
const STABLE_CONNECTION_MIN: Duration = Duration::from_secs(10);

/// A server that stays read-only is connected to again and again: that is told so often.
const CONDEMNED_LOG_EVERY: Duration = Duration::from_secs(60);
const LOST: &str = "the connection was lost";
const CONDEMNED: &str = "it stopped answering, or became read-only; connecting again";

/// Runs until the origin is dropped, or the shard was retired and its last calls had their time.
pub(super) async fn maintain(servers: Arc<Servers>, shard: Arc<Shard>) {
    let retired = async {
        shard.is_retired().await;
        tokio::time::sleep(servers.dialer.options.call_timeout() * 2).await;
    };
    tokio::select! {
        () = connect_forever(&servers, &shard) => {}
        () = retired => {}
        () = servers.stopped() => {}
    }
    shard.down("no longer in use".to_owned());
}

async fn connect_forever(servers: &Servers, shard: &Shard) {
    let mut backoff = Backoff::new();
    let (mut condemned_told, mut is_told) = (None::<Instant>, true);
    loop {
        let problem = match servers.dialer.connect(&shard.address, servers.purpose).await {
            Ok(connected) => {
                let link = Arc::new(Link::new(&connected));
                if is_told {
                    tracing::info!(server = %shard.address, "connected");
                }
                shard.up(link.clone());
                let began = Instant::now();
                let problem = hold(connected, &link).await;
                if link.was_useful() || began.elapsed() >= STABLE_CONNECTION_MIN {
                    backoff.succeeded();
                }
                problem.to_owned()
            }
            Err(problem) => problem,
        };
        let is_repeated =
            problem == CONDEMNED && condemned_told.is_some_and(|told| told.elapsed() < CONDEMNED_LOG_EVERY);
        if problem == CONDEMNED && !is_repeated {
            condemned_told = Some(Instant::now());
        }
        is_told = !is_repeated;
        if is_told {
            report(shard, &problem);
        }
        shard.down(problem);
        // It may have been replaced.
        servers.refresh_soon();
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// Drives the connection to its end, and says why it ended.
async fn hold(connected: Connected, link: &Link) -> &'static str {
    tokio::select! {
        () = connected.driver => LOST,
        () = link.is_condemned() => CONDEMNED,
    }
}

/// Says once that a server is gone, not at each attempt to reach it.
fn report(shard: &Shard, problem: &str) {
    let was_known = matches!(&*shard.status(), ConnectionStatus::Down { cause } if cause == problem);
    if was_known {
        return;
    }
    if problem == LOST {
        // Whether that matters is known after the next attempt, whose reason is worth more.
        tracing::info!(server = %shard.address, "the connection was lost; connecting again");
    } else {
        tracing::warn!(server = %shard.address, problem, "not connected; trying again in the background");
    }
}
