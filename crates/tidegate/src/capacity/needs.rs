//! The arithmetic. Bounds, not averages: every key of a kind is asked about alike, and every node sees its share.

use super::inputs::{ACTIVE_SECONDS, Inputs, Kind};

/// A node that admits tells its region so within 100 ms, so it syncs a key ten times a second at most, whatever the
/// key's rate; a hot key's leases are as many.
pub(crate) const SYNCS_PER_SECOND: f64 = 10.0;
/// Of a Redis core, for a key that a node sees for the first time and that is asked about by itself.
pub(crate) const CELL_MICROS: f64 = 15.0;
/// How much of a core is used at a peak: what is left takes bursts, replication and the other half of a failover.
pub(crate) const BUSY: f64 = 0.5;
/// Of a key with both its cells: in Redis, and in a node's table (`cargo xtask bars memory`).
pub(crate) const STORE_BYTES: f64 = 247.0;
pub(crate) const NODE_BYTES: f64 = 148.0;
/// Of an override, in a node's memory and in the rules file (`cargo xtask bars rules`).
pub(crate) const RULE_BYTES: f64 = 85.4;
pub(crate) const RULE_FILE_BYTES: f64 = 55.8;
/// A world worker publishes four times a second at most, in one row each time.
pub(crate) const PUBLISHES_PER_SECOND: f64 = 4.0;
/// Of a denial in the log, with its index.
pub(crate) const DENIAL_BYTES: f64 = 96.0;
const SECONDS_PER_MONTH: f64 = 365.25 * 86_400.0 / 12.0;
const MILLION: f64 = 1e6;

/// One kind of limit, in a region at its peak, in a second.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct KindNeeds {
    pub(crate) name: String,
    pub(crate) keys: f64,
    /// Requests for one key that one node sees.
    pub(crate) seen: f64,
    pub(crate) naive: f64,
    pub(crate) operations: f64,
}

impl KindNeeds {
    fn of(kind: &Kind, peak: f64, spread: f64) -> Self {
        let places = kind.keys * spread;
        KindNeeds {
            name: kind.name.clone(),
            keys: kind.keys,
            seen: peak / places,
            naive: peak,
            operations: peak.min(SYNCS_PER_SECOND * places),
        }
    }

