//! Workers as processes: how they start, die, stand still and leave.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rosterd_client::{OnRefused, Options, Worker};
use rosterd_domain::verify::What;
use tokio_util::sync::CancellationToken;

use crate::canary::CANARY;
use crate::clock::NodeClock;
use crate::process::Hand;
use crate::wire::SimConnector;
use crate::world::{Later, RunningWorker, World};

impl World {
    pub fn start_worker(&mut self, desk: usize) {
        if self.desks[desk].running.is_some() || self.desks[desk].retired {
            return;
        }
        self.desks[desk].starts += 1;
        let process = format!("w{desk}.{}", self.desks[desk].starts);
        let mut urls: Vec<String> = self.seats.iter().map(|seat| seat.url.clone()).collect();
        let any = self.rng.index(urls.len());
        let first = self.desks[desk].first.unwrap_or(any);
        urls.rotate_left(first);
        let (from, to) = self.plan.slots;
        let mut options = Options::default();
        options.servers = urls;
        options.address = self.desks[desk].address.clone().unwrap_or_else(|| format!("10.0.0.{desk}"));
        options.slots = u32::try_from(from + self.rng.below(to - from + 1)).unwrap_or(1);
        options.drain_timeout = Duration::from_secs(4);
        options.stop_grace = Duration::from_secs(1);
        options.on_refused = OnRefused::Retry;
        options.seed = Some(self.rng.next());
        options.credential = Some(CANARY.into());
        let (hand, leave) = (Hand::default(), CancellationToken::new());
        let mut worker = Worker::new(options).shutdown(leave.clone().cancelled_owned());
        for job in self.plan.jobs.clone() {
            let slowness = self.desks[desk].slowness.clone();
            worker = worker.add(job.offer(&process, &hand, &self.log, slowness, &mut self.rng));
        }
        let connector = SimConnector { net: self.net.clone(), worker: process.clone() };
        let drift = self.desks[desk].fast.unwrap_or_else(|| self.some_drift());
        let clock = NodeClock::new(self.now(), drift);
        let result = Arc::new(Mutex::new(None));
        let (held, end) = (hand.hold(worker.drive(connector, clock.clone())), result.clone());
        tokio::spawn(async move {
            if let Some(how) = held.await {
                let how = how.map_or_else(|error| error.to_string(), |()| "left".into());
                *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
            }
        });
        self.note(|| format!("{process} starts"));
        self.desks[desk].running =
            Some(RunningWorker { process, hand, leave, clock, result, leaving: false });
    }

    /// Whether it was there.
    pub fn crash_worker(&mut self, desk: usize, vanish: bool) -> bool {
        let Some(running) = self.desks[desk].running.take() else { return false };
        let process = running.process;
        self.note(|| format!("{process} crashes{}", if vanish { " without a word" } else { "" }));
        if vanish {
            self.net.vanish(&process);
        }
        running.hand.kill();
        self.log.write(&process, What::Killed, None);
        let after = self.pause_before_start();
        self.later(after, Later::StartWorker(desk));
        true
    }

    /// Whether it moved until now.
    pub fn freeze_worker(&mut self, desk: usize, span: Duration) -> bool {
        let start = self.desks[desk].starts;
        let Some(running) = &self.desks[desk].running else { return false };
        if running.hand.is_frozen() {
            return false;
        }
        running.hand.freeze(true);
        let process = running.process.clone();
        self.log.write(&process, What::Frozen, None);
        self.note(|| format!("{process} stands still for {span:?}"));
        self.later(span, Later::ThawWorker(desk, start));
        true
    }

    pub fn thaw_worker(&mut self, desk: usize) {
        let Some(running) = &self.desks[desk].running else { return };
        if running.hand.is_frozen() {
            let process = running.process.clone();
            self.log.write(&process, What::Thawed, None);
            running.hand.freeze(false);
            self.note(|| format!("{process} goes on"));
        }
    }

    /// Asks a worker to leave, as SIGTERM would; whether that is news to it.
    pub fn leave(&mut self, desk: usize) -> bool {
        let Some(running) = &mut self.desks[desk].running else { return false };
        let news = !std::mem::replace(&mut running.leaving, true);
        running.leave.cancel();
        let process = running.process.clone();
        self.note(|| format!("{process} is asked to leave"));
        news
    }
}
