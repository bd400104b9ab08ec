//! The address of a world store, as an operator writes it in `world.url`.
//!
//! A url that exists is valid as far as that can be known without asking its server. Neither the url, nor an
//! error about it, nor its debug output may ever show a password, or a piece of one.

use super::link::Address;
use super::tls::{Protection, Remedies, Server, ServerAddress};
use sqlx::ConnectOptions as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

/// How long a process waits for another one that writes to the same SQLite file: less than a call waits.
const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_millis(1500);
const REMEDY: &str = "write sqlite:PATH, mysql://USER:PASSWORD@HOST:3306/DATABASE or \
                      postgres://USER:PASSWORD@HOST:5432/DATABASE";
const MYSQL_REMEDIES: Remedies = Remedies {
    unverified: "name the authority that signed it with ssl-ca=FILE in the url, or add ssl-mode=REQUIRED to go \
                 without verification",
    not_offered: "give the database a certificate and add ssl-mode=VERIFY_IDENTITY to the url, or ssl-mode=DISABLED \
                  to go without TLS knowingly",
};
const POSTGRES_REMEDIES: Remedies = Remedies {
    unverified: "name the authority that signed it with sslrootcert=FILE in the url, or add sslmode=require to go \
                 without verification",
    not_offered: "give the database a certificate and add sslmode=verify-full to the url, or sslmode=disable to go \
                  without TLS knowingly",
};
const MYSQL_PARAMETERS: [&str; 5] = ["ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "socket"];
const POSTGRES_PARAMETERS: [&str; 6] =
    ["sslmode", "sslrootcert", "sslcert", "sslkey", "host", "application_name"];

/// Which database keeps the counts of the world, and how to log in there.
#[derive(Clone)]
pub struct WorldUrl {
    shown: String,
    address: Address,
}

/// What is wrong with which part of a url, and how to write it instead.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{problem}; {remedy}")]
pub struct WorldUrlError {
    problem: String,
    remedy: String,
}

impl WorldUrlError {
    /// What is wrong, without the remedy.
    pub fn message(&self) -> &str {
        &self.problem
    }

    pub fn fix(&self) -> &str {
        &self.remedy
    }
}

fn error(problem: impl Into<String>, remedy: impl Into<String>) -> WorldUrlError {
    WorldUrlError { problem: problem.into(), remedy: remedy.into() }
}

impl WorldUrl {
    /// Reads one of
    /// - `sqlite:path`
    /// - `mysql://user[:password]@host[:port]/database`, with `?ssl-mode=…&ssl-ca=…&socket=…`; `mariadb://` is
    ///   the same
    /// - `postgres://user[:password]@host[:port]/database`, with `?sslmode=…&sslrootcert=…&host=/directory`;
    ///   `postgresql://` is the same
    pub fn parse(text: &str) -> Result<WorldUrl, WorldUrlError> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(error("the url has no scheme", REMEDY));
        };
        match scheme {
            "sqlite" => sqlite(rest),
            "mysql" | "mariadb" => {
                let parts = Parts::of(scheme, rest, &MYSQL_PARAMETERS)?;
                let options = MySqlConnectOptions::from_str(&format!("mysql:{rest}"));
                let options = options.map_err(|_| parts.unread(REMEDY))?.disable_statement_logging();
                Ok(WorldUrl { shown: parts.shown(), address: Address::MySql(mysql(options, &parts)) })
            }
            "postgres" | "postgresql" => {
                let parts = Parts::of(scheme, rest, &POSTGRES_PARAMETERS)?;
                let options = PgConnectOptions::from_str(&format!("postgres:{rest}"));
                let options = options.map_err(|_| parts.unread(REMEDY))?.disable_statement_logging();
                Ok(WorldUrl { shown: parts.shown(), address: Address::Postgres(postgres(options, &parts)) })
            }
            other => {
                // What stands before the first colon of something else may be anything.
                let known = other.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
                let shown = if known && other.len() <= 20 { format!(" {other:?}") } else { String::new() };
                Err(error(format!("the scheme{shown} of the url is unknown"), REMEDY))
            }
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }
}

/// The url again, with `***` for the password.
impl fmt::Display for WorldUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for WorldUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorldUrl({self})")
    }
}

fn sqlite(rest: &str) -> Result<WorldUrl, WorldUrlError> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() || path.contains(['?', '\0']) || path == ":memory:" {
        let problem =
            if path.is_empty() { "the path of the file is missing" } else { "the path is no file's" };
        return Err(error(problem, "write sqlite:PATH, for example sqlite:data/world.db"));
    }
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(SQLITE_BUSY_TIMEOUT)
        .disable_statement_logging();
    Ok(WorldUrl { shown: format!("sqlite:{path}"), address: Address::Sqlite(options) })
}

fn mysql(options: MySqlConnectOptions, parts: &Parts<'_>) -> Server<MySqlConnectOptions> {
    let host = without_brackets(options.get_host()).to_owned();
    let options = options.host(&host);
    let is_socket = options.get_socket().is_some();
    let place = ServerAddress { host: &host, is_socket, names_mode: parts.names("ssl-mode") };
    match Protection::of(place) {
        Protection::AsWritten => Server::as_written(options, MYSQL_REMEDIES),
        Protection::Verified => {
            let open = options.clone().ssl_mode(MySqlSslMode::Disabled);
            Server::verified(options.ssl_mode(MySqlSslMode::VerifyIdentity), open, MYSQL_REMEDIES)
        }
    }
}

