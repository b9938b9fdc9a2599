//! The histories of `histories`, in memory and on a real server: two sessions, each behind a proxy that can cut it off,
//! hold an answer back, or leave it cut off until the server has ended it. Hints take time there and there may be more;
//! none that memory gives may be missing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::test_runner::TestCaseResult;
use rosterd_domain::id::JobName;
use rosterd_domain::txn::{Commit, Guard, Txn};
use rosterd_registry::zookeeper::{ZooKeeperOptions, ZooKeeperRegistry};
use rosterd_registry::{Hint, Hints, Registry, SessionState};
use zookeeper_client::{Acls, Client, CreateMode, Error};

use super::proxy::{Proxy, Way};
use super::{PATIENCE, connect};
use crate::backend::{options, patient};
use crate::histories::{Came, Cuts, InMemory, Life, Loses, OperationKind, World, live_all, live_twice, same};
use crate::words::namespace;
use crate::zookeeper_server::Ensemble;

/// How many histories: as many as fit in a minute.
const CASES: u64 = 50;

fn server() -> &'static Ensemble {
    static PATIENT: LazyLock<Ensemble> = LazyLock::new(|| patient(1));
    &PATIENT
}

struct One {
    proxy: Proxy,
    options: ZooKeeperOptions,
    session: ZooKeeperRegistry,
    hints: Hints,
    /// Hints that came while something else was waited for.
    given: Vec<Hint>,
    /// The state, from the hints.
    state: SessionState,
}

impl One {
    async fn new(proxy: Proxy, options: ZooKeeperOptions) -> Self {
        let session = connect(&options).await;
        let hints = session.hints();
        Self { proxy, options, session, hints, given: Vec::new(), state: SessionState::Connected }
    }

    /// A session in place of the one that is over.
    async fn begin(&mut self) {
        self.session = connect(&self.options).await;
        (self.hints, self.given) = (self.session.hints(), Vec::new());
        self.state = SessionState::Connected;
    }

    fn take(&mut self, hint: Hint) {
        match hint {
            Hint::Session(state) => self.state = state,
            hint => self.given.push(hint),
        }
    }

    fn drain(&mut self) {
        while let Some(hint) = self.hints.try_recv() {
            self.take(hint);
        }
    }

    /// A connection may be lost, and come back, more than once for one cut.
    async fn until(&mut self, state: SessionState) {
        self.drain();
        while self.state != state {
            match tokio::time::timeout(PATIENCE, self.hints.recv()).await {
                Ok(Some(hint)) => self.take(hint),
                other => panic!("{state:?} did not come ({other:?}) after {:?}", self.state),
            }
        }
    }
}

struct OnServer(Vec<One>);

impl OnServer {
    async fn new(sessions: usize, session_timeout: Duration) -> Self {
        let ensemble = tokio::task::spawn_blocking(server).await.unwrap();
        let straight = options(&ensemble.list());
        let root = straight.servers.split_at(straight.servers.find('/').unwrap()).1.to_owned();
        let mut all = Vec::new();
        for _ in 0..sessions {
            let proxy = Proxy::before(ensemble.list()).await;
            let servers = format!("{}{root}", proxy.address);
            let options = ZooKeeperOptions { servers, session_timeout, ..straight.clone() };
            all.push(One::new(proxy, options).await);
        }
        Self(all)
    }

    /// Frees what the servers no longer need.
    async fn close(self) {
        for one in self.0 {
            one.session.close();
            one.session.closed().await;
        }
    }
}

impl World for OnServer {
    fn session(&self, who: usize) -> &dyn Registry {
        &self.0[who].session
    }

    async fn end(&mut self, who: usize) {
        let one = &mut self.0[who];
        let name = one.session.session();
        one.session.close();
        tokio::task::spawn_blocking(move || server().wait_until_gone(&name)).await.unwrap();
        one.begin().await;
    }

    async fn hints(&mut self, who: usize, must: &[Hint]) -> Vec<Hint> {
        let one = &mut self.0[who];
        one.drain();
        while !must.iter().all(|hint| one.given.contains(hint)) {
            match tokio::time::timeout(PATIENCE, one.hints.recv()).await {
                Ok(Some(hint)) => one.take(hint),
                // The comparison reports what is missing.
                _ => break,
            }
        }
        std::mem::take(&mut one.given)
    }

