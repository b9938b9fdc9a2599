//! A restore is cut off behind every transaction, and run again; a file is cut off and changed at every byte.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rosterd_domain::id::{
    CoordinatorId, InstanceId, Item, JobName, Namespace, ServerAddress, Token, WorkerId,
};
use rosterd_domain::item::{ItemEvent, Missed, Record, Running, Source};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::Snapshot;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Guard, Purpose, Txn, Write};
use rosterd_registry::memory::{MemoryStore, SessionOptions};
use rosterd_registry::{Hints, Read, Registry};

use super::backup::{Found, Writer, check, each_job, find, job as read_job};
use super::restore::{Options, RestoreError, Restored, Way, restore};

/// Enough for several transactions.
const ITEMS: u32 = 70;

fn name() -> JobName {
    JobName::new("words").unwrap()
}

fn namespace() -> Namespace {
    Namespace::new("default").unwrap()
}

/// A session that ends behind so many transactions: the last one is applied, and nobody is told.
struct Cut {
    inner: Arc<dyn Registry>,
    left: AtomicUsize,
}

impl Registry for Cut {
    fn commit(&self, txn: Txn) -> BoxFuture<'static, Commit> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Err(_) => async { Commit::Fenced }.boxed(),
            Ok(1) => {
                let committed = self.inner.commit(txn);
                async {
                    committed.await;
                    Commit::Unknown
                }
                .boxed()
            }
            Ok(_) => self.inner.commit(txn),
        }
    }
    fn jobs(&self) -> Read<std::collections::BTreeSet<JobName>> {
        self.inner.jobs()
    }
    fn job(&self, job: &JobName) -> Read<Option<rosterd_domain::snapshot::JobNodes>> {
        self.inner.job(job)
    }
    fn snapshot(&self, job: &JobName) -> Read<Option<Snapshot>> {
        self.inner.snapshot(job)
    }
    fn whole(&self, job: &JobName) -> Read<Option<rosterd_domain::snapshot::Whole>> {
        self.inner.whole(job)
    }
    fn numbering(&self) -> Read<rosterd_domain::snapshot::Numbering> {
        self.inner.numbering()
    }
    fn offset(&self, job: &JobName, item: Item) -> Read<Option<Arc<[u8]>>> {
        self.inner.offset(job, item)
    }
    fn attachment(
        &self,
        worker: &WorkerId,
    ) -> Read<Option<(rosterd_domain::id::Version, rosterd_domain::snapshot::Attachment)>> {
        self.inner.attachment(worker)
    }
    fn attachments(
        &self,
    ) -> Read<BTreeMap<WorkerId, (rosterd_domain::id::Version, rosterd_domain::snapshot::Attachment)>> {
        self.inner.attachments()
    }
    fn coordinators(&self) -> Read<BTreeMap<CoordinatorId, Arc<str>>> {
        self.inner.coordinators()
    }
    fn switches(&self, job: &JobName) -> Read<Option<rosterd_domain::snapshot::Switches>> {
        self.inner.switches(job)
    }
    fn told_at(&self, id: &CoordinatorId) -> Read<Option<Time>> {
        self.inner.told_at(id)
    }
    fn dump(&self, job: &JobName) -> Read<Option<BTreeMap<String, rosterd_registry::DumpNode>>> {
        self.inner.dump(job)
    }
    fn watch(&self, job: &JobName) {
        self.inner.watch(job);
    }
    fn watch_items(&self, job: &JobName, items: u32) {
        self.inner.watch_items(job, items);
    }
    fn unwatch(&self, job: &JobName) {
        self.inner.unwatch(job);
    }
    fn hints(&self) -> Hints {
        self.inner.hints()
    }
    fn session(&self) -> String {
        self.inner.session()
    }
    fn session_timeout(&self) -> Option<Duration> {
        self.inner.session_timeout()
    }
}

fn config(description: &str) -> Arc<str> {
    serde_json::json!({ "jobName": "words", "shardingTotalCount": ITEMS, "failover": true, "description": description })
        .to_string()
        .into()
}

fn record(token: u64) -> Record {
    let fresh = Record::new(Token(token), Time::from_seconds(200));
    fresh.apply(&ItemEvent::Miss { latest: Time::from_seconds(300), count: 4, reason: Missed::Down }).unwrap()
}

