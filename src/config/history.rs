//! The fields of the history, and the rules between them: a file, or a database that coordinators share. Its password stands in a
//! file of its own, or in the URL where that comes from the environment; it is never shown.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::defect::Origin;
use super::reader::{ConfigReader, readable};
use super::value::is_loopback;

/// What is kept of ended runs, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// For how long.
    pub retention: Duration,
    /// Most runs kept.
    pub max_runs: u64,
    /// Runs that wait to be written.
    pub queue: usize,
    /// Where.
    pub place: HistoryLocation,
}

/// Where the history is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryLocation {
    /// In the data directory.
    DataDir,
    /// In this file.
    File(PathBuf),
    /// In PostgreSQL.
    Database(Box<Database>),
}

/// PostgreSQL, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// With the password, where the environment brought one.
    pub url: Secret,
    /// A file whose only line is the password.
    pub password_file: Option<PathBuf>,
    /// How far the server is believed.
    pub tls: DatabaseTls,
    /// PEM file with the certificates that the server's is believed by; none: those of the system.
    pub ca: Option<PathBuf>,
    /// Most bytes of rows that wait on the disk.
    pub spool: u64,
}

/// A text that nobody shows by mistake.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// How far the database's server is believed; the words are libpq's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseTls {
    /// No TLS.
    Disable,
    /// TLS with whoever answers.
    Require,
    /// A certificate that is signed as it should be.
    VerifyCa,
    /// And is the host's.
    VerifyFull,
}

/// Fields that count for nothing where the history is in a file.
const DATABASE: [&str; 3] = ["history_password_file", "history_tls", "history_tls_ca"];

/// Types the fields.
pub(super) fn read(reader: &mut ConfigReader) -> History {
    History {
        retention: reader.duration("history_retention", "1m", "3650d"),
        max_runs: reader.count("history_max_runs", 1000, 10_000_000_000),
        queue: reader.count("history_queue", 16, 10_000_000),
        place: place(reader),
    }
}

fn place(reader: &mut ConfigReader) -> HistoryLocation {
    let given = reader.text("history").map(str::to_owned);
    let scheme = given.as_deref().and_then(|text| text.split_once("://"));
    let Some((scheme, rest)) = scheme else {
        for name in DATABASE {
            if reader.text(name).is_some() {
                let remedy =
                    format!("give history a URL, postgres://user@host:port/database, or leave {name} out");
                reader.push(name, "the history is in a file", remedy);
            }
        }
        // Its size is not.
        let _in_order: u64 = spool(reader);
        return given.map_or(HistoryLocation::DataDir, |path| HistoryLocation::File(path.into()));
    };
    let (url, scheme, rest) = (format!("{scheme}://{rest}"), scheme.to_owned(), rest.to_owned());
    let hosts = hosts(reader, &scheme, &rest);
    // Nobody but this machine reaches the servers.
    let local = hosts.is_some_and(|hosts| hosts.split(',').all(is_loopback));
    let tls = tls(reader, local);
    HistoryLocation::Database(Box::new(Database {
        url: Secret(url),
        password_file: readable(reader, "history_password_file"),
        tls,
        ca: ca(reader, tls),
        spool: spool(reader),
    }))
}

/// The hosts of a URL that is one; its password is shown no more.
fn hosts(reader: &mut ConfigReader, scheme: &str, rest: &str) -> Option<String> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) =
        user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));
    let from_environment = matches!(reader.values["history"].1, Origin::Environment(_));
    let database = path.split('?').next().unwrap_or_default();
    if password.is_some() || path.contains('?') {
        reader.show("history", format!("{scheme}://{user}@{hosts}/{database}"));
    }
    let (problem, remedy) = if !matches!(scheme, "postgres" | "postgresql") {
        ("unknown store", "write a path, or postgres://user@host:port/database")
    } else if hosts.is_empty() || database.is_empty() || user.is_empty() {
        ("it names no user, no host or no database", "write postgres://user@host:port/database")
    } else if path.contains('?') {
        ("it has parameters", "leave out what is after the ?: history_tls says how TLS is spoken")
    } else if password.is_some() && !from_environment {
        (
            "its password can be read by others",
            "put it into a file of its own, history_password_file, or give the whole in the variable ROSTERD_HISTORY",
        )
    } else {
        return Some(hosts.to_owned());
    };
    reader.push("history", problem, remedy);
    None
}

fn tls(reader: &mut ConfigReader, loopback: bool) -> DatabaseTls {
    let usual = if loopback { DatabaseTls::Disable } else { DatabaseTls::VerifyFull };
    let mode = |text: &str| match text {
        "disable" => Ok(DatabaseTls::Disable),
        "require" => Ok(DatabaseTls::Require),
        "verify-ca" => Ok(DatabaseTls::VerifyCa),
        "verify-full" => Ok(DatabaseTls::VerifyFull),
        _ => Err("unknown mode".to_owned()),
    };
    reader.parsed("history_tls", mode, "write disable, require, verify-ca or verify-full").unwrap_or(usual)
}

