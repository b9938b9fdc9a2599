//! What `rosterd doctor` looks at on the machine of a coordinator: its files, its disk, its ensemble. It changes nothing but
//! a file of its own in the data directory, which it takes away again.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rosterd_domain::time::Time;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::credentials::edit;
use super::store::data_dir;
use crate::config::{Config, Registry, ZooKeeper};
use rosterd_api::tls::ends_of;
use rosterd_registry::zookeeper::{Inspection, inspect};
use rosterd_runtime::clock::{Clock as _, System};
use rosterd_runtime::private::shared_mode;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Ok,
    Warning,
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `disk`, `ensemble` and so on.
    pub area: &'static str,
    pub level: Level,
    /// What is so.
    pub what: String,
    /// What to do; empty where there is nothing to be done.
    pub remedy: String,
    /// The page of the guide, without its folder.
    pub page: &'static str,
}

impl Finding {
    pub fn ok(area: &'static str, page: &'static str, what: impl Into<String>) -> Self {
        Self { area, level: Level::Ok, what: what.into(), remedy: String::new(), page }
    }

    pub fn warning(
        area: &'static str,
        page: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { area, level: Level::Warning, what: what.into(), remedy: remedy.into(), page }
    }

    pub fn bad(
        area: &'static str,
        page: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { area, level: Level::Bad, what: what.into(), remedy: remedy.into(), page }
    }
}

const GIB: u64 = 1 << 30;
/// Durable writes that are timed.
const WRITES: usize = 16;
/// A disk that needs longer for one makes every fire late.
const SLOW_WRITE: Duration = Duration::from_millis(30);
/// Credentials and certificates that end so soon are warned of.
const SOON: Duration = Duration::from_secs(14 * 86_400);
/// How long a server of the ensemble may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(3);
/// The oldest ZooKeeper with the watches that a coordinator needs.
const OLDEST: (u32, u32) = (3, 6);

/// Looks at all of it.
pub async fn look(config: &Config) -> Vec<Finding> {
    let mut found = disk(data_dir(&config.registry));
    if let Registry::ZooKeeper(zookeeper) = &config.registry {
        let servers = ensemble(zookeeper).await;
        let answers = servers.iter().all(|found| found.level != Level::Bad);
        found.extend(servers);
        if answers {
            found.extend(session(config, zookeeper).await);
        }
    }
    found.extend(credentials(config));
    found.extend(certificates(config));
    found
}

fn disk(dir: &Path) -> Vec<Finding> {
    const AREA: &str = "disk";
    const PAGE: &str = "operate.md";
    let shown = dir.display();
    let about = match fs::metadata(dir) {
        Ok(about) if about.is_dir() => about,
        Ok(_) => {
            return vec![Finding::bad(
                AREA,
                PAGE,
                format!("{shown} is not a directory"),
                "set data_dir to a directory",
            )];
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return vec![Finding::ok(
                AREA,
                PAGE,
                format!("{shown} does not exist yet: the coordinator creates it"),
            )];
        }
        Err(error) => {
            let remedy = "make the coordinator's user its owner, and run this as that user";
            return vec![Finding::bad(AREA, PAGE, format!("{shown} cannot be read: {error}"), remedy)];
        }
    };
    let mut found = Vec::new();
    if let Some(mode) = shared_mode(&about) {
        let what = format!("others may read or write {shown} (mode {mode:04o}): a coordinator refuses it");
        found.push(Finding::bad(AREA, PAGE, what, format!("chmod 700 {shown}")));
    }
    let me = rustix::process::geteuid().as_raw();
    if about.uid() != me {
        let what = format!("{shown} belongs to user {}, and this is user {me}", about.uid());
        found.push(Finding::warning(AREA, PAGE, what, "run this as the user of the coordinator"));
    }
    if let Ok(space) = rustix::fs::statvfs(dir) {
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let what = format!("{}.{} GiB are free in {shown}", free / GIB, free % GIB * 10 / GIB);
        found.push(match free {
            _ if free < GIB / 8 => {
                Finding::bad(AREA, PAGE, what, "free some space: when it is full, nothing fires")
            }
            _ if free < GIB => {
                Finding::warning(AREA, PAGE, what, "free some space, or lower history_retention")
            }
            _ => Finding::ok(AREA, PAGE, what),
        });
    }
    found.push(match write_time(dir) {
        Ok(time) => {
            let what = format!(
                "a durable write of 4 KiB takes {}.{} ms",
                time.as_millis(),
                time.as_micros() % 1000 / 100
            );
            match time > SLOW_WRITE {
                true => {
                    Finding::warning(AREA, "sizing.md", what, "each fire waits for one: use a faster disk")
                }
                false => Finding::ok(AREA, "sizing.md", what),
            }
        }
        Err(error) => {
            let what = format!("{shown} cannot be written to: {error}");
            Finding::bad(AREA, PAGE, what, "make the coordinator's user its owner, and run this as that user")
        }
    });
    found
}

