//! The table's lock: parking_lot's, or shuttle's when a test explores interleavings.

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::MutexGuard;

/// shuttle's mutex with parking_lot's signatures.
#[cfg(feature = "shuttle")]
#[derive(Debug)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(feature = "shuttle")]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("a thread panicked while it held a shard")
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
