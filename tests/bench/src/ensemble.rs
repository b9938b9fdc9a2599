//! A real ZooKeeper server as a process of its own, with its log on the disk that the benchmarks are run from, and
//! what it counts.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::Result;
use crate::machine::Used;
use crate::server::{scratch, target_dir, tethered};

const PATIENCE: Duration = Duration::from_secs(60);
/// Raw writes under way at a time, and how many there are.
const IN_FLIGHT: usize = 64;
const RAW: usize = 4_000;

pub(crate) struct Ensemble {
    child: Child,
    port: u16,
    /// After the server, which writes into it.
    dir: TempDir,
}

/// What the server has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) transactions: f64,
    pub(crate) received: f64,
    pub(crate) sent: f64,
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

    /// Writes of a hundred bytes each second that the server takes from one client, many under way: the raw rate.
    pub(crate) fn raw(&self) -> Result<f64> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let address = self.address();
        runtime.block_on(async move {
            let client = Client::connect(&address).await?;
            let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
            client.create("/raw", &[0; 100], &mode).await?;
            let since = Instant::now();
            let mut under_way = std::collections::VecDeque::new();
            for _ in 0..RAW {
                if under_way.len() == IN_FLIGHT
                    && let Some(first) = under_way.pop_front()
                {
                    let first: std::pin::Pin<Box<dyn Future<Output = _> + Send>> = first;
                    let _: std::result::Result<zookeeper_client::Stat, zookeeper_client::Error> = first.await;
                }
                under_way.push_back(Box::pin(client.set_data("/raw", &[1; 100], None)));
            }
            for left in under_way {
                left.await?;
            }
            let rate = RAW as f64 / since.elapsed().as_secs_f64();
            client.delete("/raw", None).await?;
            Ok(rate)
        })
    }
}

fn monitored_number(monitored: &str, name: &str) -> f64 {
    let line = monitored.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse::<f64>().ok()).unwrap_or(0.0)
}

impl Counts {
    /// In words, by the second.
    pub(crate) fn a_second(self, span: Duration) -> String {
        let [transactions, received, sent] =
            [self.transactions, self.received, self.sent].map(|count| count / span.as_secs_f64());
        format!("{transactions:.0} transactions, {received:.0} packets received and {sent:.0} sent")
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            transactions: self.transactions - before.transactions,
            received: self.received - before.received,
            sent: self.sent - before.sent,
        }
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        crate::server::end(&mut self.child);
    }
}
