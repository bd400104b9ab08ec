//! Where the fleet's secret comes from when no file names it, and who gives it back to a store that lost it.
//!
//! It lives in the outermost store that is configured (the world's database, else Redis, else `data.dir`), and is copied
//! to the stores within and to `data.dir`. It is never logged or shown.

use crate::settings::{FleetKey, OriginUrl, Settings};
use aws_lc_rs::rand;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{FleetSecret, StoredSecret};
use tidegate_node::files;
use tidegate_node::region_driver::{HEARTBEAT_TTL, Origin, RegionDriver};
use tidegate_node::snapshot::holds_counts_of;
use tidegate_world::SqlWorld;

/// How often stores are looked at: several times within the TTL of a heartbeat, so that whoever starts finds it again.
const POLL_EVERY: Duration = Duration::from_millis(400);
/// How often a node that knows the secret looks whether the world's database still has it.
const POLLS_PER_WORLD_POLL: u32 = 75;
/// How many looks a start waits for stores that don't answer.
const POLLS_UNANSWERED_MAX: u32 = 3;
const FILE_NAME: &str = "fleet.secret";

/// Where the secret came from, as `/v1/state` and a metric report it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    File,
    Store,
    DataDirectory,
    BuiltIn,
    /// No store could be asked: made up until one can.
    Provisional,
}

impl Source {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Store => "store",
            Source::DataDirectory => "data_dir",
            Source::BuiltIn => "built_in",
            Source::Provisional => "provisional",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved {
    pub(crate) secret: FleetSecret,
    pub(crate) source: Source,
}

/// The stores that the secret lives in, the outermost first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stores<'s> {
    pub(crate) world: Option<&'s SqlWorld>,
    pub(crate) region: Option<&'s dyn Origin>,
}

/// What the stores know together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Finding {
    Known(FleetSecret),
    /// Counts were made with the key that earlier releases had.
    BuiltIn,
    /// The outermost store can't be asked, and nobody else knows.
    Unreachable,
    /// No store has a secret. One that is known here and that running nodes use may be given back at once.
    Missing {
        restore: Option<FleetSecret>,
    },
}

/// What the stores said, the outermost first.
#[derive(Default)]
struct Answers {
    /// `None` for one that doesn't answer.
    all: Vec<Option<StoredSecret>>,
    /// Why the first of those didn't.
    problem: Option<String>,
}

impl Answers {
    fn add(&mut self, answer: Result<StoredSecret, impl std::error::Error>) {
        if let Err(error) = &answer {
            tracing::debug!(%error, "a store can't be asked for the fleet's secret");
            self.problem.get_or_insert_with(|| error.to_string());
        }
        self.all.push(answer.ok());
    }
}

impl Stores<'_> {
    /// Asks all of them. Each is given `ours` if it has none.
    async fn ask(&self, ours: Option<FleetSecret>) -> Answers {
        let mut answers = Answers::default();
        if let Some(world) = self.world {
            answers.add(world.fleet_secret(ours).await);
        }
        if let Some(region) = self.region {
            answers.add(region.fleet_secret(ours).await);
        }
        answers
    }
}

/// The outermost store's word counts; one within it is a copy.
fn find(answers: &[Option<StoredSecret>], cached: Option<FleetSecret>) -> Finding {
    let mut copies = cached;
    for answer in answers.iter().flatten() {
        if let Some(secret) = answer.secret {
            let outer = answers.iter().take_while(|other| other.as_ref() != Some(answer)).flatten();
            let is_refused = outer.clone().any(|outer| !outer.accepts(&secret));
            if !is_refused {
                return Finding::Known(secret);
            }
            copies = Some(secret);
        }
        if answer.marker == Some(FleetSecret::BUILT_IN.fingerprint()) {
            return Finding::BuiltIn;
        }
    }
    if answers.iter().any(Option::is_none) {
        return Finding::Unreachable;
    }
    let is_used = |secret: &FleetSecret| {
        let mut known = answers.iter().flatten();
        known.clone().any(|answer| answer.marker == Some(secret.fingerprint()))
            && known.all(|answer| answer.secret.is_some() || answer.accepts(secret))
    };
    Finding::Missing { restore: copies.filter(is_used) }
}