fn running(token: u64) -> Record {
    let run = Running {
        fire: Time::from_seconds(500),
        source: Source::NormalTrigger,
        instance: InstanceId::new("10.0.0.7@-@w1").unwrap(),
        worker: WorkerId::new("w1").unwrap(),
        since: Time::from_seconds(500),
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    };
    record(token).apply(&ItemEvent::Start(run)).unwrap()
}

async fn put(registry: &dyn Registry, guards: Vec<Guard>, writes: Vec<Write>) {
    for chunk in writes.chunks(150) {
        let txn = Txn { purpose: Purpose::Other, guards: guards.clone(), writes: chunk.to_vec() };
        let commit = registry.commit(txn).await;
        assert!(matches!(commit, Commit::Committed(_)), "{commit:?}");
    }
}

fn create(description: &str) -> Write {
    Write::CreateJob {
        job: name(),
        incarnation: "i1".into(),
        handler_type: "app.Handler".into(),
        config: config(description),
        policy: r#"{"run_timeout_ms": 5000}"#.into(),
        assignment: Sharding::made_at(Time::from_seconds(100)).encode().into(),
    }
}

fn set(item: u32, record: Record, expect: Option<u64>) -> Write {
    let expect = expect.map(rosterd_domain::id::Version);
    Write::Record { job: name(), item: Item(item), expect, record: Arc::new(record) }
}

/// A store with the job, its backup, and what came after: a new description, and every second item runs.
async fn later() -> (MemoryStore, Vec<u8>) {
    let store = MemoryStore::new(&namespace());
    let registry = store.open("one", SessionOptions::default());
    put(&registry, vec![], vec![create("old")]).await;
    put(&registry, vec![], (0..ITEMS).map(|item| set(item, record(40), None)).collect()).await;
    let offset = |item| Write::Offset { job: name(), item: Item(item), data: b"here"[..].into() };
    let server = ServerAddress::new("10.0.0.7").unwrap();
    let more = [offset(1), offset(ITEMS), Write::Server { job: name(), server, enabled: Some(false) }];
    put(&registry, vec![], more.into()).await;
    let file = backup(&registry).await;
    put(&registry, vec![], vec![Write::Config(name(), config("new"))]).await;
    let next = |item| set(item, if item % 2 == 0 { running(90) } else { record(80) }, Some(0));
    put(&registry, vec![], (0..ITEMS).map(next).collect()).await;
    (store, file)
}

async fn backup(registry: &dyn Registry) -> Vec<u8> {
    let mut writer = Writer::default();
    let mut file = writer.begin(&namespace(), Time::from_seconds(1000), "test");
    if let Found::Job(job) = find(registry, &name()).await.unwrap() {
        file += &writer.job(&job);
    }
    file += &writer.end(registry.numbering().await.unwrap().ceiling());
    file.into_bytes()
}

async fn run(registry: &dyn Registry, file: &[u8], overwrite: bool) -> Result<Restored, RestoreError> {
    let summary = check(file).unwrap();
    let line = each_job(file, 1).next().unwrap().unwrap();
    let mut ids = || format!("{:016x}", rand());
    let (mark, tokens, now) = (summary.mark.as_str(), summary.tokens, Time::from_seconds(2000));
    let options = Options { mark, tokens, overwrite, dry_run: false, now, ids: &mut ids };
    restore(registry, read_job(&line).unwrap(), options).await
}

/// Names that never come twice.
fn rand() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

/// As it was in the backup, but that no token is below one that was given.
async fn is_old(registry: &dyn Registry, given: u64) {
    let whole = registry.whole(&name()).await.unwrap().unwrap();
    assert_eq!(whole.snapshot.nodes.config.unwrap().data.as_ref(), config("old").as_bytes());
    assert_eq!(whole.snapshot.nodes.servers.into_values().collect::<Vec<_>>(), [false]);
    assert_eq!(whole.offsets.keys().copied().collect::<Vec<_>>(), [Item(1), Item(ITEMS)]);
    assert_eq!(whole.snapshot.records.len(), ITEMS as usize);
    for (item, (_, found)) in whole.snapshot.records {
        assert!(found.token.0 >= given, "item {item} goes on from {}", found.token);
        assert_eq!(Record { token: Token(40), ..(*found).clone() }, record(40), "item {item}");
    }
}

