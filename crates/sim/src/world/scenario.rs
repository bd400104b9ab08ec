//! What a run of many regions is made of. Plain data, complete before the run begins.

use crate::fault::Fault;
use crate::file::{instant, length, offset, seed, timed};
use crate::network::{Latency, NetworkOptions, Odds, Way};
use crate::scenario::{RegionShare, Scenario};
use serde::{Deserialize, Serialize};
use tidegate_core::Nanos;
use tidegate_world::{PublishPolicy, PublishThreshold};

/// The network of a region that is so far away from the world store: there and back, within a tenth.
pub fn away(millis: u64) -> NetworkOptions {
    let (least, most) = (Nanos::new(millis * 450_000 + 50_000), Nanos::new(millis * 550_000 + 250_000));
    let latency = Latency { least, most, spikes: Odds::NEVER, spike: Nanos::ZERO };
    NetworkOptions { latency, ..NetworkOptions::LOOPBACK }
}

/// So that there are many pages.
const FEW_ROWS: usize = 7;

/// What regions record in the store if nothing else was set.
pub const HEADROOM: PublishPolicy =
    PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) };

/// What goes wrong between regions. What goes wrong inside of one is in its own scenario, but for what hits
/// whoever is the worker then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum WorldFault {
    /// The store refuses connections; what wasn't committed is undone.
    StoreGoesDown,
    StoreComesBack,
    /// The store stands still and then does what came meanwhile.
    StorePauses {
        #[serde(rename = "length_ms", with = "length")]
        length: Nanos,
    },
    /// Messages between a region and the store get lost one way.
    Cut {
        region: usize,
        way: Way,
    },
    Mend {
        region: usize,
        way: Way,
    },
    /// From now on so many of 10,000 answers of the store get lost.
    AnswersLost {
        of_10_000: u64,
    },
    /// The next time that the region's rows are written, its worker dies before it hears of it, and comes up
    /// again later as a new process.
    WorkerDiesInMidPublish {
        region: usize,
        #[serde(rename = "comes_back_after_ms", with = "length")]
        comes_back_after: Nanos,
    },
    /// The region's worker stands still, and then goes on as if it were the worker still.
    WorkerPauses {
        region: usize,
        #[serde(rename = "length_ms", with = "length")]
        length: Nanos,
    },
    /// The store loses every count.
    RowsAreLost,
    /// The store loses all regions' counts of one key.
    RowsOfKeyAreLost {
        key: usize,
    },
    /// The store loses the counts that one region published.
    RowsOfRegionAreLost {
        region: usize,
    },
    /// A backup of the store is taken.
    StoreIsCopied,
    /// The backup takes the store's place, with everything that was in it.
    StoreIsRestored,
    /// All nodes of a region leave for good. Its own store and its rows stay.
    RegionLeaves {
        region: usize,
    },
    /// All nodes of a region are started again, with another name for their region and the same store.
    RegionIsRenamed {
        region: usize,
    },
    /// Something inside of a region.
    Inside {
        region: usize,
        fault: Fault,
    },
    /// The network between all regions and the store is well from now on.
    Calm,
}

/// A mistake to make on purpose: a test that doesn't find it is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorldFlaw {
    /// What was imported is published again as the region's own.
    RepublishesImports,
    /// The store adds what grew, instead of taking the larger count.
    AddsDeltas,
    /// Counts of more than 16 limits don't reach the other regions.
    IgnoresOverdrawn,
    /// An origin whose region is renamed is another owner.
    OwnersByName,
    /// Regions never hear that the store lost rows of theirs.
    ForgetsLosses,
    /// Regions never learn that the store went back to older slices.
    HidesRestores,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorldScenario {
    #[serde(with = "seed")]
    pub seed: u64,
    /// All with the same keys.
    pub regions: Vec<Scenario>,
    /// Between each region and the store.
    pub networks: Vec<NetworkOptions>,
    /// How far the store's clock is from the truth.
    #[serde(rename = "store_offset_ms", with = "offset")]
    pub store_offset_ns: i64,
    /// Rows are written up to so long after their statement came.
    #[serde(rename = "commits_within_ms", with = "length")]
    pub commits_within: Nanos,
    #[serde(with = "timed")]
    pub faults: Vec<(Nanos, WorldFault)>,
    pub flaw: Option<WorldFlaw>,
    /// What a region's store lost, and a living node of the region still knows, is in no account.
    pub judges_data_loss: bool,
    /// How many rows a page of an import has.
    pub page_rows: usize,
    #[serde(rename = "ends_at_ms", with = "instant")]
    pub ends_at: Nanos,
}

impl Default for WorldScenario {
    fn default() -> Self {
        WorldScenario::calm(0, Vec::new(), HEADROOM, &[])
    }
}

impl WorldScenario {
    /// Regions that are well, so many milliseconds away from a store that is.
    pub fn calm(seed: u64, mut regions: Vec<Scenario>, policy: PublishPolicy, millis_away: &[u64]) -> Self {
        for (index, region) in regions.iter_mut().enumerate() {
            region.world = Some(RegionShare { region: format!("region-{index}"), policy });
            // One that joins late may have no requests after that.
            region.ends_at = region.ends_at.max(region.boots_at.plus(Nanos::from_secs(1)));
        }
        let networks = millis_away.iter().copied().cycle().take(regions.len()).map(away).collect();
        let ends_at = regions.iter().map(|region| region.ends_at).max().unwrap_or(crate::START);
        WorldScenario {
            seed,
            regions,
            networks,
            store_offset_ns: 0,
            commits_within: Nanos::ZERO,
            faults: Vec::new(),
            flaw: None,
            judges_data_loss: false,
            page_rows: FEW_ROWS,
            ends_at,
        }
    }
}
