//! A worker process: this test binary once more, run by name. It writes a line for every event of its runs, in one
//! write each, so that everything before a kill is in the log.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rosterd_client::{Failure, Job, Options, Run, Worker};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::judge::{Line, What};

/// The variable that makes this binary a worker.
pub const ROLE: &str = "ROSTERD_TEST_WORKER";

/// The plan of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// One or several, separated by commas.
    pub server: String,
    pub name: String,
    pub log: PathBuf,
    pub slots: u32,
    pub address: String,
    pub namespace: String,
    pub drain_ms: u64,
    pub jobs: Vec<Does>,
}

/// Its behavior for one job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Does {
    pub job: String,
    pub handler: Option<String>,
    pub config: Option<String>,
    pub overwrite: bool,
    /// Runs last until this file exists (or the same with `.{item}`).
    pub gate: Option<PathBuf>,
    /// Otherwise runs last this long.
    pub run_ms: u64,
    /// The first attempts of a run that fail.
    pub fail_attempts: u32,
    /// Each run panics.
    pub panics: bool,
    /// Each run appends a byte to its offset, and logs the offset that it found.
    pub offset: bool,
    /// The same as soon as it starts.
    pub offset_first: bool,
    /// Each run reports progress.
    pub progress: bool,
    /// Hooks around each attempt and callbacks of each fire are called, and logged.
    pub hooks: bool,
    /// The callback before a fire takes as long as its file is missing.
    pub hold: Option<PathBuf>,
    /// Fetches this many batches of three, then nothing.
    pub batches: Option<u32>,
    /// The output of the run.
    pub output: String,
    /// The collector that its spans go to.
    pub traces: Option<String>,
}

/// Milliseconds since 1970.
pub fn wall() -> i64 {
    millis(SystemTime::now())
}

