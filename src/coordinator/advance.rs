//! One job's turn: with nothing under way and a true cache, find the next thing to do and do it, one
//! transaction at a time. Nothing to do is the usual answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, ServerAddress, TriggerId, Version, WorkerId};
use rosterd_domain::item::{Event as ItemEvent, Record};
use rosterd_domain::mutants;
use rosterd_domain::plan::{self, Candidates, Facts, Hosted};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::TriggerNode;
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Guard, Purpose, Txn, Write};
use rosterd_domain::view::Job;

use super::change::{guarded, led};
use super::command::is_told;
use super::event::{Effect, Query};
use super::job::{Intent, JobState, Planned};
use super::last_fires::alarm_of_set_back;
use super::node::{Node, ReadFor, TxnFor};
use super::timers::Timer;
use super::worker::Phase;
use rosterd_session::frame::{CancelReason, RunRef};

/// `instance` mirrors and new records that one transaction writes.
pub(super) const CHUNK: usize = 200;
/// So much longer than for what nothing tells of is waited where somebody should have told.
const NOT_TOLD: u32 = 10;

impl Node {
    pub(super) fn advance(&mut self, name: &JobName) {
        let Some(mut job) = self.jobs.remove(name) else { return };
        let keep = self.turn(name, &mut job);
        job.unattended = None;
        job.turned = true;
        if keep {
            self.jobs.insert(name.clone(), job);
        } else {
            self.shown_no_more(name, &job);
            if job.existed {
                self.calendar.retain(|(_, other)| other != name);
            }
            if job.watched && !mutants::is_on(mutants::WATCHES_STAY) {
                self.out.push(Effect::Watch(name.clone(), false));
            }
        }
    }

    /// Does the next thing; false: nothing is left of the job here.
    fn turn(&mut self, name: &JobName, job: &mut JobState) -> bool {
        if job.writing.is_some() || job.reading {
            return true;
        }
        if let Some(at) = job.retry_at {
            if at > self.now.mono {
                self.timers.insert((at, Timer::Job(name.clone())));
                return true;
            }
            job.retry_at = None;
        }
        if !job.loaded || job.stale || job.stale_records {
            if !self.fires_first(name, job) {
                self.refresh(name, job);
            }
            return true;
        }
        if let Some(view) = job.view.clone() {
            self.watch_items(name, job, &view);
        }
        if self.reads_switches(name, job) {
            return true;
        }
        self.answer_reports(name, job);
        self.send_waiting(name, job);
        let Some(view) = job.view.clone() else { return self.without_view(name, job) };
        if self.gathers(name, job) {
            return true;
        }
        self.act(name, job, &view);
        true
    }

    fn refresh(&mut self, name: &JobName, job: &mut JobState) {
        if !job.watched {
            job.watched = true;
            job.watched_items = 0;
            self.out.push(Effect::Watch(name.clone(), true));
        }
        job.reading = true;
        let whole = !job.loaded || job.stale_records;
        job.stale = false;
        job.stale_records = false;
        let (whom, query) = if whole {
            if let Some(movers) = self.awaiting_read.remove(name) {
                self.covered_by_read.insert(name.clone(), movers);
            }
            (ReadFor::Job(name.clone()), Query::Job(name.clone()))
        } else {
            (ReadFor::Nodes(name.clone()), Query::Nodes(name.clone()))
        };
        self.read(whom, query);
    }

    /// The job does not exist, is being removed, or cannot be understood.
    fn without_view(&mut self, name: &JobName, job: &mut JobState) -> bool {
        if job.ending {
            let mut txn = Txn::new(Purpose::Sweep);
            txn.write(Write::SweepJob { job: name.clone(), limit: CHUNK });
            self.submit(name, job, txn, Intent::Sweep);
            return true;
        }
        if job.damaged.is_none() {
            // With the job its instances have gone.
            job.leaving.clear();
            self.answer_unregistering(name, job);
        }
        self.refuse_or_create(name, job);
        let wanted = job.writing.is_some() || !job.idle() || job.damaged.is_some();
        if !wanted {
            self.forget_workers(name, job);
        }
        wanted
    }