    /// Fewer operations than requests: most are decided in a node's memory.
    pub(crate) fn is_bounded(&self) -> bool {
        self.operations < self.naive
    }
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Needs {
    /// Of a region, requests a second.
    pub(crate) average: f64,
    pub(crate) peak: f64,
    pub(crate) kinds: Vec<KindNeeds>,
    /// In a region: an operation for every check.
    pub(crate) naive: f64,
    /// At the shard's plain operations.
    pub(crate) naive_shards: f64,
    /// At what an operation of ours costs.
    pub(crate) naive_shards_measured: f64,
    pub(crate) operations: f64,
    pub(crate) shards: f64,
    /// In a region: at most, for all hot keys together; and what the hottest would put on one shard without leases.
    pub(crate) leases: f64,
    pub(crate) store_bytes: f64,
    /// Of each node.
    pub(crate) table_bytes: f64,
    pub(crate) rules_bytes: f64,
    pub(crate) rules_file_bytes: f64,
    /// Rows a second, all regions.
    pub(crate) sql_rows: f64,
    /// A second, all nodes.
    pub(crate) denials: f64,
    pub(crate) log_bytes: f64,
    pub(crate) dollars: f64,
    pub(crate) dollars_per_million: f64,
}

impl Needs {
    pub(crate) fn of(inputs: &Inputs) -> Self {
        let average = inputs.requests / inputs.regions;
        let peak = average * inputs.peak * inputs.headroom;
        let kinds: Vec<KindNeeds> =
            inputs.kinds.iter().map(|kind| KindNeeds::of(kind, peak, inputs.spread)).collect();
        let naive: f64 = kinds.iter().map(|kind| kind.naive).sum();
        let operations: f64 = kinds.iter().map(|kind| kind.operations).sum();
        let shards = shards(operations);
        // Of all kinds together, as many as requests name within ten seconds, and not more than there are.
        let seen = (peak / inputs.nodes * as_number(kinds.len()) * ACTIVE_SECONDS).min(inputs.active_keys);
        let denials = inputs.requests * inputs.denied;
        let dollars = shards * inputs.regions * inputs.shard_price + inputs.fixed_price;
        Needs {
            average,
            peak,
            naive,
            naive_shards: (naive / inputs.shard_operations).ceil(),
            naive_shards_measured: self::shards(naive),
            operations,
            shards,
            leases: inputs.hot_keys * inputs.spread * SYNCS_PER_SECOND,
            store_bytes: inputs.active_keys * STORE_BYTES,
            table_bytes: seen * NODE_BYTES,
            rules_bytes: inputs.rules * RULE_BYTES,
            rules_file_bytes: inputs.rules * RULE_FILE_BYTES,
            // One region alone has nobody to tell.
            sql_rows: if inputs.regions > 1.0 { PUBLISHES_PER_SECOND * inputs.regions } else { 0.0 },
            denials,
            log_bytes: denials * DENIAL_BYTES,
            dollars,
            dollars_per_million: dollars / (inputs.requests * SECONDS_PER_MONTH / MILLION),
            kinds,
        }
    }
}

/// As many as keep their cores no busier than planned.
fn shards(operations: f64) -> f64 {
    (operations * CELL_MICROS / MILLION / BUSY).ceil().max(1.0)
}

/// Exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "at most a hundred kinds of limits")]
fn as_number(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::super::inputs::command;
    use super::*;

    fn needs(words: &[&str]) -> Needs {
        let words = std::iter::once(&"plan").chain(words);
        Needs::of(&Inputs::read(&command().try_get_matches_from(words).unwrap()).unwrap())
    }

    fn is_near(left: f64, right: f64) -> bool {
        (left - right).abs() <= right.abs() * 1e-9
    }

    #[test]
    fn a_small_fleet_gets_a_small_answer() {
        let needs = needs(&["--requests", "2000", "--regions", "1", "--nodes", "4", "--limit", "user=50000"]);
        assert!(is_near(needs.peak, 3600.0) && is_near(needs.shards, 1.0), "{needs:?}");
        assert!(needs.store_bytes < 20e6 && needs.rules_bytes < 1e6 && needs.sql_rows < 1.0, "{needs:?}");
        assert!(needs.dollars < 200.0 && needs.leases < 1.0, "{needs:?}");
        let [least, most] =
            [["--requests", "100"], ["--requests", "5000000"]].map(|words| self::needs(&words));
        assert!(is_near(least.shards, 1.0) && most.shards > 50.0 && most.dollars > 50.0 * least.dollars);
    }

    #[test]
    fn defaults_follow_the_inputs() {
        let small = needs(&[]);
        let large = needs(&["--requests", "200000", "--regions", "2"]);
        assert!(large.store_bytes > 10.0 * small.store_bytes && large.sql_rows > 0.0, "{large:?}");
        assert!(is_near(large.kinds[0].keys, 2_500_000.0), "{large:?}");
        assert!(
            small.leases < 1.0 && large.leases > 1.0,
            "the global limit of a large fleet is hot: {large:?}"
        );
    }

    #[test]
    fn a_kind_with_few_keys_costs_by_nodes_and_one_with_many_by_requests() {
        let needs = needs(&["--limit", "user=1e9", "--limit", "global=1", "--nodes", "30", "--regions", "1"]);
        let [user, global] = &needs.kinds[..] else { panic!("two kinds") };
        assert!(is_near(user.operations, needs.peak) && !user.is_bounded(), "{user:?}");
        assert!(is_near(global.operations, 300.0) && global.is_bounded(), "{global:?}");
        assert!(is_near(needs.operations, user.operations + global.operations));
    }
}
