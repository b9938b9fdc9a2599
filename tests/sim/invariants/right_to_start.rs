//! Nothing starts without a valid right: only the worker's host starts a run, while the worker is attached to it and
//! not draining, and only for the instance that owns the item and may run it: nothing that is disabled or paused.
//!
//! Source: Elastic-Job #491, a node that was cut off and ran the items that it remembered; #2009 and #158, starts by a
//! node that had not noticed a disable or a pause.

use rosterd_domain::item::{Running, Source};

use super::Invariant;
use crate::oracle::observer::{AppliedStep, RecordChange};

/// Stateless.
#[derive(Default)]
pub struct RightToStart;

impl Invariant for RightToStart {
    fn name(&self) -> &'static str {
        "right_to_start"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for change in step.changes {
            if let Some((run, token)) = &change.started {
                may_start(step, change, run).map_err(|why| {
                    let (item, job) = (change.item, &change.job);
                    format!("item {item} of {job}: run {token} on {}: {why}", run.instance)
                })?;
            }
        }
        Ok(())
    }
}

fn may_start(step: &AppliedStep<'_>, change: &RecordChange, run: &Running) -> Result<(), String> {
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
