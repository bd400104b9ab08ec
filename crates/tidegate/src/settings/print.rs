//! `--print-config`: every setting in force and where it comes from.
//!
//! A secret that was set is shown as `(set)`, whatever it is.

use super::Settings;
use super::table::{Secrecy, TABLE};
use std::fmt::Write;

pub(crate) fn print(settings: &Settings) -> String {
    let rows: Vec<[String; 3]> = TABLE
        .iter()
        .zip(&settings.given)
        .map(|(setting, given)| {
            let value = match (setting.secrecy, given) {
                (Secrecy::Secret, Some(_)) => "(set)".to_owned(),
                _ => (setting.show)(settings),
            };
            let place = given.as_ref().map_or("default".to_owned(), |given| given.source.to_string());
            [setting.key.to_owned(), value, place]
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (key_width, value_width) = (width(0), width(1));
    let mut text = String::new();
    for [key, value, place] in &rows {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{key:key_width$}  {value:value_width$}  {place}");
    }
    text
}
