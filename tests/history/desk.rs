//! A coordinator's history in a test, and the server behind it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rosterd_domain::id::{InstanceId, Item, JobName, Token, WorkerId};
use rosterd_domain::item::{Counters, Outcome, Running, Source};
use rosterd_domain::plan::{Entry, FireResult};
use rosterd_domain::time::Time;
use rosterd_history::{
    Address, Clock, Detail, EventFilter, EventRow, History, Options, Page, Reader, Recorder, RunFilter,
    RunRow, Trust,
};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::postgres::Postgres;

/// How long a wait for a state may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The day all tests are on.
pub(crate) const TODAY: i64 = 1_800_000_000;

/// The server that non-destructive tests share; each has a namespace of its own, and thus a schema. It ends with this
/// process.
pub(crate) fn server() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| Postgres::start(&[]))
}

/// A namespace that no other test has.
pub(crate) fn namespace() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("ns-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The server and namespace that coordinators share.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) namespace: String,
}

impl Place {
    /// On the common server.
    pub(crate) fn common() -> Self {
        Self { url: server().url(), namespace: namespace() }
    }

    pub(crate) fn address(&self) -> Address {
        Address::new(&self.url, None, &Trust::Plain, &self.namespace).unwrap()
    }

    /// Queries a number from the database, as a person would.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        let asked = async {
            let set = format!("SET search_path TO \"rosterd_{}\"", self.namespace);
            client.batch_execute(&set).await.unwrap();
            client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
        };
        tokio::select! {
            number = asked => number,
            ended = connection => panic!("the connection ended: {ended:?}"),
        }
    }

    pub(crate) async fn run(&self, sql: &str) {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        let set = format!("SET search_path TO \"rosterd_{}\"; {sql}", self.namespace);
        tokio::select! {
            done = client.batch_execute(&set) => done.unwrap(),
            ended = connection => panic!("the connection ended: {ended:?}"),
        }
    }
}

/// A coordinator's history.
pub(crate) struct Desk {
    pub(crate) dir: TempDir,
    pub(crate) now: Arc<AtomicI64>,
    pub(crate) recorder: Recorder,
    pub(crate) reader: Reader,
}

impl Desk {
    pub(crate) fn at(place: &Place) -> Self {
        Self::with(place.address(), Options::default(), 64 << 20)
    }

    pub(crate) fn with(address: Address, options: Options, spool: u64) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), address, options, spool)
    }

    pub(crate) fn in_dir(dir: TempDir, address: Address, options: Options, spool: u64) -> Self {
        let now = Arc::new(AtomicI64::new(TODAY * 1000));
        let clock: Clock = {
            let now = now.clone();
            Arc::new(move || Time(now.load(Ordering::Relaxed)))
        };
        let file = dir.path().join("history-spool.db");
        let (recorder, reader) = History::share(address, file, spool, options, clock).unwrap();
        Self { dir, now, recorder, reader }
    }

    pub(crate) fn record(&self, entry: &Entry, detail: Option<Detail>) {
        self.recorder.record(&job(), Time(self.now.load(Ordering::Relaxed)), entry, detail);
    }

    /// Waits until the database has all that was recorded.
    pub(crate) async fn sent(&self) {
        self.recorder.settle().await;
        until(|| {
            let status = self.recorder.status();
            (status.waiting == 0).then_some(()).ok_or(format!("{status:?}"))
        })
        .await;
    }

    pub(crate) async fn runs(&self) -> Vec<RunRow> {
        self.reader.runs(RunFilter::default(), Page { size: 0, token: None }).await.unwrap().0
    }

    pub(crate) async fn events(&self) -> Vec<EventRow> {
        self.reader.events(EventFilter::default(), Page { size: 0, token: None }).await.unwrap().0
    }
}

/// Waits for a state; the error has the last one.
pub(crate) async fn until<T>(mut state: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match state() {
            Ok(found) => return found,
            Err(instead) => assert!(begun.elapsed() < PATIENCE, "{instead}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The counts by day.
pub(crate) async fn days(reader: &Reader, from: Time, to: Time) -> BTreeMap<Time, Counters> {
    let day = Duration::from_secs(86_400);
    let counted = reader.counts(None, from, to, day).await.unwrap();
    counted.into_iter().map(|counted| (counted.from, counted.counters)).collect()
}

pub(crate) fn job() -> JobName {
    JobName::new("word-count").unwrap()
}

/// Seconds of today.
pub(crate) fn at(second: i64) -> Time {
    Time::from_seconds(TODAY + second)
}

pub(crate) fn run(source: Source, fire: i64) -> Running {
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

pub(crate) fn started(item: u32, token: u64, run: Running) -> Entry {
    Entry::Started { item: Item(item), token: Token(token), run }
}

pub(crate) fn ended(item: u32, token: u64, run: Running, outcome: Outcome) -> Entry {
    let at = run.since.plus(Duration::from_secs(5));
    Entry::Ended { item: Item(item), token: Token(token), run, outcome, at, requeued: false }
}

pub(crate) fn not_run(item: u32, first: i64, latest: i64, count: u64, result: FireResult) -> Entry {
    Entry::NotRun { item: Item(item), first: at(first), latest: at(latest), count, result }
}

pub(crate) fn told() -> Detail {
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
