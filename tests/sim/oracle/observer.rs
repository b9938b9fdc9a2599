//! The store's observer, in terms of the invariants: each applied transaction is a step, with the records before and
//! after it. The shadow is derived from the writes alone, independently of the code under test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rosterd_domain::id::{InstanceId, Item, JobName, Revision, Token, WorkerId};
use rosterd_domain::item::{Ended, Record, Running, Source};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::{Attachment, TriggerNode};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Guard, Purpose, Txn, Write};
use rosterd_registry::View;
use rosterd_registry::memory::{Cause, Seen};
use rosterd_session::frame::{FromWorker, ToWorker};
use tokio::time::Instant;

use crate::invariants::barrier::{Barrier, InFlight};
use crate::invariants::{self, Invariant};
use crate::oracle::coverage::Coverage;
use crate::oracle::item_transitions;
use crate::oracle::reference_schedule::ReferenceSchedule;
use crate::oracle::shadow_foreign;
use crate::oracle::trace_lines::{brief, describe};
use crate::time::Since;
use crate::world::clock::NodeClock;
use crate::world::process::ProcessControl;
use rosterd_domain::verify::Fault;

/// A run that is sent later than this after its scheduled time is late.
pub const LATE: Duration = Duration::from_millis(500);

/// What happened to one record in one transaction.
#[derive(Debug, Clone)]
pub struct RecordChange {
    pub job: JobName,
    pub item: Item,
    /// `None`: a new record.
    pub before: Option<Record>,
    pub after: Record,
    /// The run that this ended.
    pub ended: Option<(Running, Ended)>,
    /// The run that this started, and its token.
    pub started: Option<(Running, Token)>,
}

/// A job's state, derived from the writes.
#[derive(Debug, Clone, Default)]
#[allow(dead_code, reason = "shown when a promise is broken")]
pub struct JobShadow {
    pub incarnation: String,
    pub sharding: Sharding,
    pub generation: u64,
    pub items: u32,
    pub disabled: bool,
    pub paused: bool,
    pub failover: bool,
    /// A record holds its runs.
    pub monitor: bool,
    /// The leader announces each fire to one of its workers: the leader must host a worker of the job.
    pub announces: bool,
    /// Pending manual triggers.
    pub triggers: BTreeMap<Item, TriggerNode>,
    /// Each schedule and since when it is in force; `None`: no scheduled times.
    pub schedules: Vec<(i64, Option<ReferenceSchedule>)>,
    pub servers: BTreeMap<String, bool>,
    pub leader: Option<String>,
    /// The leader when a foreign tool removed the leader's node: until another is elected, it may go on.
    pub deposed: Option<String>,
    pub epoch: u64,
    /// The version of the reshard flag, while it is up.
    pub necessary: Option<u64>,
    /// What a foreign tool wrote into `config`: it takes effect when a coordinator has taken it over.
    pub foreign_config: Option<String>,
}

impl JobShadow {
    /// How many scheduled times are in (after, until].
    pub fn due(&self, after: Time, until: Time) -> i64 {
        let mut count = 0;
        for (index, (from, due)) in self.schedules.iter().enumerate() {
            let to = self.schedules.get(index + 1).map_or(i64::MAX, |(to, _)| *to);
            let (from, to) = (after.0.max(*from), until.0.min(to));
            if let (Some(due), true) = (due, from < to) {
                count += due.count(from, to);
            }
        }
        count
    }
}

/// The state before a step.
#[derive(Debug, Default, Clone)]
pub struct Shadow {
    pub jobs: BTreeMap<JobName, JobShadow>,
    pub records: BTreeMap<(JobName, Item), Record>,
    pub attachments: BTreeMap<WorkerId, Attachment>,
    /// Attachments that are gone: how, and when.
    pub departed: BTreeMap<WorkerId, (Purpose, Time)>,
    /// Jobs that were ever without monitorExecution: nothing records the runs that started then, now or later.
    pub unmonitored: BTreeSet<JobName>,
}

impl Shadow {
    /// Whether the job exists, and its records hold all its runs.
    pub fn monitors(&self, job: &JobName) -> bool {
        self.jobs.contains_key(job) && !self.unmonitored.contains(job)
    }

