//! Fences against real servers, PostgreSQL and Redis from Debian's packages and S3 by moto, from PyPI: what a newer run has
//! written, an older one cannot take back. The servers' own command lines speak to them, and to S3 a few lines of HTTP, so
//! no driver is needed.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rosterd_client::fence::{Fenced, Guard, postgres, redis, s3};
use tempfile::TempDir;

const SHORT: Guard<'_> = Guard::new("hello", 0, 999_999_999_999_999);
/// A double cannot tell them apart.
const OLD: Guard<'_> = Guard::new("hello", 0, 9_007_199_254_740_993);
const NEW: Guard<'_> = Guard::new("hello", 0, 9_007_199_254_740_994);

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

/// None of the servers reports its port if it gets port 0.
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

/// A program of the newest installed version.
fn of_postgres(program: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL: apt-get install postgresql");
    let newest = versions.map(|entry| entry.unwrap().path()).max().expect("a version of PostgreSQL");
    newest.join("bin").join(program)
}

/// PostgreSQL does not run as root: as root, use the user of Debian's package.
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
    // The command line cannot check in between, so the write has the same condition.
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
    let other = Guard::new("hello", 1, 1);
    assert_eq!(write(&server, other, 7), Ok(()), "each item has tokens of its own");
    // The check that locks nothing.
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

// S3.

/// From the environment that `cargo xtask setup` creates for the Python client.
fn start_s3() -> Server {
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/moto_server");
    let program = std::env::var_os("ROSTERD_S3_SERVER").map_or_else(ours, PathBuf::from);
    assert!(
        program.exists(),
        "{} is not there: cargo xtask setup, or name one (ROSTERD_S3_SERVER)",
        program.display()
    );
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut command = Command::new(program);
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).current_dir(folder.path());
    let child = quiet(&mut command).spawn().unwrap();
    Server { child, port, _folder: folder }
}

struct Bucket {
    server: Server,
    /// Another run's action right before the next put, once.
    between: Mutex<Option<Between>>,
}

enum Between {
    Puts(Guard<'static>, &'static str),
    Deletes,
}

/// Status, headers and body.
struct Answer(u16, String, String);

impl Answer {
    fn header(&self, name: &str) -> Option<String> {
        let lines = self.1.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.into())
    }
}

impl Bucket {
    fn start() -> Self {
        let bucket = Self { server: start_s3(), between: Mutex::new(None) };
        until("S3", || bucket.ask("PUT", "", &[], b"").is_ok_and(|Answer(status, ..)| status == 200));
        bucket
    }

    /// The server requires a name and does not check signatures.
    fn ask(&self, method: &str, key: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.server.port))?;
        let scope = "Credential=tests/20260101/us-east-1/s3/aws4_request";
        write!(stream, "{method} /reports/{key} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")?;
        write!(stream, "Authorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0\r\n")?;
        for (name, value) in headers {
            write!(stream, "{name}: {value}\r\n")?;
        }
        write!(stream, "Content-Length: {}\r\n\r\n", body.len())?;
        stream.write_all(body)?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        let (head, body) = said.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(Answer(status.ok_or(io::ErrorKind::InvalidData)?, head.into(), body.into()))
    }

    fn holds(&self, key: &str) -> String {
        self.ask("GET", key, &[], b"").unwrap().2
    }
}

fn unexpected(Answer(status, head, body): &Answer) -> io::Error {
    io::Error::other(format!("{status}: {head}\n{body}"))
}

impl s3::ObjectStore for Bucket {
    type Error = io::Error;

    async fn head(&self, key: &str) -> io::Result<Option<s3::Head>> {
        let answer = self.ask("HEAD", key, &[], b"")?;
        match answer.0 {
            200 => {
                let token = answer.header(&format!("x-amz-meta-{}", s3::METADATA));
                Ok(Some(s3::Head::new(answer.header("etag").unwrap_or_default(), token)))
            }
            404 => Ok(None),
            _ => Err(unexpected(&answer)),
        }
    }

    async fn put(&self, key: &str, body: &[u8], token: &str, if_match: Option<&str>) -> io::Result<bool> {
        let named = format!("x-amz-meta-{}", s3::METADATA);
        let between = self.between.lock().unwrap().take();
        let other = match between {
            Some(Between::Puts(run, body)) => {
                self.ask("PUT", key, &[(&named, &run.token.to_string())], body.as_bytes()).map(|said| said.0)
            }
            Some(Between::Deletes) => self.ask("DELETE", key, &[], b"").map(|said| said.0),
            None => Ok(200),
        };
        assert!(matches!(other, Ok(200 | 204)), "{other:?}");
        let condition = if_match.map_or(("If-None-Match", "*"), |etag| ("If-Match", etag));
        let answer = self.ask("PUT", key, &[condition, (&named, token)], body)?;
        match answer.0 {
            200 => Ok(true),
            404 | 409 | 412 => Ok(false),
            _ => Err(unexpected(&answer)),
        }
    }
}

#[tokio::test]
async fn in_s3_an_object_that_a_newer_run_has_put_is_kept_also_between_look_and_put() {
    let bucket = Bucket::start();
    let put = async |key: &str, body: &str, run: Guard<'_>| s3::put(&bucket, key, body.as_bytes(), run).await;
    for (run, body) in [(SHORT, "short"), (OLD, "old"), (NEW, "new")] {
        put("report", body, run).await.unwrap();
    }
    let refused = put("report", "late", OLD).await.unwrap_err();
    assert!(refused.is_fenced() && refused.to_string().contains(&NEW.token.to_string()), "{refused}");
    assert_eq!(bucket.holds("report"), "new");
    put("between", "first", SHORT).await.unwrap();
    for key in ["between", "made-between"] {
        *bucket.between.lock().unwrap() = Some(Between::Puts(NEW, "newer"));
        let refused = put(key, "late", OLD).await.unwrap_err();
        assert!(refused.is_fenced(), "{refused}");
        assert_eq!(bucket.holds(key), "newer");
        *bucket.between.lock().unwrap() = Some(Between::Puts(NEW, "again"));
        put(key, "last", NEW).await.unwrap();
        assert_eq!(bucket.holds(key), "last");
    }
    // The object that was read is gone before it is replaced.
    *bucket.between.lock().unwrap() = Some(Between::Deletes);
    put("report", "made anew", NEW).await.unwrap();
    assert_eq!(bucket.holds("report"), "made anew");
}
