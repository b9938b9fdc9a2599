//! How many rows of the history a second can be written: in SQLite, on the way to PostgreSQL, and there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rosterd_domain::id::{InstanceId, Item, JobName, Token, WorkerId};
use rosterd_domain::item::{Outcome, Running, Source};
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Time;
use rosterd_history::{Address, Clock, History, Options as Limits, Page, Reader, Recorder, RunFilter, Trust};

use crate::Result;
use crate::machine::{Floor, wall};
use crate::options::Options;
use crate::postgres::Postgres;
use crate::report::Report;
use crate::server::scratch;

/// Items per fire, and jobs that fire at once.
const ITEMS: u32 = 10;
const JOBS: u32 = 100;
/// Runs recorded: a beginning and an end each, as they come from a coordinator.
const RUNS: u32 = 200_000;
const QUICK: u32 = 20_000;
/// How long writing all of it may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Rows a second into the file, and into the database.
pub(crate) fn history(options: &Options, report: &mut Report) -> Result {
    let runs = if options.quick { QUICK } else { RUNS };
    let limits = || Limits { queue: 10_000_000, queue_bytes: 4 << 30, ..Limits::default() };
    let clock: Clock = Arc::new(|| Time(wall() / 1000));
    for _ in 0..options.runs {
        let dir = scratch()?;
        let floor = Floor::measure(dir.path())?;
        let (recorder, reader) = History::open(dir.path().join("history.db"), limits(), clock.clone())?;
        take("SQLite", &recorder, &reader, runs, &floor, report)?;
        let server = Postgres::start(&[]);
        let address = Address::new(&server.url(), None, &Trust::Plain, "bench")?;
        let spool = dir.path().join("history-spool.db");
        let (recorder, reader) = History::share(address, spool, 64 << 30, limits(), clock.clone())?;
        take("PostgreSQL on this machine, without its syncs", &recorder, &reader, runs, &floor, report)?;
    }
    Ok(())
}

fn take(
    store: &str,
    recorder: &Recorder,
    reader: &Reader,
    runs: u32,
    floor: &Floor,
    report: &mut Report,
) -> Result {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let begun = Instant::now();
    record(recorder, runs)?;
    let recorded = begun.elapsed().as_secs_f64();
    runtime.block_on(recorder.settle());
    let on_disk = begun.elapsed().as_secs_f64();
    while recorder.status().waiting > 0 {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{:?} after {PATIENCE:?}", recorder.status()).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let kept = begun.elapsed().as_secs_f64();
    let dropped = recorder.status().dropped;
    // Waits until each is there, with its end.
    let asked = Instant::now();
    let page = Page { size: 100, token: None };
    let filter = RunFilter { job: Some(JobName::new("job-7")?), ..RunFilter::default() };
    let (found, _) = runtime.block_on(reader.runs(filter, page))?;
    let answered = asked.elapsed().as_secs_f64() * 1e3;
    if found.len() != 100 || found.iter().any(|run| run.ended.is_none()) || dropped > 0 {
        return Err(format!("{} runs of a page of 100, {dropped} rows dropped", found.len()).into());
    }
    let rows = f64::from(runs) * 2.0;
    println!(
        "  {store}: {rows} rows recorded in {recorded:.2} s, on the disk after {on_disk:.2} s, kept after {kept:.2} s \
         ({:.0} a second); beside: {floor}",
        rows / kept
    );
    let mut add = |figure, unit, value| report.add(figure, store, unit, None, value, floor);
    add("rows a second", "", rows / kept);
    add("rows a second, to this disk", "", rows / on_disk);
    add("page of the latest 100 runs of a job", "ms", answered);
    runtime.block_on(recorder.stop());
    Ok(())
}

/// As coordinators record it: the starts of a fire, then its ends.
fn record(recorder: &Recorder, runs: u32) -> Result {
    let (instance, worker) = (InstanceId::new("10.0.0.7@-@w-1")?, WorkerId::new("w-1")?);
    let jobs: Vec<JobName> =
        (0..JOBS).map(|n| JobName::new(format!("job-{n}"))).collect::<std::result::Result<_, _>>()?;
    let now = wall() / 1000;
    for fire in 0..runs / (ITEMS * JOBS) {
        let at = Time(now + i64::from(fire));
        let run = Running {
            fire: at,
            source: Source::NormalTrigger,
            instance: instance.clone(),
            worker: worker.clone(),
            since: at,
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        };
        let token = Token(u64::from(fire) + 1);
        for job in &jobs {
            for item in (0..ITEMS).map(Item) {
                recorder.record(job, at, &Entry::Started { item, token, run: run.clone() }, None);
            }
        }
        for job in &jobs {
            for item in (0..ITEMS).map(Item) {
                let (run, outcome) = (run.clone(), Outcome::Succeeded);
                let ended = Entry::Ended { item, token, run, outcome, at, requeued: false };
                recorder.record(job, at, &ended, None);
            }
        }
    }
    Ok(())
}
