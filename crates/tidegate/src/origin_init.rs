//! `tidegate origin init`: marks a region's store as empty on purpose.
//!
//! A store without a record may have lost its data, so nodes treat it as recovering for two seconds: what they admit then is
//! unverified. Where the store is new, nothing was lost, and this command says so before the first node starts.

use crate::output;
use clap::{Arg, ArgMatches, Command as Clap};
use std::time::{Duration, Instant};
use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;
use tidegate_origin::record::{Incarnation, Pulse};
use tidegate_origin::{Origin as _, OriginError, RedisOptions, RedisOrigin, RedisUrl, ShardId};

/// How long the store may take to be reached.
const WITHIN: Duration = Duration::from_secs(5);
const RETRY_EVERY: Duration = Duration::from_millis(50);

const NOTE: &str = "A node that finds an empty Redis assumes that Redis lost its data, and treats it as recovering for two seconds: \
`abuse` limits deny then, others admit on the node's own view. Run this once for a new Redis, before the first node.\n\n\
Counts that are there stay as they are.";

#[derive(Debug, thiserror::Error)]
pub(crate) enum OriginInitError {
    #[error("{problem}; {fix}")]
    Url { problem: String, fix: String },
    #[error("the store can't be reached: {0}; start it, or correct the url")]
    Store(#[from] OriginError),
    #[error("no server of the store was found within 5 s; start it, or correct the url")]
    NoServer,
    #[error("can't start: {0}")]
    Runtime(#[from] std::io::Error),
}

pub(crate) fn command() -> Clap {
    let url = Arg::new("url")
        .value_name("URL")
        .required(true)
        .help("the store, as in origin.url: redis://127.0.0.1:6379");
    let init =
        Clap::new("init").about("Mark a region's new store as empty on purpose").after_help(NOTE).arg(url);
    Clap::new("origin")
        .about("Prepare a region's store")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(init)
}

/// The url that the command was given.
pub(crate) fn url(matches: &ArgMatches) -> String {
    let init = matches.subcommand_matches("init");
    init.and_then(|matches| matches.get_one::<String>("url")).cloned().unwrap_or_default()
}

pub(crate) fn run(url: &str) -> Result<(), OriginInitError> {
    let parsed = RedisUrl::parse(url)
        .map_err(|error| OriginInitError::Url { problem: error.message(), fix: error.fix().to_owned() })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let servers = runtime.block_on(async {
        let origin = RedisOrigin::new(parsed, RedisOptions::default(), runtime.handle());
        mark(&origin).await
    })?;
    output::print(&format!("marked {}: nodes may start\n", output::counted(servers, "server")));
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "bounds how long a person waits")]
async fn mark(origin: &RedisOrigin) -> Result<usize, OriginInitError> {
    let started = Instant::now();
    let mut marked: Vec<ShardId> = Vec::new();
    loop {
        let shards = origin.shards();
        let mut problem = None;
        for shard in shards.iter().filter(|shard| !marked.contains(shard)).copied().collect::<Vec<_>>() {
            match origin.pulse(shard, empty_on_purpose(shard)).await {
                Ok(_) => marked.push(shard),
                Err(error) => problem = Some(error),
            }
        }
        if !shards.is_empty() && problem.is_none() {
            return Ok(marked.len());
        }
        if started.elapsed() > WITHIN {
            return Err(problem.map_or(OriginInitError::NoServer, OriginInitError::Store));
        }
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// The pulse of nobody: it makes a record where there is none, and isn't waited for.
fn empty_on_purpose(shard: ShardId) -> Pulse {
    Pulse {
        node: NodeId(0),
        next: Incarnation(u64::from(shard.0) + 1),
        number: 1,
        acked: 0,
        known: None,
        confirmed: None,
        alive_for: Nanos::ZERO,
        leaves: true,
        adopts: true,
    }
}
