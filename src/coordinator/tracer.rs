//! The steps of a fire, as the driver passes them to a tracer while it executes them. It reports only what it knows
//! anyway, waits for nothing, and decides nothing from the answers; without a tracer the only cost is the check for
//! one.

use rosterd_domain::id::JobName;
use rosterd_domain::plan::Entry;
use rosterd_domain::txn::Txn;
use rosterd_session::frame::{RunRef, Trigger};

use crate::io::event::{Now, TxnId};

/// Makes traces. Never waits, never fails.
pub trait Tracer: Send + 'static {
    /// A transaction is submitted.
    fn handed_over(&mut self, now: Now, id: TxnId, txn: &Txn);
    /// It was answered. What follows from it is reported before [`Tracer::settled`].
    fn answered(&mut self, now: Now, id: TxnId, applied: bool);
    /// A run started or ended, or a scheduled time was not run; the entry is committed.
    fn entry(&mut self, now: Now, job: &JobName, entry: &Entry);
    /// A run is sent to its worker.
    fn sent(&mut self, now: Now, trigger: &Trigger);
    /// A worker reports a run's end.
    fn reported(&mut self, now: Now, run: &RunRef);
    /// Everything that follows from the last events was reported.
    fn settled(&mut self, now: Now);
    /// Whether the trace of a run is sampled: its worker gets the same answer, so that a trace is kept as a whole or
    /// not at all.
    fn keeps(&self, trigger: &Trigger) -> bool;
}