    /// The run that a record counts as started without holding it, for a job without monitorExecution: its owner's, for
    /// the record's latest scheduled time, or for a manual trigger.
    fn begun_apart(&self, job: &JobName, item: Item, txn: &Txn, after: &Record) -> Option<Running> {
        let shadow = self.jobs.get(job).filter(|shadow| !shadow.monitor && txn.purpose == Purpose::Host)?;
        let instance = shadow.sharding.owner(item)?.clone();
        let by_hand = txn
            .writes
            .iter()
            .any(|write| matches!(write, Write::RemoveTrigger(of, at) if (of, *at) == (job, item)));
        let trigger = shadow.triggers.get(&item).filter(|_| by_hand);
        Some(Running {
            fire: trigger.map_or(after.last_fire, |trigger| trigger.at),
            source: if by_hand { Source::Manual } else { Source::NormalTrigger },
            worker: instance.worker()?,
            instance,
            since: after.last_fire,
            trigger: trigger.map(|trigger| trigger.id.clone()),
            held: false,
            cancelled: false,
            deaths: 0,
        })
    }
}

/// One change of the store.
#[allow(dead_code, reason = "an invariant may ask for any of it")]
pub struct AppliedStep<'a> {
    pub at: Time,
    pub revision: Revision,
    /// The token that this transaction stands for.
    pub token: Token,
    pub session: &'a str,
    pub txn: Option<&'a Txn>,
    pub changes: &'a [RecordChange],
    pub before: &'a Shadow,
    pub view: &'a View<'a>,
    /// Faults have stopped.
    pub calm: bool,
    /// The store has a clock, which is right.
    pub store_clock: bool,
}

/// The invariants that are checked in a world whose store went back in time: the store does not know what was done
/// since.
const OF_THE_PAST: &[&str] = &["known_runs", "panic", "scene", "started_twice", "tokens", "tokens_are_new"];

/// Shared by the observer, the network's listener and the world.
#[derive(Clone)]
pub struct Observer(Arc<Mutex<Inner>>);

pub struct Inner {
    pub shadow: Shadow,
    invariants: Vec<Box<dyn Invariant>>,
    pub broken: Vec<Fault>,
    /// The events, for the comparison of two replays and for people.
    pub trace: Vec<String>,
    pub last_commit: BTreeMap<String, Instant>,
    /// Applied transactions by session's coordinator, purpose and job, for acknowledgements.
    pub applied: u64,
    /// The latest of them by job and purpose.
    pub purposes: BTreeMap<(String, Purpose), u64>,
    /// The runs in flight before each transaction of an operator request, by its number.
    pub at_change: BTreeMap<(String, Purpose), Vec<(u64, InFlight)>>,
    pub barriers: Vec<Barrier>,
    /// A coordinator that dies right after its write of this number.
    pub doomed: Option<(String, u64, ProcessControl)>,
    pub deaths: Vec<String>,
    /// Workers for which a request to leave was acknowledged.
    pub asked_to_leave: BTreeSet<WorkerId>,
    /// Instances for which a shutdown for a job was acknowledged, by the job's incarnation.
    pub shut_down: BTreeSet<(JobName, String, InstanceId)>,
    /// Runs whose mirror a foreign tool removed: it comes back with the item's next run.
    pub unmarked: BTreeSet<(JobName, Item, Token)>,
    /// The worker as which each process was last welcomed.
    pub who: BTreeMap<String, WorkerId>,
    writes: BTreeMap<String, u64>,
    /// The transactions that created the jobs: no token of a job is below its transaction.
    made: Vec<(JobName, u64)>,
    /// The offset that is added to the number of a transaction to make a token.
    numbered: u64,
    /// The clocks of every coordinator that ever existed.
    pub clocks: Vec<NodeClock>,
    /// The store went back in time.
    went_back: bool,
    /// The store has a clock.
    pub store_clock: bool,
    /// Faults have stopped.
    pub calm: bool,
    /// When the first invariant was broken.
    pub broke_at: Option<Duration>,
    pub start: Since,
    base: Time,
    pub coverage: Coverage,
    told: bool,
    verbose: bool,
}

impl Observer {
    pub fn new(base: Time, coverage: Coverage, told: bool, verbose: bool) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            shadow: Shadow::default(),
            invariants: invariants::all(),
            broken: Vec::new(),
            trace: Vec::new(),
            last_commit: BTreeMap::new(),
            applied: 0,
            purposes: BTreeMap::new(),
            at_change: BTreeMap::new(),
            barriers: Vec::new(),
            doomed: None,
            deaths: Vec::new(),
            asked_to_leave: BTreeSet::new(),
            shut_down: BTreeSet::new(),
            unmarked: BTreeSet::new(),
            who: BTreeMap::new(),
            writes: BTreeMap::new(),
            made: Vec::new(),
            numbered: 0,
            clocks: Vec::new(),
            went_back: false,
            store_clock: false,
            calm: false,
            broke_at: None,
            start: Since::now(),
            base,
            coverage,
            told,
            verbose,
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, line: impl FnOnce() -> String) {
        self.lock().note(line);
    }
}

