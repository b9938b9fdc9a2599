//! Real processes for a test: a coordinator, workers, and their logs. Everything is killed by its own pid when the test
//! ends; the directory with all logs is kept if it fails.

use std::fs::File;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use rustix::process::Signal;
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

pub use crate::judge::Clean;
use crate::judge::{self, Line, Verdict, What};
pub use crate::process::Proc;
use crate::worker::{self, Does, Plan};

/// No wait of a passing test takes as long, even on a slow and busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// The polling interval of a wait.
pub const LOOK: Duration = Duration::from_millis(25);

/// The folder of the coordinator's faults; see `mutants`.
pub const MUTANTS: &str = "mutants";

/// The coordinator's configuration file, if it exists.
pub const CONFIG: &str = "rosterd.toml";

/// The variable that names another build of the program to test: the shipped one, for example.
pub const BINARY: &str = "ROSTERD_BINARY";

/// The program under test. Faults can only be injected into the one that was built with these tests.
pub fn binary(with_faults: bool) -> String {
    match std::env::var(BINARY) {
        Ok(other) if !with_faults => other,
        _ => env!("CARGO_BIN_EXE_rosterd").to_owned(),
    }
}

/// Whether a test that needs root may go on. If not, it reports so in the form that `cargo xtask test` counts,
/// bypassing the test harness, which would capture the output.
pub fn has_root(what_for: &str) -> bool {
    use std::io::Write as _;
    let root = rustix::process::geteuid().is_root();
    if !root {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let said = writeln!(std::io::stdout().lock(), "\nNOT RUN: {test}: {what_for} needs root");
        assert!(said.is_ok(), "{test} is not run, and nobody can be told");
    }
    root
}

/// Waits until there is a value.
#[track_caller]
pub fn wait<T, F, Fut>(what: impl Into<String>, mut look: F) -> impl Future<Output = T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let (what, at) = (what.into(), std::panic::Location::caller());
    async move {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(Instant::now() < until, "waited in vain for {what} ({at})");
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Waits until the condition holds.
#[track_caller]
pub fn until(what: impl Into<String>, mut so: impl FnMut() -> bool) -> impl Future<Output = ()> {
    wait(what, move || std::future::ready(so().then_some(())))
}

/// The directory of a test.
#[derive(Debug)]
pub struct Home {
    dir: Option<tempfile::TempDir>,
    path: PathBuf,
}

impl Home {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("rosterd-it-").tempdir().unwrap();
        let path = dir.path().to_owned();
        Self { dir: Some(dir), path }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates the file that opens a gate.
    pub fn open(&self, gate: &str) {
        File::create(self.path(gate)).unwrap();
    }

    /// The lines that all workers wrote.
    pub fn lines(&self) -> Vec<Line> {
        let files = std::fs::read_dir(&self.path).unwrap().map(|file| file.unwrap().path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        logs.flat_map(|log| read_lines(&log)).collect()
    }
}

/// A partial line is ignored.
fn read_lines(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).unwrap();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Drop for Home {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(dir) = self.dir.take()
        {
            eprintln!("the logs are kept in {}", dir.keep().display());
        }
    }
}

/// Times of a coordinator.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub lease: Duration,
    pub heartbeat: Duration,
    pub session: Duration,
}

/// For tests in which a lease has to end. A live worker must keep its lease on a busy machine, or there are unexpected
/// failovers: so the lease is longer than the default, and only the heartbeats are quicker.
pub const SHORT: Timing = timing(7000, 500, 14_000);
/// For tests in which no lease may end, however busy the machine.
pub const LONG: Timing = timing(30_000, 500, 60_000);

pub const fn timing(lease: u64, heartbeat: u64, session: u64) -> Timing {
    let ms = Duration::from_millis;
    Timing { lease: ms(lease), heartbeat: ms(heartbeat), session: ms(session) }
}

/// A coordinator with its workers.
///
/// Processes come before the directory: they end first.
pub struct Cluster {
    pub workers: Vec<WorkerProc>,
    pub others: Vec<Proc>,
    pub coordinator: Option<Proc>,
    pub port: u16,
    /// `http`, or `https` if the settings have certificates.
    pub scheme: &'static str,
    /// The address that workers and tests use.
    pub host: String,
    pub timing: Timing,
    pub settings: Vec<String>,
    pub wrapper: Vec<String>,
    pub data: PathBuf,
    pub home: Home,
}

pub struct WorkerProc {
    pub name: String,
    pub proc: Proc,
}

impl Cluster {
    /// A coordinator that serves, with short or long leases.
    pub async fn start(timing: Timing) -> Self {
        Self::with(timing, &[]).await
    }

