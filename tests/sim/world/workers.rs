//! Workers as processes: how they start, die, freeze and leave.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rosterd_client::{OnRefused, Options, Worker};
use rosterd_domain::verify::What;
use tokio_util::sync::CancellationToken;

use crate::oracle::planted_secrets::PLANTED_SECRET;
use crate::world::clock::NodeClock;
use crate::world::network::SimConnector;
use crate::world::process::ProcessControl;
use crate::world::{Later, RunningWorker, World};

impl World {
    pub fn start_worker(&mut self, machine: usize) {
        if self.machines[machine].running.is_some() || self.machines[machine].retired {
            return;
        }
        self.machines[machine].starts += 1;
        let process = format!("w{machine}.{}", self.machines[machine].starts);
        let mut urls: Vec<String> = self.replicas.iter().map(|replica| replica.url.clone()).collect();
        let any = self.rng.index(urls.len());
        let first = self.machines[machine].first.unwrap_or(any);
        urls.rotate_left(first);
        let (from, to) = self.plan.slots;
        let mut options = Options::default();
        options.servers = urls;
        options.address =
            self.machines[machine].address.clone().unwrap_or_else(|| format!("10.0.0.{machine}"));
        options.slots = u32::try_from(from + self.rng.below(to - from + 1)).unwrap_or(1);
        options.drain_timeout = Duration::from_secs(4);
        options.stop_grace = Duration::from_secs(1);
        options.on_refused = OnRefused::Retry;
        options.seed = Some(self.rng.next());
        options.credential = Some(PLANTED_SECRET.into());
        let (control, leave) = (ProcessControl::default(), CancellationToken::new());
        let mut worker = Worker::new(options).shutdown(leave.clone().cancelled_owned());
        for job in self.plan.jobs.clone() {
            let slowness = self.machines[machine].slowness.clone();
            worker = worker.add(job.offer(&process, &control, &self.log, slowness, &mut self.rng));
        }
        let connector = SimConnector { net: self.net.clone(), worker: process.clone() };
        let drift = self.machines[machine].fast.unwrap_or_else(|| self.some_drift());
        let clock = NodeClock::new(self.now(), drift);
        let result = Arc::new(Mutex::new(None));
        let (held, end) = (control.run(worker.drive(connector, clock.clone())), result.clone());
        tokio::spawn(async move {
            if let Some(how) = held.await {
                let how = how.map_or_else(|error| error.to_string(), |()| "left".into());
                *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
            }
        });
        self.note(|| format!("{process} starts"));
        self.machines[machine].running =
            Some(RunningWorker { process, control, leave, clock, result, leaving: false });
    }

    /// Returns whether it was running.
    pub fn crash_worker(&mut self, machine: usize, vanish: bool) -> bool {
        let Some(running) = self.machines[machine].running.take() else { return false };
        let process = running.process;
        self.note(|| format!("{process} crashes{}", if vanish { " without a word" } else { "" }));
        if vanish {
            self.net.vanish(&process);
        }
        running.control.kill();
        self.log.write(&process, What::Killed, None);
        let after = self.pause_before_start();
        self.later(after, Later::StartWorker(machine));
        true
    }

    /// Returns whether it was running until now.
    pub fn freeze_worker(&mut self, machine: usize, span: Duration) -> bool {
        let start = self.machines[machine].starts;
        let Some(running) = &self.machines[machine].running else { return false };
        if running.control.is_frozen() {
            return false;
        }
        running.control.freeze(true);
        let process = running.process.clone();
        self.log.write(&process, What::Frozen, None);
        self.note(|| format!("{process} stands still for {span:?}"));
        self.later(span, Later::ThawWorker(machine, start));
        true
    }

    pub fn thaw_worker(&mut self, machine: usize) {
        let Some(running) = &self.machines[machine].running else { return };
        if running.control.is_frozen() {
            let process = running.process.clone();
            self.log.write(&process, What::Thawed, None);
            running.control.freeze(false);
            self.note(|| format!("{process} goes on"));
        }
    }

    /// Asks a worker to leave, as SIGTERM would. Returns whether it was not leaving yet.
    pub fn leave(&mut self, machine: usize) -> bool {
        let Some(running) = &mut self.machines[machine].running else { return false };
        let news = !std::mem::replace(&mut running.leaving, true);
        running.leave.cancel();
        let process = running.process.clone();
        self.note(|| format!("{process} is asked to leave"));
        news
    }
}
