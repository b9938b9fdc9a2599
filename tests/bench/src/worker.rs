//! A worker process: this program again, with its work as the second argument. It records its observations by its own
//! clock. It leaves at the line `leave` on its standard input, and exits at once when that is closed, so that no worker
//! outlives the benchmarks.

use std::fs::File;
use std::future::Future;
use std::io::{BufRead as _, BufWriter, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use rosterd_client::embedding::proto::session_response::Frame;
use rosterd_client::embedding::{Access, BootClock, Connector, LinkError, TonicConnector, Wire};
use rosterd_client::{CancellationToken, Failure, Job, Options, Run, Worker};
use rosterd_domain::verify::What;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::journal::{ATTACHED, Journal};
use crate::machine::wall;

/// The first argument of a worker process; the second is its [`Spec`].
pub(crate) const MODE: &str = "--as-worker";

/// The work of a worker process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// One or several, separated by commas.
    pub(crate) server: String,
    /// The namespace of the jobs, for workers that connect to the registry directly.
    pub(crate) namespace: String,
    /// The address that it states.
    pub(crate) address: String,
    pub(crate) slots: u32,
    /// The prefix of job names, followed by their number.
    pub(crate) prefix: String,
    /// The numbers: conversation `c` has those from `first + c * step` on.
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// The job's file without its name; empty: the job exists. `{n}` stands for the job's number modulo ten.
    pub(crate) file: String,
    /// How long each run takes, in milliseconds.
    pub(crate) work: u64,
    /// How much longer the last item's run takes, in milliseconds; those in between are spread evenly.
    pub(crate) spread: u64,
    /// Conversations in this process: with several, each has jobs of its own, `step` numbers apart.
    pub(crate) conversations: u32,
    pub(crate) step: u32,
    /// How many jobs there are in all, if conversations share them.
    pub(crate) jobs: u32,
    /// Writes a [`Seen`] per run here when it leaves.
    pub(crate) out: Option<String>,
    /// Prints each run and each Assignment on its standard output as they come.
    pub(crate) say: bool,
    /// Prints each second how many runs there were so far.
    pub(crate) pulse: bool,
    /// A further job, and how long its runs take in milliseconds.
    pub(crate) also: Option<Also>,
    /// Keeps a journal of this name here, from which runs are judged.
    pub(crate) journal: Option<(String, String)>,
}

/// A job besides the numbered ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Also {
    pub(crate) job: String,
    pub(crate) file: String,
    pub(crate) work: u64,
}

/// A run as its handler recorded it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) job: u32,
    pub(crate) item: u32,
    /// Milliseconds since the epoch.
    pub(crate) fire: i64,
    /// Microseconds from then to the first line of user code.
    pub(crate) lag: i64,
}

impl Seen {
    const BYTES: usize = 24;

    fn write(self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        out.write_all(&self.job.to_le_bytes())?;
        out.write_all(&self.item.to_le_bytes())?;
        out.write_all(&self.fire.to_le_bytes())?;
        out.write_all(&self.lag.to_le_bytes())
    }

    /// All runs of a file.
    pub(crate) fn read(path: &str) -> Result<Vec<Self>> {
        let bytes = std::fs::read(path)?;
        let small = |at: &[u8]| at.try_into().map_or(0, u32::from_le_bytes);
        let large = |at: &[u8]| at.try_into().map_or(0, i64::from_le_bytes);
        let rows = bytes.chunks_exact(Self::BYTES);
        Ok(rows
            .map(|row| Self {
                job: small(&row[..4]),
                item: small(&row[4..8]),
                fire: large(&row[8..16]),
                lag: large(&row[16..]),
            })
            .collect())
    }
}

/// The records of a worker.
#[derive(Debug, Clone, Default)]
struct Log {
    seen: Arc<Mutex<Vec<Seen>>>,
    journal: Option<Arc<Journal>>,
}

impl Log {
    fn seen(&self) -> std::sync::MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: What, run: Option<&Run>, detail: &str) {
        if let Some(journal) = &self.journal {
            journal.write(what, run, detail);
        }
    }
}

pub(crate) fn main(spec: &str) -> ExitCode {
    let done = serde_json::from_str::<Spec>(spec).map_err(Into::into).and_then(run);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(spec: Spec) -> Result {
    let leave = CancellationToken::new();
    let asked = leave.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_ok_and(|line| line == "leave") {
                asked.cancel();
            }
        }
        // The parent process is gone.
        std::process::exit(3);
    });
    let journal = spec.journal.as_ref().map(|(path, name)| Journal::open(path.as_ref(), name)).transpose()?;
    let log = Log { journal: journal.map(Arc::new), ..Log::default() };
    if spec.pulse {
        let log = log.clone();
        std::thread::spawn(move || pulse(&log));
    }
    if spec.conversations > 1 {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        return runtime.block_on(many(&spec, &log, &leave));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let worker = worker(&spec, 0, &log).shutdown(leave.clone().cancelled_owned());
        match spec.say || spec.journal.is_some() {
            false => worker.run().await,
            true => {
                let inner = TonicConnector::new(Access::default())?;
                worker.drive(Telling { inner, say: spec.say, log: log.clone() }, BootClock).await
            }
        }
    })?;
    if let Some(out) = &spec.out {
        let mut file = BufWriter::new(File::create(out)?);
        log.seen().iter().try_for_each(|seen| seen.write(&mut file))?;
        file.flush()?;
    }
    Ok(())
}

