//! The end of a world: faults stop, and it is checked once it is at rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_domain::id::{JobName, WorkerId};
use rosterd_domain::time::Time;
use rosterd_domain::verify::{Fault, Line, What, judge};

use crate::faults::inject::part;
use crate::invariants::{AtRest, Unsettled, at_rest};
use crate::seeds::script::{FailureMode, PermanentFailure};
use crate::world::clock::NodeClock;
use crate::world::{Later, RunningCoordinator, RunningWorker, World};

/// Longer than any world lasts.
const FOR_EVER: Duration = Duration::from_secs(86_400);

impl World {
    /// Stops the faults and repairs their effects.
    pub fn heal(&mut self) {
        self.note(|| "faults stop".into());
        self.calm = true;
        if let Some(hostile) = self.hostile.take() {
            hostile.abort();
        }
        self.store_faults.set(crate::faults::store::StoreFaultRates::default());
        self.store_faults.recover();
        {
            let mut observer = self.observer.lock();
            observer.calm = true;
            observer.doomed = None;
        }
        self.net.heal();
        // Faults that were to end later end now; changes that were to be undone still are.
        let queue = std::mem::take(&mut self.queue);
        for (at, what) in queue {
            match what {
                Later::StartCoordinator(_) | Later::StartWorker(_) | Later::Operate(_) => {
                    self.queue.insert(at, what);
                }
                Later::Suspend(..) | Later::SilenceStreams(_, true) => {}
                what => self.happen(what),
            }
        }
        for machine in 0..self.machines.len() {
            self.thaw_worker(machine);
        }
        let sessions: Vec<String> =
            self.replicas.iter().filter_map(|s| Some(s.running.as_ref()?.session.clone())).collect();
        for session in sessions {
            self.store.resume(&session);
        }
        for replica in &self.replicas {
            if let Some(running) = &replica.running {
                running.control.freeze(false);
            }
        }
    }

    /// Leaves a process dead from now on.
    pub fn leave_behind(&mut self, dead: PermanentFailure) {
        let was_there = match dead {
            PermanentFailure::Pair { machine, replica, direction } => {
                part(self, Some(machine), replica, direction, None)
            }
            PermanentFailure::Coordinator { replica, how } => match (how, how.direction()) {
                (_, Some(direction)) => part(self, None, replica, direction, None),
                (how, None) => self.retire_replica(replica, how),
            },
            PermanentFailure::Worker { machine, how } => {
                self.machines[machine].retired = true;
                match (how, how.direction()) {
                    (FailureMode::StandsStill, _) => self.freeze_worker(machine, FOR_EVER),
                    (_, Some(direction)) => {
                        let replicas = 0..self.replicas.len();
                        let was: Vec<bool> = replicas
                            .map(|replica| part(self, Some(machine), replica, direction, None))
                            .collect();
                        was.contains(&true)
                    }
                    (how, None) => self.crash_worker(machine, how == FailureMode::Vanished),
                }
            }
        };
        if was_there {
            self.coverage.count(dead.kind());
        }
    }

    fn retire_replica(&mut self, replica: usize, how: FailureMode) -> bool {
        self.replicas[replica].retired = true;
        match how {
            FailureMode::StandsStill => self.freeze_coordinator(replica, FOR_EVER),
            FailureMode::CutOff => self.cut_off(replica, FOR_EVER),
            how => self.crash_coordinator(replica, how == FailureMode::Vanished),
        }
    }

    /// The live ones: not left effectively dead.
    fn live_replicas(&self) -> impl Iterator<Item = &RunningCoordinator> {
        self.replicas.iter().filter(|replica| !replica.retired).filter_map(|replica| replica.running.as_ref())
    }

