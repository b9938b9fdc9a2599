//! An instance is shut down for one job: because somebody asked this coordinator, or deleted its node, as older tools
//! do and as a coordinator does that does not host it.

use std::sync::Arc;

use rosterd_domain::id::{InstanceId, JobName};
use rosterd_domain::mutants;
use rosterd_domain::txn::{Guard, Purpose};
use rosterd_domain::view::Job;

use super::change::{evict_instances, guarded};
use super::command::CommandProgress;
use super::job::{Intent, JobState};
use super::node::Node;
use super::operate::ASKED;
use super::worker::{Phase, Worker};
use rosterd_session::frame::ToWorker;

impl Node {
    /// A node of ours that stood in this session and is gone was deleted by somebody: that is a command. One that went
    /// with a session of ours never stood in this one, and is put again. True when a transaction is under way.
    pub(super) fn handle_foreign_deletion(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        view: &Arc<Job>,
    ) -> bool {
        let mut standing = std::mem::take(&mut job.published_instances);
        standing.retain(|instance| job.hosted.contains_key(instance));
        let mut deleted = None;
        for (instance, id) in &job.hosted {
            let Some(worker) = self.workers.get(id).filter(|worker| worker.present() && !worker.writing)
            else {
                continue;
            };
            match view.instances.get(instance) {
                Some(seen) if seen.mine => drop(standing.insert(instance.clone())),
                None if standing.contains(instance) || absence_is_a_command(worker) => {
                    deleted = Some((instance.clone(), worker))
                }
                _ => {}
            }
        }
        job.published_instances = standing;
        let Some((instance, worker)) = deleted else { return false };
        tracing::warn!(job = %name, %instance, "an instance was deleted: it is shut down for this job");
        let mut txn = guarded(Purpose::Dismiss, view);
        // A worker that is dead, or attached elsewhere, is another matter.
        txn.guard(Guard::Attachment(worker.id.clone(), worker.version));
        evict_instances(&mut txn, view, [&instance]);
        let worker = worker.id.clone();
        self.submit(name, job, txn, Intent::Dismiss { worker, instance });
        true
    }

    /// What this coordinator does about the command to shut an instance down for this job. Its worker was told, if it heard that;
    /// coming to another host with the job it did not.
    pub(super) fn now_shut_down(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        instance: &InstanceId,
    ) -> CommandProgress {
        let Some(id) = instance.worker() else { return CommandProgress::Done };
        let Some(worker) = self.workers.get(&id) else { return self.now_elsewhere(job, id) };
        if worker.unregistered.contains(name) {
            return CommandProgress::Done;
        }
        if job.hosted.contains_key(instance) {
            self.release_instance(name, job, instance, ASKED);
        }
        CommandProgress::Pending
    }

    /// The instance is gone: its worker is told, and has the job no more. Runs in flight finish.
    pub(super) fn release_instance(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        instance: &InstanceId,
        why: &str,
    ) {
        job.stale = true;
        let hosted = job.hosted.get(instance).and_then(|id| self.workers.get(id));
        if hosted.is_some_and(|worker| worker.phase == Phase::Attaching) {
            // It is told by the command, after its Welcome.
            return;
        }
        job.published_instances.remove(instance);
        job.last_assignment_sent.remove(instance);
        let Some(worker) = job.hosted.remove(instance).and_then(|id| self.workers.get_mut(&id)) else {
            return;
        };
        worker.jobs.remove(name);
        self.run_queue.insert(name.clone());
        job.registering.retain(|registering| registering.worker != worker.id);
        if let Some(stream) = worker.stream {
            self.send(stream, ToWorker::Shutdown { job: Some(name.clone()), message: why.to_string() });
        }
    }
}

/// What stood here is told from what never did; a bug that is put in asks only whether it stood anywhere.
fn absence_is_a_command(worker: &Worker) -> bool {
    !worker.fresh && mutants::is_on(mutants::ABSENCE_IS_A_COMMAND)
}
