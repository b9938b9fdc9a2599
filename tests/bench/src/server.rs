//! A coordinator as a separate process, with an embedded store in a fresh directory or a separate ZooKeeper server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Result;
use crate::ensemble::{Cost, Ensemble, Stand};
use crate::machine::{Floor, Used};
use crate::options::Options;

/// How long it may take to serve, and to stop.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    /// `None`: it was killed.
    child: Option<Child>,
    address: String,
    program: PathBuf,
    arguments: Vec<String>,
    /// Dropped after the coordinator, which closes its session cleanly.
    ensemble: Option<Ensemble>,
    dir: TempDir,
}

impl Server {
    /// Starts one with a separate registry; `set` are settings other than the defaults.
    pub(crate) fn start(options: &Options, set: &[(&str, &str)]) -> Result<Self> {
        let ensemble = options.zookeeper.then(Ensemble::start).transpose()?;
        let registry = ensemble.as_ref().map_or_else(Vec::new, |ensemble| zookeeper(ensemble, "default"));
        Self::with(options, registry, ensemble, set)
    }

    /// Starts one on a shared ensemble.
    pub(crate) fn on(
        options: &Options,
        ensemble: &Ensemble,
        namespace: &str,
        set: &[(&str, &str)],
    ) -> Result<Self> {
        Self::with(options, zookeeper(ensemble, namespace), None, set)
    }

    fn with(
        options: &Options,
        registry: Vec<String>,
        ensemble: Option<Ensemble>,
        set: &[(&str, &str)],
    ) -> Result<Self> {
        let dir = scratch()?;
        let address = free_address()?;
        let mut arguments: Vec<String> =
            ["serve", "--listen", &address, "--log", "warn", "--data-dir"].map(str::to_owned).to_vec();
        arguments.push(dir.path().join("data").display().to_string());
        arguments.extend(registry);
        for (name, value) in set {
            arguments.extend(["--set".to_owned(), format!("{name}={value}")]);
        }
        let program = options.program.clone();
        let mut server = Self { child: None, address, program, arguments, ensemble, dir };
        server.launch()?;
        Ok(server)
    }

    /// Starts its process, at its previous address if it was killed, and waits until it serves.
    pub(crate) fn launch(&mut self) -> Result {
        let log = File::options().create(true).append(true).open(self.dir.path().join("log"))?;
        let mut command = tethered(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn()?);
        self.wait_until_serving()
    }

    /// `kill -9`; when this returns it is gone.
    pub(crate) fn kill(&mut self) -> Result {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    pub(crate) fn lives(&self) -> bool {
        self.child.is_some()
    }

    fn wait_until_serving(&mut self) -> Result {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let status = self.child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if let Some(status) = status {
                return Err(format!("the coordinator ended with {status}: {}", self.log()).into());
            }
            if self.call(&["probe"]).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("the coordinator does not serve: {}", self.log()).into())
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The registry, if it is a separate process.
    pub(crate) fn ensemble(&self) -> Option<&Ensemble> {
        self.ensemble.as_ref()
    }

    /// Where its data is.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The current capacity of the machine, and of the registry if it is a separate process.
    pub(crate) fn floor(&self) -> Result<Floor> {
        self.ensemble.as_ref().map_or_else(|| Floor::measure(self.dir()), Ensemble::floor)
    }

    /// The registry's counters so far, if it is a separate process.
    pub(crate) fn stand(&self) -> Result<Option<Stand>> {
        self.ensemble.as_ref().map(Ensemble::stand).transpose()
    }

    /// Its work since then.
    pub(crate) fn cost(&self, since: Option<&Stand>) -> Result<Option<Cost>> {
        self.ensemble.as_ref().zip(since).map(|(ensemble, since)| ensemble.cost(since)).transpose()
    }

    pub(crate) fn used(&self) -> Used {
        self.child.as_ref().map_or_else(Used::default, |child| Used::of(child.id()))
    }

    /// The last of what it logged.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Runs the command line against it.
    pub(crate) fn call(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).args(["--server", &format!("http://{}", self.address)]);
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Its counters, with their labels as part of the name. A very busy one is asked again.
    pub(crate) fn metrics(&self) -> Result<BTreeMap<String, f64>> {
        for _ in 0..20 {
            match self.scrape() {
                Ok(metrics) if !metrics.is_empty() => return Ok(metrics),
                _ => std::thread::sleep(Duration::from_millis(500)),
            }
        }
        self.scrape()
    }

    fn scrape(&self) -> Result<BTreeMap<String, f64>> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let lines = text.lines().filter(|line| line.starts_with("rosterd_"));
        Ok(lines
            .filter_map(|line| line.rsplit_once(' '))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect())
    }

    /// The sum of a counter over its labels.
    pub(crate) fn counted(&self, name: &str) -> Result<f64> {
        let metrics = self.metrics()?;
        let of = |full: &&String| full.split('{').next() == Some(name);
        Ok(metrics.keys().filter(of).filter_map(|name| metrics.get(name)).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            end(child);
        }
    }
}

fn zookeeper(ensemble: &Ensemble, namespace: &str) -> Vec<String> {
    ["--registry", "zookeeper", "--zk", &ensemble.address(), "--namespace", namespace]
        .map(str::to_owned)
        .to_vec()
}

/// A folder on the disk of the benchmarks: /tmp may be in memory.
pub(crate) fn scratch() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(target_dir())?)
}

/// A program that ends with this one, however this one ends.
pub(crate) fn tethered(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Ends a process of ours: terminates it, waits, and then kills it.
pub(crate) fn end(child: &mut Child) {
    ask_to_end(child);
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _gone = child.kill();
    let _ended = child.wait();
}

fn ask_to_end(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// Where the programs were built.
pub(crate) fn target_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    program.ancestors().nth(2).map_or_else(std::env::temp_dir, Path::to_path_buf)
}