/// Returns the secret to start with. Waits for as long as a store may be given it back by a running node.
pub(crate) async fn resolve(settings: &Settings, stores: Stores<'_>) -> Resolved {
    if let FleetKey::FromFile { secret, .. } = settings.fleet_key {
        return Resolved { secret, source: Source::File };
    }
    let directory = &settings.data_directory;
    if stores.world.is_none() && settings.origin == OriginUrl::Memory {
        return alone(directory);
    }
    let cached = read(directory);
    let resolved = agree(stores, cached).await;
    match resolved.source {
        Source::BuiltIn => warn_of_built_in("the stores' counts were made with it"),
        Source::Store => cache(directory, &resolved.secret),
        Source::File | Source::DataDirectory | Source::Provisional => {}
    }
    resolved
}

async fn agree(stores: Stores<'_>, cached: Option<FleetSecret>) -> Resolved {
    let looks_max = polls_within_ttl();
    let (mut looks, mut unanswered) = (0, 0);
    loop {
        let answers = stores.ask(None).await;
        match find(&answers.all, cached) {
            Finding::Known(secret) => {
                stores.ask(Some(secret)).await;
                return Resolved { secret, source: Source::Store };
            }
            Finding::BuiltIn => return Resolved { secret: FleetSecret::BUILT_IN, source: Source::BuiltIn },
            Finding::Missing { restore: Some(secret) } => {
                looks += 1;
                stores.ask(Some(secret)).await;
            }
            Finding::Missing { restore: None } => {
                looks += 1;
                if looks > looks_max {
                    stores.ask(Some(cached.unwrap_or_else(random))).await;
                }
            }
            Finding::Unreachable => unanswered += 1,
        }
        if unanswered >= POLLS_UNANSWERED_MAX || looks > 2 * looks_max {
            let problem = answers.problem.unwrap_or_else(|| "no store took a secret".to_owned());
            if let Some(secret) = cached {
                tracing::warn!(problem, "the fleet's secret is the copy in data.dir until a store answers");
                return Resolved { secret, source: Source::DataDirectory };
            }
            tracing::warn!(
                problem,
                "no store could be asked for the fleet's secret: nothing is shared until one answers"
            );
            return Resolved { secret: random(), source: Source::Provisional };
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

fn polls_within_ttl() -> u32 {
    let looks = HEARTBEAT_TTL.get().div_ceil(u64::try_from(POLL_EVERY.as_nanos()).unwrap_or(u64::MAX));
    u32::try_from(looks).unwrap_or(u32::MAX)
}

/// A node without a shared store: its counts are in `data.dir`, and so is its secret.
fn alone(directory: &Path) -> Resolved {
    if let Some(secret) = read(directory) {
        return Resolved { secret, source: Source::DataDirectory };
    }
    if holds_counts_of(directory, &FleetSecret::BUILT_IN) {
        warn_of_built_in("the saved counts in data.dir were made with it");
        return Resolved { secret: FleetSecret::BUILT_IN, source: Source::BuiltIn };
    }
    let secret = random();
    cache(directory, &secret);
    Resolved { secret, source: Source::DataDirectory }
}

fn warn_of_built_in(why: &str) {
    tracing::warn!(
        why,
        fix =
            "see docs/upgrade.md: set cluster.secret_file on all nodes, or let a stopped fleet begin afresh",
        "keys are hashed with the built-in key, which anybody can read"
    );
}

fn random() -> FleetSecret {
    let mut key = [0; 16];
    if rand::fill(&mut key).is_err() {
        tracing::warn!("the system gives no random bytes: the fleet's secret is weaker than it should be");
        let word =
            |what| std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), what).to_le_bytes();
        key[..8].copy_from_slice(&word("first"));
        key[8..].copy_from_slice(&word("second"));
    }
    FleetSecret::new(key)
}

/// The secret that a directory holds, if it does.
pub(crate) fn read(directory: &Path) -> Option<FleetSecret> {
    let path = directory.join(FILE_NAME);
    let text = fs::read_to_string(&path).ok()?;
    let secret = StoredSecret::read(text.trim_end());
    if secret.is_none() {
        tracing::warn!(path = %path.display(), "this file holds no secret that this version reads; it is replaced");
    }
    secret
}

fn cache(directory: &Path, secret: &FleetSecret) {
    if read(directory) == Some(*secret) {
        return;
    }
    let write = || -> io::Result<()> {
        files::make_directory(directory)?;
        let text = format!("{}\n", StoredSecret::text_of(secret));
        files::replace_private(&directory.join(FILE_NAME), text.as_bytes())
    };
    if let Err(error) = write() {
        tracing::warn!(
            %error, directory = %directory.display(), fix = "make data.dir writable",
            "the fleet's secret can't be kept in data.dir"
        );
    }
}

/// Restores the fleet's secret to stores that lost it, and reads it where a start couldn't.
#[derive(Debug)]
pub(crate) struct SecretRestorer {
    pub(crate) resolved: Resolved,
    pub(crate) directory: PathBuf,
    pub(crate) world: Option<Arc<SqlWorld>>,
    pub(crate) region: Arc<RegionDriver>,
}

impl SecretRestorer {
    /// Ends only when the fleet has another secret than the one that this node started with because it couldn't ask:
    /// a start adopts it. Returns why.
    pub(crate) async fn run(self) -> &'static str {
        let Resolved { secret, source } = self.resolved;
        if matches!(source, Source::File | Source::BuiltIn) {
            return std::future::pending().await;
        }
        let mut is_confirmed = source == Source::Store;
        let (mut looks, mut missing) = (0_u32, 0_u32);
        let mut tick = tokio::time::interval(POLL_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            looks = looks.wrapping_add(1);
            let origin = self.region.origin();
            let asks_world = !is_confirmed || looks.is_multiple_of(POLLS_PER_WORLD_POLL);
            let world = self.world.as_deref().filter(|_| asks_world);
            let stores = Stores { world, region: Some(&**origin) };
            if is_confirmed {
                // Those that have one, or whose nodes use another, keep it.
                stores.ask(Some(secret)).await;
                continue;
            }
            match find(&stores.ask(None).await.all, Some(secret)) {
                Finding::Known(theirs) if theirs == secret => {
                    is_confirmed = true;
                    cache(&self.directory, &secret);
                    self.region.release();
                }
                Finding::Known(theirs) => {
                    cache(&self.directory, &theirs);
                    return "the fleet has another secret than this node began with while no store answered";
                }
                Finding::BuiltIn => return "the fleet uses the built-in key, which this node didn't know",
                Finding::Missing { restore: Some(_) } => drop(stores.ask(Some(secret)).await),
                Finding::Missing { restore: None } => {
                    missing += 1;
                    if missing > polls_within_ttl() {
                        stores.ask(Some(secret)).await;
                    }
                }
                Finding::Unreachable => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: FleetSecret = FleetSecret::new(*b"0123456789abcdef");
    const THEIRS: FleetSecret = FleetSecret::new(*b"fedcba9876543210");

    fn holding(secret: FleetSecret) -> Option<StoredSecret> {
        Some(StoredSecret { secret: Some(secret), marker: Some(secret.fingerprint()) })
    }

    fn used_by(secret: &FleetSecret) -> Option<StoredSecret> {
        Some(StoredSecret { secret: None, marker: Some(secret.fingerprint()) })
    }

    #[test]
    fn the_outermost_store_that_knows_decides_and_nobody_overrides_the_built_in_key() {
        let empty = Some(StoredSecret::default());
        let built_in = used_by(&FleetSecret::BUILT_IN);
        let missing = Finding::Missing { restore: None };
        let cases = [
            (vec![holding(THEIRS), holding(OURS)], None, Finding::Known(THEIRS)),
            (vec![empty, holding(OURS)], None, Finding::Known(OURS)),
            (vec![None, holding(OURS)], None, Finding::Known(OURS)),
            (vec![built_in, holding(OURS)], None, Finding::BuiltIn),
            (vec![built_in], Some(OURS), Finding::BuiltIn),
            (vec![None, empty], Some(OURS), Finding::Unreachable),
            (vec![empty, empty], None, missing),
            (vec![empty], Some(OURS), missing),
            (vec![used_by(&OURS)], Some(OURS), Finding::Missing { restore: Some(OURS) }),
            (vec![used_by(&THEIRS)], Some(OURS), missing),
            (vec![used_by(&THEIRS), holding(OURS)], None, missing),
        ];
        for (answers, cached, expected) in cases {
            assert_eq!(find(&answers, cached), expected, "{answers:?}");
        }
    }
}
