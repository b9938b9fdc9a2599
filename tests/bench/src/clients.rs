//! The cost of a client: each one's conformance worker at a scripted coordinator, which only speaks the protocol.
//!
//! Any program that implements the contract of conformance workers works: `--client NAME=COMMAND`, repeatable.

mod coordinator;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use self::coordinator::{Conversation, Coordinator};
use crate::Result;
use crate::machine::{Floor, Used, percentile};
use crate::options::Options;
use crate::report::Report;
use crate::server::{end, scratch, target_dir, tethered};

/// How many runs are in flight at a time while throughput is measured.
const SLOTS: u32 = 64;
const JOBS: usize = 1000;
/// Runs whose latency is measured, one after the other; the first ones warm it up.
const TRIPS: usize = 600;
const WARM: usize = 100;

/// A conformance worker: its client's name, and what starts it.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
}

impl Program {
    /// `NAME=COMMAND`, the command's words separated by blanks.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, command) = text.split_once('=')?;
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        (!name.is_empty() && !command.is_empty()).then(|| Self { name: name.to_owned(), command })
    }
}

pub(crate) fn clients(options: &Options, report: &mut Report) -> Result {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut table = Vec::new();
    for program in &options.clients {
        let mut found = Vec::new();
        for _ in 0..options.runs {
            found.push(take(options, &runtime, program, report)?);
        }
        table.push((program.name.as_str(), median(&found)));
    }
    println!("\n  {:12} {HEADINGS}", "client");
    for (name, figures) in &table {
        println!("  {name:12} {figures}");
    }
    if table.is_empty() {
        println!(
            "  no conformance worker is there: cargo xtask bench --only clients builds them; or --client NAME=COMMAND"
        );
    }
    Ok(())
}

const HEADINGS: &str = "  runs a second  µs a run  started ms p50/p99  reported ms p50/p99  attached s  idle MiB  1,000 jobs MiB";

/// The figures of one client in one run.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    /// Item runs a second over one stream, and the worker's processor time for each, in microseconds.
    rate: f64,
    cost: f64,
    /// From sending the Trigger to receiving RunStarted and RunCompleted, in milliseconds: median and 99 %.
    started: (f64, f64),
    reported: (f64, f64),
    /// From the start of the process until its job is registered, in seconds.
    attached: f64,
    /// Mebibytes, with one job and with a thousand.
    idle: f64,
    many: f64,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rate, cost, started, reported, attached, idle, many } = self;
        let pair = |(half, most): &(f64, f64)| format!("{half:.2}/{most:.2}");
        write!(
            f,
            "{rate:15.0} {cost:9.0} {:>19} {:>20} {attached:11.2} {idle:9.0} {many:15.0}",
            pair(started),
            pair(reported)
        )
    }
}

fn take(options: &Options, runtime: &Runtime, program: &Program, report: &mut Report) -> Result<Figures> {
    let dir = scratch()?;
    let floor = Floor::measure(dir.path())?;
    let mut figures = Figures::default();

    let mut worker = Worker::start(runtime, program, 1, &dir)?;
    figures.attached = worker.attached;
    figures.idle = worker.at_rest();
    let trips = runtime.block_on(worker.conversation.trips(WARM, TRIPS))?;
    figures.started = halfway_and_most(trips.started);
    figures.reported = halfway_and_most(trips.reported);
    let before = worker.used();
    let seconds = Duration::from_secs(options.seconds.min(10));
    let (runs, took) = runtime.block_on(worker.conversation.throughput(SLOTS, seconds))?;
    figures.rate = runs as f64 / took.as_secs_f64();
    figures.cost = worker.used().since(before).ran * 1e6 / runs as f64;
    drop(worker);

    let mut worker = Worker::start(runtime, program, JOBS, &dir)?;
    figures.many = worker.at_rest();
    drop(worker);

    let name = program.name.as_str();
    println!("  {name:12} {figures}");
    println!("    beside: {floor}");
    let mut add = |figure: &str, unit, value| report.add(figure, name, unit, None, value, &floor);
    add("client: runs a second, one stream", "runs/s", figures.rate);
    add("client: processor time of a run", "µs", figures.cost);
    add("client: Trigger to RunStarted, p50", "ms", figures.started.0);
    add("client: Trigger to RunCompleted, p50", "ms", figures.reported.0);
    add("client: Trigger to RunCompleted, p99", "ms", figures.reported.1);
    add("client: process start to attached", "s", figures.attached);
    add("client: memory, idle, one job", "MiB", figures.idle);
    add("client: memory, idle, 1,000 jobs", "MiB", figures.many);
    Ok(figures)
}

