//! The vocabulary of the coordinator, and what every part uses: the clocks, the settings, what is in flight at the
//! store, and the pending effects.

pub(crate) mod cluster_event;
pub mod event;
pub(crate) mod operation;
pub(crate) mod pending;
pub mod settings;
pub mod standing;
pub(crate) mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_domain::id::InstanceId;
use rosterd_domain::time::Mono;
use rosterd_domain::txn::Txn;

use cluster_event::{ClusterEvent, WorkerEvent};
use event::{Effect, Now, Query, ReadId, TxnId};
use pending::{ReadFor, TxnFor};
use settings::Settings;
use timers::Timer;

/// State that every part uses.
pub(crate) struct Io {
    pub(crate) settings: Settings,
    /// The name of this process's registry session.
    pub(crate) session: String,
    /// Generates ids; in a simulation from a seed.
    pub(crate) ids: Box<dyn FnMut() -> String + Send>,
    pub(crate) now: Now,
    pub(crate) timers: BTreeSet<(Mono, Timer)>,
    pub(crate) reads: BTreeMap<ReadId, ReadFor>,
    /// Transactions in flight: their purpose, and when they were submitted.
    pub(crate) txns: BTreeMap<TxnId, (TxnFor, Mono)>,
    pub(crate) last_id: u64,
    pub(crate) out: Vec<Effect>,
}

impl Io {
    pub(crate) fn new(settings: Settings, session: String, ids: Box<dyn FnMut() -> String + Send>) -> Self {
        Self {
            settings,
            session,
            ids,
            now: Now::default(),
            timers: BTreeSet::new(),
            reads: BTreeMap::new(),
            txns: BTreeMap::new(),
            last_id: 0,
            out: Vec::new(),
        }
    }
}

impl Io {
    // ---- what every part uses

    pub(crate) fn id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn commit(&mut self, whom: TxnFor, txn: Txn) {
        let id = self.id();
        self.txns.insert(id, (whom, self.now.mono));
        self.out.push(Effect::Commit(id, txn));
    }

    pub(crate) fn read(&mut self, whom: ReadFor, query: Query) {
        let id = self.id();
        self.reads.insert(id, whom);
        self.out.push(Effect::Read(id, query));
    }

    pub(crate) fn set_timer(&mut self, after: Duration, timer: Timer) {
        self.timers.insert((self.now.mono.plus(after), timer));
    }

    /// Tells watchers about a change of a worker.
    pub(crate) fn tell_worker(&mut self, instance: &InstanceId, change: WorkerEvent) {
        self.out.push(Effect::Publish(ClusterEvent::Worker { instance: instance.clone(), change }));
    }
}
