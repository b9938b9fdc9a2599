//! Jobs at this coordinator.

pub(crate) mod barrier;
pub(crate) mod changes;
pub(crate) mod commands;
pub(crate) mod commits;
pub(crate) mod dispatch;
pub(crate) mod gauges;
pub(crate) mod host;
pub(crate) mod in_flight;
pub(crate) mod leader;
pub(crate) mod membership;
pub(crate) mod notes;
pub(crate) mod operations;
pub(crate) mod overdue;
pub(crate) mod parts;
pub(crate) mod progress;
pub(crate) mod quota;
pub(crate) mod reads;
pub(crate) mod records;
pub(crate) mod registration;
pub(crate) mod remote_commands;
pub(crate) mod reports;
pub(crate) mod requests;
pub(crate) mod state;
pub(crate) mod turn;
pub(crate) mod txn;
pub(crate) mod worker_changes;

use std::collections::BTreeMap;
use std::sync::Arc;

use rosterd_domain::id::JobName;
use rosterd_runtime::lookup::Lookup;

use crate::cluster::Cluster;
use crate::io::Io;
use crate::io::event::RequestId;
use crate::job::parts::worker_index::WorkerIndex;
use crate::schedule::Schedule;
use crate::workers::{Workers, WorkersTurn};
use parts::notes::Telling;
use parts::quota::Counted;
use parts::requests::Pending;
use state::JobState;

/// The jobs of this coordinator, and state that spans several of them.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) all: Lookup<JobName, Box<JobState>>,
    /// Which jobs are concerned with which worker.
    pub(crate) index: WorkerIndex,
    pub(crate) requests: BTreeMap<RequestId, Pending>,
    /// The load of each credential's jobs.
    pub(crate) counted: Counted,
    /// What people and monitoring are yet to be told.
    pub(crate) telling: Telling,
    /// No hints about a job's changes, not even its own: a fault in tests.
    pub(crate) drop_hints: bool,
}

impl Jobs {
    /// How many jobs there are, and how many of them this coordinator leads.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.all.len(), self.all.unordered_values().filter(|job| job.leads()).count())
    }

    /// Whether a job exists, as far as is known here.
    pub(crate) fn has(&self, name: &JobName) -> bool {
        self.all.get(name).is_some_and(|job| job.cache.is_there())
    }

    /// Whether any is led from here, or has reports that are not written: then this coordinator cannot stop yet.
    pub(crate) fn wait_for_this_coordinator(&self) -> bool {
        self.all.unordered_values().any(|job| job.leads() || !job.reports.is_empty())
    }

    /// The index, computed from scratch.
    pub(crate) fn indexed(&self) -> WorkerIndex {
        let mut found = WorkerIndex::default();
        for (name, job) in self.all.iter() {
            found.view_changed(name, None, job.cache.view().map(Arc::as_ref));
            for run in job.cache.records().values().filter_map(|(_, record)| record.running()) {
                found.record_changed(name, None, Some(&run.worker));
            }
            for worker in job.roster.hosted().values() {
                found.hosted(worker, name);
            }
        }
        found
    }

    /// Adds a job as if it had been read.
    #[cfg(test)]
    pub(crate) fn put(&mut self, name: JobName, job: JobState) {
        self.all.insert(name, Box::new(job));
        self.index = self.indexed();
    }

    /// Forgets transactions and reads in flight, which will not be answered.
    pub(crate) fn forget_writing(&mut self) {
        for job in self.all.unordered_values_mut() {
            let _unanswered = job.writer.write_ended();
        }
    }
}

/// The state that the handling of all jobs may change.
pub(crate) struct AllJobs<'a> {
    pub(crate) jobs: &'a mut Jobs,
    pub(crate) workers: &'a mut Workers,
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) schedule: &'a mut Schedule,
    pub(crate) io: &'a mut Io,
}

/// The state that one job's turn may change, beside the job itself. Other jobs are out of reach.
pub(crate) struct JobTurn<'a> {
    pub(crate) workers: &'a mut Workers,
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) schedule: &'a mut Schedule,
    pub(crate) io: &'a mut Io,
    pub(crate) index: &'a mut WorkerIndex,
    pub(crate) requests: &'a mut BTreeMap<RequestId, Pending>,
    pub(crate) telling: &'a mut Telling,
    pub(crate) drop_hints: bool,
}

impl AllJobs<'_> {
    /// A job, and the state that its turn may change.
    pub(crate) fn turn_of(&mut self, name: &JobName) -> Option<(JobTurn<'_>, &mut JobState)> {
        let Jobs { all, index, requests, telling, drop_hints, .. } = &mut *self.jobs;
        let job = all.get_mut(name)?;
        let turn = JobTurn {
            workers: self.workers,
            cluster: self.cluster,
            schedule: self.schedule,
            io: self.io,
            index,
            requests,
            telling,
            drop_hints: *drop_hints,
        };
        Some((turn, job))
    }

    pub(crate) fn workers_turn(&mut self) -> WorkersTurn<'_> {
        WorkersTurn { workers: self.workers, cluster: self.cluster, schedule: self.schedule, io: self.io }
    }
}

impl JobTurn<'_> {
    pub(crate) fn workers_turn(&mut self) -> WorkersTurn<'_> {
        WorkersTurn { workers: self.workers, cluster: self.cluster, schedule: self.schedule, io: self.io }
    }
}