    pub async fn with(timing: Timing, settings: &[&str]) -> Self {
        let mut cluster = Self::prepare(timing, settings);
        cluster.serve().await;
        cluster
    }

    /// Nothing runs yet.
    pub fn prepare(timing: Timing, settings: &[&str]) -> Self {
        let home = Home::new();
        Self {
            workers: Vec::new(),
            others: Vec::new(),
            coordinator: None,
            port: 0,
            scheme: "http",
            host: "127.0.0.1".into(),
            timing,
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
            wrapper: Vec::new(),
            data: home.path("data"),
            home,
        }
    }

    /// Starts the coordinator and waits until it serves; after a restart on the same port.
    pub async fn serve(&mut self) {
        self.launch();
        self.serving().await;
    }

    /// Starts the coordinator.
    pub fn launch(&mut self) {
        let mutants = self.home.path(MUTANTS);
        let program = binary(mutants.exists());
        let mut command = coordinator(program, &self.wrapper, self.timing, &self.settings);
        let listen = if self.host == "127.0.0.1" { "127.0.0.1" } else { "0.0.0.0" };
        command.args(["--listen", &format!("{listen}:{}", self.port), "--data-dir"]).arg(&self.data);
        if mutants.exists() {
            command.env("ROSTERD_MUTANTS", mutants);
        }
        let config = self.home.path(CONFIG);
        if config.exists() {
            command.arg("--config").arg(config);
        }
        let log = self.coordinator_log();
        set_aside(&log);
        self.coordinator = Some(Proc::spawn("coordinator", command, &log));
    }

    pub fn coordinator_log(&self) -> PathBuf {
        self.home.path("coordinator.log")
    }

    /// The log of the current coordinator process.
    pub fn logged(&self) -> String {
        std::fs::read_to_string(self.coordinator_log()).unwrap()
    }

    pub async fn serving(&mut self) {
        self.listening().await;
        self.healthy().await;
    }

    /// Waits until it logs that it listens.
    pub async fn listening(&mut self) {
        let log = self.coordinator_log();
        let coordinator = self.coordinator.as_mut().unwrap();
        let port = wait("the coordinator to serve", || {
            if let Some(status) = coordinator.ended() {
                panic!("the coordinator ended: {status}\n{}", std::fs::read_to_string(&log).unwrap());
            }
            std::future::ready(port_in(&std::fs::read_to_string(&log).unwrap()))
        })
        .await;
        self.port = port;
    }

    pub async fn healthy(&self) {
        wait("a healthy coordinator", || async {
            let info = self.admin().get_server_info(v1::GetServerInfoRequest {}).await.ok()?.into_inner();
            (info.health() == v1::ServerHealth::Serving).then_some(())
        })
        .await;
    }

    /// kill -9.
    pub fn kill_coordinator(&mut self) {
        self.coordinator.take().unwrap().kill();
    }

    pub fn url(&self) -> String {
        format!("{}://{}:{}", self.scheme, self.host, self.port)
    }

    pub fn channel(&self) -> Channel {
        Endpoint::from_shared(self.url()).unwrap().timeout(PATIENCE).connect_lazy()
    }

