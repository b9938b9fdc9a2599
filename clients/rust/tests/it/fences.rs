//! Fences against real servers, from Debian's packages: what a newer run has written, an older one cannot take back. The
//! servers' own command lines speak to them, so no driver is needed.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rosterd_client::fence::{Fenced, Guard, postgres, redis};
use tempfile::TempDir;

const SHORT: Guard<'_> = Guard { job: "hello", item: 0, token: 999_999_999_999_999 };
/// Both above what a double can tell apart.
const OLD: Guard<'_> = Guard { token: 9_007_199_254_740_993, ..SHORT };
const NEW: Guard<'_> = Guard { token: 9_007_199_254_740_994, ..SHORT };

struct Server {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Neither server can be given port 0.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

// PostgreSQL.

/// A program of the newest version that is there.
fn of_postgres(program: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL: apt-get install postgresql");
    let newest = versions.map(|entry| entry.unwrap().path()).max().expect("a version of PostgreSQL");
    newest.join("bin").join(program)
}

/// PostgreSQL does not run as root: then it is the user of Debian's package.
fn as_its_user(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

fn start_postgres() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    if rustix::process::geteuid().is_root() {
        let owned =
            Command::new("chown").arg("-R").arg("postgres:postgres").arg(folder.path()).status().unwrap();
        assert!(owned.success());
    }
    let made = quiet(as_its_user(&of_postgres("initdb")).arg("-D").arg(&data))
        .args(["-U", "tests", "-A", "trust", "--no-sync"])
        .current_dir("/")
        .status();
    assert!(made.unwrap().success(), "initdb");
    let port = free_port();
    let mut server = as_its_user(&of_postgres("postgres"));
    server.arg("-D").arg(&data).args(["-p", &port.to_string(), "-F"]);
    server.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]).current_dir("/");
    let child = quiet(&mut server).spawn().unwrap();
    let server = Server { child, port, _folder: folder };
    until("PostgreSQL", || psql(&server, "SELECT 1").status.success());
    server
}

fn psql(server: &Server, script: &str) -> Output {
    let port = server.port.to_string();
    let mut command = Command::new(of_postgres("psql"));
    command.args(["-h", "127.0.0.1", "-p", &port, "-U", "tests", "-d", "postgres", "-X", "-At"]);
    command.args(["-v", "ON_ERROR_STOP=1", "-c", script]).stdin(Stdio::null()).output().unwrap()
}

fn sql(server: &Server, script: &str) -> String {
    let output = psql(server, script);
    assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Claims the item and writes in one transaction, as a run does.
fn write(server: &Server, run: Guard<'_>, amount: u32) -> Result<(), Fenced> {
    let (job, item, token) = postgres::values(run);
    let prepare = format!("PREPARE claim (text, int, bigint) AS {}", postgres::CLAIM);
    let claim = format!("EXECUTE claim ('{job}', {item}, {token})");
    // The command line cannot look before it goes on, so the write has the same condition.
    let condition =
        format!("(SELECT token FROM rosterd_tokens WHERE job = '{job}' AND item = {item}) = {token}");
    let update = format!("UPDATE account SET amount = {amount} WHERE {condition}");
    let said = sql(server, &format!("{prepare}; BEGIN; {claim}; {update}; COMMIT"));
    let rows = said.lines().find_map(|line| line.strip_prefix("INSERT 0 ")).expect("what was claimed");
    postgres::claimed(run, rows.parse().unwrap())
}

#[test]
fn in_postgres_a_transaction_of_an_older_run_is_refused() {
    let server = start_postgres();
    sql(&server, postgres::CREATE);
    sql(&server, postgres::CREATE);
    sql(&server, "CREATE TABLE account (amount int); INSERT INTO account VALUES (0)");
    for (run, amount) in [(SHORT, 1), (OLD, 2), (NEW, 3), (NEW, 4)] {
        assert_eq!(write(&server, run, amount), Ok(()));
    }
    for (run, amount) in [(OLD, 5), (SHORT, 6)] {
        let refused = write(&server, run, amount).unwrap_err();
        assert!(refused.to_string().contains("came too late"), "{refused}");
    }
    assert_eq!(sql(&server, "SELECT amount FROM account").trim(), "4");
    let other = Guard { item: 1, token: 1, ..SHORT };
    assert_eq!(write(&server, other, 7), Ok(()), "each item has tokens of its own");
    // The look that locks nothing.
    let (job, item, _) = postgres::values(OLD);
    let prepare = format!("PREPARE seen (text, int) AS {}", postgres::SEEN);
    let said = sql(&server, &format!("{prepare}; EXECUTE seen ('{job}', {item})"));
    let seen = said.lines().last().and_then(|line| line.parse().ok());
    assert_eq!(postgres::current(NEW, seen), Ok(()));
    assert_eq!(postgres::current(OLD, seen).unwrap_err().seen, Some(NEW.token));
    assert_eq!(postgres::current(OLD, None), Ok(()));
}

// Redis.

fn start_redis() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut command = Command::new("redis-server");
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder.path());
    let child = quiet(&mut command).spawn().expect("Redis: apt-get install redis-server");
    let server = Server { child, port, _folder: folder };
    until("Redis", || text(&redis_cli(&server, &["PING"]).stdout).contains("PONG"));
    server
}

fn redis_cli(server: &Server, words: &[&str]) -> Output {
    let port = server.port.to_string();
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &port]).args(words).stdin(Stdio::null()).output().unwrap()
}

fn evaluate(server: &Server, script: &str, key: &str, run: Guard<'_>, value: &str) -> Result<(), Fenced> {
    let said = text(&redis_cli(server, &["EVAL", script, "1", key, &run.token.to_string(), value]).stdout);
    let mut lines = said.lines();
    let written = lines.next().unwrap_or_default().parse().unwrap_or_else(|_| panic!("{said}"));
    redis::judge(run, key, (written, lines.next().unwrap_or_default()))
}

#[test]
fn in_redis_a_key_that_a_newer_run_has_written_is_refused_to_an_older_one() {
    let server = start_redis();
    for (run, value) in [(SHORT, "short"), (OLD, "old"), (NEW, "new"), (NEW, "new again")] {
        assert_eq!(evaluate(&server, redis::SET, "k", run, value), Ok(()));
    }
    for run in [OLD, SHORT] {
        let refused = evaluate(&server, redis::SET, "k", run, "late").unwrap_err();
        assert_eq!(refused.seen, Some(NEW.token), "{refused}");
        assert!(evaluate(&server, redis::CLAIM, "k", run, "").is_err());
    }
    assert_eq!(text(&redis_cli(&server, &["HGET", "k", "value"]).stdout).trim(), "new again");
    assert_eq!(evaluate(&server, redis::CLAIM, "claimed", NEW, ""), Ok(()));
    assert!(evaluate(&server, redis::SET, "claimed", OLD, "late").is_err());
}
