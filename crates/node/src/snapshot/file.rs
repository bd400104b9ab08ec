//! A table's counts in a file, and back.
//!
//! Takes no more memory than a batch of entries, holds no lock of the table while it writes, and never leaves
//! half a snapshot where the next start looks for one.

use super::format::{self, Head, SnapshotProblem, Writer};
use crate::files;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use tidegate_core::state::State;
use tidegate_core::{ClockStep, FleetSecret, KeyId, LocalState, Moment, Nanos, StepId, Table};

/// A wall clock that was set back by more than this while nobody ran is a clock step: what was used then is
/// used now. Smaller differences are two clocks that don't quite agree.
const SET_BACK_FROM: Nanos = Nanos::from_secs(60);

/// Which counts are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All that still say something.
    Live,
    /// Those that will still say something in a minute: short-lived ones aren't worth writing again and again.
    Lasting,
}

impl Extent {
    const fn lasts_for(self) -> Nanos {
        match self {
            Extent::Live => Nanos::ZERO,
            Extent::Lasting => Nanos::from_secs(60),
        }
    }
}

/// Why nothing was saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the clock was set meanwhile")]
    ClockStepped,
}

/// What came of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadReport {
    pub restored: u64,
    /// Said nothing any more.
    pub expired: u64,
    /// Found the table full.
    pub without_room: u64,
    pub saved_at: Nanos,
    /// By how much the clock was set back since then, where that is more than a difference between clocks.
    pub set_back: Option<Nanos>,
}

/// Writes a table's counts, in a directory that is there. Says how many.
pub fn save(
    table: &Table<LocalState>,
    secret: &FleetSecret,
    path: &Path,
    moment: Moment,
    extent: Extent,
) -> Result<u64, SaveError> {
    files::replace(path, |file| write(table, secret, file, moment, extent))
}

pub(super) fn write<W: Write>(
    table: &Table<LocalState>,
    secret: &FleetSecret,
    out: W,
    moment: Moment,
    extent: Extent,
) -> Result<(u64, W), SaveError> {
    let (latest, steps) = table.steps();
    if latest != moment.step {
        return Err(SaveError::ClockStepped);
    }
    let oldest = u8::try_from(steps.len()).unwrap_or(u8::MAX);
    let mut writer =
        Writer::new(out, &Head { fingerprint: secret.fingerprint(), saved_at: moment.now, steps })?;
    let kept_from = moment.now.plus(extent.lasts_for());
    table.for_each_batch(|batch: &[(KeyId, LocalState)]| {
        for (key, state) in batch {
            let age = state.step().age_at(moment.step);
            if age <= oldest && table.expires_at(state, moment) > kept_from {
                writer.entry(*key, state.with_step(StepId(age)).to_words())?;
            }
        }
        io::Result::Ok(())
    })?;
    // A state that was written after a step which `moment` doesn't know would have been misread.
    if table.steps().0 != moment.step {
        return Err(SaveError::ClockStepped);
    }
    Ok(writer.finish()?)
}

/// Fills a table with what was saved; `None` when nothing was. For a table without entries and steps.
pub fn load(
    table: &Table<LocalState>,
    secret: &FleetSecret,
    path: &Path,
    moment: Moment,
) -> Result<Option<LoadReport>, SnapshotProblem> {
    match File::open(path) {
        Ok(file) => read(table, secret, file, moment).map(Some),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn read<F: io::Read + io::Seek>(
    table: &Table<LocalState>,
    secret: &FleetSecret,
    file: F,
    moment: Moment,
) -> Result<LoadReport, SnapshotProblem> {
    let (head, mut entries) = format::open(file, secret.fingerprint())?;
    let set_back = Some(head.saved_at.minus(moment.now)).filter(|length| *length > SET_BACK_FROM);
    let meanwhile = set_back.map(|length| ClockStep {
        delta_ns: i64::try_from(length.get()).map_or(i64::MIN, i64::wrapping_neg),
        lands_at: moment.now,
    });
    let oldest = head.steps.len();
    table.take_over_steps(&meanwhile.into_iter().chain(head.steps).collect::<Vec<_>>());
    let mut loaded = LoadReport { saved_at: head.saved_at, set_back, ..LoadReport::default() };
    while let Some((key, words)) = entries.next()? {
        let state = LocalState::from_words(words).filter(|state| usize::from(state.step().0) <= oldest);
        // The checksum says that it was written so; still, nothing is decided on what no state can be.
        let Some(state) = state else { return Err(SnapshotProblem::Damaged) };
        let age = state.step().0.saturating_add(u8::from(meanwhile.is_some()));
        let state = state.with_step(moment.step.aged(age));
        if table.expires_at(&state, moment) <= moment.now {
            loaded.expired += 1;
        } else if table.upsert(key, moment, |entry| *entry = state).is_some() {
            loaded.restored += 1;
        } else {
            loaded.without_room += 1;
        }
    }
    Ok(loaded)
}
