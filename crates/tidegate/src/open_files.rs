//! How many connections the limit on open files leaves room for, and each listener's share of them.
//!
//! Each connection is a descriptor. A process that hands all of them to callers can't answer a health check, reach its
//! stores or rotate a log, so some are kept in reserve.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Operators' connections at one time, where the limit leaves room for as many.
const ADMIN_CONNECTIONS_MAX: u64 = 256;
const ADMIN_CONNECTIONS_MIN: u64 = 4;
/// What each thread that answers opens: its runtime, and every listener once more.
const FILES_PER_THREAD: u64 = 10;
/// Connections to stores, log files, rules being read, and sockets that are accepted only to be refused.
const RESERVE: std::ops::RangeInclusive<u64> = 8..=256;
/// Where the system doesn't list the files that are open.
const OPEN_GUESS: u64 = 32;

/// The connections that each listener may have at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConnectionShares {
    /// Of each listener for callers.
    pub(crate) callers: usize,
    pub(crate) admin: usize,
}

/// Raises the soft limit on open files to the hard one; returns what the limit is then.
pub(crate) fn raise_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "can't raise the limit on open files; there may be room for few connections");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Divides what the limit leaves, evenly: `connections_max` for each listener of callers, or less. Call it when
/// everything but listeners and threads is open.
pub(crate) fn shares(connections_max: usize, listeners: usize, threads: usize) -> ConnectionShares {
    let files = raise_limit();
    let open = std::fs::read_dir("/proc/self/fd").map_or(OPEN_GUESS, |open| open.count() as u64);
    let shares = divide(files, open, connections_max, listeners, threads);
    if shares.callers < connections_max {
        tracing::warn!(
            open_files = files,
            listen_max_connections = connections_max,
            connections_of_each_listener = shares.callers,
            fix = "raise the hard limit (`ulimit -Hn`, LimitNOFILE=), or lower `listen.max_connections`",
            "the limit on open files leaves room for fewer connections than `listen.max_connections`"
        );
    }
    shares
}

fn divide(
    files: u64,
    open: u64,
    connections_max: usize,
    listeners: usize,
    threads: usize,
) -> ConnectionShares {
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let own = open + count(listeners) + 2 + FILES_PER_THREAD * count(threads);
    let reserve = (files / 8).clamp(*RESERVE.start(), *RESERVE.end());
    let left = files.saturating_sub(own).saturating_sub(reserve);
    let admin = (left / 8).clamp(ADMIN_CONNECTIONS_MIN, ADMIN_CONNECTIONS_MAX);
    let callers = left.saturating_sub(admin) / count(listeners).max(1);
    let callers = callers.clamp(1, count(connections_max).max(1));
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    ConnectionShares { callers: size(callers), admin: size(admin) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_high_limit_leaves_every_listener_what_is_set() {
        let shares = divide(1 << 20, 30, 16_000, 5, 64);
        assert_eq!(shares, ConnectionShares { callers: 16_000, admin: 256 });
        assert_eq!(divide(u64::MAX, 30, 16_000, 3, 2), shares);
    }

    #[test]
    fn a_low_limit_is_divided_and_never_exceeded() {
        for files in [0, 40, 60, 100, 1024, 4096, 20_000, 65_536] {
            let ConnectionShares { callers, admin } = divide(files, 15, 16_000, 3, 2);
            let total = 3 * callers as u64 + admin as u64 + 15 + 5 + 20;
            let is_minimal = callers == 1 && admin == 4;
            assert!(total <= files || is_minimal, "{files}: {callers}, {admin}");
            assert!(callers >= 1 && admin >= 4, "{files}");
        }
        assert_eq!(divide(1024, 15, 16_000, 3, 2), ConnectionShares { callers: 249, admin: 107 });
    }
}