impl Inner {
    pub fn now(&self) -> Time {
        self.base.plus(self.start.elapsed())
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if !self.told && !self.verbose {
            return;
        }
        let line = format!("{:>9.3} {}", self.start.elapsed().as_secs_f64(), line());
        if self.verbose {
            eprintln!("{line}");
        }
        self.trace.push(line);
    }

    /// How tokens are numbered.
    pub fn numbered(&self) -> u64 {
        self.numbered
    }

    /// The store has the contents of this earlier state, without any session.
    pub fn goes_back(&mut self, shadow: Shadow, numbered: u64) {
        self.note(|| "the store goes back in time".into());
        (self.shadow, self.numbered, self.went_back) = (shadow, numbered, true);
        for job in self.shadow.jobs.values_mut() {
            job.leader = None;
        }
    }

    pub fn broke(&mut self, rule: &'static str, text: String) {
        if self.went_back && !OF_THE_PAST.contains(&rule) {
            return;
        }
        let line = text.clone();
        self.note(|| format!("BROKEN {rule}: {line}"));
        self.broke_at.get_or_insert(self.start.elapsed());
        self.broken.push(Fault::new(rule, text, Vec::new()));
    }

    /// A change of the store.
    pub fn seen(&mut self, seen: &Seen<'_>) {
        let txn = match seen.cause {
            Cause::Txn(txn) => Some(txn),
            Cause::SessionEnd | Cause::Foreign => None,
        };
        let changes = txn.map(|txn| self.changes(txn)).unwrap_or_default();
        self.note(|| describe(seen.session, txn, &changes));
        if let Some(txn) = txn {
            let job = job_of(txn).map(ToString::to_string).unwrap_or_default();
            if matches!(txn.purpose, Purpose::Apply | Purpose::Pause | Purpose::Disable | Purpose::Remove) {
                let before = (self.applied + 1, self.shadow.in_flight());
                self.at_change.entry((job.clone(), txn.purpose)).or_default().push(before);
            }
            self.purposes.insert((job, txn.purpose), self.applied + 1);
            self.coverage.count(format!("write: {}", txn.purpose));
            self.last_commit.insert(seen.session.to_owned(), Instant::now());
            self.applied += 1;
            let first = self.numbered + seen.revision.0;
            self.made.extend(made_by(txn).map(|job| (job.clone(), first)));
        }
        changes.iter().for_each(|change| item_transitions::cover(&self.coverage, change));
        let shadow = std::mem::take(&mut self.shadow);
        let step = AppliedStep {
            at: self.now(),
            revision: seen.revision,
            token: Token(self.numbered + seen.revision.0),
            session: seen.session,
            txn,
            changes: &changes,
            before: &shadow,
            view: &seen.view,
            calm: self.calm,
            store_clock: self.store_clock,
        };
        for write in txn.into_iter().flat_map(|txn| &txn.writes) {
            if let Write::Numbering { offset, .. } = write {
                self.numbered = *offset;
            }
        }
        let mut found = Vec::new();
        for invariant in &mut self.invariants {
            if let Err(text) = invariant.applied(&step) {
                found.push((invariant.name(), text));
            }
        }
        self.shadow = shadow;
        for (rule, text) in found {
            self.broke(rule, text);
        }
        let at = self.now();
        if matches!(seen.cause, Cause::Foreign) {
            shadow_foreign::follow(&mut self.shadow, &seen.view);
        }
        match txn {
            Some(txn) => self.follow(seen.session, at, txn, changes),
            None => {
                for job in self.shadow.jobs.values_mut() {
                    if job.leader.as_deref() == Some(seen.session) {
                        job.leader = None;
                    }
                }
            }
        }
        self.doom(seen.session, txn.is_some());
    }

    /// Kills the coordinator that has to die right after this write.
    fn doom(&mut self, session: &str, wrote: bool) {
        if !wrote {
            return;
        }
        let name = session.split('#').next().unwrap_or_default().to_owned();
        let number = self.writes.entry(name.clone()).or_default();
        *number += 1;
        let number = *number;
        if self.doomed.as_ref().is_some_and(|(who, at, _)| *who == name && *at == number)
            && let Some((_, _, control)) = self.doomed.take()
        {
            control.kill();
            self.deaths.push(name);
        }
    }

    /// How many writes of this coordinator were applied.
    pub fn writes_of(&self, name: &str) -> u64 {
        self.writes.get(name).copied().unwrap_or(0)
    }

