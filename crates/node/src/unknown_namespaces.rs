//! Requests in namespaces that have no rules: they are allowed, so a mistyped name switches limits off in silence.
//!
//! Counted, and logged once a minute at most. One count per process, as there is one engine in it.

use crate::request::{Request, Subject};
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_core::Nanos;

const LOG_EVERY: Nanos = Nanos::from_secs(60);
/// Of a name that is logged: callers choose it.
const NAME_CHARS_MAX: usize = 40;

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static LOGGED_AT: AtomicU64 = AtomicU64::new(0);

/// How many there were.
pub fn requests() -> u64 {
    REQUESTS.load(Ordering::Relaxed)
}

#[cold]
pub(crate) fn record(request: &Request<'_>, now: Nanos) {
    let requests = REQUESTS.fetch_add(1, Ordering::Relaxed) + 1;
    let (Subject::Rules { namespace, .. } | Subject::Descriptors { namespace, .. }) = request.subject else {
        return;
    };
    let logged_at = LOGGED_AT.load(Ordering::Relaxed);
    if logged_at != 0 && now.minus(Nanos::new(logged_at)) < LOG_EVERY {
        return;
    }
    let exchanged = LOGGED_AT.compare_exchange(logged_at, now.get(), Ordering::Relaxed, Ordering::Relaxed);
    if exchanged.is_ok() {
        tracing::warn!(
            tenant = request.tenant,
            namespace = ?shortened(namespace),
            requests,
            "no rules for this namespace: its requests are allowed. Is the name mistyped, or are rules missing?"
        );
    }
}

fn shortened(name: &str) -> &str {
    name.char_indices().nth(NAME_CHARS_MAX).map_or(name, |(end, _)| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_shortened_between_characters() {
        assert_eq!(shortened("api"), "api");
        assert_eq!(shortened(&"\u{e9}".repeat(100)), "\u{e9}".repeat(40));
    }
}
