//! A rule's `log`: what of its decisions is put into the decision log.

use super::cursor::Cursor;
use super::fields::Fields;
use super::quantity;
use super::value;
use crate::error::{Problems, Refusal, quoted};
use crate::rule::LogSampling;

const EXAMPLE: &str = "`log: { denials: all, admissions: 1 in 1000 }`";
const ADMISSIONS_FIX: &str = "write `1 in 1000` (from 1 in 1 to 1 in 1_000_000), `all` or `none`";

pub(crate) fn read_log(at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<LogSampling> {
    let fields = Fields::of(at, EXAMPLE, problems)?;
    fields.only(&["denials", "admissions"], problems);
    let denials = value::field_word(&fields, "denials", &[("all", true), ("none", false)], problems);
    let admissions = fields.get("admissions").and_then(|at| value::parsed(&at, problems, admissions_one_in));
    let default = LogSampling::default();
    Some(LogSampling {
        denials: denials.unwrap_or(default.denials),
        admissions_one_in: admissions.unwrap_or(default.admissions_one_in),
    })
}

fn admissions_one_in(text: &str) -> Result<u32, Refusal> {
    let refused = || Refusal::new(format!("{} isn't a part of the admissions", quoted(text)), ADMISSIONS_FIX);
    match text.trim() {
        "none" => return Ok(0),
        "all" => return Ok(1),
        _ => {}
    }
    let mut words = text.split_ascii_whitespace();
    let (Some("1"), Some("in"), Some(many), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(refused());
    };
    let one_in = quantity::number(many).map_err(|_| refused())?;
    let one_in = u32::try_from(one_in).map_err(|_| refused())?;
    if (1..=LogSampling::ONE_IN_MAX).contains(&one_in) { Ok(one_in) } else { Err(refused()) }
}
