//! The latest deltas, in memory: who was away for a moment needn't ask the store.

use std::collections::VecDeque;
use std::sync::Arc;
use tidegate_rules::Delta;

const DELTAS_MAX: usize = 8192;
const BYTES_MAX: usize = 32 << 20;

/// A delta in force, with its encoded bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedDelta {
    pub delta: Delta,
    /// As it travels.
    pub bytes: Vec<u8>,
}

/// One after the other, without gaps.
#[derive(Debug, Default)]
pub(super) struct Recent {
    deltas: VecDeque<Arc<EncodedDelta>>,
    bytes: usize,
}

impl Recent {
    pub(super) fn add(&mut self, logged: Arc<EncodedDelta>) {
        if self.deltas.back().is_some_and(|last| last.delta.version + 1 != logged.delta.version) {
            *self = Recent::default();
        }
        self.bytes += logged.bytes.len();
        self.deltas.push_back(logged);
        while self.deltas.len() > DELTAS_MAX || self.bytes > BYTES_MAX {
            let Some(first) = self.deltas.pop_front() else { break };
            self.bytes -= first.bytes.len();
        }
    }

    /// Those behind a version, up to `head`; `None` when the first of them isn't here any more.
    pub(super) fn after(&self, version: u64, head: u64) -> Option<Vec<Arc<EncodedDelta>>> {
        if version >= head {
            return Some(Vec::new());
        }
        let first = self.deltas.front()?.delta.version;
        let skipped = usize::try_from((version + 1).checked_sub(first)?).ok()?;
        Some(self.deltas.iter().skip(skipped).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_runs_are_handed_out() {
        let mut recent = Recent::default();
        let versions = |recent: &Recent, after, head| {
            let found = recent.after(after, head)?;
            Some(found.iter().map(|logged| logged.delta.version).collect::<Vec<_>>())
        };
        assert_eq!(versions(&recent, 0, 5), None);
        assert_eq!(versions(&recent, 5, 5), Some(vec![]));
        for version in 6..9 {
            let delta = Delta { version, changes: Vec::new() };
            recent.add(Arc::new(EncodedDelta { delta, bytes: Vec::new() }));
        }
        assert_eq!(versions(&recent, 4, 8), None);
        assert_eq!(versions(&recent, 5, 8), Some(vec![6, 7, 8]));
        assert_eq!(versions(&recent, 7, 8), Some(vec![8]));
        let delta = Delta { version: 20, changes: Vec::new() };
        recent.add(Arc::new(EncodedDelta { delta, bytes: vec![0; BYTES_MAX] }));
        assert_eq!(versions(&recent, 8, 20), None, "there is a gap");
        assert_eq!(versions(&recent, 19, 20), Some(vec![20]));
    }
}
