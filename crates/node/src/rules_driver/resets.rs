//! Resets that the control plane ordered. Every node hears of them, and each region carries one out once.

use crate::clock::Clock;
use crate::engine::Engine;
use crate::region_driver::RegionDriver;
use std::sync::Arc;
use std::time::Duration;
use tidegate_rules::OverrideName;
use tokio::sync::mpsc;

/// An origin that is away gets it within this; the others of the region try as well.
const ATTEMPTS_MAX: u32 = 120;
const WAIT: Duration = Duration::from_millis(500);

/// A caller that is to start afresh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// Of the change that it came with: an order of a lower number comes too late.
    pub number: u64,
    pub name: OverrideName,
}

/// Carries out one after the other until nobody orders any more.
pub async fn carry_out(
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    sharing: Option<Arc<RegionDriver>>,
    mut ordered: mpsc::Receiver<Order>,
) {
    while let Some(Order { number, name }) = ordered.recv().await {
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
            tokio::time::sleep(WAIT).await;
        }
    }
}
