//! `Idempotency-Key`: a retry within a minute gets the answer of the first attempt and is charged nothing.
//!
//! A denial is repeated only until its own `retry_after` has passed: then the request is decided again.
//! Kept by this node alone and in memory. Two generations of answers, the older one dropped as a whole, so that
//! forgetting costs nothing; bounded by bytes, and what finds no room is answered but not remembered, and
//! counted. No tenant sees another's answers, nor can it take the last of the room. Whoever comes while the first attempt is still being decided waits for it.

use crate::counters::COUNTERS;
use crate::decide::Reply;
use crate::refusal::{Code, Refusal, excerpt};
use hyper::HeaderMap;
use hyper::header::HeaderName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use tidegate_core::Nanos;
use tokio::sync::OnceCell;

pub(crate) const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const KEY_CHARS_MAX: usize = 255;
const IDEMPOTENCY_TTL: Nanos = Nanos::from_secs(60);
/// Of keys and answers, in each generation. A tenant may have as many as are left for others: one alone half.
const BYTES_MAX: usize = 32 << 20;
/// What an entry takes beside its texts.
const ENTRY_BYTES: usize = 128;

/// The answers that may be asked for again.
#[derive(Debug, Default)]
pub struct Idempotency {
    generations: Mutex<Generations>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Generations {
    young: Generation,
    old: Generation,
    /// When the young one was begun.
    since: Nanos,
}

#[derive(Debug, Default)]
struct Generation {
    attempts: HashMap<Box<str>, Arc<Attempt>>,
    bytes: usize,
    /// Of these, each tenant's.
    bytes_of: HashMap<Box<str>, usize>,
}

/// The first request by a key.
#[derive(Debug)]
struct Attempt {
    /// Of path and body: another request by the same key is a mistake.
    fingerprint: u64,
    at: Nanos,
    reply: OnceCell<Reply>,
}

impl Attempt {
    /// Whether its answer, or the one that is being waited for, is still to be given.
    fn is_in_force(&self, now: Nanos) -> bool {
        let wait = self.reply.get().and_then(|reply| reply.retry_after).unwrap_or(IDEMPOTENCY_TTL);
        now.minus(self.at) < wait.min(IDEMPOTENCY_TTL)
    }

    fn bytes(&self, name: &str) -> usize {
        name.len() + ENTRY_BYTES + self.reply.get().map_or(0, |reply| reply.body.len())
    }
}

/// The key of a request; `None` when it has none.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| (1..=KEY_CHARS_MAX).contains(&text.len()));
    text.map(Some).ok_or_else(|| {
        let message = format!("an idempotency key has 1 to {KEY_CHARS_MAX} printable ASCII characters");
        Refusal::of_field(Code::InvalidText, HEADER.as_str(), message, "a random UUID will do")
    })
}

impl Idempotency {
    /// The answer to a request by a key: as it was given already, or as `decide` gives it now. Says also
    /// whether it was given already.
    pub(crate) async fn answer(
        &self,
        (tenant, key): (&str, &str),
        request: (&str, &[u8]),
        now: Nanos,
        decide: impl Future<Output = Result<Reply, Refusal>>,
    ) -> Result<(Reply, bool), Refusal> {
        let fingerprint = self.hasher.hash_one(request);
        // A length before it: no tenant and key run into another's.
        let name = format!("{}:{tenant}{key}", tenant.len());
        let Some(attempt) = self.generations.lock().attempt((tenant, name), fingerprint, now) else {
            COUNTERS.idempotency_forgotten.add_one();
            return Ok((decide.await?, false));
        };
        if attempt.fingerprint != fingerprint {
            let message = format!("`{}` was the key of another request", excerpt(key));
            let fix = "use a new key for each request, and the same only to repeat it unchanged";
            return Err(Refusal::of_field(Code::IdempotencyKeyReused, HEADER.as_str(), message, fix));
        }
        let mut is_first = false;
        // A request that was refused is no answer: it may be mended and sent again.
        let reply = attempt.reply.get_or_try_init(|| {
            is_first = true;
            decide
        });
        let reply = reply.await?.clone();
        if is_first {
            self.generations.lock().young.charge(tenant, reply.body.len());
        }
        Ok((reply, !is_first))
    }
}

impl Generations {
    /// What was begun by this name within the last minute, or a new attempt; `None` when there is no room.
    fn attempt(
        &mut self,
        (tenant, name): (&str, String),
        fingerprint: u64,
        now: Nanos,
    ) -> Option<Arc<Attempt>> {
        if now.minus(self.since) >= IDEMPOTENCY_TTL || now < self.since {
            self.old = std::mem::take(&mut self.young);
            self.since = now;
        }
        let known = self.young.attempts.get(&*name).or_else(|| self.old.attempts.get(&*name));
        if let Some(attempt) = known
            && attempt.is_in_force(now)
        {
            return Some(attempt.clone());
        }
        if let Some(over) = self.young.attempts.remove(&*name) {
            self.young.refund(tenant, over.bytes(&name));
        }
        let bytes = name.len() + ENTRY_BYTES;
        if !self.young.leaves_room_for_others(tenant, bytes) {
            return None;
        }
        self.young.charge(tenant, bytes);
        let attempt = Arc::new(Attempt { fingerprint, at: now, reply: OnceCell::new() });
        self.young.attempts.insert(name.into(), attempt.clone());
        Some(attempt)
    }
}

impl Generation {
    fn leaves_room_for_others(&self, tenant: &str, bytes: usize) -> bool {
        let own = self.bytes_of.get(tenant).copied().unwrap_or(0);
        own + bytes <= BYTES_MAX.saturating_sub(self.bytes)
    }

    fn refund(&mut self, tenant: &str, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(own) = self.bytes_of.get_mut(tenant) {
            *own = own.saturating_sub(bytes);
        }
    }