    /// Who may have to do with a job that is no more. Of a name that somebody only said that is whoever said it: it costs no look
    /// at all workers here, of which there are thousands, as are the names that one may say.
    pub(super) fn heard_of(&mut self, name: &JobName, job: &mut JobState) -> BTreeSet<WorkerId> {
        let coming = [self.awaiting_read.remove(name), self.covered_by_read.remove(name)];
        if job.existed {
            return self.workers.keys().cloned().collect();
        }
        let named_by = std::mem::take(&mut job.named_by);
        coming.into_iter().flatten().flatten().chain(named_by).collect()
    }

    fn forget_workers(&mut self, name: &JobName, job: &mut JobState) {
        for id in self.heard_of(name, job) {
            if let Some(worker) = self.workers.get_mut(&id) {
                let known: Vec<RunRef> =
                    worker.dispatched.keys().filter(|run| run.job == *name).cloned().collect();
                worker.dispatched.retain(|run, _| run.job != *name);
                worker.untracked_runs.retain(|run, _| run.job != *name);
                worker.taken_away.retain(|run| run.job != *name);
                worker.runs.retain(|(job, _)| job != name);
                worker.waiting.set(name, Vec::new());
                worker.jobs.remove(name);
                let moved = worker.moving.remove(name);
                for run in known {
                    self.cancel(&id, run, CancelReason::Fenced, "the job was removed");
                }
                if moved {
                    self.welcome_if_moved(&id);
                }
            }
        }
    }

    fn act(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) {
        // Before anything is decided by it.
        if self.foreign_config(name, job, view) {
            return;
        }
        // What is complete is announced before the next run of an item makes the record forget it.
        if self.guarantees(name, job, view) {
            return;
        }
        let yields = std::mem::take(&mut job.host_wrote_last);
        if !yields && self.host(name, job, view) {
            job.host_wrote_last = true;
            return;
        }
        let acted = self.instances(name, job, view)
            || self.operations(name, job, view)
            || self.foreign_triggers(name, job, view)
            || self.switches(name, job, view)
            || self.commands(name, job, view)
            || self.run_background(name, job, view);
        if !acted && yields && self.host(name, job, view) {
            job.host_wrote_last = true;
        }
    }

    pub(super) fn submit(&mut self, name: &JobName, job: &mut JobState, txn: Txn, intent: Intent) {
        if mutants::is_on(mutants::TRANSACTIONS_ARE_LOGGED) {
            tracing::debug!(job = %name, "{txn:?}");
        }
        self.background.began(&intent);
        job.writing = Some(intent);
        self.commit(TxnFor::Job(name.clone()), txn);
    }

    // ---- the host's own plan

    pub(super) fn host(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        job.due = false;
        if !job.dead.is_empty() {
            // Whom no record and no command names any more is forgotten.
            let named = |id: &WorkerId| {
                let mut running = job.records.values().filter_map(|(_, record)| record.running());
                running.any(|run| run.worker == *id) || is_told(view, id)
            };
            job.dead.retain(|id| named(id) || mutants::is_on(mutants::ENDED_ITEMS_CRASH));
        }
        self.hand_back_held(name, job);
        self.stop_overdue(name, job, view);
        let (hosted, in_user_code) = (self.hosted(name, job, view), self.in_user_code(name, job));
        let facts = Facts {
            now: self.now.wall,
            given: self.numbering.given,
            no_starts: self.no_starts()
                || (view.necessary.is_some() && mutants::is_on(mutants::FIRES_WAIT_FOR_PLANS))
                || !self.calendar_is_good(view.spec.max_clock_diff(self.settings.max_clock_difference)),
            up_since: self.up_since,
            gained: &job.owned_since,
            hosted: &hosted,
            reports: &job.reports,
            progressed: job.progress.said(),
            writes_progressed: job.progress.is_due(self.now.mono),
            dead: &job.dead,
            in_user_code: &in_user_code,
            timeout_grace: self.settings.timeout_grace,
            most_writes: self.settings.max_records_per_txn,
            explain: tracing::enabled!(tracing::Level::DEBUG),
            furthest_last_fire: self.now.wall.plus(self.settings.longest_silence),
        };
        let fires = !facts.no_starts;
        let mut plan = plan::host(view, &job.records, &facts);
        let (waiting, next) = (std::mem::take(&mut plan.waiting), plan.next);
        let ahead = next.filter(|due| plan.txn.writes.is_empty() && self.lead_time.reaches(*due, facts.now));
        if let Some(due) = ahead {
            plan = plan::ahead(view, &job.records, &Facts { now: due, ..facts });
        }
        self.note_waiting(name, job, &hosted, waiting);
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
        for (worker, starts) in &reserved {
            if let Some(worker) = self.workers.get_mut(worker) {
                worker.reserved += starts;
            }
        }
        let txn = std::mem::take(&mut plan.txn);
        if mutants::is_on(mutants::SPEAKS_BEFORE_COMMIT) {
            for (item, (version, record)) in plan.records.clone() {
                self.put_record(name, job, item, version, record);
                self.dispatch(name, job, item);
            }
        }
        self.submit(name, job, txn, Intent::Host { plan: Box::new(plan), reserved, ahead });
        true
    }

