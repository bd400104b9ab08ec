//! A node's answers, as far as people are told of them.
//!
//! Fields that this version doesn't know are passed over: a node may be newer than the command.

use crate::output::plain;
use serde::Deserialize;
use std::fmt::Write;
use tidegate_core::Nanos;

#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    limits: Vec<LimitAnswer>,
    rule_version: Option<u64>,
    path: Option<String>,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct LimitAnswer {
    name: Option<String>,
    identifier: Option<String>,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    allowed: bool,
    #[serde(default)]
    shadow: bool,
    #[serde(default)]
    unlimited: bool,
    /// The attribute that the request lacks.
    missing: Option<String>,
    malformed: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Reset {
    reset: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct NodeRefusal {
    error: Refusal,
}

#[derive(Debug, Deserialize)]
struct Refusal {
    message: String,
    field: Option<String>,
    fix: Option<String>,
}

impl Answer {
    pub(super) fn in_words(&self, now: Nanos) -> String {
        let mut text = String::from(if self.allowed { "allowed" } else { "denied" });
        let known = [
            self.reason.as_deref().map(|reason| plain(reason).replace('_', " ")),
            self.path.as_deref().map(|path| format!("path {}", plain(path))),
            self.rule_version.map(|version| format!("rules version {version}")),
        ];
        let known: Vec<String> = known.into_iter().flatten().collect();
        if !known.is_empty() {
            let _ = write!(text, " ({})", known.join(", "));
        }
        text.push('\n');
        if !self.is_verified() {
            text.push_str(
                "  The counts couldn't be checked, so numbers and times below are guesses; each rule's class decided.\n",
            );
        }
        // What looks like a limit that admits is most likely a misspelling.
        match self.reason.as_deref().unwrap_or_default().replace('_', " ").as_str() {
            "unknown namespace" => text.push_str(
                "  Nothing limits it: this node has no rules for that namespace. Is it spelt as in the rules file?\n",
            ),
            "no rule matches" => text.push_str(
                "  Nothing limits it: every rule of that namespace needs other attributes, or has a `when` that isn't met.\n",
            ),
            _ => {}
        }
        let (shadow, enforced): (Vec<&LimitAnswer>, Vec<&LimitAnswer>) =
            self.limits.iter().partition(|limit| limit.shadow);
        // What denies first: shadow rules never do.
        for limit in enforced.into_iter().chain(shadow) {
            let _ = writeln!(text, "  {}", limit.in_words(now, self.is_verified()));
        }
        text
    }
}

impl Answer {
    fn is_verified(&self) -> bool {
        self.path.as_deref() != Some("unverified")
    }
}

impl LimitAnswer {
    /// `is_verified`: the node could check its counts, so that a wait is what it says.
    fn in_words(&self, now: Nanos, is_verified: bool) -> String {
        let mut text = plain(self.name.as_deref().unwrap_or("limit"));
        if let Some(identifier) = self.identifier.as_deref().filter(|identifier| !identifier.is_empty()) {
            let _ = write!(text, " {}", plain(identifier));
        }
        let outcome = match (self.allowed, self.shadow) {
            (true, _) => "allowed",
            (false, false) => "denied",
            (false, true) => "would deny",
        };
        let _ = write!(text, ": {outcome}");
        if self.unlimited {
            text.push_str(", unlimited");
        }
        if let Some(attribute) = &self.missing {
            let _ = write!(text, ", the request lacks `{}`", plain(attribute));
        }
        if let Some(attribute) = &self.malformed {
            let _ = write!(text, ", `{}` isn't an address", plain(attribute));
        }
        match (self.remaining, self.limit) {
            (Some(_), Some(0)) if !self.allowed => text.push_str(", blocked"),
            (Some(remaining), Some(limit)) => {
                let by_node = if is_verified { "" } else { " as far as this node knows" };
                let _ = write!(text, ", {remaining} of {limit} left{by_node}");
            }
            _ => {}
        }
        text.push_str(&self.wait_in_words(now, is_verified));
        if self.shadow {
            text.push_str(" (shadow: never denies)");
        }
        text
    }

    fn wait_in_words(&self, now: Nanos, is_verified: bool) -> String {
        match (self.allowed, self.retry_after_ms, self.reset_ms) {
            (false, Some(_), _) if !is_verified => ", try again once it is checked".to_owned(),
            (false, Some(retry_after_ms), _) => format!(", retry in {}", duration(retry_after_ms)),
            // Blocked, or it costs more than there ever is.
            (false, None, Some(_)) => ": no wait helps".to_owned(),
            (true, _, Some(reset_ms)) => {
                let now_ms = now.get() / 1_000_000;
                format!(", resets in {}", duration(reset_ms.saturating_sub(now_ms)))
            }
            (_, _, None) => String::new(),
        }
    }
}

impl Reset {
    pub(super) fn in_words(&self) -> String {
        match self.reset {
            0 => {
                "nothing to start afresh: none of these keys has been used, no rule matches, or the namespace \
                 is unknown; `tidegate check` with --cost 0 tells which\n"
                    .to_owned()
            }
            1 => "1 key was reset\n".to_owned(),
            keys => format!("{keys} keys were reset\n"),
        }
    }
}

impl NodeRefusal {
    pub(super) fn in_words(&self) -> String {
        let Refusal { message, field, fix } = &self.error;
        let field = field.as_deref().map_or(String::new(), |field| format!("{}: ", plain(field)));
        let fix = fix.as_deref().map_or(String::new(), |fix| format!("; {}", plain(fix)));
        format!("{field}{}{fix}", plain(message))
    }
}

/// `412 ms`, `59.3 s`, `2 h 5 min`.
fn duration(ms: u64) -> String {
    const SECOND: u64 = 1_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match ms {
        0..SECOND => format!("{ms} ms"),
        SECOND..MINUTE => format!("{}.{} s", ms / SECOND, ms % SECOND / 100),
        MINUTE..HOUR => format!("{} min {} s", ms / MINUTE, ms % MINUTE / SECOND),
        HOUR..DAY => format!("{} h {} min", ms / HOUR, ms % HOUR / MINUTE),
        _ => format!("{} d {} h", ms / DAY, ms % DAY / HOUR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(1_763_230_000);

    #[test]
    fn a_denial_says_how_long_to_wait() {
        let answer: Answer = serde_json::from_str(
            r#"{"allowed":false,"limits":[{"name":"per-user","identifier":"42","limit":100,"remaining":0,
            "reset_ms":1763230020000,"retry_after_ms":412,"allowed":false,"shadow":false}],"rule_version":7,
            "request_id":"x","path":"local"}"#,
        )
        .unwrap();
        let text =
            "denied (path local, rules version 7)\n  per-user 42: denied, 0 of 100 left, retry in 412 ms\n";
        assert_eq!(answer.in_words(NOW), text);
    }

    #[test]
    fn unlimited_missing_and_shadow_are_told() {
        let told = |text: &str| serde_json::from_str::<LimitAnswer>(text).unwrap().in_words(NOW, true);
        let unlimited = told(r#"{"name":"a","identifier":"x","limit":null,"unlimited":true,"allowed":true}"#);
        assert_eq!(unlimited, "a x: allowed, unlimited");
        let missing = told(r#"{"name":"a","identifier":"","missing":"user","allowed":false}"#);
        assert_eq!(missing, "a: denied, the request lacks `user`");
        let malformed = told(r#"{"name":"a","identifier":"malformed","malformed":"ip","allowed":false}"#);
        assert_eq!(malformed, "a malformed: denied, `ip` isn't an address");
        let shadow = told(
            r#"{"name":"a","limit":5,"remaining":4,"reset_ms":1763230001500,"allowed":true,"shadow":true}"#,
        );
        assert_eq!(shadow, "a: allowed, 4 of 5 left, resets in 1.5 s (shadow: never denies)");
    }

    #[test]
    fn a_shadow_rule_would_deny_and_stands_apart() {
        let answer: Answer = serde_json::from_str(
            r#"{"allowed":true,"limits":[{"name":"trial","identifier":"x","limit":1,"remaining":0,"reset_ms":1763230001500,
            "retry_after_ms":1500,"allowed":false,"shadow":true},{"name":"per-user","identifier":"x","limit":5,
            "remaining":4,"reset_ms":1763230001500,"retry_after_ms":0,"allowed":true,"shadow":false}],"path":"local"}"#,
        )
        .unwrap();
        let text = "allowed (path local)\n  per-user x: allowed, 4 of 5 left, resets in 1.5 s\n  \
                    trial x: would deny, 0 of 1 left, retry in 1.5 s (shadow: never denies)\n";
        assert_eq!(answer.in_words(NOW), text);
    }

    #[test]
    fn a_denial_that_was_not_checked_names_its_cause_and_promises_nothing() {
        let answer: Answer = serde_json::from_str(
            r#"{"allowed":false,"limits":[{"name":"login","identifier":"9.9.9.9","limit":30,"remaining":30,
            "reset_ms":1763230001500,"retry_after_ms":300,"allowed":false,"shadow":false}],"path":"unverified",
            "reason":"store unavailable"}"#,
        )
        .unwrap();
        let text = answer.in_words(NOW);
        assert!(
            text.starts_with("denied (store unavailable, path unverified)\n  The counts couldn't be checked"),
            "{text}"
        );
        assert!(
            text.contains("30 of 30 left as far as this node knows, try again once it is checked"),
            "{text}"
        );
        assert!(!text.contains("300 ms"), "{text}");
    }

    #[test]
    fn who_waits_in_vain_is_told_so() {
        let told = |text: &str| serde_json::from_str::<LimitAnswer>(text).unwrap().in_words(NOW, true);
        let blocked = told(
            r#"{"name":"a","identifier":"x","limit":0,"remaining":0,"reset_ms":1763230000000,
            "retry_after_ms":null,"allowed":false}"#,
        );
        assert_eq!(blocked, "a x: denied, blocked: no wait helps");
        let too_dear = told(
            r#"{"name":"a","identifier":"x","limit":5,"remaining":5,"reset_ms":1763230000000,
            "retry_after_ms":null,"allowed":false}"#,
        );
        assert_eq!(too_dear, "a x: denied, 5 of 5 left: no wait helps");
    }

    #[test]
    fn an_answer_without_limits_says_why() {
        let text =
            r#"{"allowed":true,"limits":[],"reason":"no_rule_matches","path":"local","rule_version":1}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        assert_eq!(
            answer.in_words(NOW),
            "allowed (no rule matches, path local, rules version 1)\n  Nothing limits it: every rule of that \
             namespace needs other attributes, or has a `when` that isn't met.\n"
        );
    }

    #[test]
    fn durations_are_told_in_two_units_at_most() {
        let told = [412, 59_300, 61_000, 7_500_000, 200_000_000].map(duration);
        assert_eq!(told, ["412 ms", "59.3 s", "1 min 1 s", "2 h 5 min", "2 d 7 h"]);
    }
}