fn postgres(options: PgConnectOptions, parts: &Parts<'_>) -> Server<PgConnectOptions> {
    let host = without_brackets(options.get_host()).to_owned();
    let is_socket = options.get_socket().is_some();
    let options = options.host(&host);
    // sqlx takes the mode from the environment, as PostgreSQL's own programs do.
    let names_mode = parts.names("sslmode") || std::env::var_os("PGSSLMODE").is_some();
    match Protection::of(ServerAddress { host: &host, is_socket, names_mode }) {
        Protection::AsWritten => Server::as_written(options, POSTGRES_REMEDIES),
        Protection::Verified => {
            let open = options.clone().ssl_mode(PgSslMode::Disable);
            Server::verified(options.ssl_mode(PgSslMode::VerifyFull), open, POSTGRES_REMEDIES)
        }
    }
}

/// An IPv6 address stands between brackets in a url, and nowhere else.
fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// A url of a server, taken apart without its secrets.
#[derive(Debug)]
struct Parts<'a> {
    scheme: &'a str,
    user: &'a str,
    has_password: bool,
    host: &'a str,
    database: &'a str,
    parameters: &'a str,
}

impl<'a> Parts<'a> {
    fn of(scheme: &'a str, rest: &'a str, known: &[&str]) -> Result<Self, WorldUrlError> {
        let Some(rest) = rest.strip_prefix("//") else {
            return Err(error(format!("{scheme}: isn't followed by //"), REMEDY));
        };
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        // A password may have an @ or a / in it that should have been encoded: the last @ is taken for the host's.
        let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
        let (host, database) = place.split_once('/').unwrap_or((place, ""));
        let parts = Parts { scheme, user, has_password: password.is_some(), host, database, parameters };
        if password.is_some_and(|word| word.contains(['/', '#', '?', '@'])) {
            let remedy = "percent-encode it: %40 for @, %2F for /, %23 for #, %3F for ?";
            return Err(error(
                "the password has a character in it that means something else in a url",
                remedy,
            ));
        }
        if parts.user.is_empty() {
            return Err(error("the user is missing before the host", REMEDY));
        }
        if host.is_empty() {
            return Err(error("the host is missing", REMEDY));
        }
        if database.is_empty() || database.contains('/') {
            return Err(error("the name of the database is missing after the host", REMEDY));
        }
        let mut names = parameters.split('&').filter_map(|part| part.split('=').next());
        if let Some(unknown) = names.find(|name| !name.is_empty() && !known.contains(name)) {
            let remedy = format!("known are {}", known.join(", "));
            return Err(error(format!("the parameter {unknown:?} is unknown"), remedy));
        }
        Ok(parts)
    }

    fn names(&self, parameter: &str) -> bool {
        self.parameters.split('&').any(|part| part.split('=').next() == Some(parameter))
    }

    /// What sqlx can't read, without its words, which may have the password in them.
    fn unread(&self, remedy: &str) -> WorldUrlError {
        error(format!("{} can't be read", self.shown()), remedy)
    }

    fn shown(&self) -> String {
        let Parts { scheme, user, has_password, host, database, parameters } = self;
        let password = if *has_password { ":***" } else { "" };
        let parameters = if parameters.is_empty() { String::new() } else { format!("?{parameters}") };
        format!("{scheme}://{user}{password}@{host}/{database}{parameters}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(url: &str) -> String {
        WorldUrl::parse(url).expect_err(url).to_string()
    }

    #[test]
    fn urls_of_each_kind_are_read_and_shown_without_passwords() {
        let shown =
            |url: &str| WorldUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).to_string();
        assert_eq!(shown("sqlite:data/world.db"), "sqlite:data/world.db");
        assert_eq!(shown("sqlite:///var/world.db"), "sqlite:/var/world.db");
        assert_eq!(shown("mysql://tide:hush@db:3306/world"), "mysql://tide:***@db:3306/world");
        assert_eq!(
            shown("mariadb://tide@db/world?ssl-mode=REQUIRED"),
            "mariadb://tide@db/world?ssl-mode=REQUIRED"
        );
        let socket = "mysql://tide@localhost/world?socket=/run/m.sock";
        assert_eq!(shown(socket), socket);
        assert_eq!(shown("postgresql://tide:hu%40sh@[::1]/world"), "postgresql://tide:***@[::1]/world");
        let debug = format!("{:?}", WorldUrl::parse("postgres://tide:hush@db/world"));
        assert!(!debug.contains("hush"), "{debug}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy() {
        assert!(problem("world.db").contains("no scheme"));
        assert!(problem("oracle://db/world").contains("\"oracle\""));
        assert!(problem("sqlite:").contains("path of the file is missing"));
        assert!(problem("sqlite::memory:").contains("no file's"));
        assert!(problem("mysql:db/world").contains("//"));
        assert!(problem("mysql://db/world").contains("user is missing"));
        assert!(problem("mysql://tide@/world").contains("host is missing"));
        assert!(problem("postgres://tide@db").contains("name of the database"));
        assert!(problem("postgres://tide@db/").contains("name of the database"));
        assert!(problem("postgres://tide@db/world?ssl=1").contains("\"ssl\" is unknown; known are sslmode"));
        assert!(problem("mysql://tide@db:port/world").contains("can't be read"));
        for url in
            ["mysql://tide:se/cret@db/world", "postgres://tide:se@cret@db/world", "mysql://a:secret@db:x/w"]
        {
            let problem = problem(url);
            assert!(!problem.contains("cret") && !problem.contains("se/"), "{problem}");
        }
    }
}
