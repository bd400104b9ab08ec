//! Who comes most often, as operators see it: with what the region makes of them.

use super::Engine;
use crate::top::{Top, TopReport};
use tidegate_core::Nanos;

impl Engine {
    /// Who comes most often, and who is denied most.
    pub fn top(&self) -> &Top {
        &self.top
    }

    /// The same for operators: of one tenant, or of all.
    pub fn top_report(&self, tenant: Option<&str>, now: Nanos) -> TopReport {
        let mut report = self.top.report(tenant, now);
        if let Some(sharing) = self.shared() {
            let leased = sharing.region.leased();
            for caller in report.busiest.iter_mut().chain(&mut report.denied) {
                caller.is_leased = leased.contains(&caller.key);
                caller.is_hot |= caller.is_leased || sharing.region.is_hot(caller.key);
            }
        }
        report
    }
}
