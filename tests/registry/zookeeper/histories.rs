//! The lives of `histories`, in memory and on a real server: two sessions, each behind a proxy that can cut it off.
//! Hints take time there and may be more than need be; none that memory gives may be missing.

use std::sync::LazyLock;
use std::time::Duration;

use rosterd::registry::zookeeper::{ZooKeeperOptions, ZooKeeperRegistry};
use rosterd::registry::{Hint, Hints, Registry, SessionState};
use rosterd_domain::txn::{Guard, Txn};

use super::proxy::{Proxy, Way};
use super::{connect, until_state};
use crate::backend::options;
use crate::histories::{InMemory, World, live, live_all, same, wait_for};
use crate::zookeeper_server::Ensemble;

/// How many lives: as many as a minute has room for.
const CASES: u64 = 50;

/// A server whose sessions outlast a slow machine.
fn server() -> &'static Ensemble {
    static PATIENT: LazyLock<Ensemble> =
        LazyLock::new(|| Ensemble::start(1, &["maxSessionTimeout=60000".to_owned()]));
    &PATIENT
}

struct One {
    proxy: Proxy,
    options: ZooKeeperOptions,
    session: ZooKeeperRegistry,
    hints: Hints,
    /// Hints that came while something else was waited for.
    given: Vec<Hint>,
}

struct OnServer(Vec<One>);

impl OnServer {
    async fn new(sessions: usize) -> Self {
        let ensemble = tokio::task::spawn_blocking(server).await.unwrap();
        let straight = options(&ensemble.list());
        let root = straight.servers.split_at(straight.servers.find('/').unwrap()).1.to_owned();
        let mut all = Vec::new();
        for _ in 0..sessions {
            let proxy = Proxy::before(ensemble.list()).await;
            let servers = format!("{}{root}", proxy.address);
            let session_timeout = Duration::from_secs(30);
            let options = ZooKeeperOptions { servers, session_timeout, ..straight.clone() };
            let session = connect(&options).await;
            let hints = session.hints();
            all.push(One { proxy, options, session, hints, given: Vec::new() });
        }
        Self(all)
    }

    /// The servers are not to keep what nobody needs any more.
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
        one.session = connect(&one.options).await;
        (one.hints, one.given) = (one.session.hints(), Vec::new());
    }

    async fn cut(&mut self, who: usize) {
        let one = &mut self.0[who];
        one.proxy.set(Way::Cut);
        one.given.extend(until_state(&mut one.hints, SessionState::Suspended).await);
    }

    async fn mend(&mut self, who: usize) {
        let one = &mut self.0[who];
        one.proxy.set(Way::Open);
        one.given.extend(until_state(&mut one.hints, SessionState::Connected).await);
    }

    async fn hints(&mut self, who: usize, must: &[Hint]) -> Vec<Hint> {
        let one = &mut self.0[who];
        let given = std::mem::take(&mut one.given);
        wait_for(&mut one.hints, given, must).await
    }

    fn sessions(&self) -> usize {
        self.0.len()
    }
}

/// What of a refusal must agree: the servers do not tell at which version a node is. That something is absent they
/// check last, so that where both are wrong another may be blamed.
fn blame(txn: &Txn, text: &str) -> String {
    let absent = |guard: &Guard| matches!(guard, Guard::NoJob(_) | Guard::NoAttachment(_));
    match txn.guards.iter().any(absent) {
        true => String::new(),
        false => text.split(" (").next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn memory_and_zookeeper_live_the_same_lives() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    live_all(2, CASES, 100, |life| {
        runtime.block_on(async {
            let expected = live(&mut InMemory::new(2), &life, None).await;
            let mut world = OnServer::new(2).await;
            let found = live(&mut world, &life, Some(&expected)).await;
            world.close().await;
            same(&life, &expected, &found, blame)
        })
    });
}
