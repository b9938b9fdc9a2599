//! Requests of people, each passed to the jobs that it concerns.

use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, JobName, ServerAddress};
use rosterd_domain::job::JobSpec;
use rosterd_session::code::{Code, Refusal};

use crate::io::event::{Effect, RequestId};
use crate::io::operation::{MachineAction, Operation, Target};
use crate::job::AllJobs;
use crate::job::parts::operations::JobOperation;
use crate::job::parts::operations::PendingRequest;
use crate::job::parts::requests::Pending;
use crate::job::state::JobState;

impl AllJobs<'_> {
    /// A worker that is here is told at once; for another, a command is written below one of its jobs.
    pub(crate) fn drain_instance(
        &mut self,
        request: RequestId,
        instance: &InstanceId,
        grace: Duration,
        by: Option<Arc<str>>,
    ) {
        let here = self.workers.here().unordered_values().find(|worker| worker.instance == *instance);
        if let Some(id) = here.map(|worker| worker.id.clone()) {
            return self.workers_turn().ask_to_leave(&id, grace, Some((request, by)));
        }
        let named =
            |job: &JobState| job.cache.view().is_some_and(|view| view.instances.contains_key(instance));
        let job = self.jobs.all.iter().find(|(_, job)| named(job)).map(|(name, _)| name.clone());
        let Some(name) = job else {
            let refusal = Refusal::new(
                Code::InstanceUnknown,
                format!("instance {instance} has no stream at any coordinator"),
            );
            return self.io.out.push(Effect::Reply(request, Err(refusal)));
        };
        self.ask_alone(request, by, name, JobOperation::Drain { instance: instance.clone(), grace });
    }

    pub(crate) fn operate(&mut self, request: RequestId, operation: Operation, by: Option<Arc<str>>) {
        if self.cluster.is_stopping() {
            let refusal = Refusal::new(Code::Draining, "this coordinator is stopping: ask another one");
            return self.io.out.push(Effect::Reply(request, Err(refusal)));
        }
        let (job, operation) = match operation {
            Operation::Apply { specs, dry_run, expected } => {
                return self.apply_jobs(request, specs, (dry_run, expected), by);
            }
            Operation::Drain { instance, grace } => {
                return self.drain_instance(request, &instance, grace, by);
            }
            Operation::Machine { machine, jobs, action } => {
                return self.on_machine(request, &machine, jobs, action, by);
            }
            Operation::Trigger { job, items, after_current } => {
                (job, JobOperation::Trigger { items, after_current })
            }
            Operation::Pause { job, paused } => (job, JobOperation::Pause(paused)),
            Operation::Enable { job, target, enabled, cancel } => {
                (job, JobOperation::Enable { target, enabled, cancel })
            }
            Operation::Remove { job, cancel } => (job, JobOperation::Remove { cancel }),
            Operation::Cancel { job, item } => (job, JobOperation::Cancel { item }),
            Operation::Shutdown { job, instance } => (job, JobOperation::Shutdown { instance }),
        };
        self.jobs.requests.insert(request, Pending::of_one());
        self.ask(request, by, job, operation);
    }

    fn ask(&mut self, request: RequestId, by: Option<Arc<str>>, name: JobName, operation: JobOperation) {
        let job = self.jobs.all.entry(name.clone()).or_default();
        job.operations.push_back(PendingRequest {
            request,
            by,
            operation,
            tries: 0,
            informed: false,
            barrier: None,
        });
        self.schedule.run_queue.insert(name);
    }

    fn apply_jobs(
        &mut self,
        request: RequestId,
        specs: Vec<JobSpec>,
        (dry_run, expected): (bool, Option<Box<JobSpec>>),
        by: Option<Arc<str>>,
    ) {
        if specs.is_empty() {
            let why = "there is no job to apply: name at least one";
            return self.io.out.push(Effect::Reply(request, Err(Refusal::new(Code::ConfigInvalid, why))));
        }
        let names = specs.iter().map(|spec| spec.config().job_name.clone());
        self.jobs.requests.insert(request, Pending::of(names));
        for spec in specs {
            let name = spec.config().job_name.clone();
            let (spec, expected) = (Box::new(spec), expected.clone());
            self.ask(request, by.clone(), name, JobOperation::Apply { spec, dry_run, expected });
        }
    }

    /// Passes the request to each of the jobs.
    fn on_machine(
        &mut self,
        request: RequestId,
        machine: &ServerAddress,
        jobs: Vec<JobName>,
        action: MachineAction,
        by: Option<Arc<str>>,
    ) {
        if jobs.is_empty() {
            let why = format!("no job has a machine \"{machine}\": see rosterd machines");
            return self.io.out.push(Effect::Reply(request, Err(Refusal::new(Code::MachineUnknown, why))));
        }
        self.jobs.requests.insert(request, Pending::of_each(jobs.iter().cloned()));
        for name in jobs {
            let operation = match action {
                MachineAction::Enable { enabled, cancel } => {
                    JobOperation::Enable { target: Target::Machine(machine.clone()), enabled, cancel }
                }
                MachineAction::Shutdown => JobOperation::ShutdownMachine(machine.clone()),
                MachineAction::Remove => JobOperation::RemoveMachine(machine.clone()),
            };
            self.ask(request, by.clone(), name, operation);
        }
    }

    /// Passes the request to one job alone.
    pub(crate) fn ask_alone(
        &mut self,
        request: RequestId,
        by: Option<Arc<str>>,
        name: JobName,
        operation: JobOperation,
    ) {
        self.jobs.requests.insert(request, Pending::of_one());
        self.ask(request, by, name, operation);
    }
}
