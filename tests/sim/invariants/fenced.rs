//! Who lost a right changes nothing: tokens only grow, starts come from the worker's host alone and only for who
//! owns the item and may run it, a death is declared only once the attachment is gone, an accepted report ends
//! the run in flight and no other, a stream that was left never speaks for its worker again, and only who lost its
//! right is told so.
//!
//! Source: locks whose holder writes on after a pause. What is changed carries a number that only grows, and whoever keeps
//! the state checks it; reports without one have revived runs and ended those of others.

use std::collections::BTreeMap;

use rosterd::session::frame::{CancelReason, RunRef, ToWorker};
use rosterd_domain::id::{Item, JobName, Token, WorkerId};
use rosterd_domain::item::{Running, Source};
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;

use super::Invariant;
use crate::watch::{Change, Shadow, Step};

/// Kept: the highest token of each item, over every job that ever had the name.
#[derive(Default)]
pub struct Fenced {
    highest: BTreeMap<(JobName, Item), Token>,
    reported: BTreeMap<(JobName, Item, Token), WorkerId>,
    who: BTreeMap<String, WorkerId>,
}

impl Invariant for Fenced {
    fn name(&self) -> &'static str {
        "fenced"
    }

    fn applied(&mut self, step: &Step<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            if let Write::Attachment { worker, node, .. } = write
                && let Some(before) = step.before.attachments.get(worker)
                && node.stream < before.stream
            {
                return Err(format!(
                    "{worker} is attached over stream {} after {}",
                    node.stream, before.stream
                ));
            }
        }
        for change in step.changes {
            let of = format!("item {} of {}", change.item, change.job);
            let key = (change.job.clone(), change.item);
            let highest = self.highest.get(&key).copied();
            if highest.is_some_and(|highest| change.after.token < highest) {
                return Err(format!("{of}: token {} after {highest:?}", change.after.token));
            }
            if change.started.is_some() && highest == Some(change.after.token) {
                return Err(format!("{of}: token {} is used a second time", change.after.token));
            }
            self.highest.insert(key, change.after.token);
            if let Some((run, token)) = &change.started {
                may_start(step, change, run)
                    .map_err(|why| format!("{of}: run {token} on {}: {why}", run.instance))?;
            }
            if let Some((run, ended)) = &change.ended {
                if ended.reported {
                    self.reported.insert((change.job.clone(), change.item, ended.token), run.worker.clone());
                } else if step.before.attachments.contains_key(&run.worker) {
                    return Err(format!(
                        "{of}: run {} crashed while {} is attached",
                        ended.token, run.instance
                    ));
                }
            }
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, now: &Shadow, _: Time) -> Result<(), String> {
        if let ToWorker::Welcome(welcome) = frame {
            self.who.insert(process.to_owned(), welcome.worker.clone());
        }
        if let ToWorker::Cancel { run, reason: CancelReason::Fenced, .. } = frame {
            return self.rightly_fenced(process, run, now);
        }
        let ToWorker::ReportAck { run, refusal: None } = frame else { return Ok(()) };
        let ended = self.reported.contains_key(&(run.job.clone(), run.item, run.token));
        if ended || !now.jobs.contains_key(&run.job) {
            return Ok(());
        }
        Err(format!(
            "{process}: report {} of item {} of {} is accepted and ended nothing",
            run.token, run.item, run.job
        ))
    }
}

impl Fenced {
    fn rightly_fenced(&self, process: &str, run: &RunRef, now: &Shadow) -> Result<(), String> {
        let record = now.records.get(&(run.job.clone(), run.item)).filter(|record| record.token == run.token);
        let holder = record.and_then(|record| record.running()).map(|run| &run.worker);
        if holder.is_none() || holder != self.who.get(process) {
            return Ok(());
        }
        Err(format!(
            "{process} is told to stop run {} of item {} of {}, which is its own",
            run.token, run.item, run.job
        ))
    }
}

fn may_start(step: &Step<'_>, change: &Change, run: &Running) -> Result<(), String> {
    let Some(attachment) = step.before.attachments.get(&run.worker) else {
        return Err("its worker is attached nowhere".into());
    };
    if attachment.session != step.session {
        return Err(format!("started by {}, attached to {}", step.session, attachment.session));
    }
    if attachment.draining {
        return Err("its worker is draining".into());
    }
    let Some(job) = step.before.jobs.get(&change.job) else { return Err("its job is not there".into()) };
    if job.disabled || job.sharding.disabled_items.contains(&change.item) {
        return Err("it is disabled".into());
    }
    if job.paused && matches!(run.source, Source::NormalTrigger | Source::Misfire) {
        return Err("the job is paused".into());
    }
    let disabled = job.sharding.disabled_instances.contains(&run.instance)
        || job.servers.get(run.instance.address()) == Some(&false);
    if disabled {
        return Err("its instance is disabled".into());
    }
    if run.source != Source::Failover && job.sharding.owner(change.item) != Some(&run.instance) {
        return Err(format!("the item belongs to {:?}", job.sharding.owner(change.item)));
    }
    Ok(())
}
