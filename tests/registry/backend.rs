//! What the contract requires from a backend.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rosterd_registry::Registry;
use rosterd_registry::embedded::{EmbeddedOptions, EmbeddedRegistry};
use rosterd_registry::memory::{MemoryRegistry, MemoryStore, SessionOptions};
use rosterd_registry::zookeeper::{ZooKeeperOptions, ZooKeeperRegistry};
use tempfile::TempDir;

use crate::words::namespace;
use crate::zookeeper_server::Ensemble;

/// A store of its own, with one session.
pub trait Backend {
    /// An empty store.
    async fn new() -> Self;

    /// The live session.
    fn registry(&self) -> Arc<dyn Registry>;

    /// Ends the session, and opens another one on the same store.
    async fn next_session(&mut self);

    /// A second session at the same time, if the backend supports it.
    async fn second(&self) -> Option<Arc<dyn Registry>>;
}

pub struct Memory {
    store: MemoryStore,
    session: Arc<MemoryRegistry>,
}

impl Backend for Memory {
    async fn new() -> Self {
        let store = MemoryStore::new(&namespace());
        let session = Arc::new(store.open("first", SessionOptions::default()));
        Self { store, session }
    }

    fn registry(&self) -> Arc<dyn Registry> {
        self.session.clone()
    }

    async fn next_session(&mut self) {
        assert!(self.store.expire(&self.session.session()));
        self.session = Arc::new(self.store.open("next", SessionOptions::default()));
    }

    async fn second(&self) -> Option<Arc<dyn Registry>> {
        Some(Arc::new(self.store.open("second", SessionOptions::default())))
    }
}

pub struct Embedded {
    dir: TempDir,
    session: Option<Arc<EmbeddedRegistry>>,
}

/// Opens a store that merges its journal again and again, as another does after a day.
pub fn open(dir: &std::path::Path) -> EmbeddedRegistry {
    let options = EmbeddedOptions { journal_bytes: 8_000, ..EmbeddedOptions::new(namespace()) };
    EmbeddedRegistry::open(dir, options).unwrap()
}

/// Opens a store as the program does.
pub fn open_with_defaults(dir: &std::path::Path) -> EmbeddedRegistry {
    EmbeddedRegistry::open(dir, EmbeddedOptions::new(namespace())).unwrap()
}

impl Backend for Embedded {
    async fn new() -> Self {
        let dir = crate::words::dir();
        let session = Some(Arc::new(open(dir.path())));
        Self { dir, session }
    }

    fn registry(&self) -> Arc<dyn Registry> {
        self.session.clone().unwrap()
    }

    async fn next_session(&mut self) {
        let last = self.session.take().and_then(Arc::into_inner);
        drop(last.expect("somebody still holds the session"));
        self.session = Some(Arc::new(open(self.dir.path())));
    }

    async fn second(&self) -> Option<Arc<dyn Registry>> {
        None
    }
}

/// A ZooKeeper server, or an ensemble of three; shared, so each test has a root of its own there.
pub struct ZooKeeper {
    pub ensemble: &'static Ensemble,
    pub options: ZooKeeperOptions,
    session: Option<Arc<ZooKeeperRegistry>>,
}

/// Servers whose sessions outlast a stall of the machine.
pub fn patient(count: usize) -> Ensemble {
    Ensemble::start(count, &["maxSessionTimeout=60000".to_owned()])
}

pub fn single() -> &'static Ensemble {
    static SINGLE: LazyLock<Ensemble> = LazyLock::new(|| patient(1));
    &SINGLE
}

fn three() -> &'static Ensemble {
    static THREE: LazyLock<Ensemble> = LazyLock::new(|| patient(3));
    &THREE
}

/// A root that no other test uses.
pub fn own_root() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("/test-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A session whose end no test waits for.
pub fn options(servers: &str) -> ZooKeeperOptions {
    ZooKeeperOptions {
        session_timeout: Duration::from_secs(20),
        ..ZooKeeperOptions::new(format!("{servers}{}", own_root()), namespace())
    }
}

impl ZooKeeper {
    async fn on(ensemble: &'static Ensemble) -> Self {
        let options = options(&ensemble.list());
        let session = Some(Arc::new(ZooKeeperRegistry::connect(options.clone()).await.unwrap()));
        Self { ensemble, options, session }
    }

    async fn next(&mut self) {
        let last = self.session.take().unwrap();
        let name = last.session();
        last.close();
        let ensemble = self.ensemble;
        tokio::task::spawn_blocking(move || ensemble.wait_until_gone(&name)).await.unwrap();
        self.session = Some(Arc::new(ZooKeeperRegistry::connect(self.options.clone()).await.unwrap()));
    }
}

macro_rules! on_zookeeper {
    ($name:ident, $ensemble:expr) => {
        pub struct $name(ZooKeeper);

        impl Backend for $name {
            async fn new() -> Self {
                let ensemble = tokio::task::spawn_blocking($ensemble).await.unwrap();
                Self(ZooKeeper::on(ensemble).await)
            }

            fn registry(&self) -> Arc<dyn Registry> {
                self.0.session.clone().unwrap()
            }

            async fn next_session(&mut self) {
                self.0.next().await;
            }

            async fn second(&self) -> Option<Arc<dyn Registry>> {
                Some(Arc::new(ZooKeeperRegistry::connect(self.0.options.clone()).await.unwrap()))
            }
        }
    };
}

on_zookeeper!(Single, single);
on_zookeeper!(Three, three);