    /// An item of ours may still be run by a worker of another host, which alone hears when that run ends. If
    /// something waits for that end here (a misfire, a trigger by hand), the records are looked at again; and so
    /// they are while an item of ours has none: its leader is about to write it.
    fn look_again(&mut self, name: &JobName, job: &mut JobState, view: &Job) {
        let waits = |item: &Item, record: &Record| {
            let elsewhere = record.running().is_some_and(|run| !self.workers.contains_key(&run.worker));
            let ours = view.sharding.owner(*item).is_some_and(|owner| job.hosted.contains_key(owner));
            elsewhere && ours && (record.misfire.is_some() || view.triggers.contains_key(item))
        };
        let lacks = |(item, owner): (Item, &InstanceId)| {
            job.hosted.contains_key(owner) && !job.records.contains_key(&item)
        };
        let soon = self.now.mono.plus(self.settings.store_retry);
        if job.reread_at.is_some_and(|at| at <= soon) {
            return;
        }
        let waits = job.records.iter().any(|(item, (_, record))| waits(item, record));
        if waits || view.sharding.owned().any(lacks) {
            self.look_soon(name, job);
        } else if self.announces_with_others(job, view) {
            self.look_again_in(NOT_TOLD * self.settings.store_retry, name, job);
        }
    }

    /// The records are to be read again soon.
    pub(super) fn look_soon(&mut self, name: &JobName, job: &mut JobState) {
        self.look_again_in(self.settings.store_retry, name, job);
    }

    fn look_again_in(&mut self, after: Duration, name: &JobName, job: &mut JobState) {
        let at = self.now.mono.plus(after);
        if job.reread_at.is_none_or(|known| known > at) {
            job.reread_at = Some(at);
            self.timers.insert((at, Timer::LookAgain(name.clone())));
        }
    }

    /// Items in user code without a record that says so.
    fn in_user_code(&self, name: &JobName, job: &JobState) -> BTreeSet<Item> {
        let workers = job.hosted.values().filter_map(|id| self.workers.get(id));
        let runs = workers.flat_map(|worker| worker.untracked_runs.keys().chain(&worker.taken_away));
        let told = runs.filter(|run| run.job == *name);
        told.map(|run| run.item).chain(job.unmonitored.iter().map(|(item, ..)| *item)).collect()
    }

    fn hosted(&self, name: &JobName, job: &JobState, view: &Job) -> BTreeMap<InstanceId, Hosted> {
        let here = job.hosted.iter().filter_map(|(instance, id)| Some((instance, self.workers.get(id)?)));
        here.map(|(instance, worker)| {
            let ready = worker.ready() && worker.jobs.contains(name) && view.instances.contains_key(instance);
            let joins = !worker.runs.is_empty() && mutants::is_on(mutants::WORKERS_JOIN_BATCHES);
            let waiting = job.unmonitored.iter().filter(|(.., run)| run.worker == worker.id).count();
            let hosted = Hosted {
                worker: worker.id.clone(),
                attachment: worker.version,
                ready: ready && !joins,
                free: worker.free().saturating_sub(u32::try_from(waiting).unwrap_or(u32::MAX)),
                others: worker.others(name),
            };
            (instance.clone(), hosted)
        })
        .collect()
    }

