//! A real ZooKeeper server as a separate process, with its log on the disk of the benchmarks, and its counters.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::Result;
use crate::machine::{Floor, Raw, Used};
use crate::report::Report;
use crate::server::{scratch, target_dir, tethered};

const PATIENCE: Duration = Duration::from_secs(60);
/// Raw writes in flight at a time, and their total.
const IN_FLIGHT: usize = 64;
const RAW: usize = 4_000;
/// Packets of reading the counters itself: two requests.
const ASKED: f64 = 2.0;

pub(crate) struct Ensemble {
    child: Child,
    port: u16,
    /// After the server, which writes into it.
    dir: TempDir,
}

/// The server's counters so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) transactions: f64,
    pub(crate) received: f64,
    pub(crate) sent: f64,
}

/// Its counters and resource usage at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stand {
    at: Instant,
    counts: Counts,
    ran: f64,
}

/// Its work and resource usage between two moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    pub(crate) counts: Counts,
    /// Seconds of processor time.
    pub(crate) ran: f64,
}

impl Ensemble {
    /// Starts one.
    pub(crate) fn start() -> Result<Self> {
        // Where `cargo xtask setup` puts the server.
        let (dir, jars) = (scratch()?, target_dir().join("zookeeper"));
        if !jars.is_dir() {
            return Err(format!("{} is not there: run `cargo xtask setup`", jars.display()).into());
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let data = dir.path().join("zookeeper");
        std::fs::create_dir_all(&data)?;
        let config = data.join("zoo.cfg");
        std::fs::write(
            &config,
            format!(
                "tickTime=1000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
                 admin.enableServer=false\n4lw.commands.whitelist=*\nglobalOutstandingLimit=10000\n",
                data.display()
            ),
        )?;
        let log = File::create(data.join("log"))?;
        let mut command = tethered("java");
        command.args(["-Xmx1g", "-cp"]).arg(format!("{}/*", jars.display()));
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(config);
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let ensemble = Self { child, port, dir };
        let until = Instant::now() + PATIENCE;
        while ensemble.counts().is_err() {
            if Instant::now() > until {
                return Err("ZooKeeper does not serve: see that java runs".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(ensemble)
    }

    /// The disk that it writes on.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn used(&self) -> Used {
        Used::of(self.child.id())
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn counts(&self) -> Result<Counts> {
        let said = self.ask("srvr")?;
        let zxid = said.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).ok_or("it names no zxid")?;
        let monitored = self.ask("mntr")?;
        let number = |name| monitored_number(&monitored, name);
        Ok(Counts {
            // The upper half counts elections, of which a single server has none.
            transactions: (u64::from_str_radix(zxid.trim(), 16)? & 0xffff_ffff) as f64,
            received: number("zk_packets_received"),
            sent: number("zk_packets_sent"),
        })
    }

    /// How many watches and nodes there are.
    pub(crate) fn holds(&self) -> Result<(f64, f64)> {
        let monitored = self.ask("mntr")?;
        let number = |name| monitored_number(&monitored, name);
        Ok((number("zk_watch_count"), number("zk_znode_count")))
    }

    fn ask(&self, word: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(word.as_bytes())?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    }

    /// The rate of writes of a hundred bytes from one client, with many in flight. A JIT-compiled program gets faster:
    /// the first round only warms it up.
    pub(crate) fn raw(&self) -> Result<Raw> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (connections, address) = (self.connections()?, self.address());
        let raw = runtime.block_on(async {
            // A busy machine is slow.
            let connector = Client::connector().with_session_timeout(Duration::from_secs(20));
            let client = connector.connect(&address).await?;
            let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
            client.create("/raw", &[0; 100], &mode).await?;
            write_many(&client).await?;
            let (since, used) = (Instant::now(), self.used());
            write_many(&client).await?;
            let (took, used) = (since.elapsed().as_secs_f64(), self.used().since(used));
            client.delete("/raw", None).await?;
            Ok(Raw { rate: RAW as f64 / took, cpu: used.ran * 1e6 / RAW as f64 })
        });
        // The end of its session is a transaction, too, which must not count in the next measurement.
        let until = Instant::now() + PATIENCE;
        while self.connections()? > connections {
            if Instant::now() > until {
                return Err("the session of raw writes does not end".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        raw
    }

    /// The number of connections: clients, and the one of this request.
    pub(crate) fn connections(&self) -> Result<f64> {
        Ok(monitored_number(&self.ask("mntr")?, "zk_num_alive_connections"))
    }

    /// The current capacity of the machine, and of this server alone.
    pub(crate) fn floor(&self) -> Result<Floor> {
        Ok(Floor { raw: Some(self.raw()?), ..Floor::measure(self.dir())? })
    }

    /// Its counters and resource usage so far.
    pub(crate) fn stand(&self) -> Result<Stand> {
        Ok(Stand { at: Instant::now(), counts: self.counts()?, ran: self.used().ran })
    }

    /// Its work and resource usage since.
    pub(crate) fn cost(&self, since: &Stand) -> Result<Cost> {
        let now = self.stand()?;
        let seconds = (now.at - since.at).as_secs_f64();
        Ok(Cost { seconds, counts: now.counts.since(since.counts), ran: now.ran - since.ran })
    }
}

async fn write_many(client: &Client) -> Result {
    let mut under_way = std::collections::VecDeque::new();
    for _ in 0..RAW {
        if under_way.len() == IN_FLIGHT
            && let Some(first) = under_way.pop_front()
        {
            let first: std::pin::Pin<Box<dyn Future<Output = _> + Send>> = first;
            let _: zookeeper_client::Stat = first.await?;
        }
        under_way.push_back(Box::pin(client.set_data("/raw", &[1; 100], None)));
    }
    for left in under_way {
        left.await?;
    }
    Ok(())
}

fn monitored_number(monitored: &str, name: &str) -> f64 {
    let line = monitored.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse::<f64>().ok()).unwrap_or(0.0)
}

impl Counts {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            transactions: self.transactions - before.transactions,
            received: self.received - before.received - ASKED,
            sent: self.sent - before.sent,
        }
    }
}

impl Cost {
    /// The processors that it used.
    pub(crate) fn cores(&self) -> f64 {
        self.ran / self.seconds
    }

    /// Rows for the server's work each second, and its processor usage.
    pub(crate) fn report(&self, figure: &str, name: &str, floor: &Floor, report: &mut Report) {
        let Counts { transactions, received, sent } = self.counts;
        let mut add =
            |what: &str, unit, value| report.add(&format!("{figure} {what}"), name, unit, None, value, floor);
        add("ZooKeeper CPU", "cores", self.cores());
        add("transactions", "/s", transactions / self.seconds);
        add("packets received", "/s", received / self.seconds);
        add("packets sent", "/s", sent / self.seconds);
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let a_second = |count: f64| count / self.seconds;
        write!(
            f,
            "ZooKeeper {:.2} cores; {:.1} transactions, {:.1} packets received and {:.1} sent a second",
            self.cores(),
            a_second(self.counts.transactions),
            a_second(self.counts.received),
            a_second(self.counts.sent)
        )
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        crate::server::end(&mut self.child);
    }
}
