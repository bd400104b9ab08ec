//! Resets that the control plane ordered. Every node hears of them, and each region carries one out once.

use crate::clock::Clock;
use crate::engine::Engine;
use crate::region_driver::RegionDriver;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tidegate_control::stream::RESET_BROADCAST_MAX;
use tidegate_rules::OverrideName;
use tokio::sync::mpsc;

/// An origin that is away gets it within this; the others of the region try as well.
const ATTEMPTS_MAX: u32 = 120;
/// Versions with resets that are remembered: more than servers tell of.
const RECENT_RESETS_MAX: usize = 2 * RESET_BROADCAST_MAX;
const RESET_RETRY_DELAY: Duration = Duration::from_millis(500);

/// A command to reset one caller's count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResetCommand {
    /// Of the change that it came with: an order of a lower number comes too late.
    pub number: u64,
    pub name: OverrideName,
}

/// Versions whose resets were received here. Resets come as changes and again apart, because a snapshot has none.
/// A region carries out each reset once; this does the same for a node that is alone.
#[derive(Debug)]
pub(super) struct RecentResets {
    /// Everything up to here: it was on the disk.
    up_to: u64,
    versions: BTreeSet<u64>,
}

impl RecentResets {
    pub(super) fn up_to(version: u64) -> Self {
        RecentResets { up_to: version, versions: BTreeSet::new() }
    }

    /// Whether a version's are heard of for the first time.
    pub(super) fn is_news(&mut self, version: u64) -> bool {
        if version <= self.up_to || !self.versions.insert(version) {
            return false;
        }
        if self.versions.len() > RECENT_RESETS_MAX
            && let Some(oldest) = self.versions.pop_first()
        {
            self.up_to = self.up_to.max(oldest);
        }
        true
    }
}

/// Carries out one after the other until nobody orders any more.
pub async fn carry_out(
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    sharing: Option<Arc<RegionDriver>>,
    mut ordered: mpsc::Receiver<ResetCommand>,
) {
    while let Some(ResetCommand { number, name }) = ordered.recv().await {
        let Some(key) = engine.key_of(&engine.rules(), &name, clock.now()) else {
            tracing::warn!(%name, "a reset is for a rule that isn't there, or whose key has other parts");
            continue;
        };
        let Some(region) = &sharing else {
            engine.reset(&[key]);
            continue;
        };
        let mut attempt = 0;
        while let Err(error) = region.reset(&[key], Some(number)).await {
            attempt += 1;
            if attempt == ATTEMPTS_MAX {
                tracing::error!(%name, %error, "a reset couldn't be carried out: the origin is away; order it again");
                break;
            }
            tokio::time::sleep(RESET_RETRY_DELAY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_on_the_disk_or_came_before_is_no_news() {
        let mut recent = RecentResets::up_to(5);
        let news: Vec<bool> = [5, 9, 7, 9, 7, 3].into_iter().map(|version| recent.is_news(version)).collect();
        assert_eq!(news, [false, true, true, false, false, false]);
    }

    #[test]
    fn what_is_remembered_has_a_bound_and_what_is_forgotten_is_no_news() {
        let mut heard = RecentResets::up_to(0);
        let count = u64::try_from(RECENT_RESETS_MAX).unwrap() + 10;
        assert!((1..=count).all(|version| heard.is_news(version)));
        assert_eq!(heard.versions.len(), RECENT_RESETS_MAX);
        assert!(!(1..=count).any(|version| heard.is_news(version)));
    }
}
