//! The end of a world: faults stop, and it is looked at when it has come to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosterd_domain::id::{JobName, WorkerId};
use rosterd_domain::time::Time;
use rosterd_domain::verify::{Fault, Line, What, judge};

use crate::clock::NodeClock;
use crate::invariants::{AtRest, Unsettled, at_rest};
use crate::script::{Dead, How};
use crate::strike::part;
use crate::world::{Later, RunningCoordinator, RunningWorker, World};

/// Longer than any world lasts.
const FOR_EVER: Duration = Duration::from_secs(86_400);

impl World {
    /// Faults stop, and what is broken is mended.
    pub fn heal(&mut self) {
        self.note(|| "faults stop".into());
        self.calm = true;
        if let Some(hostile) = self.hostile.take() {
            hostile.abort();
        }
        self.chaos.set(crate::faults::Rates::default());
        self.chaos.recover();
        {
            let mut watch = self.watch.lock();
            watch.calm = true;
            watch.doomed = None;
        }
        self.net.heal();
        // What was to end later ends now; what was to be given back still is.
        let queue = std::mem::take(&mut self.queue);
        for (at, what) in queue {
            match what {
                Later::StartCoordinator(_) | Later::StartWorker(_) | Later::Operate(_) => {
                    self.queue.insert(at, what);
                }
                Later::Suspend(..) | Later::Hush(_, true) => {}
                what => self.happen(what),
            }
        }
        for desk in 0..self.desks.len() {
            self.thaw_worker(desk);
        }
        let sessions: Vec<String> =
            self.seats.iter().filter_map(|s| Some(s.running.as_ref()?.session.clone())).collect();
        for session in sessions {
            self.store.resume(&session);
        }
        for seat in &self.seats {
            if let Some(running) = &seat.running {
                running.hand.freeze(false);
            }
        }
    }

    /// Somebody is dead from now on.
    pub fn leave_behind(&mut self, dead: Dead) {
        let was_there = match dead {
            Dead::Pair { desk, seat, way } => part(self, Some(desk), seat, way, None),
            Dead::Coordinator { seat, how } => match (how, how.way()) {
                (_, Some(way)) => part(self, None, seat, way, None),
                (how, None) => self.retire_seat(seat, how),
            },
            Dead::Worker { desk, how } => {
                self.desks[desk].retired = true;
                match (how, how.way()) {
                    (How::StandsStill, _) => self.freeze_worker(desk, FOR_EVER),
                    (_, Some(way)) => {
                        let seats = 0..self.seats.len();
                        let was: Vec<bool> =
                            seats.map(|seat| part(self, Some(desk), seat, way, None)).collect();
                        was.contains(&true)
                    }
                    (how, None) => self.crash_worker(desk, how == How::Vanished),
                }
            }
        };
        if was_there {
            self.coverage.count(dead.kind());
        }
    }

    fn retire_seat(&mut self, seat: usize, how: How) -> bool {
        self.seats[seat].retired = true;
        match how {
            How::StandsStill => self.freeze_coordinator(seat, FOR_EVER),
            How::CutOff => self.cut_off(seat, FOR_EVER),
            how => self.crash_coordinator(seat, how == How::Vanished),
        }
    }

    /// Who lives: it was not left as good as dead.
    fn live_seats(&self) -> impl Iterator<Item = &RunningCoordinator> {
        self.seats.iter().filter(|seat| !seat.retired).filter_map(|seat| seat.running.as_ref())
    }

    /// Whatever is wrong with the world at rest.
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
        let watch = self.watch.lock();
        let watched = |running: &RunningCoordinator| self.store.watched(&running.session);
        let sessions = self.live_seats().map(|running| (running.session.clone(), watched(running))).collect();
        let coordinators = self.live_seats().map(|running| running.id.to_string()).collect();
        at_rest(&AtRest {
            now: self.now(),
            shadows: &watch.shadow.jobs,
            attachments: attachments.into_iter().map(|(id, (_, attachment))| (id, attachment)).collect(),
            sessions,
            coordinators,
            workers: self.live_workers(&watch.who),
            streams: self.net.streams(),
            asked_to_leave: &watch.asked_to_leave,
            shut_down: &watch.shut_down,
            unmarked: &watch.unmarked,
            last_begun: self.last_begun(&watch.shadow.unmonitored),
            fewest_slots: self.plan.slots.0,
            in_user_code: self.in_user_code(),
            jobs,
            dumps,
        })
    }

    /// The workers of living processes, as they were last welcomed.
    fn live_workers(&self, who: &BTreeMap<String, WorkerId>) -> BTreeSet<WorkerId> {
        let live = self.desks.iter().filter(|desk| !desk.retired).filter_map(|desk| desk.running.as_ref());
        live.filter_map(|running| who.get(&running.process).cloned()).collect()
    }

    fn in_user_code(&self) -> BTreeSet<(String, u32, u64)> {
        let dead = |process: &str| {
            let at = |running: &RunningWorker| running.process == process;
            self.desks.iter().any(|desk| desk.retired && desk.running.as_ref().is_some_and(at))
        };
        self.log.in_user_code(|process| !dead(process))
    }

    /// Where every clock is true, no user code begins before its scheduled time.
    fn judge_starts(&self) {
        let mut watch = self.watch.lock();
        let desks = self.desks.iter().filter_map(|desk| desk.running.as_ref());
        if !watch.clocks.iter().chain(desks.map(|running| &running.clock)).all(NodeClock::is_true) {
            return;
        }
        let early = |line: &&Line| {
            line.what == What::Start && line.source == "NORMAL_TRIGGER" && line.wall < line.fire
        };
        for line in self.log.lines().iter().filter(early) {
            watch.broke("never_early", format!("it began before its time: {line:?}"));
        }
    }

    /// When something last began of each item of jobs that were ever without a record of runs.
    fn last_begun(&self, unmonitored: &BTreeSet<JobName>) -> BTreeMap<(String, u32), Time> {
        if unmonitored.is_empty() {
            return BTreeMap::new();
        }
        let starts = self.log.lines().into_iter().filter(|line| line.what == What::Start);
        let of_them = starts.filter(|line| unmonitored.contains(line.job.as_str()));
        of_them.map(|line| ((line.job, line.item), Time(line.wall))).collect()
    }

    /// Judges what the handlers wrote down.
    pub fn judge(&self) {
        // Here a process notices at once when it wakes.
        self.judge_starts();
        let mut watch = self.watch.lock();
        watch.judge_barriers(&self.log.lines());
        for fault in judge(&self.log.lines(), 0).faults {
            if !watch.is_of_two_jobs(&fault) && !is_not_promised(&fault, &watch.shadow.unmonitored) {
                watch.broke(fault.rule, fault.text);
            }
        }
    }
}

/// Whether it is about two runs of an item of a job that was ever without a record of runs: nobody knows of those that began
/// then and are under way elsewhere, so they may meet, and begin in any order. (Each scheduled time is run once all the same.)
fn is_not_promised(fault: &Fault, unmonitored: &BTreeSet<JobName>) -> bool {
    fault.needs_a_record() && unmonitored.contains(fault.runs[0].job.as_str())
}