/// A worker process with a separate coordinator.
struct Worker {
    child: Child,
    conversation: Conversation,
    attached: f64,
}

impl Worker {
    fn start(runtime: &Runtime, program: &Program, jobs: usize, dir: &TempDir) -> Result<Self> {
        let coordinator = runtime.block_on(Coordinator::start())?;
        let names: Vec<String> = (0..jobs).map(|number| format!("bench-{number}")).collect();
        let Some((first, rest)) = program.command.split_first() else { return Err("no command".into()) };
        let mut command: Command = tethered(first);
        let log = std::fs::File::create(dir.path().join(format!("{}.log", program.name)))?;
        command.args(rest).env("ROSTERD_SERVER", coordinator.address()).env_remove("ROSTERD_CREDENTIAL");
        command.env("CONFORMANCE_JOBS", names.join(",")).env("CONFORMANCE_SLOTS", SLOTS.to_string());
        command
            .env("CONFORMANCE_ADDRESS", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let since = Instant::now();
        let child = command.spawn().map_err(|error| format!("{first}: {error}"))?;
        let mut child = Ended(Some(child));
        let attached = runtime.block_on(coordinator.attach(&names));
        let conversation = attached
            .map_err(|error| format!("{}: {error}: {}", program.name, log_of(dir.path(), program)))?;
        let attached = since.elapsed().as_secs_f64();
        let child = child.0.take().ok_or("the process is gone")?;
        Ok(Self { child, conversation, attached })
    }

    fn used(&self) -> Used {
        Used::of(self.child.id())
    }

    /// Its size once it is at rest, in mebibytes: memory of its start has been returned by then.
    fn at_rest(&mut self) -> f64 {
        std::thread::sleep(Duration::from_secs(3));
        self.used().rss
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Its coordinator is no longer notified: the kill waits for no goodbye.
        let _gone = self.child.kill();
        end(&mut self.child);
    }
}

/// A process that is killed on drop unless it is taken.
struct Ended(Option<Child>);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _gone = child.kill();
            end(child);
        }
    }
}

fn log_of(dir: &Path, program: &Program) -> String {
    let text = std::fs::read_to_string(dir.join(format!("{}.log", program.name))).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

fn halfway_and_most(mut took: Vec<f64>) -> (f64, f64) {
    took.sort_by(f64::total_cmp);
    (percentile(&took, 50.0), percentile(&took, 99.0))
}

/// Of each number the median over the runs.
fn median(found: &[Figures]) -> Figures {
    let of = |number: fn(&Figures) -> f64| {
        let mut all: Vec<f64> = found.iter().map(number).collect();
        all.sort_by(f64::total_cmp);
        percentile(&all, 50.0)
    };
    Figures {
        rate: of(|figures| figures.rate),
        cost: of(|figures| figures.cost),
        started: (of(|figures| figures.started.0), of(|figures| figures.started.1)),
        reported: (of(|figures| figures.reported.0), of(|figures| figures.reported.1)),
        attached: of(|figures| figures.attached),
        idle: of(|figures| figures.idle),
        many: of(|figures| figures.many),
    }
}

/// The conformance workers that `cargo xtask` has built: a file beside the programs has the command of each.
pub(crate) fn built() -> Vec<Program> {
    let text = std::fs::read_to_string(target_dir().join("clients.json")).unwrap_or_default();
    let words: BTreeMap<String, Vec<String>> = serde_json::from_str(&text).unwrap_or_default();
    words.into_iter().map(|(name, command)| Program { name, command }).collect()
}