fn pulse(log: &Log) {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let runs = log.seen().len();
        tell(&format!("runs {runs}"));
    }
}

/// How long a conversation waits for the one before it.
const PACE: Duration = Duration::from_millis(8);

/// Many conversations in one process, each over a separate connection. They attach one after the other, and end with
/// the process.
async fn many(spec: &Spec, log: &Log, leave: &CancellationToken) -> Result {
    let mut gone = tokio::task::JoinSet::new();
    for conversation in 0..spec.conversations {
        let worker = worker(spec, conversation, log);
        gone.spawn(async move { worker.drive(TonicConnector::new(Access::default())?, BootClock).await });
        tokio::time::sleep(PACE).await;
    }
    tell("came");
    tokio::select! {
        () = leave.cancelled() => Ok(()),
        Some(ended) = gone.join_next() => Err(format!("a conversation ended: {ended:?}").into()),
    }
}

fn worker(spec: &Spec, conversation: u32, log: &Log) -> Worker {
    let mut options = Options::default();
    options.servers = spec.server.split(',').map(str::to_owned).collect();
    options.address.clone_from(&spec.address);
    options.slots = spec.slots;
    let mut worker = Worker::new(options);
    for n in 0..spec.count {
        let number = (spec.first + conversation * spec.step + n) % spec.jobs.max(1);
        let name = format!("{}{number}", spec.prefix);
        let file = spec.file.replace("{n}", &(number % 10).to_string());
        let lasts = Lasts::new(spec.work, spec.spread);
        worker = worker.add(job(spec, number, &name, &file, lasts, log.clone()));
    }
    match &spec.also {
        Some(also) => {
            let lasts = Lasts::new(also.work, 0);
            worker.add(job(spec, u32::MAX, &also.job, &also.file, lasts, log.clone()))
        }
        None => worker,
    }
}

/// How long runs take.
#[derive(Debug, Clone, Copy)]
struct Lasts {
    first: Duration,
    spread: Duration,
}

impl Lasts {
    fn new(first: u64, spread: u64) -> Self {
        Self { first: Duration::from_millis(first), spread: Duration::from_millis(spread) }
    }

    fn of(self, run: &Run) -> Duration {
        let last = run.total().saturating_sub(1).max(1);
        self.first + self.spread.mul_f64(f64::from(run.item().min(last)) / f64::from(last))
    }
}

fn job(spec: &Spec, number: u32, name: &str, file: &str, lasts: Lasts, log: Log) -> Job {
    let file = if file.is_empty() { String::new() } else { format!("jobName: {name}\n{file}") };
    let say = spec.say;
    Job::new(name).handler_type("bench").config(file).handler(move |run: Run| {
        // The first line of user code.
        let now = wall();
        log.note(What::Start, Some(&run), "");
        let fire = run.fire_time().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
        let fire = i64::try_from(fire).unwrap_or(i64::MAX);
        let seen = Seen { job: number, item: run.item(), fire, lag: now - fire * 1000 };
        match say {
            true => tell(&format!(
                "run {} {} {} {:?} {fire} {now}",
                run.job(),
                run.item(),
                run.token(),
                run.source()
            )),
            false => log.seen().push(seen),
        }
        let work = lasts.of(&run);
        worked(run, work, say, log.clone())
    })
}

async fn worked(run: Run, work: Duration, say: bool, log: Log) -> std::result::Result<(), Failure> {
    if !work.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(work) => {}
            () = run.cancelled() => {
                log.note(What::Cancel, Some(&run), "");
                return Err(Failure::cancelled());
            }
        }
        if say {
            tell(&format!("end {} {} {} {}", run.job(), run.item(), run.token(), wall()));
        }
    }
    log.note(What::End, Some(&run), "ok");
    Ok(())
}

fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // The reader is gone; then this process ends as well.
    let _gone = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Reports Assignments as they arrive, and each coordinator to which it attaches.
struct Telling {
    inner: TonicConnector,
    say: bool,
    log: Log,
}

impl Connector for Telling {
    fn connect(
        &self,
        address: &str,
    ) -> impl Future<Output = std::result::Result<Wire, LinkError>> + Send + 'static {
        let connecting = self.inner.connect(address);
        let (address, say, log) = (address.to_owned(), self.say, self.log.clone());
        async move {
            let Wire { requests, responses } = connecting.await?;
            let responses = responses.inspect(move |frame| {
                let Ok(Some(frame)) = frame.as_ref().map(|frame| frame.frame.as_ref()) else { return };
                if let Frame::Welcome(told) = frame {
                    log.note(What::Hook, None, &format!("{ATTACHED} {address} {}", told.instance_id));
                }
                if say {
                    repeat(frame);
                }
            });
            Ok(Wire { requests, responses: responses.boxed() })
        }
        .boxed()
    }
}

fn repeat(frame: &Frame) {
    match frame {
        Frame::Assignment(told) => {
            let items: Vec<String> = told.items.iter().map(ToString::to_string).collect();
            tell(&format!("assigned {} {} {} {}", told.job, told.generation, wall(), items.join(",")));
        }
        Frame::Registered(told) => tell(&format!("registered {}", told.job)),
        Frame::GoodbyeAck(_) => tell(&format!("goodbye {}", wall())),
        _ => {}
    }
}