pub fn millis(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Nanoseconds of the clock that all processes share.
pub fn boot() -> u64 {
    let at: Duration = clock_gettime(ClockId::Boottime).try_into().unwrap();
    u64::try_from(at.as_nanos()).unwrap()
}

/// The destination of the lines.
#[derive(Debug)]
pub struct Log {
    worker: String,
    file: File,
}

impl Log {
    pub fn open(path: &std::path::Path, worker: &str) -> Self {
        let file = File::options().create(true).append(true).open(path).unwrap();
        Self { worker: worker.to_owned(), file }
    }

    pub fn write(&self, what: What, run: Option<&Run>, detail: &str) {
        let line = Line {
            at: boot(),
            wall: wall(),
            worker: self.worker.clone(),
            what,
            job: run.map(|run| run.job().to_owned()).unwrap_or_default(),
            item: run.map(Run::item).unwrap_or_default(),
            token: run.map(Run::token).unwrap_or_default(),
            fire: run.map(|run| millis(run.fire_time())).unwrap_or_default(),
            source: run.map(|run| run.source().to_string()).unwrap_or_default(),
            attempt: run.map(Run::attempt).unwrap_or_default(),
            instance: run.map(|run| run.instance_id().to_owned()).unwrap_or_default(),
            lease: run.map(|run| u64::try_from(run.lease_left().as_nanos()).unwrap_or(u64::MAX)),
            detail: detail.to_owned(),
        };
        let mut text = serde_json::to_vec(&line).unwrap();
        text.push(b'\n');
        (&self.file).write_all(&text).unwrap();
    }
}

/// Logs that user code was dropped, unless it ended.
struct Watch {
    log: Arc<Log>,
    run: Run,
    over: bool,
}

impl Watch {
    fn over(&mut self, what: What, detail: &str) {
        self.over = true;
        self.log.write(what, Some(&self.run), detail);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.over {
            let how = if std::thread::panicking() { (What::End, "panic") } else { (What::Drop, "") };
            self.over(how.0, how.1);
        }
    }
}

/// How often user code checks whether it has to stop, and logs that it is alive.
const STEP: Duration = Duration::from_millis(20);

async fn work(log: Arc<Log>, does: Arc<Does>, run: Run) -> Result<String, Failure> {
    let about = format!(
        "{}|{}|{}|{}|{}",
        run.item_parameter(),
        run.job_parameter(),
        run.total(),
        serde_json::json!(run.props()),
        String::from_utf8_lossy(&run.offset())
    );
    log.write(What::Start, Some(&run), &about);
    let mut watch = Watch { log: log.clone(), run: run.clone(), over: false };
    assert!(!does.panics, "injected panic");
    let began = boot();
    if does.progress {
        run.progress(40, "on the way");
    }
    if does.offset_first {
        one_further(&run)?;
    }
    while !over(&does, run.item(), began) {
        tokio::select! {
            biased;
            () = run.cancelled() => {
                watch.over(What::Cancel, "");
                return Err(Failure::cancelled());
            }
            () = tokio::time::sleep(STEP) => log.write(What::Tick, Some(&run), ""),
        }
    }
    // Before an effect: check whether this run is still ours.
    if run.is_cancelled() {
        watch.over(What::Cancel, "at the end");
        return Err(Failure::cancelled());
    }
    if run.attempt() <= does.fail_attempts {
        watch.over(What::End, "failed");
        return Err(Failure::new(format!("attempt {} is to fail", run.attempt())));
    }
    if does.offset {
        one_further(&run)?;
    }
    watch.over(What::End, "ok");
    Ok(does.output.clone())
}

fn one_further(run: &Run) -> Result<(), Failure> {
    let mut offset = run.offset().to_vec();
    offset.push(b'x');
    run.set_offset(offset)
}

fn over(does: &Does, item: u32, began: u64) -> bool {
    match &does.gate {
        Some(gate) => {
            let own = gate.with_file_name(format!("{}.{item}", gate.file_name().unwrap().to_string_lossy()));
            gate.exists() || own.exists()
        }
        None => boot() - began >= does.run_ms * 1_000_000,
    }
}

fn job(does: Does, log: &Arc<Log>) -> Job {
    let mut job = Job::new(&does.job).overwrite(does.overwrite);
    if let Some(handler) = &does.handler {
        job = job.handler_type(handler);
    }
    if let Some(config) = &does.config {
        job = job.config(config);
    }
    if does.hooks {
        job = hooks(job, &does, log);
    }
    let (log, does) = (log.clone(), Arc::new(does));
    match does.batches {
        None => job.handler(move |run| work(log.clone(), does.clone(), run)),
        Some(batches) => dataflow(job, log, batches),
    }
}

fn hooks(job: Job, does: &Does, log: &Arc<Log>) -> Job {
    let [before, after, error, started, completed] = std::array::from_fn(|_| log.clone());
    let hold = does.hold.clone();
    job.before(move |run| {
        before.write(What::Hook, Some(&run), "before");
        async { Ok(()) }
    })
    .after(move |run, outcome| {
        after.write(What::Hook, Some(&run), &format!("after {outcome:?}"));
        async {}
    })
    .on_error(move |run, text| {
        error.write(What::Hook, Some(&run), &format!("error {text}"));
        async {}
    })
    .on_all_started(move |fire| {
        started.write(What::Hook, None, &format!("all_started {} {}", fire.job, millis(fire.fire_time)));
        let (hold, started) = (hold.clone(), started.clone());
        async move {
            while hold.as_ref().is_some_and(|hold| !hold.exists()) {
                tokio::time::sleep(STEP).await;
            }
            started.write(What::Hook, None, &format!("answered {} {}", fire.job, millis(fire.fire_time)));
            Ok(())
        }
    })
    .on_all_completed(move |fire| {
        completed.write(What::Hook, None, &format!("all_completed {} {}", fire.job, millis(fire.fire_time)));
        async { Ok(()) }
    })
}

fn dataflow(job: Job, log: Arc<Log>, batches: u32) -> Job {
    let processed = log.clone();
    job.dataflow(
        move |run: Run| {
            let round = u32::from(run.offset().first().copied().unwrap_or_default());
            log.write(What::Hook, Some(&run), &format!("fetch {round}"));
            async move { Ok(if round < batches { vec![round; 3] } else { Vec::new() }) }
        },
        move |run, records| {
            processed.write(What::Hook, Some(&run), &format!("process {records:?}"));
            let next = u8::try_from(records[0] + 1).unwrap();
            async move { run.set_offset(vec![next]) }
        },
    )
}

/// Not a test: what a worker process runs. Without its variable it does nothing.
#[test]
fn process() {
    let Ok(plan) = std::env::var(ROLE) else { return };
    let plan: Plan = serde_json::from_str(&plan).unwrap();
    let log = Arc::new(Log::open(&plan.log, &plan.name));
    let mut options = Options::default();
    options.servers = plan.server.split(',').map(str::to_owned).collect();
    options.namespace = plan.namespace;
    options.address = plan.address;
    options.slots = plan.slots;
    options.drain_timeout = Duration::from_millis(plan.drain_ms);
    let mut worker = Worker::new(options);
    if let Some(collector) = plan.jobs.iter().find_map(|does| does.traces.clone()) {
        crate::recorder::record_to(collector);
    }
    for does in plan.jobs {
        worker = worker.add(job(does, &log));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let ended = runtime.block_on(worker.run());
    let how = ended.as_ref().map_or_else(ToString::to_string, |()| "left".to_owned());
    log.write(What::Exit, None, &how);
    eprintln!("worker {}: {how}", plan.name);
    std::process::exit(i32::from(ended.is_err()));
}
