//! Which jobs are concerned with which worker, and why. When a worker dies, only its own jobs are examined, instead of
//! every record of every job.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{InstanceId, JobName, WorkerId};
use rosterd_domain::snapshot::Command;
use rosterd_domain::view::Job;

/// Why a job is concerned with a worker.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Runs of the worker in the job's records.
    runs: u32,
    /// The worker's instance, present or assigned.
    instance: Option<InstanceId>,
    /// The assignment names the instance.
    planned: bool,
    /// A command is for the worker.
    commanded: bool,
    /// Instances of the worker that work for the job here, or are about to.
    hosted: u32,
}

impl Mention {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the job's records name runs of the worker.
    pub(crate) fn has_runs(&self) -> bool {
        self.runs > 0
    }

    /// Returns the worker's instance, present or assigned.
    pub(crate) fn instance(&self) -> Option<&InstanceId> {
        self.instance.as_ref()
    }

    /// Whether the assignment names the instance.
    pub(crate) fn is_planned(&self) -> bool {
        self.planned
    }

    /// Whether a command is for the worker.
    pub(crate) fn is_commanded(&self) -> bool {
        self.commanded
    }

    /// Whether an instance of the worker works for the job here, or is about to.
    pub(crate) fn is_hosted(&self) -> bool {
        self.hosted > 0
    }

    /// Whether the stored state of the job names the worker.
    pub(crate) fn is_stored(&self) -> bool {
        self.runs > 0 || self.instance.is_some() || self.commanded
    }
}

/// Which jobs are concerned with which worker.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerIndex(BTreeMap<WorkerId, BTreeMap<JobName, Mention>>);

impl WorkerIndex {
    /// Returns the jobs that are concerned with a worker, by name.
    pub(crate) fn of(&self, worker: &WorkerId) -> impl Iterator<Item = (&JobName, &Mention)> {
        self.0.get(worker).into_iter().flatten()
    }

    /// Returns all workers that any job is concerned with, and these jobs.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&WorkerId, &BTreeMap<JobName, Mention>)> {
        self.0.iter()
    }

    fn change(&mut self, worker: &WorkerId, job: &JobName, change: impl FnOnce(&mut Mention)) {
        let jobs = match self.0.get_mut(worker) {
            Some(jobs) => jobs,
            None => self.0.entry(worker.clone()).or_default(),
        };
        let mention = match jobs.get_mut(job) {
            Some(mention) => mention,
            None => jobs.entry(job.clone()).or_default(),
        };
        change(mention);
        if mention.is_empty() {
            jobs.remove(job);
            if jobs.is_empty() {
                self.0.remove(worker);
            }
        }
    }

    /// The run in a record of the job may belong to another worker than before.
    pub(crate) fn record_changed(
        &mut self,
        job: &JobName,
        before: Option<&WorkerId>,
        after: Option<&WorkerId>,
    ) {
        if before == after {
            return;
        }
        if let Some(worker) = after {
            self.change(worker, job, |mention| mention.runs += 1);
        }
        if let Some(worker) = before {
            self.change(worker, job, |mention| mention.runs = mention.runs.saturating_sub(1));
        }
    }

    /// Another decision state of the job was read.
    pub(crate) fn view_changed(&mut self, job: &JobName, before: Option<&Job>, after: Option<&Job>) {
        if let (Some(before), Some(after)) = (before, after)
            && before.instances.keys().eq(after.instances.keys())
            && before.sharding.instances() == after.sharding.instances()
            && before.commands == after.commands
        {
            return;
        }
        let mut named = after.map(named).unwrap_or_default();
        let gone: Vec<WorkerId> = before
            .map(workers_of)
            .unwrap_or_default()
            .into_iter()
            .filter(|id| !named.contains_key(id))
            .collect();
        for worker in gone {
            named.insert(worker, Mention::default());
        }
        for (worker, found) in named {
            self.change(&worker, job, |mention| {
                let Mention { instance, planned, commanded, .. } = found;
                (mention.instance, mention.planned, mention.commanded) = (instance, planned, commanded);
            });
        }
    }

    /// An instance of the worker starts to work for the job here.
    pub(crate) fn hosted(&mut self, worker: &WorkerId, job: &JobName) {
        self.change(worker, job, |mention| mention.hosted += 1);
    }

    /// An instance of the worker no longer works for the job here.
    pub(crate) fn released(&mut self, worker: &WorkerId, job: &JobName) {
        self.change(worker, job, |mention| mention.hosted = mention.hosted.saturating_sub(1));
    }
}

fn workers_of(view: &Job) -> BTreeSet<WorkerId> {
    let commanded = view.commands.values().filter_map(Command::instance);
    let instances = view.instances.keys().chain(view.sharding.instances()).chain(commanded);
    instances.filter_map(InstanceId::worker).collect()
}

/// The workers that a decision state names, and why.
pub(crate) fn named(view: &Job) -> BTreeMap<WorkerId, Mention> {
    let mut named: BTreeMap<WorkerId, Mention> = BTreeMap::new();
    for instance in view.instances.keys() {
        if let Some(worker) = instance.worker() {
            named.entry(worker).or_default().instance.get_or_insert_with(|| instance.clone());
        }
    }
    for instance in view.sharding.instances() {
        if let Some(worker) = instance.worker() {
            let mention = named.entry(worker).or_default();
            mention.planned = true;
            mention.instance.get_or_insert_with(|| instance.clone());
        }
    }
    for instance in view.commands.values().filter_map(Command::instance) {
        if let Some(worker) = instance.worker() {
            named.entry(worker).or_default().commanded = true;
        }
    }
    named
}
