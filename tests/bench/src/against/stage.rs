//! One side at a time on the ensemble that both use: rosterd with a coordinator, or Elastic-Job, whose workers connect
//! to the ensemble directly.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Result;
use crate::crew::Crew;
use crate::ensemble::{Cost, Ensemble};
use crate::fires::{SET, SLOTS};
use crate::load::{Fires, Load};
use crate::machine::{Floor, Used, wall};
use crate::options::Options;
use crate::server::{Server, scratch, target_dir};
use crate::worker::{Seen, Spec};

/// The class that `cargo xtask bench --against elasticjob` compiles.
const THEIRS: &str = "rosterd.bench.ElasticJobWorker";
/// How long a side may take until all its jobs are registered.
const PATIENCE: Duration = Duration::from_secs(300);
/// The warm-up that is not counted once it is steady: JIT-compiled programs get faster.
const WARMER: Duration = Duration::from_secs(8);
/// How long it may then take to reach its rate; one that cannot is measured anyway.
const WARM: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Theirs,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "rosterd",
            Self::Theirs => "Elastic-Job",
        }
    }
}

/// A side that is up.
pub(crate) struct Stage<'a> {
    pub(crate) side: Side,
    pub(crate) ensemble: &'a Ensemble,
    pub(crate) namespace: String,
    pub(crate) crew: Crew,
    pub(crate) server: Option<Server>,
    dir: TempDir,
    outs: Vec<String>,
}

/// The work of a side in a number of seconds.
pub(crate) struct Measured {
    pub(crate) fires: Fires,
    /// Runs that started within them.
    pub(crate) runs: f64,
    pub(crate) seconds: f64,
    /// Of coordinator and workers.
    pub(crate) used: Used,
    /// Of the ensemble.
    pub(crate) cost: Cost,
    pub(crate) floor: Floor,
}

impl<'a> Stage<'a> {
    pub(crate) fn open(options: &Options, ensemble: &'a Ensemble, side: Side) -> Result<Self> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let namespace = format!("bench-{}", LAST.fetch_add(1, Ordering::Relaxed));
        let server = match side {
            Side::Ours => Some(Server::on(options, ensemble, &namespace, SET)?),
            Side::Theirs => None,
        };
        Ok(Self { side, ensemble, namespace, crew: Crew::new(), server, dir: scratch()?, outs: Vec::new() })
    }

    /// Starts a worker process with this work; fills in the address of the registry.
    pub(crate) fn start(&mut self, mut spec: Spec) -> Result<usize> {
        let out = self.dir.path().join(format!("runs-{}", self.outs.len())).display().to_string();
        self.outs.push(out.clone());
        (spec.out, spec.namespace) = (Some(out), self.namespace.clone());
        if let Some(server) = &self.server {
            spec.server = server.address().to_owned();
            // A coordinator has one namespace, whatever its name.
            spec.namespace.clear();
            return self.crew.start(&spec);
        }
        spec.server = self.ensemble.address();
        let place = target_dir().join("elasticjob");
        let mut java = Command::new("java");
        java.args(["-Xmx2g", "-cp"]);
        java.arg(format!("{0}/classes:{0}/dependency/*", place.display())).arg(THEIRS);
        java.arg(serde_json::to_string(&spec)?);
        self.crew.start_program(java)
    }

    /// Coordinator and workers together.
    fn used(&self) -> Used {
        self.crew.used().and(self.server.as_ref().map_or_else(Used::default, Server::used))
    }

    /// Runs a load until it is steady, and then for this many seconds.
    pub(crate) fn measure(mut self, load: &Load, seconds: u64) -> Result<Measured> {
        let floor = self.ensemble.floor()?;
        for _ in 0..load.processes {
            self.start(Spec {
                address: "127.0.0.1".into(),
                slots: SLOTS,
                prefix: "tick-".into(),
                count: load.jobs,
                jobs: load.jobs,
                file: load.file(),
                conversations: 1,
                pulse: true,
                ..Spec::default()
            })?;
        }
        self.settle(load)?;
        let (from, since) = (wall(), Instant::now());
        let (stand, used) = (self.ensemble.stand()?, self.used());
        std::thread::sleep(Duration::from_secs(seconds));
        let (cost, used) = (self.ensemble.cost(&stand)?, self.used().since(used));
        let (until, seconds) = (wall(), since.elapsed().as_secs_f64());
        let seen = self.crew.leave_and_tell(&self.outs)?;
        let began = |seen: &&Seen| (from..until).contains(&(seen.fire * 1000 + seen.lag));
        let runs = seen.iter().filter(began).count() as f64;
        let fires = Fires::between(load, &seen, from, until);
        Ok(Measured { fires, runs, seconds, cost, used, floor })
    }

    /// Waits until all jobs are registered and runs start at about the requested rate, if they ever do.
    fn settle(&mut self, load: &Load) -> Result {
        if self.side == Side::Theirs {
            self.crew.wait_until_all_came(PATIENCE)?;
        }
        let until = Instant::now() + WARM + Duration::from_secs(u64::from(load.jobs / 100));
        let mut pace = Pace::new(load);
        while Instant::now() < until && !pace.steady() {
            if let Some((who, line)) = self.crew.hear(until)? {
                pace.hear(who, &line);
            }
        }
        std::thread::sleep(WARMER);
        Ok(())
    }
}

/// How many runs start each second, as reported by the processes.
struct Pace {
    wanted: f64,
    said: Vec<f64>,
    lines: usize,
    /// The total of runs each time all processes have reported.
    sums: Vec<f64>,
}

impl Pace {
    fn new(load: &Load) -> Self {
        Self {
            wanted: load.rate() * 0.9,
            said: vec![0.0; load.processes as usize],
            lines: 0,
            sums: Vec::new(),
        }
    }

    fn hear(&mut self, who: usize, line: &str) {
        let Some(runs) = line.strip_prefix("runs ").and_then(|runs| runs.parse().ok()) else { return };
        if let Some(said) = self.said.get_mut(who) {
            *said = runs;
        }
        self.lines += 1;
        if self.lines.is_multiple_of(self.said.len()) {
            self.sums.push(self.said.iter().sum());
        }
    }

    /// Over the last three seconds.
    fn steady(&self) -> bool {
        let last = self.sums.len().checked_sub(1);
        let then = last.and_then(|last| last.checked_sub(3));
        then.zip(last).is_some_and(|(then, last)| {
            let grown = self.sums.get(last).unwrap_or(&0.0) - self.sums.get(then).unwrap_or(&0.0);
            grown >= 3.0 * self.wanted
        })
    }
}
