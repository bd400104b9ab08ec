//! The secret of the fleets that are measured, so that benchmarks find their counts in the stores.

use tidegate_core::FleetSecret;

/// For `cluster.secret_file`.
pub(crate) const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/load/fleet.secret");

pub(crate) fn secret() -> FleetSecret {
    FleetSecret::from_bytes(include_bytes!("fleet.secret"))
}