fn ca(reader: &mut ConfigReader, tls: DatabaseTls) -> Option<PathBuf> {
    if reader.text("history_tls_ca").is_some() && matches!(tls, DatabaseTls::Disable | DatabaseTls::Require) {
        let problem = "no certificate is verified by it";
        reader.push(
            "history_tls_ca",
            problem,
            "set history_tls to verify-ca or verify-full, or leave it out",
        );
    }
    readable(reader, "history_tls_ca")
}

fn spool(reader: &mut ConfigReader) -> u64 {
    reader.bytes("history_spool", 1 << 20, 1 << 40)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Loaded, Sources};
    use super::*;

    fn sources(flags: &[(&str, &str)], environment: &[(&str, &str)]) -> Sources {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let flags = [("data_dir", "d")].iter().chain(flags).map(owned).collect();
        let environment: BTreeMap<_, _> = environment.iter().map(owned).collect();
        Sources { flags, environment, ..Sources::default() }
    }

    fn database(flags: &[(&str, &str)]) -> Database {
        let loaded = Loaded::read(&sources(flags, &[])).unwrap();
        let HistoryLocation::Database(database) = loaded.config.history.place else {
            panic!("it is in a file")
        };
        *database
    }

    #[test]
    fn a_history_is_in_a_file_or_in_a_database() {
        let place = |flags: &[(&str, &str)]| Loaded::read(&sources(flags, &[])).unwrap().config.history.place;
        assert_eq!(place(&[]), HistoryLocation::DataDir);
        assert_eq!(place(&[("history", "/var/h.db")]), HistoryLocation::File("/var/h.db".into()));
        let found = database(&[("history", "postgres://ann@db:5432/jobs")]);
        assert_eq!((found.tls, found.spool), (DatabaseTls::VerifyFull, 1 << 30));
        for local in ["127.0.0.1:5432", "localhost", "[::1]:1,localhost:2"] {
            let url = format!("postgresql://ann@{local}/jobs");
            assert_eq!(database(&[("history", &url)]).tls, DatabaseTls::Disable, "{local}");
            let told = [("history", url.as_str()), ("history_tls", "verify-ca")];
            assert_eq!(database(&told).tls, DatabaseTls::VerifyCa);
        }
    }

    #[test]
    fn a_password_is_taken_from_the_environment_alone_and_shown_nowhere() {
        let url = "postgres://ann:hush@db/jobs";
        let refused = Loaded::read(&sources(&[("history", url)], &[])).unwrap_err().to_string();
        assert!(
            refused.contains("\"postgres://ann@db/jobs\"") && refused.contains("history_password_file"),
            "{refused}"
        );
        assert!(!refused.contains("hush"), "{refused}");
        let loaded = Loaded::read(&sources(&[], &[("ROSTERD_HISTORY", url)])).unwrap();
        let printed = loaded.print();
        assert!(printed.contains("history = \"postgres://ann@db/jobs\"  # ROSTERD_HISTORY"), "{printed}");
        assert!(!printed.contains("hush") && !format!("{:?}", loaded.config).contains("hush"));
        let HistoryLocation::Database(database) = loaded.config.history.place else {
            panic!("it is in a file")
        };
        assert_eq!(database.url.0, url);
        let refused = Loaded::read(&sources(&[("history", "postgres://ann@db/jobs?password=hush")], &[]));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("it has parameters") && !refused.contains("hush"), "{refused}");
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let url = ("history", "postgres://ann@db/jobs");
        let table: &[(&[(&str, &str)], &str)] = &[
            (&[("history", "mysql://ann@db/jobs")], "unknown store; write a path, or postgres://"),
            (&[("history", "postgres://db/jobs")], "it names no user, no host or no database"),
            (&[("history", "postgres://ann@db")], "it names no user, no host or no database"),
            (&[url, ("history_tls", "prefer")], "unknown mode; write disable, require, verify-ca"),
            (&[url, ("history_password_file", "/nowhere")], "it cannot be read"),
            (
                &[url, ("history_tls", "require"), ("history_tls_ca", "Cargo.toml")],
                "no certificate is verified",
            ),
            (&[("history_tls", "require")], "the history is in a file; give history a URL"),
            (&[url, ("history_spool", "1KiB")], "out of range"),
        ];
        for (flags, expected) in table {
            let refused = Loaded::read(&sources(flags, &[])).unwrap_err().to_string();
            assert!(refused.contains(expected), "{flags:?}: {refused}");
        }
    }
}
