//! What the driver tells whoever makes traces: the steps of a fire, as it carries them out. It tells nothing that it does not
//! know anyway, waits for nothing, and decides nothing from what it hears back; without a tracer none of this costs more
//! than a look whether there is one.

use rosterd_domain::id::JobName;
use rosterd_domain::plan::Entry;
use rosterd_domain::txn::Txn;

use super::event::{Now, TxnId};
use rosterd_session::frame::{RunRef, Trigger};

/// Makes traces. Never waits, never fails.
pub trait Tracer: Send + 'static {
    /// A transaction is handed over.
    fn handed_over(&mut self, now: Now, id: TxnId, txn: &Txn);
    /// It was answered. What follows from that is told before [`Tracer::settled`].
    fn answered(&mut self, now: Now, id: TxnId, applied: bool);
    /// A run began or ended, or a scheduled time was not run: that is on the store.
    fn entry(&mut self, now: Now, job: &JobName, entry: &Entry);
    /// A run goes to its worker.
    fn sent(&mut self, now: Now, trigger: &Trigger);
    /// A worker reports a run's end.
    fn reported(&mut self, now: Now, run: &RunRef);
    /// All that follows from what had happened was told.
    fn settled(&mut self, now: Now);
    /// Whether the trace of a run is kept: its worker is told, so that all of a trace is kept, or none of it.
    fn keeps(&self, trigger: &Trigger) -> bool;
}