    pub fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel())
    }

    // ---- workers

    /// The plan of a worker process, which the test can change.
    pub fn plan(&self, name: &str, jobs: Vec<Does>) -> Plan {
        Plan {
            server: self.url(),
            name: name.to_owned(),
            log: self.home.path(&format!("{name}.jsonl")),
            slots: 16,
            address: format!("host-{name}"),
            namespace: String::new(),
            drain_ms: 30_000,
            jobs,
        }
    }

    pub fn worker(&mut self, name: &str, jobs: Vec<Does>) {
        let plan = self.plan(name, jobs);
        self.start_worker(&plan, &[]);
    }

    /// Starts a worker process, wrapped by another program if one is given.
    pub fn start_worker(&mut self, plan: &Plan, wrapper: &[&str]) {
        let me = std::env::current_exe().unwrap();
        let mut command = below(wrapper, me.to_str().unwrap());
        command.args(["--exact", "worker::process", "--nocapture", "--test-threads=1"]);
        clean(&mut command);
        command.env(worker::ROLE, serde_json::to_string(plan).unwrap());
        let log = self.home.path(&format!("{}.log", plan.name));
        let proc = Proc::spawn(&plan.name, command, &log);
        self.workers.push(WorkerProc { name: plan.name.clone(), proc });
    }

    pub fn process(&mut self, name: &str) -> &mut Proc {
        &mut self.workers.iter_mut().find(|worker| worker.name == name).unwrap().proc
    }

    pub fn kill(&mut self, name: &str) {
        self.process(name).kill();
        self.note(name, What::Killed);
    }

    pub fn freeze(&mut self, name: &str) {
        self.process(name).freeze();
        self.note(name, What::Frozen);
    }

    pub fn thaw(&mut self, name: &str) {
        self.note(name, What::Thawed);
        self.process(name).signal(Signal::CONT);
    }

    /// Writes the test's action on a worker into the log that is judged.
    fn note(&self, worker: &str, what: What) {
        worker::Log::open(&self.home.path("test.jsonl"), worker).write(what, None, "");
    }

    /// A worker that runs a program.
    pub fn exec(&mut self, name: &str, arguments: &[&str], program: &[&str]) {
        self.exec_below(&[], name, arguments, program);
    }

    /// The same, wrapped by another program.
    pub fn exec_below(&mut self, wrapper: &[&str], name: &str, arguments: &[&str], program: &[&str]) {
        let mut command = below(wrapper, &binary(false));
        clean(&mut command);
        command.arg("exec").args(["--server", &self.url(), "--address", &format!("host-{name}")]);
        command.args(arguments).arg("--").args(program);
        let proc = Proc::spawn(name, command, &self.home.path(&format!("{name}.log")));
        self.workers.push(WorkerProc { name: name.to_owned(), proc });
    }

    // ---- what there is

    pub fn lines(&self) -> Vec<Line> {
        self.home.lines()
    }

    pub fn verdict(&self) -> Verdict {
        judge::judge(&self.lines())
    }

    /// Waits for a state of the workers' logs.
    #[track_caller]
    pub fn verdict_when<'a>(
        &'a self,
        what: &'a str,
        so: impl Fn(&Verdict) -> bool + 'a,
    ) -> impl Future<Output = Verdict> + 'a {
        wait(what, move || {
            let verdict = self.verdict();
            std::future::ready(so(&verdict).then_some(verdict))
        })
    }

    pub async fn apply(&self, text: impl Into<String>) {
        self.try_apply(text).await.unwrap();
    }

    pub async fn try_apply(&self, text: impl Into<String>) -> Result<Vec<v1::JobChange>, tonic::Status> {
        let request = v1::ApplyJobsRequest { text: text.into(), dry_run: false };
        Ok(self.admin().apply_jobs(request).await?.into_inner().changes)
    }

    pub async fn trigger(&self, job: &str) {
        let request = v1::TriggerJobRequest { job: job.into(), ..Default::default() };
        self.admin().trigger_job(request).await.unwrap();
    }

    pub async fn items(&self, job: &str) -> Vec<v1::ItemSummary> {
        self.try_items(job).await.unwrap()
    }

    pub async fn try_items(&self, job: &str) -> Result<Vec<v1::ItemSummary>, tonic::Status> {
        Ok(self
            .admin()
            .list_items(v1::ListItemsRequest { job: job.into(), ..Default::default() })
            .await?
            .into_inner()
            .items)
    }

    pub async fn job(&self, job: &str) -> v1::GetJobResponse {
        let request = v1::GetJobRequest { job: job.into(), upcoming: 3, ..Default::default() };
        self.admin().get_job(request).await.unwrap().into_inner()
    }

    pub async fn instances(&self, job: &str) -> Vec<v1::InstanceSummary> {
        let request = v1::ListInstancesRequest { job: job.into(), ..Default::default() };
        self.admin().list_instances(request).await.unwrap().into_inner().instances
    }

    /// Empty for a job that does not exist yet.
    pub async fn runs(&self, job: &str) -> Vec<v1::RunRecord> {
        let request = v1::ListRunsRequest { job: job.into(), page_size: 1000, ..Default::default() };
        match self.admin().list_runs(request).await {
            Err(status) if status.code() == tonic::Code::NotFound => Vec::new(),
            answer => answer.unwrap().into_inner().runs,
        }
    }

    pub async fn dump(&self, job: &str) -> std::collections::BTreeMap<String, v1::DumpNode> {
        let dump = self.admin().dump_job(v1::DumpJobRequest { job: job.into(), ..Default::default() }).await;
        dump.map(|dump| dump.into_inner().nodes.into_iter().collect()).unwrap_or_default()
    }

    /// The counters of all items together.
    pub async fn counters(&self, job: &str) -> v1::Counters {
        self.job(job).await.summary.unwrap().counters.unwrap()
    }

    /// Waits until the items are as wanted.
    #[track_caller]
    pub fn items_when<'a>(
        &'a self,
        job: &'a str,
        what: &'a str,
        so: impl Fn(&[v1::ItemSummary]) -> bool + 'a,
    ) -> impl Future<Output = Vec<v1::ItemSummary>> + 'a {
        let so = std::rc::Rc::new(so);
        wait(format!("{job}: {what}"), move || {
            let so = so.clone();
            async move { self.try_items(job).await.ok().filter(|items| so(items)) }
        })
    }

    /// Waits until all items are spread over this many instances.
    #[track_caller]
    pub fn assigned<'a>(
        &'a self,
        job: &'a str,
        instances: usize,
    ) -> impl Future<Output = Vec<v1::ItemSummary>> + 'a {
        self.items_when(job, "items are assigned", move |items| {
            let owners: std::collections::BTreeSet<_> =
                items.iter().filter_map(|item| item.owner.clone()).collect();
            owners.len() == instances && items.iter().all(|item| item.owner.is_some())
        })
    }

    /// Waits until no run is in flight and none waits.
    #[track_caller]
    pub fn quiet<'a>(&'a self, job: &'a str) -> impl Future<Output = Vec<v1::ItemSummary>> + 'a {
        self.items_when(job, "no run is in flight", |items| {
            items.iter().all(|item| item.state() == v1::ItemState::Idle && item.misfire.is_none())
        })
    }
}

