//! Changes as JSON: what history shows, and the lines of exports, imports and backups.
//!
//! One object for each change, named by its only field. Numbers are exact: what was exported is imported as it was.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tidegate_core::{Burst, Limit, Nanos, Rate};
use tidegate_rules::{DocumentName, Mode, Override, OverrideEffect, OverrideName, RuleChange};

/// What a line of an export is at most, in bytes.
pub const LINE_BYTES_MAX: usize = 6 << 20;
const PARTS_MAX: usize = 8;
const NAME_CHARS_MAX: usize = 128;
const PART_CHARS_MAX: usize = 512;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ChangeJson {
    Document(DocumentJson),
    Override(OverrideJson),
    FleetMode(String),
    Reset(ResetJson),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentJson {
    #[serde(default = "default_tenant")]
    pub tenant: String,
    pub namespace: String,
    /// `None` when it is gone.
    pub text: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideJson {
    #[serde(default = "default_tenant")]
    pub tenant: String,
    pub namespace: String,
    pub rule: String,
    /// The values of the rule's `key`, in order; `*` patterns too.
    pub key: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateJson>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub unlimited: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub hot: bool,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub removed: bool,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateJson {
    pub count: u64,
    pub per_ns: u64,
    pub burst: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResetJson {
    #[serde(default = "default_tenant")]
    pub tenant: String,
    pub namespace: String,
    pub rule: String,
    pub key: Vec<String>,
    pub epoch: u32,
}

fn default_tenant() -> String {
    "default".to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a line can't say.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {message}; {fix}")]
pub struct JsonError {
    pub field: &'static str,
    pub message: String,
    pub fix: &'static str,
}

fn refused(field: &'static str, message: impl Into<String>, fix: &'static str) -> JsonError {
    JsonError { field, message: message.into(), fix }
}

impl From<&RuleChange> for ChangeJson {
    fn from(change: &RuleChange) -> Self {
        match change {
            RuleChange::Document { name, text } => ChangeJson::Document(DocumentJson {
                tenant: name.tenant.to_string(),
                namespace: name.namespace.to_string(),
                text: text.as_deref().map(str::to_owned),
            }),
            RuleChange::Override { name, value } => {
                ChangeJson::Override(OverrideJson::of(name, value.as_ref()))
            }
            RuleChange::FleetMode(mode) => ChangeJson::FleetMode(mode.to_string()),
            RuleChange::Reset { name, epoch } => ChangeJson::Reset(ResetJson {
                tenant: name.tenant.to_string(),
                namespace: name.namespace.to_string(),
                rule: name.rule.to_string(),
                key: name.parts.iter().map(ToString::to_string).collect(),
                epoch: *epoch,
            }),
        }
    }
}

impl OverrideJson {
    pub fn of(name: &OverrideName, value: Option<&Override>) -> Self {
        let mut json = OverrideJson {
            tenant: name.tenant.to_string(),
            namespace: name.namespace.to_string(),
            rule: name.rule.to_string(),
            key: name.parts.iter().map(ToString::to_string).collect(),
            removed: value.is_none(),
            ..OverrideJson::default()
        };
        let Some(value) = value else { return json };
        match value.change {
            OverrideEffect::Keep => {}
            OverrideEffect::Unlimited => json.unlimited = true,
            OverrideEffect::Limit(limit) => json.limit = Some(limit.get()),
            OverrideEffect::Rate { rate, burst } => {
                json.rate = Some(RateJson {
                    count: rate.interval_denominator(),
                    per_ns: rate.interval_numerator_ns(),
                    burst: burst.get(),
                });
            }
        }
        json.hot = value.hot;
        json.until = instant_text(value.until);
        json
    }

    fn value(&self) -> Result<Option<Override>, JsonError> {
        let given = [self.limit.is_some(), self.rate.is_some(), self.unlimited, self.removed];
        if given.iter().filter(|given| **given).count() > 1 {
            let message = "`limit`, `rate`, `unlimited` and `removed` contradict each other";
            return Err(refused("override", message, "keep one of them"));
        }
        if self.removed {
            return Ok(None);
        }
        let out_of_range = |error: &dyn std::fmt::Display| {
            refused("override", error.to_string(), "give numbers from 0 to 2^53")
        };
        let change = match (self.limit, self.rate, self.unlimited) {
            (Some(limit), ..) => {
                OverrideEffect::Limit(Limit::new(limit).map_err(|error| out_of_range(&error))?)
            }
            (None, Some(RateJson { count, per_ns, burst }), _) => OverrideEffect::Rate {
                // As it was written by an export; else as a person would.
                rate: Rate::from_interval(per_ns, count)
                    .or_else(|_| Rate::new(count, Nanos::new(per_ns)))
                    .map_err(|error| out_of_range(&error))?,
                burst: Burst::new(burst).map_err(|error| out_of_range(&error))?,
            },
            (None, None, true) => OverrideEffect::Unlimited,
            (None, None, false) => OverrideEffect::Keep,
        };
        if change == OverrideEffect::Keep && !self.hot {
            let fix = "give `limit`, `rate`, `unlimited`, `hot` or `removed`";
            return Err(refused("override", "the override changes nothing", fix));
        }
        let until = self.until.as_deref().map(instant).transpose()?.unwrap_or(Nanos::MAX);
        Ok(Some(Override { change, hot: self.hot, until }))
    }
}

impl ChangeJson {
    pub fn change(&self) -> Result<RuleChange, JsonError> {
        Ok(match self {
            ChangeJson::Document(DocumentJson { tenant, namespace, text }) => RuleChange::Document {
                name: DocumentName { tenant: name(tenant)?, namespace: name(namespace)? },
                text: text.as_deref().map(Arc::from),
            },
            ChangeJson::Override(json) => RuleChange::Override {
                name: override_name(&json.tenant, &json.namespace, &json.rule, &json.key)?,
                value: json.value()?,
            },
            ChangeJson::FleetMode(mode) => RuleChange::FleetMode(mode_of(mode)?),
            ChangeJson::Reset(json) => RuleChange::Reset {
                name: override_name(&json.tenant, &json.namespace, &json.rule, &json.key)?,
                epoch: json.epoch,
            },
        })
    }
}

pub fn override_name(
    tenant: &str,
    namespace: &str,
    rule: &str,
    key: &[String],
) -> Result<OverrideName, JsonError> {
    let is_fine =
        |part: &String| part.chars().count() <= PART_CHARS_MAX && !part.chars().any(char::is_control);
    if key.len() > PARTS_MAX || !key.iter().all(is_fine) {
        let message =
            format!("has more than {PARTS_MAX} values, or one that is too long or has control characters");
        return Err(refused(
            "key",
            message,
            "give the values of the rule's `key`, of at most 512 characters",
        ));
    }
    Ok(OverrideName {
        tenant: name(tenant)?,
        namespace: name(namespace)?,
        rule: name(rule)?,
        parts: key.iter().map(|part| part.as_str().into()).collect(),
    })
}

fn name(text: &str) -> Result<Arc<str>, JsonError> {
    if (1..=NAME_CHARS_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
        return Ok(text.into());
    }
    Err(refused("name", "a name is empty, too long or has control characters", "use 1 to 128 characters"))
}

pub fn mode_of(word: &str) -> Result<Mode, JsonError> {
    let modes = [Mode::Enforce, Mode::Shadow, Mode::Off];
    let found = modes.into_iter().find(|mode| mode.to_string() == word);
    found.ok_or_else(|| refused("fleet_mode", "there is no such mode", "use enforce, shadow or off"))
}

/// RFC 3339; `None` for what never ends.
pub(super) fn instant_text(instant: Nanos) -> Option<String> {
    if instant == Nanos::MAX {
        return None;
    }
    jiff::Timestamp::from_nanosecond(i128::from(instant.get())).ok().map(|timestamp| timestamp.to_string())
}

fn instant(text: &str) -> Result<Nanos, JsonError> {
    let timestamp: jiff::Timestamp = text.parse().map_err(|_| {
        refused("until", "isn't a timestamp", "write date, time and offset, such as 2026-12-01T00:00:00Z")
    })?;
    let nanos = timestamp.as_nanosecond().clamp(0, i128::from(u64::MAX));
    Ok(Nanos::new(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

/// A version, whole: a line of a backup.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryJson {
    pub version: u64,
    pub at_us: u64,
    pub author: String,
    pub reason: String,
    pub changed: Vec<ChangeJson>,
    pub replaced: Vec<ChangeJson>,
}
