//! An acknowledged change is in the store when the acknowledgement leaves: a registration, a report, a leave.
//! (Operations are checked where they are requested.) And a worker that was asked to leave has left once faults have
//! stopped, and one that was shut down for a job is not an instance of it, whatever happened to their streams and
//! hosts.
//!
//! Source: Elastic-Job #946. A disabled server still ran its items, since the disable was written later than it was
//! acknowledged; and PowerJob #1176, reports that were accepted and changed nothing.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{InstanceId, Item, JobName, Token};
use rosterd_domain::time::Time;
use rosterd_session::frame::ToWorker;

use super::{AtRest, Invariant};
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: the worker of each process, and the runs that ended as reported.
#[derive(Default)]
pub struct NothingAcknowledgedIsLost {
    who: BTreeMap<String, InstanceId>,
    reported: BTreeSet<(JobName, Item, Token)>,
}

/// Workers and instances that are still there although a request to leave, or a shutdown for a job, was acknowledged.
pub(super) fn at_rest(rest: &AtRest<'_>) -> Vec<String> {
    let stay = rest.asked_to_leave.iter().filter(|worker| rest.attachments.contains_key(*worker));
    let stay = stay.map(|worker| format!("{worker} was asked to leave and is still attached"));
    let back = rest.shut_down.iter().filter(|(job, incarnation, instance)| {
        let same = rest.shadows.get(job).is_some_and(|shadow| shadow.incarnation == *incarnation);
        same && rest.jobs.get(job).is_some_and(|snapshot| snapshot.nodes.instances.contains_key(instance))
    });
    let back =
        back.map(|(job, _, instance)| format!("{instance} was shut down for {job} and is its instance"));
    stay.chain(back).collect()
}

impl Invariant for NothingAcknowledgedIsLost {
    fn name(&self) -> &'static str {
        "nothing_acknowledged_is_lost"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            if let Some((_, ended)) = change.ended.as_ref().filter(|(_, ended)| ended.reported) {
                self.reported.insert((change.job.clone(), change.item, ended.token));
            }
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, now: &Shadow, _: Time) -> Result<(), String> {
        match frame {
            ToWorker::Welcome(welcome) => {
                self.who.insert(process.to_owned(), welcome.instance.clone());
                // It may have been marked dead or taken over between the commit and now; it may not be missing from the
                // store.
                let known = now.attachments.contains_key(&welcome.worker)
                    || now.departed.contains_key(&welcome.worker);
                if !known {
                    return Err(format!("{process} is welcomed as {} without an attachment", welcome.worker));
                }
            }
            ToWorker::GoodbyeAck => {
                let worker = self.who.get(process).and_then(InstanceId::worker);
                if let Some(worker) = worker.filter(|worker| now.attachments.contains_key(worker)) {
                    return Err(format!("{process} ({worker}) may go, but its attachment is still there"));
                }
            }
            ToWorker::ReportAck { run, refusal: None } => {
                let ended = self.reported.contains(&(run.job.clone(), run.item, run.token));
                // A job that is gone meanwhile does not count, and without monitorExecution no end is kept.
                if !ended && now.monitors(&run.job) {
                    return Err(format!(
                        "{process}: report {} of item {} of {} is accepted and ended nothing",
                        run.token, run.item, run.job
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