    /// Up to which scheduled time a run may be sent now: a run that was due by the clock of any host that ever existed
    /// is not early, since other hosts send runs on. It is not computed for the many frames that send no run.
    fn latest(&self, frame: &ToWorker) -> Time {
        let clocks = if matches!(frame, ToWorker::Trigger(_)) { &self.clocks[..] } else { &[] };
        clocks.iter().map(NodeClock::latest).fold(self.now(), Time::max)
    }

    /// A frame on its way to a worker.
    pub fn heard(&mut self, worker: &str, host: &str, frame: &ToWorker) {
        if !matches!(frame, ToWorker::HeartbeatAck { .. }) {
            self.note(|| format!("{host} -> {worker}: {}", brief(frame)));
        }
        if let ToWorker::Welcome(welcome) = frame {
            self.who.insert(worker.to_owned(), welcome.worker.clone());
        }
        if matches!(frame, ToWorker::Trigger(trigger) if self.now().since(trigger.fire) >= LATE) {
            self.coverage.count("late: seen");
        }
        let at = self.latest(frame);
        let shadow = std::mem::take(&mut self.shadow);
        let mut found = Vec::new();
        for invariant in &mut self.invariants {
            if let Err(text) = invariant.heard(worker, frame, &shadow, at) {
                found.push((invariant.name(), text));
            }
        }
        self.shadow = shadow;
        for (rule, text) in found {
            self.broke(rule, text);
        }
    }

    /// Whether a fault concerns a run of a job that was removed with its runs, and one of a later job of that name. The
    /// removal does not wait until each run is stopped, which takes a lease if its host is cut off; one that was sent
    /// right before may even start after one of the later job. Their tokens tell them apart.
    pub fn is_of_two_jobs(&self, fault: &Fault) -> bool {
        let [one, other] = fault.runs.as_slice() else { return false };
        let (earlier, later) = (one.token.min(other.token), one.token.max(other.token));
        let between =
            |(job, made): &(JobName, u64)| job.as_str() == one.job && earlier <= *made && *made < later;
        matches!(fault.rule, "overlap" | "lease" | "once_per_fire" | "tokens")
            && self.made.iter().any(between)
    }

    /// A frame of a worker arrives at a coordinator.
    pub fn said(&mut self, process: &str, frame: &FromWorker) {
        let (at, shadow) = (self.now(), &self.shadow);
        let said = |invariant: &mut Box<dyn Invariant>| {
            let said = invariant.said(process, frame).and(match frame {
                FromWorker::Heartbeat { in_flight, .. } => invariant.beat(process, in_flight, shadow, at),
                _ => Ok(()),
            });
            Some((invariant.name(), said.err()?))
        };
        let found: Vec<_> = self.invariants.iter_mut().filter_map(said).collect();
        for (rule, text) in found {
            self.broke(rule, text);
        }
    }

    fn changes(&self, txn: &Txn) -> Vec<RecordChange> {
        let records = txn.writes.iter().filter_map(|write| match write {
            Write::Record { job, item, record, .. } => Some((job, item, record)),
            _ => None,
        });
        records
            .map(|(job, item, record)| {
                let before = self.shadow.records.get(&(job.clone(), *item)).cloned();
                let after = (**record).clone();
                let was = before.as_ref().and_then(|before| before.running().map(|run| (before.token, run)));
                let ended = was.and_then(|(token, run)| {
                    let last = after.last.clone().filter(|last| last.token == token)?;
                    Some((run.clone(), last))
                });
                let was_free = |before: &Record| before.running().is_none() || after.token > before.token;
                let grown =
                    before.as_ref().is_some_and(|before| before.counters.fired < after.counters.fired);
                let started = after
                    .running()
                    .filter(|_| before.as_ref().is_some_and(was_free))
                    .cloned()
                    .or_else(|| self.shadow.begun_apart(job, *item, txn, &after).filter(|_| grown))
                    .map(|run| (run, after.token));
                RecordChange { job: job.clone(), item: *item, before, after, ended, started }
            })
            .collect()
    }
}

/// The job that a transaction concerns.
pub fn job_of(txn: &Txn) -> Option<&JobName> {
    txn.guards.iter().find_map(|guard| match guard {
        Guard::Incarnation(job, _) | Guard::NoJob(job) | Guard::Prepared(job, _) => Some(job),
        _ => None,
    })
}

fn made_by(txn: &Txn) -> impl Iterator<Item = &JobName> {
    txn.writes.iter().filter_map(|write| match write {
        Write::CreateJob { job, .. } => Some(job),
        _ => None,
    })
}