/// A program, behind the words of a wrapper if there are any.
pub fn below(wrapper: &[&str], program: &str) -> Command {
    let mut words = wrapper.iter().copied().chain([program]);
    let mut command = Command::new(words.next().unwrap_or(program));
    command.args(words);
    command
}

/// Clears the environment of the tests for a process.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ROSTERD_") {
            command.env_remove(name);
        }
    }
    command.env("RUST_BACKTRACE", "1");
}

/// The arguments of every coordinator, behind a wrapper.
pub fn coordinator(program: String, wrapper: &[String], timing: Timing, settings: &[String]) -> Command {
    let words: Vec<String> = wrapper.iter().cloned().chain([program]).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["serve", "--insecure-listen", "--log-format", "json"]);
    let Timing { lease, heartbeat, session } = timing;
    let set = [
        format!("lease={}ms", lease.as_millis()),
        format!("heartbeat={}ms", heartbeat.as_millis()),
        "stop_budget=300ms".to_owned(),
        format!("session={}ms", session.as_millis()),
    ];
    for setting in set.iter().chain(settings) {
        command.args(["--set", setting]);
    }
    clean(&mut command);
    command
}

/// Keeps the log of an earlier process, separate from that of the next one.
pub fn set_aside(log: &Path) {
    if log.exists() {
        let older = (1..).map(|n| log.with_extension(format!("{n}.log"))).find(|path| !path.exists());
        std::fs::rename(log, older.unwrap()).unwrap();
    }
}

/// The port that a coordinator logs.
pub fn port_in(log: &str) -> Option<u16> {
    log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|line| {
        let fields = line.get("fields").unwrap_or(&line);
        let address = fields.get("address")?.as_str()?;
        (fields.get("message")?.as_str()? == "serving").then(|| address.rsplit(':').next()?.parse().ok())?
    })
}

/// A job file as JSON.
pub fn job(name: &str, items: u32, more: Value) -> String {
    let mut file = serde_json::json!({ "jobName": name, "shardingTotalCount": items });
    if let (Value::Object(file), Value::Object(more)) = (&mut file, more) {
        file.extend(more);
    }
    file.to_string()
}

/// A schedule that fires once, soon: a job that gets it after its time never fires, so the time is far enough away for
/// a busy machine.
pub fn once_soon() -> String {
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(6);
    let at = at.to_zoned(jiff::tz::TimeZone::UTC);
    format!("{} {} {} {} {} ? {}", at.second(), at.minute(), at.hour(), at.day(), at.month(), at.year())
}

pub const EVERY_SECOND: &str = "* * * * * ?";

/// A worker's part in a job, with runs of this many milliseconds.
pub fn runs_for(job: &str, run_ms: u64) -> Does {
    Does { job: job.into(), run_ms, ..Does::default() }
}

/// A worker's part in a job, with runs that end when the gate is open.
pub fn runs_until(job: &str, gate: PathBuf) -> Does {
    Does { job: job.into(), gate: Some(gate), ..Does::default() }
}

/// Converts a time on the wire to milliseconds since 1970.
pub fn millis(at: &prost_types::Timestamp) -> i64 {
    at.seconds * 1000 + i64::from(at.nanos) / 1_000_000
}

/// The code that a refusal carries.
pub fn code(status: &tonic::Status) -> String {
    use tonic_types::StatusExt as _;
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}
