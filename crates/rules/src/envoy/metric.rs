//! What theirs calls a limit in its metrics, so that dashboards keep working: `domain.key_value.key`.
//!
//! For people and for labels; never to count by: two descriptors may have the same text.

use super::descriptor::MetBy;
use super::find::{EnvoyMatch, Step};

impl EnvoyMatch<'_, '_> {
    /// The values of entries are in it where the file names them, where `value_to_metric` asks for them, and
    /// everywhere with `detailed_metric`. A pattern stands for the values that share its counter.
    pub fn metric_path(&self) -> String {
        let detailed = self.limit.is_none_or(|limit| limit.detailed_metric);
        let mut path = self.domain.to_owned();
        for step in &self.steps {
            path.push('.');
            path.push_str(step.entry.0);
            let value = if detailed { step.counted_value() } else { shown_value(step) };
            if !value.is_empty() {
                path.push('_');
                path.push_str(value);
            }
        }
        path
    }
}

fn shown_value<'a>(step: &'a Step<'_, '_>) -> &'a str {
    let Some((descriptor, met_by)) = step.met else { return step.entry.1 };
    match met_by {
        MetBy::Value => step.entry.1,
        MetBy::Wildcard if descriptor.shared || !descriptor.value_to_metric => descriptor.shared_value(),
        MetBy::Key if !descriptor.value_to_metric => "",
        MetBy::Wildcard | MetBy::Key => step.entry.1,
    }
}
