//! What the contract needs of a backend.

use std::sync::Arc;

use rosterd::registry::Registry;
use rosterd::registry::embedded::{EmbeddedOptions, EmbeddedRegistry};
use rosterd::registry::memory::{MemoryRegistry, MemoryStore, SessionOptions};
use tempfile::TempDir;

use crate::words::namespace;

/// A store of its own, with one session.
pub trait Backend {
    /// An empty store.
    fn new() -> Self;

    /// The live session.
    fn registry(&self) -> Arc<dyn Registry>;

    /// Ends the session, and opens another one on the same store.
    fn next_session(&mut self);

    /// A second session at the same time, where the backend has such.
    fn second(&self) -> Option<Arc<dyn Registry>>;
}

pub struct Memory {
    store: MemoryStore,
    session: Arc<MemoryRegistry>,
}

impl Backend for Memory {
    fn new() -> Self {
        let store = MemoryStore::new(&namespace());
        let session = Arc::new(store.open("first", SessionOptions::default()));
        Self { store, session }
    }

    fn registry(&self) -> Arc<dyn Registry> {
        self.session.clone()
    }

    fn next_session(&mut self) {
        assert!(self.store.expire(&self.session.session()));
        self.session = Arc::new(self.store.open("next", SessionOptions::default()));
    }

    fn second(&self) -> Option<Arc<dyn Registry>> {
        Some(Arc::new(self.store.open("second", SessionOptions::default())))
    }
}

pub struct Embedded {
    dir: TempDir,
    session: Option<Arc<EmbeddedRegistry>>,
}

pub fn open(dir: &std::path::Path) -> EmbeddedRegistry {
    EmbeddedRegistry::open(dir, EmbeddedOptions::new(namespace())).unwrap()
}

impl Backend for Embedded {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let session = Some(Arc::new(open(dir.path())));
        Self { dir, session }
    }

    fn registry(&self) -> Arc<dyn Registry> {
        self.session.clone().unwrap()
    }

    fn next_session(&mut self) {
        let last = self.session.take().and_then(Arc::into_inner);
        drop(last.expect("somebody still holds the session"));
        self.session = Some(Arc::new(open(self.dir.path())));
    }

    fn second(&self) -> Option<Arc<dyn Registry>> {
        None
    }
}