    fn note_waiting(
        &mut self,
        name: &JobName,
        job: &JobState,
        hosted: &BTreeMap<InstanceId, Hosted>,
        mut waiting: BTreeMap<InstanceId, Vec<plan::Waiting>>,
    ) {
        for instance in hosted.keys() {
            let Some(worker) = job.hosted.get(instance).and_then(|id| self.workers.get_mut(id)) else {
                continue;
            };
            worker.waiting.set(name, waiting.remove(instance).unwrap_or_default());
        }
    }

    fn set_calendar(&mut self, name: &JobName, job: &mut JobState, next: Option<Time>) {
        let next = next.map(|due| self.lead_time.before(due, self.now.wall));
        if job.next == next {
            return;
        }
        if let Some(old) = job.next.take() {
            self.calendar.remove(&(old, name.clone()));
        }
        if let Some(next) = next {
            self.calendar.insert((next, name.clone()));
        }
        job.next = next;
        if job.deferred_for_fire && !self.fires_soon(job) && !mutants::is_on(mutants::PUT_OFF_IS_FORGOTTEN) {
            // The fire that was waited for is none any more.
            self.run_queue.insert(name.clone());
        }
    }

    // ---- leading

    pub(super) fn assign(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let held = view.paused && mutants::is_on(mutants::PAUSE_HOLDS_PLANS);
        if !job.leads() || self.no_starts() || held {
            return false;
        }
        let mut candidates = Candidates { now: self.now.wall, ..Candidates::default() };
        for (instance, id) in &job.hosted {
            let Some(worker) = self.workers.get(id) else { continue };
            match worker.phase {
                Phase::Attaching | Phase::Attached => {}
                _ => {
                    candidates.leaving.insert(instance.clone());
                }
            }
        }
        for instance in view.sharding.instances() {
            if view.instances.contains_key(instance) || candidates.leaving.contains(instance) {
                continue;
            }
            let Some(worker) = instance.worker() else { continue };
            let here = self
                .workers
                .get(&worker)
                .is_some_and(|worker| worker.present() && job.hosted.contains_key(instance));
            let elsewhere = self.elsewhere.get(&worker).is_some_and(|found| !found.attachment.draining);
            if (here || elsewhere) && !job.dead.contains(&worker) && !job.leaving.contains(instance) {
                candidates.absent.insert(instance.clone());
                // Nothing tells when its attachment goes: it is looked at as long as the instance is absent.
                if !here {
                    self.look_later(worker);
                }
            }
        }
        let Some(assigned) = plan::assign(view, &candidates) else { return false };
        let planned = Planned { why: assigned.why, causes: assigned.causes };
        self.submit(name, job, assigned.txn, Intent::Assign(Box::new(planned)));
        true
    }

    pub(super) fn new_records(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if !job.leads() || self.no_starts() {
            return false;
        }
        let missing = (0..view.rules.items).map(Item).filter(|item| !job.records.contains_key(item));
        let (base, now) = (view.base, self.now.wall);
        let new: BTreeMap<Item, (Version, Record)> =
            missing.take(CHUNK).map(|item| (item, (Version(0), Record::new(base, now)))).collect();
        if new.is_empty() {
            return false;
        }
        let mut txn = led(Purpose::Records, view);
        txn.guard(Guard::Generation(name.clone(), view.generation));
        for (item, (_, record)) in &new {
            let record = Box::new(record.clone());
            txn.write(Write::Record { job: name.clone(), item: *item, expect: None, record });
            // Its mirror had nothing to hang from when the item was disabled.
            if view.sharding.disabled_items.contains(item) {
                txn.write(Write::ItemDisabled { job: name.clone(), item: *item, disabled: true });
            }
        }
        self.submit(name, job, txn, Intent::NewRecords(new));
        true
    }

    pub(super) fn mirrors(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if !job.leads() {
            job.mirrored = None;
            job.mirrors.clear();
            return false;
        }
        follow_assignment(job, view);
        if job.mirrors.is_empty() {
            return false;
        }
        let mut txn = led(Purpose::Mirrors, view);
        let chunk: Vec<(Item, Option<InstanceId>)> =
            job.mirrors.iter().take(CHUNK).map(|(item, owner)| (*item, owner.clone())).collect();
        for (item, instance) in &chunk {
            txn.write(Write::ItemInstance { job: name.clone(), item: *item, instance: instance.clone() });
        }
        let items = chunk.into_iter().map(|(item, _)| item).collect();
        self.submit(name, job, txn, Intent::Mirrors(items));
        true
    }

