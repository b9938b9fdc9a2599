//! Tests of the history: the writer is driven by hand, so that nothing depends on thread scheduling.

mod gaps;
mod ledger;
mod owners;
mod reading;
mod runs;
mod trouble;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, Token, WorkerId};
use rosterd_domain::item::{Counters, Outcome, Running, Source};
use rosterd_domain::plan::{Entry, FireResult};
use rosterd_domain::time::Time;
use tempfile::TempDir;

use super::queue::Queue;
use super::rows::{Detail, Page, RunFilter, RunRow};
use super::sql::FileShelves;
use super::writer::Writer;
use super::{Clock, Options, Reader, Recorder};

/// The day on which all tests take place.
const TODAY: i64 = 1_800_000_000;

struct Desk {
    dir: TempDir,
    now: Arc<AtomicI64>,
    queue: Arc<Queue>,
    writer: Writer,
    recorder: Recorder,
    reader: Reader,
    batch: usize,
}

impl Desk {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        Self::at(tempfile::tempdir().unwrap(), options)
    }

    fn at(dir: TempDir, options: Options) -> Self {
        let now = Arc::new(AtomicI64::new(TODAY * 1000));
        let clock: Clock = {
            let now = now.clone();
            Arc::new(move || Time(now.load(Ordering::Relaxed)))
        };
        let path = dir.path().join("history.db");
        let (file, batch) = (Arc::new(AtomicU64::new(0)), options.batch);
        let queue = Arc::new(Queue::new(options.queue, options.queue_bytes));
        let writer = Writer::new(path.clone(), options, clock, queue.clone(), file.clone());
        let (recorder, reader) =
            (Recorder::new(queue.clone(), None), Reader::new(Arc::new(FileShelves::new(path, file)), None));
        Self { dir, now, queue, writer, recorder, reader, batch }
    }

    /// Stops the writer and opens the same directory again.
    fn again(self) -> Self {
        let Self { dir, writer, .. } = self;
        drop(writer);
        Self::at(dir, Options::default())
    }

    fn pass(&self, time: Duration) {
        self.now.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
    }

    /// Runs the writer once, as if rows had arrived.
    fn write(&mut self) {
        while self.queue.len() > 0 {
            let rows = self.queue.take(self.batch, Duration::ZERO, Duration::ZERO).unwrap();
            self.writer.step(&rows);
        }
    }

    fn record(&mut self, entry: &Entry, detail: Option<Detail>) {
        self.recorder.record(&job(), Time(self.now.load(Ordering::Relaxed)), entry, detail);
        self.write();
    }

    async fn all(&self) -> Vec<RunRow> {
        self.reader.runs(RunFilter::default(), Page { size: 0, token: None }).await.unwrap().0
    }
}

/// The counts by day, of all jobs or of one.
async fn days(reader: &Reader, job: Option<&JobName>, from: Time, to: Time) -> BTreeMap<Time, Counters> {
    let day = Duration::from_secs(86_400);
    let mut days = BTreeMap::new();
    for counted in reader.counts(job.cloned(), from, to, day).await.unwrap() {
        assert!(days.insert(counted.from, counted.counters).is_none(), "these tests have one job");
    }
    days
}

fn job() -> JobName {
    JobName::new("word-count").unwrap()
}

/// A time of today, in seconds.
fn at(second: i64) -> Time {
    Time::from_seconds(TODAY + second)
}

fn run(source: Source, fire: i64) -> Running {
    Running {
        fire: at(fire),
        source,
        instance: InstanceId::new("10.0.0.7@-@w-1").unwrap(),
        worker: WorkerId::new("w-1").unwrap(),
        since: at(fire),
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    }
}

fn started(item: u32, token: u64, run: Running) -> Entry {
    Entry::Started { item: Item(item), token: Token(token), run }
}

fn ended(item: u32, token: u64, run: Running, outcome: Outcome) -> Entry {
    let at = run.since.plus(Duration::from_secs(5));
    Entry::Ended { item: Item(item), token: Token(token), run, outcome, at, requeued: false }
}

fn not_run(item: u32, first: i64, latest: i64, count: u64, result: FireResult) -> Entry {
    Entry::NotRun { item: Item(item), first: at(first), latest: at(latest), count, result }
}

fn detail() -> Detail {
    Detail {
        error: "disk full".into(),
        output: "3 lines".into(),
        processed: 7,
        failed: 2,
        attempt: 3,
        started_at: Some(at(101)),
        ended_at: Some(at(104)),
    }
}
