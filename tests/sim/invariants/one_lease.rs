//! At most one worker relies on a lease of an item: no worker is marked dead before the end of the lease that the last
//! acknowledged heartbeat granted, whichever coordinator acknowledged it.
//!
//! Source: Gray and Cheriton's leases (1989), and Elastic-Job #491, whose workers had no lease at all. A lease is safe
//! if its holder counts from when it sent the request, and the grantor from when it received it, which is later, with
//! clocks whose rates differ by no more than is allowed for.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_domain::id::WorkerId;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Purpose, Write};
use rosterd_session::frame::{FromWorker, ToWorker};

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};
use crate::time::Since;

/// State: the worker of each process, the lease that it reports to count with, and when a heartbeat was last
/// acknowledged.
#[derive(Default)]
pub struct OneLease {
    who: BTreeMap<String, WorkerId>,
    stated: BTreeMap<WorkerId, Duration>,
    acknowledged: BTreeMap<WorkerId, Since>,
}

impl Invariant for OneLease {
    fn name(&self) -> &'static str {
        "one_lease"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        let Some(txn) = step.txn.filter(|txn| txn.purpose == Purpose::Expire) else { return Ok(()) };
        for write in &txn.writes {
            let Write::RemoveAttachment { worker, .. } = write else { continue };
            let Some(last) = self.acknowledged.get(worker) else { continue };
            let written = step.before.attachments.get(worker).map(|attachment| attachment.lease());
            let stated = self.stated.get(worker).copied().into_iter().chain(written).min();
            let (lease, passed) = (stated.unwrap_or_default(), last.elapsed());
            if passed < lease {
                return Err(format!(
                    "{worker} is marked dead by {}, {passed:?} after it was granted a lease of {lease:?}",
                    step.session
                ));
            }
        }
        Ok(())
    }

    fn said(&mut self, process: &str, frame: &FromWorker) -> Result<(), String> {
        if let (FromWorker::Heartbeat { lease: Some(lease), .. }, Some(worker)) =
            (frame, self.who.get(process))
        {
            let stated = self.stated.entry(worker.clone()).or_insert(*lease);
            *stated = (*stated).min(*lease);
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, _now: &Shadow, _: Time) -> Result<(), String> {
        match frame {
            ToWorker::Welcome(welcome) => drop(self.who.insert(process.to_owned(), welcome.worker.clone())),
            ToWorker::HeartbeatAck { .. } => {
                if let Some(worker) = self.who.get(process) {
                    self.acknowledged.insert(worker.clone(), Since::now());
                }
            }
            _ => {}
        }
        Ok(())
    }
}
