//! A real PostgreSQL server for tests, from Debian's package, on loopback. It is tied to a pipe of this process, as
//! ZooKeeper's are: when this process ends, however it does, a shell kills the server and removes its data. PostgreSQL
//! does not run as root: then it runs as the user of Debian's package.

#![allow(dead_code, reason = "each suite uses its part")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the server, prints its pid, waits for the pipe to close or for the command to keep the data.
const KEEPER: &str = r#"
dir=$1; shift
"$@" >>"$dir/log" 2>&1 &
pid=$!
echo "$pid"
read -r word
kill -9 "$pid"
wait "$pid" 2>/dev/null
[ "$word" = keep ] && exit
rm -rf "$dir"
"#;

/// A server.
pub(crate) struct Postgres {
    pub(crate) port: u16,
    dir: PathBuf,
    flags: Vec<String>,
    keeper: Option<(Child, ChildStdin, u32)>,
}

fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
        .max();
    let (version, path) = newest.expect("PostgreSQL is not there: apt-get install postgresql");
    assert!(version >= 15, "PostgreSQL {version} is too old: 15 or newer");
    path.join("bin")
}

/// The user that a server runs as, if this process runs as root.
fn owner() -> Option<(u32, u32)> {
    let id = |flag: &str, user: &[&str]| {
        let said = Command::new("id").arg(flag).args(user).output().unwrap().stdout;
        String::from_utf8(said).unwrap().trim().parse::<u32>().expect("there is a user postgres")
    };
    (id("-u", &[]) == 0).then(|| (id("-u", &["postgres"]), id("-g", &["postgres"])))
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = owner() {
        command.uid(user).gid(group);
    }
    command.current_dir("/");
    command
}

impl Postgres {
    /// A server whose user `rosterd` needs no password, with more of its settings (`name=value`).
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::start_with(settings, |_| {}, None)
    }

    /// `prepare` puts files into its folder; with a password, its user `rosterd` needs that one.
    pub(crate) fn start_with(settings: &[&str], prepare: impl Fn(&Path), password: Option<&str>) -> Self {
        let dir = tempfile::Builder::new().prefix("rosterd-postgres-").tempdir().unwrap().keep();
        let data = dir.join("data");
        std::fs::create_dir(&data).unwrap();
        let mut init = command(&programs().join("initdb"));
        init.args(["-U", "rosterd", "--no-sync", "--no-locale", "-E", "UTF8", "-D"]).arg(&data);
        if let Some(password) = password {
            std::fs::write(dir.join("password"), password).unwrap();
            init.args(["-A", "scram-sha-256", "--pwfile"]).arg(dir.join("password"));
        } else {
            init.args(["-A", "trust"]);
        }
        prepare(&dir);
        own(&dir);
        let made = init.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let flags = settings
            .iter()
            .flat_map(|setting| ["-c".to_owned(), setting.replace("{dir}", dir.to_str().unwrap())]);
        let mut server = Self { port: 0, flags: flags.collect(), dir, keeper: None };
        // A port may be taken between its choice and its use.
        for attempt in 1..=3 {
            server.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            server.spawn();
            match server.try_wait_until_it_serves() {
                Ok(()) => return server,
                Err(why) => eprintln!("try {attempt} of 3: {why}"),
            }
            server.kill();
        }
        panic!("no PostgreSQL server could be started; see above");
    }

    /// Its URL, as user `rosterd`.
    pub(crate) fn url(&self) -> String {
        format!("postgres://rosterd@127.0.0.1:{}/postgres", self.port)
    }

    fn spawn(&mut self) {
        let mut keeper = command(Path::new("sh"));
        keeper.args(["-c", KEEPER, "sh"]).arg(&self.dir).arg(programs().join("postgres"));
        keeper.arg("-D").arg(self.dir.join("data")).args(["-F", "-p", &self.port.to_string()]);
        keeper.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]).args(&self.flags);
        keeper.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = keeper.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.keeper = Some((child, stdin, line.trim().parse().unwrap()));
    }

    fn try_wait_until_it_serves(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let port = self.port.to_string();
            let asked = Command::new(programs().join("pg_isready"))
                .args(["-q", "-h", "127.0.0.1", "-p", &port])
                .status();
            if asked.unwrap().success() {
                return Ok(());
            }
            let pid = self.keeper.as_ref().map(|(_, _, pid)| *pid).unwrap();
            // A server that has ended is a zombie until its keeper waits for it.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let dead = stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']));
            if dead || begun.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                return Err(format!("PostgreSQL does not serve (it runs: {}):\n{log}", !dead));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// `kill -9`; its data stays.
    pub(crate) fn kill(&mut self) {
        let (mut child, mut stdin, _) = self.keeper.take().expect("it runs");
        stdin.write_all(b"keep\n").unwrap();
        child.wait().unwrap();
    }

    /// Starts it again on its data.
    pub(crate) fn restart(&mut self) {
        assert!(self.keeper.is_none(), "it runs");
        // A killed server leaves its pid file, whose pid may be reused, and helpers that notice its end a moment later.
        let begun = Instant::now();
        loop {
            self.spawn();
            match self.try_wait_until_it_serves() {
                Ok(()) => return,
                Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
            }
            self.kill();
        }
    }
}

/// Gives a folder to the user that the server runs as.
fn own(dir: &Path) {
    let Some((user, group)) = owner() else { return };
    std::os::unix::fs::chown(dir, Some(user), Some(group)).unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        std::os::unix::fs::chown(entry.unwrap().path(), Some(user), Some(group)).unwrap();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        match self.keeper.take() {
            Some((mut child, stdin, _)) => {
                drop(stdin);
                let _ = child.wait();
            }
            None => drop(std::fs::remove_dir_all(&self.dir)),
        }
    }
}
