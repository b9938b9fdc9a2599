//! Jobs that a worker's credential is not for any more. The worker comes back and works on for its other jobs; of these it is
//! no instance any more, it is told so one by one, and its runs of them are stopped.

use std::collections::BTreeSet;

use rosterd_domain::id::{JobName, WorkerId};
use rosterd_domain::mutants;

use super::event::StreamId;
use super::node::Node;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{CancelReason, RunRef, ToWorker};
use rosterd_session::jobs::Jobs;

impl Node {
    /// Takes jobs away from a worker that has just been attached: those `named` that its credential is not for, and, if it had
    /// more before, those that are known here.
    pub(super) fn lose(&mut self, id: &WorkerId, named: Vec<JobName>, narrowed: bool) {
        let Some(worker) = self.workers.get(id) else { return };
        let known = if narrowed { self.jobs_of(worker) } else { BTreeSet::new() };
        let known = known.into_iter().filter(|name| !worker.rights.have(name));
        let lost: BTreeSet<JobName> = known.chain(named).collect();
        for name in lost {
            self.loses(id, &name);
        }
    }

    /// The worker is no instance of the job any more. No state is made for a job that is not known here.
    pub(super) fn loses(&mut self, id: &WorkerId, name: &JobName) {
        let stays = mutants::is_on(mutants::LOST_JOBS_STAY);
        let Some(worker) = self.workers.get_mut(id).filter(|_| !stays) else { return };
        worker.lost.insert(name.clone());
        worker.jobs.remove(name);
        worker.pending_registrations.remove(name);
        worker.registering.remove(name);
        worker.unregistered.insert(name.clone());
        let Some(job) = self.jobs.get_mut(name) else { return };
        let instance = &worker.instance;
        job.registering.retain(|registering| registering.worker != *id);
        job.published_instances.remove(instance);
        job.last_assignment_sent.remove(instance);
        let hosted = job.hosted.remove(instance).is_some();
        let stands = job.view.as_ref().is_some_and(|view| {
            view.instances.contains_key(instance) || view.sharding.instances().contains(instance)
        });
        if hosted || stands {
            tracing::warn!(job = %name, %instance, "a worker's credential is not for the job any more: it is removed from its instances");
            job.leaving.insert(instance.clone());
            self.run_queue.insert(name.clone());
        }
    }

    /// After its Welcome, the jobs one by one.
    pub(super) fn tell_lost(&mut self, id: &WorkerId, stream: StreamId) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        // How a run of a lost job ended it may still say, once it was told.
        let runs = worker.runs.iter().map(|(name, _)| name).filter(|name| !worker.rights.have(name));
        let runs: Vec<JobName> = runs.cloned().collect();
        worker.lost.extend(runs);
        let (lost, rights) = (worker.lost.clone(), worker.rights.clone());
        for name in lost {
            self.send(stream, not_for(&name, &rights));
        }
    }

    /// A run of such a job is not sent, but stopped.
    pub(super) fn stop_lost(&mut self, id: &WorkerId, stream: StreamId, run: RunRef) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        let rights = worker.rights.clone();
        if worker.lost.insert(run.job.clone()) {
            self.send(stream, not_for(&run.job, &rights));
        }
        let why = "the credential is not for the job any more";
        self.cancel(id, run, CancelReason::Fenced, why);
    }
}

fn not_for(job: &JobName, rights: &Jobs) -> ToWorker {
    let what = format!(
        "the credential is not for job {job} any more, only for {rights}: use another, or have its jobs widened"
    );
    ToWorker::Refused { job: job.to_string(), refusal: Refusal::new(Code::PermissionDenied, what) }
}

#[cfg(test)]
#[path = "rights_tests.rs"]
mod tests;