    /// What violates the invariants of a world at rest.
    pub fn unsettled(&self) -> Unsettled {
        let (jobs, dumps, attachments) = self.store.view(|view| {
            let names: Vec<JobName> = view.jobs().into_iter().collect();
            let jobs: BTreeMap<JobName, _> =
                names.iter().filter_map(|name| Some((name.clone(), view.snapshot(name).ok()??))).collect();
            let dumps: BTreeMap<JobName, _> =
                names.iter().filter_map(|name| Some((name.clone(), view.dump(name)?))).collect();
            let attachments = view.attachments().unwrap_or_default();
            (jobs, dumps, attachments)
        });
        let observer = self.observer.lock();
        let watched = |running: &RunningCoordinator| self.store.watched(&running.session);
        let sessions =
            self.live_replicas().map(|running| (running.session.clone(), watched(running))).collect();
        let coordinators = self.live_replicas().map(|running| running.id.to_string()).collect();
        at_rest(&AtRest {
            now: self.now(),
            shadows: &observer.shadow.jobs,
            attachments: attachments.into_iter().map(|(id, (_, attachment))| (id, attachment)).collect(),
            sessions,
            coordinators,
            workers: self.live_workers(&observer.who),
            streams: self.net.streams(),
            asked_to_leave: &observer.asked_to_leave,
            shut_down: &observer.shut_down,
            unmarked: &observer.unmarked,
            last_begun: self.last_begun(&observer.shadow.unmonitored),
            fewest_slots: self.plan.slots.0,
            in_user_code: self.in_user_code(),
            jobs,
            dumps,
        })
    }

    /// The workers of living processes, as they were last welcomed.
    fn live_workers(&self, who: &BTreeMap<String, WorkerId>) -> BTreeSet<WorkerId> {
        let live = self
            .machines
            .iter()
            .filter(|machine| !machine.retired)
            .filter_map(|machine| machine.running.as_ref());
        live.filter_map(|running| who.get(&running.process).cloned()).collect()
    }

    fn in_user_code(&self) -> BTreeSet<(String, u32, u64)> {
        let dead = |process: &str| {
            let at = |running: &RunningWorker| running.process == process;
            self.machines.iter().any(|machine| machine.retired && machine.running.as_ref().is_some_and(at))
        };
        self.log.in_user_code(|process| !dead(process))
    }

    /// If every clock is true, no user code starts before its scheduled time.
    fn judge_starts(&self) {
        let mut observer = self.observer.lock();
        let machines = self.machines.iter().filter_map(|machine| machine.running.as_ref());
        if !observer.clocks.iter().chain(machines.map(|running| &running.clock)).all(NodeClock::is_true) {
            return;
        }
        let early = |line: &&Line| {
            line.what == What::Start && line.source == "NORMAL_TRIGGER" && line.wall < line.fire
        };
        for line in self.log.lines().iter().filter(early) {
            observer.broke("never_early", format!("it began before its time: {line:?}"));
        }
    }

    /// When a run of each item last started, for jobs that were ever without a record of runs.
    fn last_begun(&self, unmonitored: &BTreeSet<JobName>) -> BTreeMap<(String, u32), Time> {
        if unmonitored.is_empty() {
            return BTreeMap::new();
        }
        let starts = self.log.lines().into_iter().filter(|line| line.what == What::Start);
        let of_them = starts.filter(|line| unmonitored.contains(line.job.as_str()));
        of_them.map(|line| ((line.job, line.item), Time(line.wall))).collect()
    }

    /// Judges the handlers' log.
    pub fn judge(&self) {
        // Here a process notices at once when it wakes.
        self.judge_starts();
        let mut observer = self.observer.lock();
        observer.judge_barriers(&self.log.lines());
        for fault in judge(&self.log.lines(), 0).faults {
            if !observer.is_of_two_jobs(&fault) && !is_not_promised(&fault, &observer.shadow.unmonitored) {
                observer.broke(fault.rule, fault.text);
            }
        }
    }
}

/// Whether it concerns two runs of an item of a job that was ever without a record of runs: nothing records the runs
/// that started then and are in flight elsewhere, so they may overlap, and start in any order. (Each scheduled time is
/// still run once.)
fn is_not_promised(fault: &Fault, unmonitored: &BTreeSet<JobName>) -> bool {
    fault.needs_a_record() && unmonitored.contains(fault.runs[0].job.as_str())
}
