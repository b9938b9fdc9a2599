//! Registrations: a worker asks to work for a job. If the job does not exist it is created from the registration's
//! config; each is answered Registered, once its instance is written, or Refused with a code.

use std::sync::Arc;

use rosterd_domain::id::{JobName, WorkerId};
use rosterd_domain::job;
use rosterd_domain::job::{JobSpec, diff};
use rosterd_domain::sharding::{Sharding, Stated};
use rosterd_domain::txn::{Guard, Purpose, Txn, Write};
use rosterd_domain::view::Job;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{Offer, ToWorker};

use crate::io::event::StreamId;
use crate::io::operation::{Change, ChangeEffect, next_fire};
use crate::job::changes::change;
use crate::job::parts::barrier::Barrier;
use crate::job::parts::cache::Damaged;
use crate::job::parts::operations::JobOperation;
use crate::job::parts::roster::Registering;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;
use crate::job::txn::OperationStep;
use crate::job::{AllJobs, JobTurn, changes, dispatch};

/// Determined outside of a job file: by the handler's check, by operators, and by the registration itself.
const NOT_COMPARED: [&str; 3] = ["rosterd.handler", "disabled", "overwrite"];

/// Enough to see that the files differ.
const MOST_DIFFERENCES: usize = 32;

impl AllJobs<'_> {
    pub(crate) fn register(
        &mut self,
        stream: StreamId,
        id: &WorkerId,
        name: JobName,
        handler_type: String,
        config: Option<Offer>,
        overwrite: bool,
    ) {
        let most = self.io.settings.max_jobs_per_worker;
        let Some(worker) = self.workers.get_mut(id) else { return };
        if !worker.work.register(&name, most) {
            let refusal = Refusal::new(Code::TooManyJobs, format!("a worker registers at most {most} jobs"));
            return self.workers.send(self.io, stream, ToWorker::Refused { job: name.to_string(), refusal });
        }
        let registering =
            Registering { worker: id.clone(), stream, handler_type, config, overwrite, over_limit: None };
        let job = self.jobs.all.entry(name.clone()).or_default();
        job.roster.register(registering);
        if job.cache.view().is_some() {
            self.schedule.run_queue.insert(name);
        } else {
            self.schedule.run_queue.insert_last(name);
        }
    }

    /// Answered once the instance is gone.
    pub(crate) fn unregister(&mut self, stream: StreamId, id: &WorkerId, name: &JobName) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        worker.work.unregister(name, self.jobs.all.contains_key(name));
        let instance = worker.instance.clone();
        if let Some(job) = self.jobs.all.get_mut(name) {
            let _hosted = job.roster.part(name, &instance, &mut self.jobs.index);
            job.roster.forget_published(&instance);
            job.dispatch.forget_assignment(&instance);
            // An earlier request without an answer would bring it back.
            job.roster.forget_registration(id);
            job.roster.unregister(instance, stream);
            self.schedule.run_queue.insert(name.clone());
        } else {
            self.workers.send(self.io, stream, ToWorker::Unregistered { job: name.clone() });
        }
    }
}