    /// Commands of older tools: the items of the named instance are triggered once, where they may run and are not
    /// running, and the command is cleared.
    fn foreign_triggers(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        let mut txn = guarded(Purpose::ForeignTrigger, view);
        txn.guard(Guard::Generation(name.clone(), view.generation));
        let mine = view.foreign_triggers.iter().filter(|(instance, _)| job.hosted.contains_key(*instance));
        for (instance, how) in mine {
            let Ok(id) = TriggerId::new((self.ids)()) else { continue };
            let mut items = 0;
            for item in view.sharding.items_of(instance) {
                let idle = job.records.get(&item).is_some_and(|(_, record)| record.state.is_idle());
                let disabled = view.rules.disabled || view.sharding.disabled_items.contains(&item);
                if idle && !disabled && !view.triggers.contains_key(&item) {
                    let node = TriggerNode { id: id.clone(), at: self.now.wall };
                    txn.write(Write::Trigger { job: name.clone(), item, node });
                    items += 1;
                }
            }
            tracing::info!(job = %name, %instance, items, "triggered by a write of another tool");
            if !mutants::is_on(mutants::FOREIGN_TRIGGERS_STAY) {
                let (job, instance, how) = (name.clone(), instance.clone(), *how);
                txn.write(Write::ClearForeignTrigger { job, instance, how });
            }
        }
        if txn.writes.is_empty() {
            return false;
        }
        self.submit(name, job, txn, Intent::ForeignTriggers);
        true
    }

    /// The leader forgets servers that nobody has used for long, and that nobody has disabled.
    pub(super) fn forget_servers(&mut self, name: &JobName, job: &mut JobState, view: &Arc<Job>) -> bool {
        if !job.leads() {
            job.empty_servers.clear();
            return false;
        }
        let used = |server: &ServerAddress| view.instances.keys().any(|i| i.address() == server.as_str());
        let empty = view.servers.iter().filter(|(server, enabled)| **enabled && !used(server));
        let empty: BTreeMap<ServerAddress, Mono> = empty
            .map(|(server, _)| {
                (server.clone(), job.empty_servers.get(server).copied().unwrap_or(self.now.mono))
            })
            .collect();
        job.empty_servers = empty;
        let (now, retention) = (self.now.mono, self.settings.server_retention);
        let mut txn = led(Purpose::Servers, view);
        for (server, since) in &job.empty_servers {
            let until = since.plus(retention);
            if until <= now {
                txn.write(Write::RemoveServer(name.clone(), server.clone()));
            } else {
                self.timers.insert((until, Timer::Job(name.clone())));
            }
        }
        if txn.writes.is_empty() {
            return false;
        }
        self.submit(name, job, txn, Intent::Servers);
        true
    }
}

/// Finds the `instance` mirrors that differ from the assignment: those of the items that moved, and all of them
/// for a leader who is new and does not know what the last one left undone.
fn follow_assignment(job: &mut JobState, view: &Arc<Job>) {
    let same_election = |known: &Job| (&known.incarnation, known.epoch) == (&view.incarnation, view.epoch);
    let known = job.mirrored.take().filter(|known| same_election(known));
    if known.as_ref().is_none_or(|known| known.generation != view.generation) {
        let before = known.as_ref().map(|known| &known.sharding);
        let seen = before.map_or(0, Sharding::items);
        let last = job.records.keys().next_back().map_or(0, |item| item.0 + 1);
        for item in (0..view.sharding.items().max(seen).max(last)).map(Item) {
            let owner = view.sharding.owner(item);
            if before.is_none_or(|before| before.owner(item) != owner) {
                job.mirrors.insert(item, owner.cloned());
            }
        }
    }
    job.mirrored = Some(view.clone());
}

/// The record after an event that must be legal here; unchanged otherwise.
pub(super) fn applied(record: &Record, event: &ItemEvent) -> Record {
    record.apply(event).unwrap_or_else(|_| record.clone())
}