#[tokio::test]
async fn a_job_that_stands_goes_back_whole_wherever_the_restore_was_cut_off() {
    for cut in 0.. {
        let (store, file) = later().await;
        let registry: Arc<dyn Registry> = Arc::new(store.open("two", SessionOptions::default()));
        let given = registry.numbering().await.unwrap().ceiling().0.max(80);
        let first = run(&Cut { inner: registry.clone(), left: AtomicUsize::new(cut) }, &file, true).await;
        let there = registry.snapshot(&name()).await.unwrap().unwrap();
        assert!(
            there.nodes.incarnation.is_some() && there.nodes.config.is_some(),
            "the job never disappears"
        );
        for (item, (_, record)) in &there.records {
            assert!(record.token.0 >= 80 + 10 * u64::from(item.0 % 2 == 0), "item {item}: {}", record.token);
        }
        let whole = first.is_ok();
        assert!(
            whole || matches!(first, Err(RestoreError::Unknown(_) | RestoreError::Refused(..))),
            "{first:?}"
        );
        let again = run(&*registry, &file, true).await.unwrap();
        assert_eq!(again.way, Way::Overwritten);
        is_old(&*registry, given).await;
        if whole {
            assert!(cut > 3, "{cut} transactions are too few to be cut off between");
            assert_eq!(first.unwrap().fenced.len(), ITEMS as usize / 2);
            return;
        }
    }
}

#[tokio::test]
async fn a_job_that_is_not_there_is_made_whole_wherever_the_restore_was_cut_off() {
    let (_, file) = later().await;
    for cut in 0.. {
        let store = MemoryStore::new(&namespace());
        let registry: Arc<dyn Registry> = Arc::new(store.open("two", SessionOptions::default()));
        let first = run(&Cut { inner: registry.clone(), left: AtomicUsize::new(cut) }, &file, false).await;
        let again = run(&*registry, &file, false).await.unwrap();
        is_old(&*registry, check(&file[..]).unwrap().tokens.0).await;
        if first.is_ok() {
            assert_eq!(again.way, Way::Already);
            assert!(cut > 3, "{cut} transactions are too few to be cut off between");
            return;
        }
        assert!(matches!(first, Err(RestoreError::Unknown(_) | RestoreError::Refused(..))), "{first:?}");
    }
}

/// Nobody has said that it may be touched.
#[tokio::test]
async fn a_job_that_exists_is_refused_unless_replacing_is_requested() {
    let (store, file) = later().await;
    let registry = store.open("two", SessionOptions::default());
    let before = registry.dump(&name()).await.unwrap();
    assert!(matches!(run(&registry, &file, false).await, Err(RestoreError::Exists(_))));
    assert_eq!(registry.dump(&name()).await.unwrap(), before);
}

/// Also one that was in flight when the backup was taken is no longer one of the store's.
#[tokio::test]
async fn runs_in_flight_in_the_backup_count_as_crashed_and_wait_for_a_taker() {
    let (store, _) = later().await;
    let registry = store.open("two", SessionOptions::default());
    let file = backup(&registry).await;
    let done = run(&registry, &file, true).await.unwrap();
    assert_eq!((done.crashed.len(), done.fenced.len()), (ITEMS as usize / 2, ITEMS as usize / 2));
    let there = registry.snapshot(&name()).await.unwrap().unwrap();
    assert_eq!(there.nodes.failover.len(), ITEMS as usize / 2);
    assert!(there.records.values().all(|(_, record)| record.running().is_none()));
}

#[tokio::test]
async fn a_file_that_was_cut_or_changed_anywhere_is_refused() {
    let (_, file) = later().await;
    let summary = check(&file[..]).unwrap();
    assert_eq!((summary.jobs, summary.records), (vec![name()], u64::from(ITEMS)));
    for length in (0..file.len()).step_by(7).chain([file.len() - 1, file.len() - 2]) {
        assert!(check(&file[..length]).is_err(), "cut after {length} of {}", file.len());
    }
    for at in (0..file.len()).step_by(11) {
        let mut changed = file.clone();
        changed[at] ^= 1;
        assert!(check(&changed[..]).is_err(), "changed at {at}");
    }
    assert!(check(&[&file[..], b"{}\n"].concat()[..]).is_err(), "trailing data");
}
