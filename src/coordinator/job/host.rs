//! What a host does for the items of its workers: it plans, fires, and reads again if needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rosterd_domain::id::{InstanceId, Item, JobName, WorkerId};
use rosterd_domain::item::{Record, Records};
use rosterd_domain::plan::{Facts, Hosted};
use rosterd_domain::time::Time;
use rosterd_domain::view::Job;
use rosterd_domain::{mutants, plan};

use crate::job::JobTurn;
use crate::job::commands::is_told;
use crate::job::notes::alarm_of_set_back;
use crate::job::parts::writer::Intent;
use crate::job::state::JobState;

/// If a change should have given a hint, wait this many times longer before reading again.
const NOT_TOLD: u32 = 10;

impl JobTurn<'_> {
    // ---- the host's own plan

    pub(crate) fn host(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        job.wakeups.looked_at();
        if !job.roster.dead().is_empty() {
            // Forget dead workers that neither a record nor a command names.
            let named = |id: &WorkerId| {
                let mut running = job.cache.records().values().filter_map(|(_, record)| record.running());
                running.any(|run| run.worker == *id) || is_told(view, id)
            };
            job.roster.forget_dead(named);
        }
        self.hand_back_held(name, job);
        self.stop_overdue(name, job, view);
        let (hosted, in_user_code) = (self.hosted(name, job, view), self.in_user_code(name, job));
        let facts = self.facts(job, view, &hosted, &in_user_code);
        let fires = !facts.no_starts;
        let mut plan = plan::host(view, job.cache.records(), &facts);
        let (waiting, next) = (std::mem::take(&mut plan.waiting), plan.next);
        let ahead =
            next.filter(|due| plan.txn.writes.is_empty() && self.schedule.lead_time.reaches(*due, facts.now));
        if let Some(due) = ahead {
            plan = plan::ahead(view, job.cache.records(), &Facts { now: due, ..facts });
        }
        self.note_waiting(name, job, waiting);
        if fires {
            self.alarm_of_silence(name, job, view);
        }
        self.set_calendar(name, job, next);
        self.look_again(name, job, view);
        if plan.txn.writes.is_empty() {
            self.progress_written(name, job, Vec::new(), plan.more);
            return false;
        }
        for reason in &plan.reasons {
            tracing::debug!(job = %name, "{reason}");
        }
        alarm_of_set_back(name, job, &plan);
        let mut reserved: BTreeMap<WorkerId, u32> = BTreeMap::new();
        for entry in &plan.entries {
            if let plan::Entry::Started { run, .. } = entry {
                *reserved.entry(run.worker.clone()).or_default() += 1;
            }
        }
        self.workers.reserve_slots(&reserved);
        let txn = std::mem::take(&mut plan.txn);
        self.submit(name, job, txn, Intent::Host { plan: Box::new(plan), reserved, ahead });
        true
    }

    /// Returns the inputs of the host's plan that are not in the store.
    fn facts<'a>(
        &self,
        job: &'a JobState,
        view: &Job,
        hosted: &'a BTreeMap<InstanceId, Hosted>,
        in_user_code: &'a BTreeSet<Item>,
    ) -> Facts<'a> {
        Facts {
            now: self.io.now.wall,
            given: self.cluster.numbering().given,
            no_starts: self.cluster.no_starts(self.io)
                || (view.necessary.is_some() && mutants::is_on(mutants::FIRES_WAIT_FOR_PLANS))
                || !self
                    .cluster
                    .calendar_is_good(view.spec.max_clock_diff(self.io.settings.max_clock_difference)),
            up_since: self.cluster.up_since(),
            gained: job.roster.owned_since(),
            hosted,
            reports: job.reports.by_item(),
            progressed: job.progress.said(),
            writes_progressed: job.progress.is_due(self.io.now.mono),
            dead: job.roster.dead(),
            in_user_code,
            timeout_grace: self.io.settings.timeout_grace,
            most_writes: self.io.settings.max_records_per_txn,
            explain: tracing::enabled!(tracing::Level::DEBUG),
            furthest_last_fire: self.io.now.wall.plus(self.io.settings.longest_silence),
        }
    }

    /// An item of ours may still be run by a worker of another host, and only that host learns when the run ends. If
    /// something waits for that end here (a misfire, a manual trigger), the records are read again; and also while an
    /// item of ours has none, since its leader is about to write it.
    fn look_again(&mut self, name: &JobName, job: &mut JobState, view: &Job) {
        let waits = |item: &Item, record: &Record| {
            let elsewhere = record.running().is_some_and(|run| !self.workers.is_here(&run.worker));
            let ours = view.sharding.owner(*item).is_some_and(|owner| job.roster.hosts(owner));
            elsewhere && ours && (record.misfire.is_some() || view.triggers.contains_key(item))
        };
        let lacks = |(item, owner): (Item, &InstanceId)| {
            job.roster.hosts(owner) && !job.cache.records().contains_key(&item)
        };
        let soon = self.io.now.mono.plus(self.io.settings.store_retry);
        if job.wakeups.rereads_by(soon) {
            return;
        }
        let waits = job.cache.records().iter().any(|(item, (_, record))| waits(item, record));
        if waits || view.sharding.owned().any(lacks) {
            self.look_soon(name, job);
        } else if self.announces_with_others(job, view) {
            self.look_again_in(NOT_TOLD * self.io.settings.store_retry, name, job);
        }
    }

    /// Items that are in user code without a record that shows it.
    fn in_user_code(&self, name: &JobName, job: &JobState) -> BTreeSet<Item> {
        let workers = job.roster.hosted().values().filter_map(|id| self.workers.get(id));
        let runs = workers.flat_map(|worker| worker.ledger.unrecorded());
        let told = runs.filter(|run| run.job == *name);
        told.map(|run| run.item).chain(job.dispatch.unmonitored().iter().map(|(item, ..)| *item)).collect()
    }

    fn hosted(&self, name: &JobName, job: &JobState, view: &Job) -> BTreeMap<InstanceId, Hosted> {
        let needed = needed(job.roster.hosted(), view, job.cache.records());
        needed.into_iter().filter_map(|one| self.hosted_one(name, job, view, one)).collect()
    }

    fn hosted_one(
        &self,
        name: &JobName,
        job: &JobState,
        view: &Job,
        (instance, id): (&InstanceId, &WorkerId),
    ) -> Option<(InstanceId, Hosted)> {
        let worker = self.workers.get(id)?;
        let ready = worker.ready() && worker.work.has(name) && view.instances.contains_key(instance);
        let waiting = job.dispatch.unmonitored().iter().filter(|(.., run)| run.worker == worker.id).count();
        let hosted = Hosted {
            worker: worker.id.clone(),
            attachment: worker.link.version(),
            ready,
            free: worker.ledger.free().saturating_sub(u32::try_from(waiting).unwrap_or(u32::MAX)),
            others: worker.others(name),
        };
        Some((instance.clone(), hosted))
    }

    /// The workers learn which items of the job wait for a slot of theirs.
    fn note_waiting(
        &mut self,
        name: &JobName,
        job: &mut JobState,
        mut waiting: BTreeMap<InstanceId, Vec<plan::Waiting>>,
    ) {
        if !job.roster.lets_wait(!waiting.is_empty()) {
            return;
        }
        for (instance, id) in job.roster.hosted() {
            if let Some(worker) = self.workers.get_mut(id) {
                worker.ledger.wait(name, waiting.remove(instance).unwrap_or_default());
            }
        }
    }

    /// The job is due by the wall clock a lead before `next`.
    fn set_calendar(&mut self, name: &JobName, job: &mut JobState, next: Option<Time>) {
        let next = next.map(|due| self.schedule.lead_time.before(due, self.io.now.wall));
        if job.wakeups.next() == next {
            return;
        }
        let before = job.wakeups.put_next(next);
        self.schedule.due_times.put(name, before, next);
        if job.writer.is_deferred_for_fire()
            && !self.fires_soon(job)
            && !mutants::is_on(mutants::PUT_OFF_IS_FORGOTTEN)
        {
            // The expected fire no longer exists.
            self.schedule.run_queue.insert(name.clone());
        }
    }
}