    fn charge(&mut self, tenant: &str, bytes: usize) {
        self.bytes += bytes;
        match self.bytes_of.get_mut(tenant) {
            Some(own) => *own += bytes,
            None => _ = self.bytes_of.insert(tenant.into(), bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(1_800_000_000 + seconds)
    }

    fn reply(text: &str) -> Reply {
        Reply { body: text.as_bytes().to_vec(), retry_after: None }
    }

    async fn ask(kept: &Idempotency, key: &str, body: &str, now: Nanos, says: &str) -> (Vec<u8>, bool) {
        let decide = async { Ok(reply(says)) };
        let answer = kept.answer(("default", key), ("/v1/limit", body.as_bytes()), now, decide);
        let (reply, is_repeated) = answer.await.unwrap();
        (reply.body, is_repeated)
    }

    #[tokio::test]
    async fn a_retry_within_a_minute_gets_the_first_answer_and_a_later_one_its_own() {
        let kept = Idempotency::default();
        assert_eq!(ask(&kept, "k", "b", at(0), "first").await, (b"first".to_vec(), false));
        assert_eq!(ask(&kept, "k", "b", at(59), "second").await, (b"first".to_vec(), true));
        assert_eq!(ask(&kept, "other", "b", at(59), "other").await, (b"other".to_vec(), false));
        assert_eq!(ask(&kept, "k", "b", at(60), "third").await, (b"third".to_vec(), false));
        assert_eq!(ask(&kept, "other", "b", at(118), "late").await, (b"other".to_vec(), true));
    }

    #[tokio::test]
    async fn a_denial_is_repeated_until_its_wait_is_over() {
        let kept = Idempotency::default();
        let ask = async |now, says: &str, retry_after| {
            let decide = async { Ok(Reply { retry_after, ..reply(says) }) };
            let (reply, is_repeated) = kept.answer(("t", "k"), ("/", b""), now, decide).await.unwrap();
            (String::from_utf8(reply.body).unwrap(), is_repeated)
        };
        let wait = Some(Nanos::from_secs(3));
        assert_eq!(ask(at(0), "denied", wait).await, ("denied".to_owned(), false));
        assert_eq!(ask(at(2), "never", None).await, ("denied".to_owned(), true));
        assert_eq!(ask(at(3), "denied again", wait).await, ("denied again".to_owned(), false));
        assert_eq!(ask(at(6), "allowed", None).await, ("allowed".to_owned(), false));
        assert_eq!(ask(at(60), "never", None).await, ("allowed".to_owned(), true));
        // What was replaced takes no room.
        let bytes = "1:tk".len() + ENTRY_BYTES + "allowed".len();
        assert_eq!(kept.generations.lock().old.bytes, bytes);
    }

    #[tokio::test]
    async fn another_request_by_the_same_key_is_refused_and_tenants_do_not_meet() {
        let kept = Idempotency::default();
        ask(&kept, "k", "b", at(0), "first").await;
        let decide = async { Ok(reply("never")) };
        let refused = kept.answer(("default", "k"), ("/v1/limit", b"other"), at(1), decide).await;
        assert_eq!(refused.unwrap_err().code, Code::IdempotencyKeyReused);
        let decide = async { Ok(reply("theirs")) };
        let (theirs, _) = kept.answer(("t", "k"), ("/v1/limit", b"other"), at(1), decide).await.unwrap();
        assert_eq!(theirs.body, b"theirs");
    }

    #[tokio::test]
    async fn a_refusal_is_not_remembered() {
        let kept = Idempotency::default();
        let refuse = async { Err(Refusal::new(Code::EmptyBody, "no", "yes")) };
        assert!(kept.answer(("default", "k"), ("/", b""), at(0), refuse).await.is_err());
        let decide = async { Ok(reply("now")) };
        let (now, is_repeated) = kept.answer(("default", "k"), ("/", b""), at(1), decide).await.unwrap();
        assert_eq!((now.body, is_repeated), (b"now".to_vec(), false));
    }

    #[tokio::test]
    async fn what_finds_no_room_is_answered_and_forgotten() {
        let kept = Idempotency::default();
        kept.generations.lock().young.charge("default", BYTES_MAX / 2);
        kept.generations.lock().since = at(0);
        assert_eq!(ask(&kept, "k", "b", at(1), "first").await, (b"first".to_vec(), false));
        assert_eq!(ask(&kept, "k", "b", at(1), "second").await, (b"second".to_vec(), false));
        // A minute later there is room again.
        assert_eq!(ask(&kept, "k", "b", at(61), "third").await, (b"third".to_vec(), false));
        assert_eq!(ask(&kept, "k", "b", at(62), "fourth").await, (b"third".to_vec(), true));
    }

    #[tokio::test]
    async fn a_tenant_that_fills_its_share_leaves_the_others_theirs() {
        let kept = Idempotency::default();
        let ask_of = async |tenant: &str, key: &str, body: &str, says: &str| {
            let decide = async { Ok(reply(says)) };
            let answer = kept.answer((tenant, key), ("/v1/limit", body.as_bytes()), at(1), decide);
            answer.await.unwrap()
        };
        let long = "x".repeat(1 << 20);
        let mut kept_of_greedy = 0;
        for number in 0..100 {
            let key = number.to_string();
            ask_of("greedy", &key, "b", &long).await;
            kept_of_greedy += usize::from(ask_of("greedy", &key, "b", "again").await.1);
        }
        assert_eq!(kept_of_greedy, 16, "MiB");
        ask_of("modest", "k", "b", "first").await;
        let (reply, is_repeated) = ask_of("modest", "k", "b", "second").await;
        assert_eq!((reply.body, is_repeated), (b"first".to_vec(), true));
    }
}