impl JobTurn<'_> {
    /// The job does not exist or cannot be decoded: it is created, or the request is refused.
    pub(crate) fn refuse_or_create(&mut self, name: &JobName, job: &mut JobState) {
        if let Some(damaged) = job.cache.damaged().cloned() {
            return self.mend_or_refuse(name, job, &damaged);
        }
        while let Some(mut asked) = job.operations.pop_front() {
            if let Some(said) = asked.barrier.take().and_then(Barrier::answer) {
                // Its runs ended with the job.
                self.reply(asked.request, name, Ok(said));
                continue;
            }
            match &asked.operation {
                JobOperation::Apply { expected: Some(_), .. } => {
                    self.reply(asked.request, name, Err(changes::other_than_expected(name)));
                }
                JobOperation::Apply { spec, dry_run: false, .. } => {
                    let spec = spec.clone();
                    let said = Change::new(ChangeEffect::Created, "created").warning(spec.notes());
                    return self.create(name, job, &spec, Intent::Operation { asked: Box::new(asked), said });
                }
                JobOperation::Apply { spec, .. } => {
                    let said =
                        Change::new(ChangeEffect::WouldCreate, "would be created").warning(spec.notes());
                    self.reply(asked.request, name, Ok(said));
                }
                _ => {
                    let refusal = Refusal::new(
                        Code::JobUnknown,
                        format!("job {name} does not exist: see rosterd jobs list"),
                    );
                    self.reply(asked.request, name, Err(refusal));
                }
            }
        }
        while let Some(registering) = job.roster.take_registration() {
            let Some(offer) = registering.config.clone() else {
                let message =
                    format!("job {name} does not exist: register it with a config, or apply it first");
                self.refuse(name, &registering, Refusal::new(Code::JobUnknown, message));
                continue;
            };
            match offer {
                Ok(spec) => {
                    if let Err(refusal) = within_limits(&registering) {
                        self.refuse(name, &registering, refusal);
                        continue;
                    }
                    let by = self.behind(&registering);
                    job.roster.put_back_registration(registering);
                    return self.create(name, job, &spec, Intent::Create { by });
                }
                Err(refusal) => self.refuse(name, &registering, refusal),
            }
        }
    }

    /// The job cannot be decoded: it can be applied again, or removed with its runs; everything else is refused.
    fn mend_or_refuse(&mut self, name: &JobName, job: &mut JobState, damaged: &Damaged) {
        let refusal = |also: &str| {
            Refusal::new(
                Code::ConfigDamaged,
                format!("job {name} cannot be understood: {}{also}", damaged.why),
            )
        };
        for registering in job.roster.take_registrations() {
            self.refuse(name, &registering, refusal(""));
        }
        while let Some(mut asked) = job.operations.pop_front() {
            if asked.barrier.take().and_then(Barrier::answer).is_some() {
                let why = "the change was made, and the job cannot be understood since: whether runs that were told before it have begun is not known";
                self.reply(asked.request, name, Err(Refusal::new(Code::OutcomeUnknown, why)));
                continue;
            }
            let step = match (&asked.operation, &damaged.torn) {
                (JobOperation::Remove { cancel: false }, _) => Err(refusal(
                    ": remove it with --cancel, whether runs of it are in flight is not looked at",
                )),
                (JobOperation::Remove { cancel: true }, Some(torn)) => Ok(changes::remove_torn(name, torn)),
                (JobOperation::Apply { expected: Some(_), .. }, _) => Err(changes::other_than_expected(name)),
                (JobOperation::Apply { spec, dry_run, .. }, Some(torn)) => {
                    let step = changes::mend(name, torn, spec, self.io.now.wall);
                    Ok(if *dry_run {
                        let line = "would change what cannot be understood";
                        OperationStep::Unchanged(Change::new(ChangeEffect::WouldChange, line))
                    } else {
                        step
                    })
                }
                _ => Err(refusal("")),
            };
            match step {
                Ok(OperationStep::Commit(txn, said)) => {
                    return self.submit(name, job, txn, Intent::Operation { asked: Box::new(asked), said });
                }
                Ok(OperationStep::Unchanged(said)) => self.reply(asked.request, name, Ok(said)),
                Err(refusal) => self.reply(asked.request, name, Err(refusal)),
            }
        }
    }

    fn refuse(&mut self, name: &JobName, registering: &Registering, refusal: Refusal) {
        self.answered_one(name, registering);
        self.schedule.run_queue.insert(name.clone());
        self.workers.send(self.io, registering.stream, ToWorker::Refused { job: name.to_string(), refusal });
    }

    /// The credential of the stream on which a worker registers.
    fn behind(&self, registering: &Registering) -> Option<Arc<str>> {
        self.workers.stream(registering.stream)?.peer().principal.as_deref().map(Arc::from)
    }

    fn create(&mut self, name: &JobName, job: &mut JobState, spec: &JobSpec, intent: Intent) {
        let mut txn = Txn::new(Purpose::Create);
        let mut rights = Sharding::made_at(self.io.now.wall).numbered_by(self.cluster.numbering().offset);
        rights.stated = Some(Stated::by(spec.config()));
        txn.guard(Guard::NoJob(name.clone()));
        txn.write(Write::CreateJob {
            job: name.clone(),
            incarnation: (self.io.ids)().into(),
            handler_type: spec.handler().into(),
            config: spec.config().to_json().into(),
            policy: spec.policy().to_json().into(),
            assignment: rights.encode().into(),
        });
        txn.write(Write::RaiseNecessary(name.clone()));
        self.submit(name, job, txn, intent);
    }

    /// Answers registrations whose instance is written, and those that are refused; applies a config that overwrites.
    pub(crate) fn answer_registrations(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) {
        let (mut waiting, mut registered) = (std::collections::VecDeque::new(), false);
        while let Some(registering) = job.roster.take_registration() {
            let Some(worker) = self.workers.get(&registering.worker) else { continue };
            if worker.link.stream() != Some(registering.stream) || !worker.present() {
                self.answered_one(name, &registering);
                continue;
            }
            let (instance, id, fresh) = (worker.instance.clone(), worker.id.clone(), worker.link.is_fresh());
            let wanted = &registering.handler_type;
            if !wanted.is_empty() && **wanted != *view.handler_type {
                let message = format!(
                    "handler_type {wanted:?} of job {name} is not the registered {:?}: use that one, or another job name",
                    &*view.handler_type
                );
                self.refuse(name, &registering, Refusal::new(Code::HandlerConflict, message));
                continue;
            }
            if let Some(spec) = overwriting(&registering) {
                let allowed = spec.and_then(|spec| within_limits(&registering).map(|()| spec));
                match allowed.and_then(|spec| change(job, view, &spec, self.io.now.wall)) {
                    Err(refusal) => {
                        self.refuse(name, &registering, refusal);
                        continue;
                    }
                    Ok(Some((txn, fields))) => {
                        let by = self.behind(&registering);
                        waiting.push_back(registering);
                        // Otherwise it has its turn when the transaction in flight has ended.
                        if !job.writer.is_writing() {
                            self.submit(name, job, txn, Intent::Overwrite { fields, by });
                        }
                        continue;
                    }
                    Ok(None) => {}
                }
            }
            // A new worker that joins others of its job has brought no runs with it.
            let brings = !fresh || job.roster.hosted().is_empty();
            let joins = job.roster.join(name, &instance, &id, self.index);
            if joins && brings {
                // It may have earlier runs here that only its last host has seen.
                job.cache.records_went_stale();
            }
            job.roster.has_left(&instance);
            self.answer_unregistering(name, job);
            if view.instances.get(&instance).is_some_and(|seen| seen.mine) {
                self.registered(name, job, view, &registering);
                registered = true;
            } else {
                waiting.push_back(registering);
            }
        }
        job.roster.put_back_registrations(waiting);
        if registered {
            self.tell_assignments(name, job, view);
            self.schedule.run_queue.insert(name.clone());
        }
    }

    /// A registration has its answer, or needs none.
    fn answered_one(&mut self, name: &JobName, registering: &Registering) {
        if let Some(worker) = self.workers.get_mut(&registering.worker) {
            worker.work.registration_answered(name);
        }
    }

    fn registered(&mut self, name: &JobName, job: &mut JobState, view: &Job, registering: &Registering) {
        self.answered_one(name, registering);
        let Some(worker) = self.workers.get_mut(&registering.worker) else { return };
        worker.work.begin(name);
        let grace = view.spec.policy().disconnect_grace.unwrap_or(worker.lease.length());
        let lease = worker.lease.length().min(grace);
        let instance = worker.instance.clone();
        let heartbeat = self.io.settings.heartbeat_for(lease);
        let (items, kind) = (view.rules.items, dispatch::kind(view.spec.policy().kind));
        let now = self.io.now.wall;
        self.workers.send(
            self.io,
            registering.stream,
            ToWorker::Registered {
                job: name.clone(),
                items,
                kind,
                lease,
                heartbeat,
                ignored: ignored(view, registering),
                next: next_fire(view, now).map(|next| next.since(now)),
            },
        );
        job.dispatch.forget_assignment(&instance);
    }
}

