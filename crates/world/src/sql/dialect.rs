//! What the three databases are told: the same statements, and how each spells what they differ in.
//!
//! Statements are sent as text, one round trip each and nothing prepared: a region is often an ocean away from
//! its database. No value can ever be more than a value: bytes are written in hexadecimal digits, texts as
//! [`Dialect::text`] says.

use std::fmt::{Display, Write as _};

/// How a database wants things said.
#[derive(Debug)]
pub(super) struct Dialect {
    /// Microseconds since 1970, at the beginning of the statement.
    now: &'static str,
    greatest: &'static str,
    least: &'static str,
    insert: &'static str,
    or_ignore: &'static str,
    on_conflict: &'static str,
    skip_locked: &'static str,
    pub(super) begin: &'static str,
    bytes: (&'static str, &'static str),
    /// What stands around the digits of a text; `None` for quotes.
    text: Option<(&'static str, &'static str)>,
    pub(super) texts: Texts,
}

/// The statements of one dialect.
#[derive(Debug)]
pub(super) struct Texts {
    /// In order; the first makes version 1.
    pub(super) schema: [&'static str; 3],
    pub(super) session: &'static str,
    pub(super) schema_exists: &'static str,
    pub(super) schema_lock: &'static str,
    pub(super) schema_unlock: &'static str,
    pub(super) snapshot: &'static str,
    pub(super) merge: &'static str,
    pub(super) merge_named: &'static str,
    pub(super) import_all: &'static str,
    pub(super) import_log: &'static str,
    pub(super) delete_expired: &'static str,
    pub(super) report: &'static str,
    pub(super) grant: &'static str,
    pub(super) put_rules: &'static str,
}

macro_rules! texts {
    ($own:literal, $shared:literal) => {
        Texts {
            schema: [
                include_str!(concat!($own, "/schema_1.sql")),
                include_str!(concat!($own, "/schema_2.sql")),
                include_str!(concat!($own, "/schema_3.sql")),
            ],
            session: include_str!(concat!($own, "/session.sql")),
            schema_exists: include_str!(concat!($own, "/schema_exists.sql")),
            schema_lock: include_str!(concat!($own, "/schema_lock.sql")),
            schema_unlock: include_str!(concat!($own, "/schema_unlock.sql")),
            snapshot: include_str!(concat!($own, "/snapshot.sql")),
            merge: include_str!(concat!($shared, "/merge.sql")),
            merge_named: include_str!(concat!($shared, "/merge_named.sql")),
            import_all: include_str!(concat!($shared, "/import_all.sql")),
            import_log: include_str!(concat!($shared, "/import_log.sql")),
            delete_expired: include_str!(concat!($shared, "/delete_expired.sql")),
            report: include_str!(concat!($shared, "/report.sql")),
            grant: include_str!(concat!($shared, "/grant.sql")),
            put_rules: include_str!(concat!($shared, "/put_rules.sql")),
        }
    };
}

pub(super) static SQLITE: Dialect = Dialect {
    now: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
    greatest: "MAX",
    least: "MIN",
    insert: "INSERT",
    or_ignore: "ON CONFLICT DO NOTHING",
    on_conflict: "ON CONFLICT (id) DO UPDATE SET",
    skip_locked: "",
    // Takes the lock at once: a transaction that reads first and writes later could find that it may not.
    begin: "BEGIN IMMEDIATE;\n",
    bytes: ("x'", "'"),
    text: None,
    texts: texts!("sqlite", "standard"),
};

pub(super) static MYSQL: Dialect = Dialect {
    now: "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)",
    greatest: "GREATEST",
    least: "LEAST",
    insert: "INSERT IGNORE",
    or_ignore: "",
    on_conflict: "ON DUPLICATE KEY UPDATE",
    skip_locked: "",
    begin: "START TRANSACTION;\n",
    bytes: ("x'", "'"),
    text: Some(("_utf8mb4 x'", "'")),
    texts: texts!("mysql", "mysql"),
};

pub(super) static POSTGRES: Dialect = Dialect {
    now: "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint",
    greatest: "GREATEST",
    least: "LEAST",
    insert: "INSERT",
    or_ignore: "ON CONFLICT DO NOTHING",
    on_conflict: "ON CONFLICT (id) DO UPDATE SET",
    skip_locked: "FOR UPDATE SKIP LOCKED",
    begin: "BEGIN;\n",
    bytes: ("'\\x", "'::bytea"),
    text: None,
    texts: texts!("postgres", "standard"),
};

impl Dialect {
    /// A statement with its values in their places. Comments stay at home, and so does what isn't known.
    pub(super) fn fill(&self, text: &str, values: &[(&str, &(dyn Display + Sync))]) -> String {
        let lines = text.lines().filter(|line| !line.starts_with("--"));
        let mut filled = String::with_capacity(text.len());
        for line in lines {
            let mut rest = line;
            while let Some((before, (name, after))) =
                rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
            {
                filled.push_str(before);
                match values.iter().find(|(known, _)| *known == name) {
                    // Writing into a string can't fail.
                    Some((_, value)) => drop(write!(filled, "{value}")),
                    None => filled.push_str(self.own(name)),
                }
                rest = after;
            }
            filled.push_str(rest);
            filled.push('\n');
        }
        filled
    }

    /// How this database spells what all have.
    fn own(&self, name: &str) -> &'static str {
        match name {
            "now" => self.now,
            "begin" => self.begin,
            "greatest" => self.greatest,
            "least" => self.least,
            "insert" => self.insert,
            "or_ignore" => self.or_ignore,
            "on_conflict" => self.on_conflict,
            "skip_locked" => self.skip_locked,
            _ => "",
        }
    }

    /// The present, within a list of values.
    pub(super) fn now(&self) -> &'static str {
        self.now
    }

    pub(super) fn bytes(&self, bytes: &[u8]) -> String {
        hexadecimal(self.bytes, bytes)
    }

    /// MySQL's strings mean different things by its settings, so there they are digits too. Elsewhere a quote is
    /// the only character that could end one, and is written twice.
    pub(super) fn text(&self, text: &str) -> String {
        match self.text {
            Some(marks) => hexadecimal(marks, text.as_bytes()),
            None => format!("'{}'", text.replace('\'', "''")),
        }
    }
}

fn hexadecimal((before, after): (&str, &str), bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut literal = String::with_capacity(before.len() + 2 * bytes.len() + after.len());
    literal.push_str(before);
    for byte in bytes {
        literal.push(DIGITS[usize::from(byte >> 4)]);
        literal.push(DIGITS[usize::from(byte & 15)]);
    }
    literal.push_str(after);
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_into_their_places_and_can_be_nothing_else() {
        let text = "-- a header with {job}\nSELECT {now} WHERE job = {job} AND owner = {owner}";
        let filled = SQLITE.fill(text, &[("job", &SQLITE.text("a'; --{now}")), ("owner", &7)]);
        let expected = "SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) \
                        WHERE job = 'a''; --{now}' AND owner = 7\n";
        assert_eq!(filled, expected);
        assert_eq!(POSTGRES.bytes(&[0, 255]), "'\\x00ff'::bytea");
        assert_eq!(MYSQL.text(""), "_utf8mb4 x''");
    }
}