    fn sessions(&self) -> usize {
        self.0.len()
    }
}

impl Cuts for OnServer {
    async fn cut(&mut self, who: usize) {
        let one = &mut self.0[who];
        one.proxy.set(Way::Cut);
        one.until(SessionState::Suspended).await;
    }

    async fn mend(&mut self, who: usize) {
        let one = &mut self.0[who];
        one.proxy.set(Way::Open);
        one.until(SessionState::Connected).await;
    }

    async fn lapse(&mut self, who: usize) {
        let name = self.0[who].session.session();
        tokio::task::spawn_blocking(move || server().wait_until_gone(&name)).await.unwrap();
    }

    async fn hear(&mut self, who: usize) {
        let one = &mut self.0[who];
        one.proxy.set(Way::Open);
        one.until(SessionState::Gone).await;
    }

    async fn reopen(&mut self, who: usize) {
        self.0[who].begin().await;
    }

    async fn foreign(&mut self, job: &JobName, path: &str) -> bool {
        let servers = &self.0[0].options.servers;
        let root = &servers[servers.find('/').unwrap()..];
        let client = Client::connector().connect(&format!("{}{root}", server().list())).await.unwrap();
        let path = format!("/{}/{job}{path}", namespace());
        let made = client.create(&path, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await;
        match made {
            Ok(_) => true,
            Err(Error::NodeExists) => client.set_data(&path, b"", None).await.is_ok(),
            Err(Error::NoNode) => false,
            Err(error) => panic!("{path}: {error}"),
        }
    }
}

impl Loses for OnServer {
    async fn lose(&mut self, who: usize, txn: Txn) -> Commit {
        let one = &mut self.0[who];
        one.proxy.set(Way::HoldAnswers);
        let commit = tokio::spawn(one.session.commit(txn));
        let held = tokio::time::timeout(PATIENCE, one.proxy.holds_an_answer()).await;
        held.expect("the server says nothing");
        one.proxy.set(Way::Cut);
        one.until(SessionState::Suspended).await;
        one.proxy.set(Way::Open);
        one.until(SessionState::Connected).await;
        commit.await.unwrap()
    }
}

/// The part of a refusal that must agree: the servers do not return the version of a node. They check absence last, so
/// if two guards fail, they may report a different one.
pub fn blame(txn: &Txn, text: &str) -> String {
    let absent = |guard: &Guard| matches!(guard, Guard::NoJob(_) | Guard::NoAttachment(_));
    match txn.guards.iter().any(absent) {
        true => String::new(),
        false => text.split(" (").next().unwrap_or_default().to_owned(),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn both(life: &Life, session_timeout: Duration) -> (Vec<Came>, TestCaseResult) {
    let mut world = OnServer::new(2, session_timeout).await;
    let (expected, found) = live_twice(&mut InMemory::new(2), &mut world, life).await;
    world.close().await;
    let result = same(life, &expected, &found, blame);
    (found, result)
}

#[test]
fn memory_and_zookeeper_live_the_same_lives() {
    let (runtime, mut seen) = (runtime(), BTreeSet::new());
    let seen_by = RefCell::new(&mut seen);
    live_all(OperationKind::Two, CASES, 100, |life| {
        let (found, result) = runtime.block_on(both(&life, Duration::from_secs(30)));
        let lost = found.iter().filter_map(|came| match came {
            Came::Lost { applied, unknown } => Some((*applied, *unknown)),
            _ => None,
        });
        seen_by.borrow_mut().extend(lost);
        result
    });
    // A single history proves no coverage.
    let all = std::env::var_os("SEED").is_none();
    assert!(!all || seen.contains(&(true, true)), "no answer of what was applied was lost: {seen:?}");
}

/// A shorter stall of the machine ends no session except the one that is cut off.
const SESSION: Duration = Duration::from_secs(10);

/// How many histories with a session that the server ends by its own clock: each waits for that.
const EXPIRING: u64 = 6;

#[test]
fn memory_and_zookeeper_end_sessions_alike() {
    let runtime = runtime();
    live_all(OperationKind::Expiring, EXPIRING, 10, |life| runtime.block_on(both(&life, SESSION)).1);
}
