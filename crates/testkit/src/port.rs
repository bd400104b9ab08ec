//! Ports for servers that have to know theirs before they start.
//!
//! Not by binding port 0: that gives a port of the range from which the kernel serves outgoing connections, so
//! that a killed server could find its port taken when it comes back. These lie below that range.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;
/// Redis' rule: a cluster node talks to its peers on its port plus this. Such ports lie beyond our own range,
/// and below the kernel's (32,768 and up).
const CLUSTER_BUS_OFFSET: u16 = 10_000;

/// A port of 127.0.0.1 that nobody listens on, nor on the cluster bus port that goes with it. No port is given
/// twice by a process; another process may still be faster, so a server's start has to be tried again.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    for _ in 0..COUNT {
        let offset = u32::from(first_offset()) + u32::from(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from(offset % u32::from(COUNT)).unwrap_or_default();
        if is_free(port) && is_free(port + CLUSTER_BUS_OFFSET) {
            return port;
        }
    }
    panic!("no port is free from {FIRST} on");
}

/// Test processes that run at the same time start at different places.
fn first_offset() -> u16 {
    static OFFSET: OnceLock<u16> = OnceLock::new();
    let random = || RandomState::new().build_hasher().finish();
    *OFFSET.get_or_init(|| u16::try_from(random() % u64::from(COUNT)).unwrap_or_default())
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