/// The median time of a durable write.
#[allow(clippy::disallowed_methods, reason = "it is the disk that is timed")]
fn write_time(dir: &Path) -> std::io::Result<Duration> {
    let path = dir.join(format!("doctor-{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    let mut time = || {
        let before = Instant::now();
        file.write_all(&[0; 4096]).and_then(|()| file.sync_data()).map(|()| before.elapsed())
    };
    let times: std::io::Result<Vec<Duration>> = (0..WRITES).map(|_| time()).collect();
    let removed = fs::remove_file(&path);
    let mut times = times?;
    removed?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// What a server says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Server {
    version: String,
    mode: String,
}

async fn ensemble(zookeeper: &ZooKeeper) -> Vec<Finding> {
    const AREA: &str = "ensemble";
    const PAGE: &str = "cluster.md";
    if zookeeper.tls.is_some() {
        let what = "the servers use TLS: which of them is the leader is not checked";
        return vec![Finding::ok(AREA, PAGE, what)];
    }
    let hosts: Vec<&str> =
        zookeeper.servers.split('/').next().unwrap_or_default().split(',').map(str::trim).collect();
    let mut found = Vec::new();
    let (mut answer, mut lead) = (0, 0);
    for host in &hosts {
        match tokio::time::timeout(PATIENCE, ask(host)).await {
            Ok(Ok(server)) => {
                answer += 1;
                lead += usize::from(server.mode == "leader" || server.mode == "standalone");
                let what = format!("{host} is ZooKeeper {}, {}", server.version, server.mode);
                found.push(match version(&server.version) {
                    Some(version) if version < OLDEST => {
                        Finding::bad(AREA, PAGE, what, "use ZooKeeper 3.6 or newer, preferably 3.9")
                    }
                    _ => Finding::ok(AREA, PAGE, what),
                });
            }
            Ok(Err(why)) => {
                let remedy = "start it, correct zk, or open the network between it and this machine";
                found.push(Finding::bad(AREA, PAGE, format!("{host}: {why}"), remedy));
            }
            Err(_) => {
                let what = format!("{host} does not respond within {} s", PATIENCE.as_secs());
                found.push(Finding::bad(
                    AREA,
                    PAGE,
                    what,
                    "start it, correct zk, or open the network between it and this machine",
                ));
            }
        }
    }
    let all = hosts.len();
    if answer * 2 <= all {
        let what = format!("{answer} of {all} servers respond, which is not a majority: nothing fires");
        found.push(Finding::bad(AREA, PAGE, what, "start the others"));
    } else if all == 1 {
        let what = "there is only one server: while it is down, nothing fires";
        found.push(Finding::warning(AREA, PAGE, what, "use three servers: they tolerate the loss of one"));
    } else if lead != 1 {
        let what = format!("{lead} servers claim to be the leader: they do not form one ensemble");
        found.push(Finding::bad(AREA, PAGE, what, "list all servers of one ensemble, and no others"));
    }
    found
}

/// What a session is granted, and who may change the namespace. It writes nothing.
async fn session(config: &Config, zookeeper: &ZooKeeper) -> Vec<Finding> {
    const AREA: &str = "ensemble";
    const PAGE: &str = "cluster.md";
    let options = match super::store::options(config, zookeeper) {
        Ok(options) => options,
        Err(error) => {
            return vec![Finding::bad(AREA, PAGE, error.to_string(), "correct the file, or its path")];
        }
    };
    match inspect(&options).await {
        Ok(found) => findings(&found, options.session_timeout, zookeeper),
        Err(error) => {
            let remedy = "correct that; no coordinator starts before";
            vec![Finding::bad(AREA, PAGE, error.to_string(), remedy)]
        }
    }
}

fn findings(ensemble: &Inspection, asked: Duration, zookeeper: &ZooKeeper) -> Vec<Finding> {
    const AREA: &str = "ensemble";
    const PAGE: &str = "cluster.md";
    let seconds = |time: Duration| format!("{}.{} s", time.as_secs(), time.subsec_millis() / 100);
    let (granted, wanted) = (seconds(ensemble.session), seconds(asked));
    let mut found = vec![if ensemble.session > asked {
        let what = format!(
            "the session timeout is {granted} instead of the requested {wanted}: the death of a coordinator is detected later"
        );
        Finding::warning(AREA, PAGE, what, "lower minSessionTimeout (default: twice tickTime), or tickTime")
    } else if ensemble.session < asked {
        let what = format!(
            "the session timeout is {granted} instead of the requested {wanted}: a short pause of a coordinator ends its session"
        );
        Finding::warning(
            AREA,
            PAGE,
            what,
            "raise maxSessionTimeout (default: twenty times tickTime), or tickTime",
        )
    } else {
        Finding::ok(AREA, PAGE, format!("the session timeout is {granted}, as requested"))
    }];
    found.push(match ensemble.takes_large {
        true => Finding::ok(AREA, "sizing.md", "requests of 1 MiB are accepted (jute.maxbuffer)"),
        false => {
            let what = "requests of 1 MiB are refused: jobs with many items cannot be assigned";
            let remedy = "raise jute.maxbuffer of all servers to 1048575 or more, which is the default";
            Finding::bad(AREA, "sizing.md", what, remedy)
        }
    });
    let identity = "set zk_auth, or zk_tls_cert and zk_tls_key";
    found.extend(match (ensemble.open_to_all, zookeeper.has_identity()) {
        (Some(true), true) => {
            let what =
                "anyone with network access to the servers can change the namespace: it was created without credentials";
            Some(Finding::bad(
                AREA,
                "security.md",
                what,
                "restrict its nodes to these credentials with zkCli's setAcl -R",
            ))
        }
        (Some(true) | None, false) if !zookeeper.is_on_loopback() => {
            let what = "nodes are created with access for anyone with network access to the servers";
            Some(Finding::warning(AREA, "security.md", what, identity))
        }
        (Some(true) | None, _) => None,
        (Some(false), _) => Some(Finding::ok(AREA, "security.md", "only these credentials can change the namespace")),
    });
    found
}

/// Asks a server who it is, by the one word that is answered unless somebody forbade it.
async fn ask(host: &str) -> Result<Server, String> {
    let mut stream = TcpStream::connect(host).await.map_err(|error| error.to_string())?;
    let mut answer = String::new();
    let asked = async {
        stream.write_all(b"srvr").await?;
        (&mut stream).take(1 << 16).read_to_string(&mut answer).await
    };
    asked.await.map_err(|error| error.to_string())?;
    parse(&answer)
}

fn parse(answer: &str) -> Result<Server, String> {
    let field = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    match (field("Zookeeper version:"), field("Mode:")) {
        (Some(version), Some(mode)) => {
            let version = version.split(['-', ',']).next().unwrap_or_default().to_owned();
            Ok(Server { version, mode: mode.to_owned() })
        }
        _ if answer.contains("not currently serving") => Err("it runs without a quorum".to_owned()),
        _ => Err("it refuses the command srvr: allow it (4lw.commands.whitelist)".to_owned()),
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

fn credentials(config: &Config) -> Vec<Finding> {
    const AREA: &str = "credentials";
    const PAGE: &str = "security.md";
    let Some(path) = &config.credentials else {
        let what =
            "there is no credential file: anyone with network access to the coordinator may do everything";
        return match config.listen.ip().is_loopback() {
            true => vec![Finding::ok(AREA, PAGE, format!("{what}, which is this machine"))],
            false => vec![Finding::bad(
                AREA,
                PAGE,
                what,
                "create one with `rosterd credentials add`, and set credentials",
            )],
        };
    };
    let shown = path.display();
    let rows = match edit::list(path) {
        Ok(rows) => rows,
        Err(why) => return vec![Finding::bad(AREA, PAGE, why, "correct the file, or set another one")],
    };
    let mut found = Vec::new();
    let (now, soon) = (System.wall(), System.wall().plus(SOON));
    for row in &rows {
        match row.expires {
            Some(ends) if ends <= now => {
                let remedy = format!("rosterd credentials revoke --credentials {shown} {}", row.proof);
                found.push(Finding::warning(
                    AREA,
                    PAGE,
                    format!("the credential of {} expired at {ends}", row.name),
                    remedy,
                ));
            }
            Some(ends) if ends <= soon => {
                let what = format!("the credential of {} expires at {ends}", row.name);
                found.push(Finding::warning(
                    AREA,
                    PAGE,
                    what,
                    "create another one, and give it to its owner",
                ));
            }
            _ => {}
        }
    }
    if !rows.iter().any(|row| row.role == "admin" && row.expires.is_none_or(|ends| ends > now)) {
        let what = format!("no credential in {shown} may change jobs");
        found.push(Finding::warning(AREA, PAGE, what, "add one with --role admin"));
    }
    if found.is_empty() {
        found.push(Finding::ok(AREA, PAGE, format!("{} in {shown}", rows.len())));
    }
    found
}

fn certificates(config: &Config) -> Vec<Finding> {
    const AREA: &str = "certificates";
    const PAGE: &str = "security.md";
    let Some(tls) = &config.tls else {
        return match config.listen.ip().is_loopback() {
            true => Vec::new(),
            false => vec![Finding::warning(
                AREA,
                PAGE,
                "TLS is off: anyone on the network path can read credentials and parameters",
                "set tls_cert and tls_key",
            )],
        };
    };
    let files = [Some(&tls.cert), tls.client_ca.as_ref()].into_iter().flatten();
    files.map(|path| certificate(path, System.wall())).collect()
}

fn certificate(path: &Path, now: Time) -> Finding {
    const AREA: &str = "certificates";
    const PAGE: &str = "security.md";
    let shown = path.display();
    let pem = match fs::read(path) {
        Ok(pem) => pem,
        Err(error) => {
            return Finding::bad(
                AREA,
                PAGE,
                format!("{shown} cannot be read: {error}"),
                "correct its path or mode",
            );
        }
    };
    match ends_of(&pem) {
        None => Finding::bad(
            AREA,
            PAGE,
            format!("{shown} contains no certificate in PEM"),
            "set a file that does",
        ),
        Some(ends) if ends <= now => {
            Finding::bad(AREA, PAGE, format!("{shown} expired at {ends}"), "renew it")
        }
        Some(ends) if ends <= now.plus(SOON) => Finding::warning(
            AREA,
            PAGE,
            format!("{shown} expires at {ends}"),
            "renew it: the file is reread automatically",
        ),
        Some(ends) => Finding::ok(AREA, PAGE, format!("{shown} is valid until {ends}")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_server_names_itself() {
        let said = "Zookeeper version: 3.9.5-6b4eb1a8d6a0, built on 2025-01-01\nLatency min/avg/max: 0/0.4/9\nMode: follower\n";
        let server = parse(said).unwrap();
        assert_eq!(server, Server { version: "3.9.5".into(), mode: "follower".into() });
        assert_eq!(version(&server.version), Some((3, 9)));
        assert!(version("3.5.10") < Some(OLDEST));
        assert!(
            parse("This ZooKeeper instance is not currently serving requests")
                .unwrap_err()
                .contains("quorum")
        );
        assert!(
            parse("srvr is not executed because it is not in the whitelist.").unwrap_err().contains("srvr")
        );
    }

    #[test]
    fn a_data_directory_that_others_may_read_is_bad_and_one_of_ones_own_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |mode| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        assert!(
            disk(dir.path())
                .iter()
                .any(|found| found.level == Level::Bad && found.remedy.starts_with("chmod 700"))
        );
        mode(0o700);
        let found = disk(dir.path());
        assert!(found.iter().all(|found| found.level != Level::Bad), "{found:?}");
        assert!(found.iter().any(|found| found.what.starts_with("a durable write")), "{found:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left there");
    }

    #[tokio::test]
    async fn an_ensemble_without_a_majority_is_bad() {
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = nobody.local_addr().unwrap();
        drop(nobody);
        assert!(ask(&address.to_string()).await.unwrap_err().contains("refused"));
    }

    #[test]
    fn a_certificate_that_has_ended_is_bad() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.pem");
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2030, 1, 1));
        fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        let level = |now: &str| certificate(&file, Time::parse(now).unwrap()).level;
        assert_eq!(level("2026-11-27T00:00:00Z"), Level::Ok);
        assert_eq!(level("2029-12-25T00:00:00Z"), Level::Warning);
        assert_eq!(level("2030-01-02T00:00:00Z"), Level::Bad);
        fs::write(&file, "nothing").unwrap();
        assert_eq!(level("2026-11-27T00:00:00Z"), Level::Bad);
    }
}
