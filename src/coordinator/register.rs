//! Registrations: a worker asks to work for a job. One that is not there is made from the registration's config;
//! each is answered Registered, once its instance is put, or Refused with a code.

use std::sync::Arc;

use rosterd_domain::id::JobName;
use rosterd_domain::job::{self, JobSpec, diff};
use rosterd_domain::sharding::{Sharding, Stated};
use rosterd_domain::txn::{Guard, Purpose, Txn, Write};
use rosterd_domain::view::Job;

use super::barrier::Barrier;
use super::change::{self, Step, change};
use super::dispatch;
use super::handle::{Change, ChangeEffect};
use super::job::{Damaged, Intent, JobOperation, JobState, Registering};
use super::node::Node;
use super::views::next_fire;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{Offer, ToWorker};

impl Node {
    /// The job does not exist or cannot be understood: it is made, or who asks is refused.
    pub(super) fn refuse_or_create(&mut self, name: &JobName, job: &mut JobState) {
        if let Some(damaged) = job.damaged.clone() {
            return self.mend_or_refuse(name, job, &damaged);
        }
        while let Some(mut asked) = job.operations.pop_front() {
            if let Some(said) = asked.barrier.take().and_then(Barrier::answer) {
                // Its runs have gone with the job.
                self.reply(asked.request, name, Ok(said));
                continue;
            }
            match &asked.operation {
                JobOperation::Apply { expected: Some(_), .. } => {
                    self.reply(asked.request, name, Err(change::other_than_expected(name)));
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
        while let Some(registering) = job.registering.pop_front() {
            let Some(offer) = registering.config.clone() else {
                let message =
                    format!("job {name} does not exist: register it with a config, or apply it first");
                self.refuse(name, &registering, Refusal::new(Code::JobUnknown, message));
                continue;
            };
            match offer {
                Ok(spec) => {
                    if let Err(refusal) = self.check_limits(name, &registering, &spec, None) {
                        self.refuse(name, &registering, refusal);
                        continue;
                    }
                    let by = self.behind(&registering);
                    job.registering.push_front(registering);
                    return self.create(name, job, &spec, Intent::Create { by });
                }
                Err(refusal) => self.refuse(name, &registering, refusal),
            }
        }
    }

    /// The job cannot be understood: it is applied again, or removed with its runs; all else is refused.
    fn mend_or_refuse(&mut self, name: &JobName, job: &mut JobState, damaged: &Damaged) {
        let refusal = |also: &str| {
            Refusal::new(
                Code::ConfigDamaged,
                format!("job {name} cannot be understood: {}{also}", damaged.why),
            )
        };
        for registering in std::mem::take(&mut job.registering) {
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
                (JobOperation::Remove { cancel: true }, Some(torn)) => Ok(change::remove_torn(name, torn)),
                (JobOperation::Apply { expected: Some(_), .. }, _) => Err(change::other_than_expected(name)),
                (JobOperation::Apply { spec, dry_run, .. }, Some(torn)) => {
                    let step = change::mend(name, torn, spec, self.now.wall);
                    Ok(if *dry_run {
                        let line = "would change what cannot be understood";
                        Step::Said(Change::new(ChangeEffect::WouldChange, line))
                    } else {
                        step
                    })
                }
                _ => Err(refusal("")),
            };
            match step {
                Ok(Step::Commit(txn, said)) => {
                    return self.submit(name, job, txn, Intent::Operation { asked: Box::new(asked), said });
                }
                Ok(Step::Said(said)) => self.reply(asked.request, name, Ok(said)),
                Err(refusal) => self.reply(asked.request, name, Err(refusal)),
            }
        }
    }

    fn refuse(&mut self, name: &JobName, registering: &Registering, refusal: Refusal) {
        self.answered_one(name, registering);
        self.run_queue.insert(name.clone());
        self.send(registering.stream, ToWorker::Refused { job: name.to_string(), refusal });
    }

    /// The credential of the stream on which a worker registers.
    fn behind(&self, registering: &Registering) -> Option<Arc<str>> {
        self.streams.get(&registering.stream)?.peer.principal.as_deref().map(Arc::from)
    }

    fn create(&mut self, name: &JobName, job: &mut JobState, spec: &JobSpec, intent: Intent) {
        let mut txn = Txn::new(Purpose::Create);
        let mut rights = Sharding::made_at(self.now.wall).numbered_by(self.numbering.offset);
        rights.stated = Some(Stated::by(spec.config()));
        txn.guard(Guard::NoJob(name.clone()));
        txn.write(Write::CreateJob {
            job: name.clone(),
            incarnation: (self.ids)().into(),
            handler_type: spec.handler().into(),
            config: spec.config().to_json().into(),
            policy: spec.policy().to_json().into(),
            assignment: rights.encode().into(),
        });
        txn.write(Write::RaiseNecessary(name.clone()));
        self.submit(name, job, txn, intent);
    }

    /// Answers registrations whose instance is put; those that are refused; applies a config that overwrites.
    pub(super) fn answer_registrations(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) {
        let (mut waiting, mut registered) = (std::collections::VecDeque::new(), false);
        while let Some(registering) = job.registering.pop_front() {
            let Some(worker) = self.workers.get(&registering.worker) else { continue };
            if worker.stream != Some(registering.stream) || !worker.present() {
                self.answered_one(name, &registering);
                continue;
            }
            let (instance, id, fresh) = (worker.instance.clone(), worker.id.clone(), worker.fresh);
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
                let allowed = spec
                    .and_then(|spec| self.check_limits(name, &registering, &spec, Some(view)).map(|()| spec));
                match allowed.and_then(|spec| change(job, view, &spec, self.now.wall)) {
                    Err(refusal) => {
                        self.refuse(name, &registering, refusal);
                        continue;
                    }
                    Ok(Some((txn, fields))) => {
                        let by = self.behind(&registering);
                        waiting.push_back(registering);
                        // Else it is this one's turn when what is under way has ended.
                        if job.writing.is_none() {
                            self.submit(name, job, txn, Intent::Overwrite { fields, by });
                        }
                        continue;
                    }
                    Ok(None) => {}
                }
            }
            // One that comes to others of its job, and was nowhere before, has brought nothing with it.
            let brings = !fresh || job.hosted.is_empty();
            if job.hosted.insert(instance.clone(), id).is_none() && brings {
                // It may have runs here from before that only its last host has seen.
                job.stale_records = true;
            }
            job.leaving.remove(&instance);
            self.answer_unregistering(name, job);
            if view.instances.get(&instance).is_some_and(|seen| seen.mine) {
                self.registered(name, job, view, &registering);
                registered = true;
            } else {
                waiting.push_back(registering);
            }
        }
        job.registering = waiting;
        if registered {
            self.tell_assignments(name, job, view);
            self.run_queue.insert(name.clone());
        }
    }

    /// A registration has its answer, or needs none.
    fn answered_one(&mut self, name: &JobName, registering: &Registering) {
        if let Some(worker) = self.workers.get_mut(&registering.worker) {
            worker.registering.remove(name);
        }
    }

    fn registered(&mut self, name: &JobName, job: &mut JobState, view: &Job, registering: &Registering) {
        self.answered_one(name, registering);
        let Some(worker) = self.workers.get_mut(&registering.worker) else { return };
        worker.jobs.insert(name.clone());
        let grace = view.spec.policy().disconnect_grace.unwrap_or(worker.lease);
        let lease = worker.lease.min(grace);
        let instance = worker.instance.clone();
        let heartbeat = self.heartbeat_for(lease);
        let (items, kind) = (view.rules.items, dispatch::kind(view.spec.policy().kind));
        let now = self.now.wall;
        self.send(
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
        job.last_assignment_sent.remove(&instance);
    }
}

/// Decided apart from a job file: by the handler's check, by operators, and by the registration itself.
const NOT_COMPARED: [&str; 3] = ["rosterd.handler", "disabled", "overwrite"];
/// Enough to see that the files are different ones.
const MOST_DIFFERENCES: usize = 32;

/// Where a registration's config, which does not overwrite, differs from the job.
fn ignored(view: &Job, registering: &Registering) -> Vec<job::Change> {
    let offered = registering.config.as_ref().filter(|_| overwriting(registering).is_none());
    let next = offered.and_then(|offer| change::replaced_by(view, offer.as_ref().ok()?).ok());
    let changes = next.map(|next| diff(&view.spec, &next)).unwrap_or_default();
    let compared = changes.into_iter().filter(|change| !NOT_COMPARED.contains(&&*change.field));
    compared.take(MOST_DIFFERENCES).collect()
}

/// What a registration puts in place of the stored configuration: where the worker says so, or its job file does.
fn overwriting(registering: &Registering) -> Option<Offer> {
    let offer = registering.config.clone()?;
    let asked = registering.overwrite || offer.as_ref().is_ok_and(|spec| spec.config().overwrite);
    asked.then_some(offer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Answer, Effect, Event, Query};
    use crate::failure_detector::tests::{at, host};
    use crate::handle::Operation;

    /// Who mistyped a name was told to apply it.
    #[test]
    fn who_would_change_a_job_that_does_not_exist_is_sent_to_the_list() {
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
