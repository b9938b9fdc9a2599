//! The jobs that a worker works for, is registering, has given up, or may not have.

use std::collections::BTreeSet;

use rosterd_domain::id::JobName;
use rosterd_runtime::lookup::Lookup;
use rosterd_session::jobs::JobScope;

/// The jobs that a worker works for, is registering, has given up, or may not have.
#[derive(Debug)]
pub(crate) struct Work {
    /// Jobs that the worker has registered.
    jobs: Lookup<JobName, ()>,
    /// Jobs of its Hello that it registers, or gives up, once it is welcomed.
    pending_registrations: BTreeSet<JobName>,
    /// Jobs whose registration is not answered.
    registering: BTreeSet<JobName>,
    /// Jobs that it has given up.
    unregistered: BTreeSet<JobName>,
    /// The jobs that the credential of its stream is for.
    rights: JobScope,
    /// Jobs that the worker had, or says that it had, although its credential is not for them.
    lost: BTreeSet<JobName>,
}

impl Work {
    /// A worker whose Hello asks for the jobs `asked`, with a credential for the jobs `rights`.
    pub(crate) fn new(asked: BTreeSet<JobName>, rights: JobScope) -> Self {
        Self {
            jobs: Lookup::default(),
            pending_registrations: asked,
            registering: BTreeSet::new(),
            unregistered: BTreeSet::new(),
            rights,
            lost: BTreeSet::new(),
        }
    }

    /// Returns the jobs that the worker has registered.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &JobName> {
        self.jobs.keys()
    }

    pub(crate) fn has(&self, job: &JobName) -> bool {
        self.jobs.contains_key(job)
    }

    /// Whether the worker works for a job, or asks to.
    pub(crate) fn names(&self, job: &JobName) -> bool {
        let asked = [&self.pending_registrations, &self.registering];
        self.has(job) || asked.into_iter().any(|jobs| jobs.contains(job))
    }

    pub(crate) fn begin(&mut self, job: &JobName) {
        self.jobs.insert(job.clone(), ());
    }

    pub(crate) fn end(&mut self, job: &JobName) {
        self.jobs.remove(job);
    }

    /// The worker attached again, and keeps its jobs.
    pub(crate) fn go_on(&mut self, before: Self) {
        self.jobs = before.jobs;
    }

    // ---- registrations

    /// The worker registers a job; false: it already has as many as it may have.
    pub(crate) fn register(&mut self, job: &JobName, most: usize) -> bool {
        self.pending_registrations.remove(job);
        let new = !self.has(job) && !self.registering.contains(job);
        if new && self.jobs.len() + self.registering.len() >= most {
            return false;
        }
        self.unregistered.remove(job);
        self.registering.insert(job.clone());
        true
    }

    /// The worker's registration of a job was answered, or needs no answer.
    pub(crate) fn registration_answered(&mut self, job: &JobName) {
        self.registering.remove(job);
    }

    pub(crate) fn is_registering(&self, job: &JobName) -> bool {
        self.registering.contains(job)
    }

    /// Whether the worker's Hello named a job that it registers, or gives up, once it is welcomed.
    pub(crate) fn is_yet_to_register(&self, job: &JobName) -> bool {
        self.pending_registrations.contains(job)
    }

    /// The worker gives a job up. That is recorded only if the job is known here (`is_there`).
    pub(crate) fn unregister(&mut self, job: &JobName, is_there: bool) {
        self.jobs.remove(job);
        self.pending_registrations.remove(job);
        if is_there {
            self.unregistered.insert(job.clone());
        }
    }

    /// Whether the worker has given a job up.
    pub(crate) fn has_unregistered(&self, job: &JobName) -> bool {
        self.unregistered.contains(job)
    }

    // ---- rights

    /// Returns the jobs that the worker's credential is for.
    pub(crate) fn rights(&self) -> &JobScope {
        &self.rights
    }

    pub(crate) fn may_have(&self, job: &JobName) -> bool {
        self.rights.have(job)
    }

    /// The worker's credential is not for a job that it had: the worker is no longer an instance of the job.
    pub(crate) fn lose(&mut self, job: &JobName) {
        self.lost.insert(job.clone());
        self.unregister(job, true);
        self.registering.remove(job);
    }

    /// The worker's credential is not for a job of which it has a run; false: that was known already.
    pub(crate) fn lose_run(&mut self, job: &JobName) -> bool {
        self.lost.insert(job.clone())
    }

    /// Returns the jobs that the worker had, or says that it had, although its credential is not for them.
    pub(crate) fn lost(&self) -> &BTreeSet<JobName> {
        &self.lost
    }
}
