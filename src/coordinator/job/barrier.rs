//! Checks the runs that an acknowledged change waits for.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{Item, JobName, Token, WorkerId};
use rosterd_domain::item::Running;
use rosterd_domain::mutants;
use rosterd_domain::snapshot::Command;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Purpose, Write};
use rosterd_domain::view::Job;
use rosterd_session::frame::RunRef;

use crate::io::event::Effect;
use crate::job::commands::await_start_name;
use crate::job::parts::barrier::{Barrier, Passed};
use crate::job::state::JobState;
use crate::job::txn::guarded;
use crate::job::{AllJobs, JobTurn};

impl AllJobs<'_> {
    /// User code of a run has started.
    pub(crate) fn run_started(&mut self, id: &WorkerId, run: RunRef, at: Option<Time>, attempt: u32) {
        let Some(worker) = self.workers.get_mut(id).filter(|worker| worker.flight.knows(&run)) else {
            return;
        };
        let (name, item, token) = (run.job.clone(), run.item, run.token);
        let apart = worker.ledger.untracked(&run).cloned();
        worker.flight.says_begun(run);
        // Later attempts belong to the same run.
        let running = || self.jobs.all.get(&name).and_then(|job| job.running(item, token)).cloned();
        if let Some(run) = apart.or_else(running).filter(|_| attempt <= 1) {
            self.io.out.push(Effect::Begun { job: name.clone(), item, token, run, at });
        }
        self.look_at_barriers(&name);
    }

    /// The worker lists these runs as in flight.
    pub(crate) fn named_in_flight(&mut self, id: &WorkerId, runs: &[RunRef]) {
        let (now, longest) = (self.io.now.mono, self.io.settings.ahead.1);
        let Some(worker) = self.workers.get_mut(id) else { return };
        worker.flight.names(runs, now, longest);
        let jobs: BTreeSet<JobName> = runs.iter().map(|run| run.job.clone()).collect();
        for name in jobs {
            self.look_at_barriers(&name);
        }
    }

    /// Gives the job a turn if an operation here or elsewhere may wait for what is known now.
    fn look_at_barriers(&mut self, name: &JobName) {
        let waits = self.jobs.all.get(name).is_some_and(|job| {
            let asked = job.cache.view().is_some_and(|view| !view.commands.is_empty());
            asked || job.operations.iter().any(|asked| asked.barrier.is_some())
        });
        if waits {
            self.schedule.run_queue.insert(name.clone());
        }
    }
}

impl JobTurn<'_> {
    /// Whether user code of the run is known to have started.
    pub(crate) fn has_begun(&self, name: &JobName, item: Item, token: Token, run: &Running) -> bool {
        let reference = RunRef { job: name.clone(), item, token };
        let worker = self.workers.get(&run.worker);
        worker.is_some_and(|worker| {
            worker.flight.has_begun(&reference)
                || mutants::is_on(mutants::TOLD_IS_BEGUN) && worker.flight.knows(&reference)
        })
    }

    /// Checks the runs that an operation waits for.
    pub(crate) fn passes(&self, name: &JobName, job: &JobState, view: &Job, barrier: &mut Barrier) -> Passed {
        // Before the operation itself is executed, further runs may still start.
        let joins = barrier.is_before() && !mutants::is_on(mutants::JOINED_IS_BEGUN);
        if joins || !barrier.has_looked() {
            let running = job.cache.records().iter().filter_map(|(item, (_, record))| {
                let run = record.running().filter(|run| barrier.target().has(*item, run))?;
                (!self.has_begun(name, *item, record.token, run)).then_some((*item, record.token))
            });
            let running: Vec<(Item, Token)> = running.collect();
            barrier.found(running);
        }
        let mut txn = guarded(Purpose::Barrier, view);
        let mut left = BTreeMap::new();
        for ((item, token), asked) in barrier.take_runs() {
            let Some(run) = job.running(item, token) else { continue };
            let here = self.workers.is_here(&run.worker);
            let Some(node) = await_start_name(item, token) else { continue };
            let stands = view.commands.contains_key(&node);
            // If the command that asked its host is gone, the host has confirmed the start.
            if self.has_begun(name, item, token, run) || asked && !stands && !here {
                barrier.has_begun((item, token));
                continue;
            }
            let asks = !here && !stands && txn.writes.len() < self.io.settings.max_records_per_txn;
            if asks {
                let (job, command) = (name.clone(), Command::AwaitStart { item, token });
                txn.write(Write::Command { job, name: node, command });
            }
            left.insert((item, token), stands || asks);
        }
        let is_passed = left.is_empty();
        barrier.put_back_runs(left);
        if is_passed {
            Passed::Yes(barrier.clone().answer())
        } else if txn.writes.is_empty() {
            Passed::No
        } else {
            Passed::Asks(txn)
        }
    }
}
