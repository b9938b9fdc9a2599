//! Real ZooKeeper servers for tests: child JVMs on loopback, one alone or three as an ensemble.
//!
//! Each is tied to a pipe of this process: when this process ends, however it does, the pipe closes, and a shell kills
//! the JVM and removes its data. So nothing outlives the tests, and servers that live as long as the process need no
//! cleanup.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Ticks of the servers: sessions may last 2 to 20 of them.
pub const TICK: Duration = Duration::from_millis(200);
/// How long servers may take until they serve.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the JVM, prints its pid, waits for the pipe to close or for the command to keep the data.
const KEEPER: &str = r#"
dir=$1; shift
java "$@" >>"$dir/log" 2>&1 &
pid=$!
echo "$pid"
read -r word
kill -9 "$pid"
wait "$pid" 2>/dev/null
[ "$word" = keep ] && exit
rm -rf "$dir"
rmdir "$(dirname "$dir")" 2>/dev/null
"#;

/// One server.
pub struct Server {
    pub port: u16,
    dir: PathBuf,
    /// Properties of its JVM.
    properties: Vec<String>,
    keeper: Option<(Child, ChildStdin, u32)>,
}

/// Servers that belong together.
pub struct Ensemble {
    pub servers: Vec<Server>,
}

fn jars() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from);
    let jars = target.join("zookeeper");
    assert!(
        jars.join("zookeeper-3.9.5.jar").is_file(),
        "{} has no ZooKeeper: run `cargo xtask setup` (it needs Java and Maven: apt-get install \
         default-jre-headless maven)",
        jars.display()
    );
    jars
}

fn free_ports(count: usize) -> Vec<u16> {
    // Bound at the same time, so that no two are the same.
    let all: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
    all.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

impl Ensemble {
    /// Starts `count` servers and waits until all serve; `more` are lines of their configuration, or properties of
    /// their JVM (`-D…`).
    pub fn start(count: usize, more: &[String]) -> Self {
        // A port may be taken between its choice and its use.
        for attempt in 1..=3 {
            let mut ensemble = Self::spawn(count, more);
            let failed =
                ensemble.servers.iter_mut().find_map(|server| server.try_wait_until_it_serves().err());
            match failed {
                None => return ensemble,
                Some(why) => eprintln!("try {attempt} of 3: {why}"),
            }
        }
        panic!("no ZooKeeper server could be started; see above, and try `java -version`");
    }

    fn spawn(count: usize, more: &[String]) -> Self {
        let ports = free_ports(count * 3);
        let base = tempfile::Builder::new().prefix("rosterd-zk-").tempdir().unwrap().keep();
        let peers: String = (0..count)
            .map(|n| format!("server.{}=127.0.0.1:{}:{}\n", n + 1, ports[count + n], ports[2 * count + n]))
            .collect();
        let servers = (0..count).map(|n| {
            let dir = base.join((n + 1).to_string());
            std::fs::create_dir_all(dir.join("data")).unwrap();
            std::fs::write(dir.join("data/myid"), (n + 1).to_string()).unwrap();
            let mut config = format!(
                "tickTime={}\ninitLimit=50\nsyncLimit=10\ndataDir={}\nclientPort={}\n\
                 clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n\
                 4lw.commands.whitelist=*\npreAllocSize=1024\n",
                TICK.as_millis(),
                dir.join("data").display(),
                ports[n]
            );
            if count > 1 {
                config.push_str(&peers);
            }
            let (properties, more): (Vec<&String>, Vec<&String>) =
                more.iter().partition(|line| line.starts_with("-D"));
            for line in more {
                config.push_str(&line.replace("{dir}", dir.to_str().unwrap()));
                config.push('\n');
            }
            std::fs::write(dir.join("zoo.cfg"), config).unwrap();
            let mut server = Server {
                port: ports[n],
                dir,
                properties: properties.into_iter().cloned().collect(),
                keeper: None,
            };
            server.spawn();
            server
        });
        Self { servers: servers.collect() }
    }

    /// `host:port`, separated by commas.
    pub fn list(&self) -> String {
        self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect::<Vec<_>>().join(",")
    }

    /// Which server leads.
    pub fn leader(&self) -> usize {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let leads =
                |server: &Server| server.ask("srvr").is_some_and(|said| said.contains("Mode: leader"));
            if let Some(leader) = self.servers.iter().position(leads) {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no server leads");
    }

    /// Waits until no server knows the session.
    pub fn wait_until_gone(&self, session: &str) {
        let id = session.trim_start_matches("zookeeper-");
        let begun = Instant::now();
        loop {
            let said: String = self.servers.iter().filter_map(|server| server.ask("dump")).collect();
            if said.contains("Sessions with Ephemerals") && !said.contains(id) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{session} is still there:\n{said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Server {
    fn spawn(&mut self) {
        let jars = jars();
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "sh"]).arg(&self.dir);
        command.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg("-Dzookeeper.jmx.log4j.disable=true").args(&self.properties);
        let jaas = self.dir.join("jaas.conf");
        std::fs::write(&jaas, JAAS).unwrap();
        command.arg(format!("-Djava.security.auth.login.config={}", jaas.display()));
        command.arg("-cp").arg(format!("{}/*", jars.display()));
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(self.dir.join("zoo.cfg"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.keeper = Some((child, stdin, line.trim().parse().unwrap()));
    }

    /// Where its data are.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Sends a four-letter command.
    pub fn ask(&self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        Some(said)
    }

    fn try_wait_until_it_serves(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            if self.ask("srvr").is_some_and(|said| said.contains("Mode:")) && self.is_the_one_that_answers() {
                return Ok(());
            }
            let pid = self.keeper.as_ref().map(|(_, _, pid)| *pid).unwrap();
            // A server that has ended is a zombie until its keeper waits for it.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let dead = stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']));
            if dead || begun.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                return Err(format!("a ZooKeeper server does not serve (it runs: {}):\n{log}", !dead));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Another test's server may have taken the port before this one: then that one answers.
    fn is_the_one_that_answers(&self) -> bool {
        let data = format!("dataDir={}/", self.data().display());
        self.ask("conf").is_some_and(|said| said.contains(&data))
    }

    pub fn wait_until_it_serves(&mut self) {
        self.try_wait_until_it_serves().unwrap();
    }

    /// `kill -9`; its data stays.
    pub fn kill(&mut self) {
        let (mut child, mut stdin, _) = self.keeper.take().expect("it runs");
        stdin.write_all(b"keep\n").unwrap();
        child.wait().unwrap();
    }

    /// Starts it again on its data.
    pub fn restart(&mut self) {
        assert!(self.keeper.is_none(), "it runs");
        self.spawn();
    }

    /// `STOP` or `CONT`.
    pub fn signal(&self, name: &str) {
        let (_, _, pid) = self.keeper.as_ref().expect("it runs");
        assert!(Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((mut child, stdin, _)) = self.keeper.take() {
            drop(stdin);
            let _ = child.wait();
        } else {
            let _ = std::fs::remove_dir_all(&self.dir);
            // The last one removes the common folder.
            let _ = self.dir.parent().map(std::fs::remove_dir);
        }
    }
}

/// The SASL users of the servers.
const JAAS: &str = r#"Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="secret";
};
"#;