/// The workers here that a plan may need. Many may have registered a job of few items.
fn needed<'a>(
    hosted: &'a BTreeMap<InstanceId, WorkerId>,
    view: &Job,
    records: &Records,
) -> BTreeMap<&'a InstanceId, &'a WorkerId> {
    // With failover a run may go to any of them.
    if view.rules.failover || hosted.len() <= view.rules.items as usize {
        return hosted.iter().collect();
    }
    let owners = view.sharding.owned().map(|(_, owner)| owner);
    let running = records.values().filter_map(|(_, record)| record.running());
    owners
        .chain(running.map(|run| &run.instance))
        .filter_map(|instance| hosted.get_key_value(instance))
        .collect()
}

#[cfg(test)]
mod tests {
    use rosterd_domain::id::{ServerAddress, Token, Version};
    use rosterd_domain::item::{Record, Running, Source, State};
    use rosterd_domain::sharding::Sharding;
    use rosterd_domain::strategy::Assignment;

    use super::*;
    use crate::tests::job_with;

    #[test]
    fn a_plan_sees_owners_and_those_that_run_and_with_failover_all() {
        let address = ServerAddress::new("10.0.0.1").unwrap();
        let workers = ["other", "owner", "runs"].map(|name| WorkerId::new(name).unwrap());
        let instances = workers.each_ref().map(|worker| InstanceId::from_parts(&address, worker).unwrap());
        let hosted: BTreeMap<_, _> = instances.iter().cloned().zip(workers.iter().cloned()).collect();
        let (_, view) = job_with(&instances[0]);
        let mut view = (*view).clone();
        view.sharding = Sharding::default().with_assignment(&Assignment::from_owners(&instances, [1]), 1);
        let run = Running {
            fire: Time::from_seconds(1),
            source: Source::NormalTrigger,
            instance: instances[2].clone(),
            worker: workers[2].clone(),
            since: Time::from_seconds(1),
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        };
        let record = Record { state: State::Running(run), ..Record::new(Token(1), Time::from_seconds(1)) };
        let records = BTreeMap::from([(Item(0), (Version(0), record.into()))]);
        let named = |view: &Job| {
            needed(&hosted, view, &records).into_values().map(|id| id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(named(&view), ["owner", "runs"]);
        view.rules.failover = true;
        assert_eq!(named(&view), ["other", "owner", "runs"]);
        view.rules.failover = false;
        view.rules.items = 3;
        assert_eq!(named(&view), ["other", "owner", "runs"]);
    }
}
