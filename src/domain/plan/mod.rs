//! What a host does for one job, decided from the job's nodes, its records and what the host knows beyond them.
//!
//! [`host`] is the whole decision: reports end runs, runs of dead workers crash, scheduled times are accounted for, and
//! whatever may start is started, in this order, on one draft of the records. The result is a [`Plan`]: one complete
//! transaction, with a reason for each change. It is level-triggered: planning again from what the transaction left
//! behind changes nothing. Nothing here sends anything: the coordinator that has committed a plan reads the records and
//! sends what they say (`persist, then speak`).

mod ahead;
mod assign;
mod complete;
mod crash;
mod decision;
mod draft;
mod due;
mod facts;
#[cfg(feature = "observed")]
mod observed;
mod overdue;
mod progressed;
mod start;
#[cfg(test)]
mod tests;
mod waiting;

pub use assign::Assigned;
pub use decision::{Entry, FireResult, Plan, Reason};
pub use facts::{Facts, Hosted, Progressed, Report, Reported};
#[cfg(feature = "observed")]
pub use observed::{Observed, Observer, observe};
pub use overdue::times_out;
pub use waiting::{Class, Waiting};

use draft::Draft;

pub use crate::candidates::Candidates;
use crate::item::Records;
pub use crate::ownership::Why;
use crate::view::Job;

/// Decides what this host does for the job now.
pub fn host(job: &Job, records: &Records, facts: &Facts<'_>) -> Plan {
    let mut draft = Draft::new(job, records, facts);
    complete::complete(&mut draft);
    crash::crash(&mut draft);
    if !facts.no_starts {
        overdue::overdue(&mut draft);
    }
    progressed::write(&mut draft);
    if facts.no_starts {
        due::look_again(&mut draft);
    } else {
        if due::account(&mut draft) {
            start::start(&mut draft);
        }
        due::look_at_rest(&mut draft);
    }
    let plan = draft.finish();
    #[cfg(feature = "observed")]
    observed::show(&Observed::Host { job, records, facts, plan: &plan, ahead: false });
    plan
}

/// Decides what this host can start ahead of time: the runs of a scheduled time that is about to come, [`Facts::now`].
/// They are recorded as running since then, and must not be sent before. Everything else is left to [`host`], at that
/// time.
pub fn ahead(job: &Job, records: &Records, facts: &Facts<'_>) -> Plan {
    let mut draft = Draft::new(job, records, facts);
    ahead::ahead(&mut draft);
    let plan = draft.finish();
    #[cfg(feature = "observed")]
    observed::show(&Observed::Host { job, records, facts, plan: &plan, ahead: true });
    plan
}

/// Plans the assignment; `None`: the current one is right, or no instance may own items.
pub fn assign(job: &Job, candidates: &Candidates) -> Option<Assigned> {
    let assigned = assign::assign(job, candidates);
    #[cfg(feature = "observed")]
    if let Some(assigned) = &assigned {
        observed::show(&Observed::Leader { job, candidates, assigned });
    }
    assigned
}