/// How a registration's config, which does not overwrite, differs from the job.
fn ignored(view: &Job, registering: &Registering) -> Vec<job::Change> {
    let offered = registering.config.as_ref().filter(|_| overwriting(registering).is_none());
    let next = offered.and_then(|offer| changes::replaced_by(view, offer.as_ref().ok()?).ok());
    let changes = next.map(|next| diff(&view.spec, &next)).unwrap_or_default();
    let compared = changes.into_iter().filter(|change| !NOT_COMPARED.contains(&&*change.field));
    compared.take(MOST_DIFFERENCES).collect()
}

/// Whether its credential's limits allow it, as checked before the job's turn.
fn within_limits(registering: &Registering) -> Result<(), Refusal> {
    registering.over_limit.clone().map_or(Ok(()), Err)
}

/// The configuration that replaces the stored one, if the worker or its job file requests that.
pub(crate) fn overwriting(registering: &Registering) -> Option<Offer> {
    let offer = registering.config.clone()?;
    let asked = registering.overwrite || offer.as_ref().is_ok_and(|spec| spec.config().overwrite);
    asked.then_some(offer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::event::{Answer, Effect, Event, Query};
    use crate::io::operation::Operation;
    use crate::tests::{at, host};

    /// Regression: a mistyped name was answered with the advice to apply it.
    #[test]
    fn a_change_of_a_job_that_does_not_exist_points_to_the_list() {
        let job = JobName::new("nope").unwrap();
        for operation in [
            Operation::Pause { job: job.clone(), paused: true },
            Operation::Remove { job: job.clone(), cancel: false },
        ] {
            let mut node = host();
            let effects = node.handle(at(1.0), Event::Operate(7, operation, None));
            let read = effects.iter().find_map(|effect| match effect {
                Effect::Read(id, Query::Job(_)) => Some(*id),
                _ => None,
            });
            let answer = Answer::Job(Box::new(Ok(None)));
            let effects = node.handle(at(1.1), Event::Read(read.unwrap(), answer));
            let refused = effects.iter().find_map(|effect| match effect {
                Effect::Reply(7, Err(refusal)) => Some(refusal.to_string()),
                _ => None,
            });
            let expected = "JOB_UNKNOWN: job nope does not exist: see rosterd jobs list";
            assert_eq!(refused.as_deref(), Some(expected));
        }
    }
}
