//! What a connection reads into and writes from, lent by its thread for as long as it holds anything.
//!
//! An idle connection has none: ten thousand of them would keep 16 KiB each for nothing. A busy one finds the
//! same few buffers again, still warm in the cache.

use std::cell::RefCell;

/// A read, and the step by which a long request's room grows.
pub(crate) const STEP_BYTES: usize = 16 << 10;
/// The longest request, and the most that is read ahead.
pub(crate) const INPUT_BYTES_MAX: usize = 8 * STEP_BYTES;
/// Replies beyond this are written before more requests are looked at.
pub(crate) const OUTPUT_BYTES_SOFT_MAX: usize = 64 << 10;
/// A thread keeps as many as are in use at one time, hardly ever more than one.
const POOLED_BUFFERS_MAX: usize = 8;

thread_local! {
    static POOL: RefCell<Vec<Buffers>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub(crate) struct Buffers {
    storage: Vec<u8>,
    /// What was read and not yet consumed: `storage[start..end]`.
    start: usize,
    end: usize,
    pub(crate) output: Vec<u8>,
}

impl Buffers {
    pub(crate) fn lend() -> Self {
        let kept = POOL.with_borrow_mut(Vec::pop);
        kept.unwrap_or_else(|| Buffers {
            storage: vec![0; STEP_BYTES],
            start: 0,
            end: 0,
            output: Vec::with_capacity(STEP_BYTES),
        })
    }

    /// For the next connection; what a large request left is freed.
    pub(crate) fn give_back(mut self) {
        self.storage.truncate(STEP_BYTES);
        self.storage.shrink_to_fit();
        self.output.clear();
        self.output.shrink_to(STEP_BYTES);
        (self.start, self.end) = (0, 0);
        POOL.with_borrow_mut(|kept| {
            if kept.len() < POOLED_BUFFERS_MAX {
                kept.push(self);
            }
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end && self.output.is_empty()
    }

    /// What was read and not yet consumed, and where to answer it.
    pub(crate) fn both(&mut self) -> (&[u8], &mut Vec<u8>) {
        (&self.storage[self.start..self.end], &mut self.output)
    }

    pub(crate) fn unread(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(self.start <= self.end, "nobody consumes what wasn't read");
    }

    /// Where to read to; empty only when a whole [`INPUT_BYTES_MAX`] waits to be consumed.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.storage.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.storage.len() && self.end < INPUT_BYTES_MAX {
            self.storage.resize(self.end + STEP_BYTES, 0);
        }
        &mut self.storage[self.end..]
    }

    /// So much was read into the room.
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
        assert!(self.end <= self.storage.len(), "nobody reads more than there is room for");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(buffers: &mut Buffers, bytes: &[u8]) {
        buffers.room()[..bytes.len()].copy_from_slice(bytes);
        buffers.filled(bytes.len());
    }

    #[test]
    fn what_is_left_moves_to_the_front_and_is_followed_by_what_comes() {
        let mut buffers = Buffers::lend();
        read(&mut buffers, b"abcdef");
        buffers.consume(4);
        read(&mut buffers, b"gh");
        assert_eq!(buffers.both().0, b"efgh");
        buffers.consume(4);
        assert!(buffers.is_empty());
    }

    #[test]
    fn room_grows_in_steps_up_to_the_bound_and_is_given_back() {
        let mut buffers = Buffers::lend();
        let mut rooms = Vec::new();
        while !buffers.room().is_empty() {
            rooms.push(buffers.room().len());
            let all = buffers.room().len();
            buffers.filled(all);
        }
        assert_eq!(rooms, [STEP_BYTES; 8]);
        assert_eq!(buffers.unread(), INPUT_BYTES_MAX);
        buffers.output.resize(1 << 20, 0);
        buffers.give_back();
        let again = Buffers::lend();
        assert!(again.is_empty() && again.storage.capacity() < 2 * STEP_BYTES);
        assert!(again.output.capacity() < 2 * STEP_BYTES);
    }
}
