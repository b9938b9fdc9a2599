//! Who is there, as tools read it: the `instances` nodes of a job's workers here, and the marks of their runs. Both are
//! ephemeral, go with the session of the host that wrote them, and are written again by the next one.

use std::sync::Arc;

use rosterd_domain::id::{JobName, WorkerId};
use rosterd_domain::item::Source;
use rosterd_domain::mutants;
use rosterd_domain::txn::{Guard, Purpose, Txn, Write};
use rosterd_domain::view::Job;

use super::advance::CHUNK;
use super::change::{guarded, rewrite};
use super::job::{Intent, JobState};
use super::node::Node;
use super::worker::Worker;
use rosterd_session::frame::ToWorker;

impl Node {
    /// Instances of workers here that are missing or not ours are put, those that left are removed, and runs that came with their
    /// worker are marked.
    pub(super) fn instances(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if self.stopping {
            return false;
        }
        self.answer_registrations(name, job, view);
        if job.writing.is_some() || self.handle_foreign_deletion(name, job, view) {
            return true;
        }
        self.look_at_left_behind(job, view);
        let mut txn = guarded(Purpose::Instances, view);
        let (mut put, mut removed, mut joined) = (Vec::new(), Vec::new(), false);
        for (instance, id) in &job.hosted {
            let Some(worker) = self.workers.get(id).filter(|worker| worker.present() && !worker.writing)
            else {
                continue;
            };
            if view.commands.values().any(|command| command.shuts_down(instance)) {
                continue;
            }
            let seen = view.instances.get(instance);
            // A machine may have been removed as this instance came.
            if seen.is_some_and(|seen| seen.mine && seen.node.is_some())
                && view.servers.contains_key(&worker.address)
            {
                continue;
            }
            joined |= seen.is_none() && !view.sharding.instances().contains(instance);
            txn.guard(Guard::Attachment(id.clone(), worker.version));
            txn.write(Write::Server { job: name.clone(), server: worker.address.clone(), enabled: None });
            let node = Box::new(worker.node());
            txn.write(Write::Instance { job: name.clone(), instance: instance.clone(), node });
            if view.rules.monitor {
                mark_runs(&mut txn, name, job, worker);
            }
            put.push(id.clone());
            if put.len() >= CHUNK {
                // The others have their turn after this.
                break;
            }
        }
        let marked = self.mark_what_came(&mut txn, name, job, view, &put);
        let mut sharding = None;
        for instance in &job.leaving {
            // A worker that stays without this job does not come back: nobody is to wait for that.
            let stays = instance.worker().and_then(|id| self.workers.get(&id)).is_some_and(Worker::present);
            let planned = stays && view.sharding.instances().contains(instance);
            if planned {
                sharding = Some(sharding.as_ref().unwrap_or(&view.sharding).without(instance));
            }
            // It may have gone with the session of the worker's last host, before that host had taken it away.
            let stands = view.instances.contains_key(instance);
            if stands && stays && !planned {
                // A plan under way may still give it items, and would wait for it as for one that is about to come back.
                txn.guard(Guard::Generation(name.clone(), view.generation));
            }
            if stands {
                txn.write(Write::RemoveInstance(name.clone(), instance.clone()));
            }
            if stands || planned {
                removed.push(instance.clone());
            }
        }
        if let Some(sharding) = sharding {
            rewrite(&mut txn, view, &sharding);
        }
        if put.is_empty() && removed.is_empty() && marked.is_empty() {
            job.leaving.clear();
            self.answer_unregistering(name, job);
            return false;
        }
        if joined || !removed.is_empty() {
            txn.write(Write::RaiseNecessary(name.clone()));
        }
        self.submit(name, job, txn, Intent::Instances { put, removed, marked });
        true
    }

    /// Tells workers that gave the job up that they are no instance of it any more.
    pub(super) fn answer_unregistering(&mut self, name: &JobName, job: &mut JobState) {
        let leaving = &job.leaving;
        job.unregistering.retain(|instance, stream| {
            let still = leaving.contains(instance);
            if !still {
                self.send(*stream, ToWorker::Unregistered { job: name.clone() });
            }
            still
        });
    }

    /// Marks the runs of workers that came from another host; whose instance is put has its runs marked with that.
    fn mark_what_came(
        &self,
        txn: &mut Txn,
        name: &JobName,
        job: &mut JobState,
        view: &Job,
        put: &[WorkerId],
    ) -> Vec<WorkerId> {
        let runs_here = |id: &WorkerId| {
            self.workers.get(id).is_some_and(|worker| worker.runs.iter().any(|(of, _)| of == name))
        };
        job.unmarked.retain(|id| view.rules.monitor && runs_here(id));
        let mut marked = Vec::new();
        for id in &job.unmarked {
            let Some(worker) = self.workers.get(id).filter(|worker| !worker.writing) else { continue };
            if !put.contains(id) {
                txn.guard(Guard::Attachment(id.clone(), worker.version));
                mark_runs(txn, name, job, worker);
            }
            marked.push(id.clone());
        }
        marked
    }
}

/// What shows a worker's runs goes with the session of the host that wrote it, so its next host writes it again. A
/// report that the last host had taken may end such a run until then, and nobody would take its marks away any more:
/// each record must still be the one that was read.
fn mark_runs(txn: &mut Txn, name: &JobName, job: &JobState, worker: &Worker) {
    for (_, item) in worker.runs.iter().filter(|(of, _)| of == name) {
        let Some((version, record)) = job.records.get(item) else { continue };
        let Some(run) = record.running().filter(|run| run.worker == worker.id) else { continue };
        if !mutants::is_on(mutants::MARKS_IGNORE_RECORDS) {
            // Each is a guard of its own: none is looked for among the others, which are many when many come at once.
            txn.guards.push(Guard::Record(name.clone(), *item, *version));
        }
        let instance = Some(run.instance.clone());
        if run.source == Source::Failover {
            let instance = instance.clone();
            txn.write(Write::Failover { job: name.clone(), item: *item, instance });
        }
        txn.write(Write::Running { job: name.clone(), item: *item, instance });
    }
}
