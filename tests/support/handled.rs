//! The log of the handlers of all worker processes, in the format that the judge reads.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use rosterd_client::Run;
use rosterd_domain::time::Time;
use rosterd_domain::verify::{Line, What};

/// The lines of a world that began when the calendar showed `base`.
#[derive(Clone)]
pub struct Handled {
    base: Time,
    lines: Arc<Mutex<Vec<Line>>>,
    /// The shortest lease that a job of this world may agree upon. It may be agreed upon while a run goes on, which no
    /// line would show.
    shortest: Duration,
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Handled {
    pub fn new(base: Time, shortest: Duration) -> Self {
        Self { base, lines: Arc::default(), shortest }
    }

    /// Logs an event of a process, or of a run of it, with its time since the world began.
    pub fn write(&self, since: Duration, process: &str, what: What, run: Option<&Run>) {
        let fire = run.map(|run| run.fire_time().duration_since(UNIX_EPOCH).unwrap_or_default());
        let line = Line {
            at: nanos(since),
            wall: self.base.plus(since).0,
            worker: process.to_owned(),
            what,
            job: run.map(|run| run.job().to_owned()).unwrap_or_default(),
            item: run.map(Run::item).unwrap_or_default(),
            token: run.map(Run::token).unwrap_or_default(),
            fire: fire.map_or(0, |fire| i64::try_from(fire.as_millis()).unwrap_or(i64::MAX)),
            source: run.map(|run| run.source().to_string()).unwrap_or_default(),
            attempt: run.map(Run::attempt).unwrap_or_default(),
            instance: run.map(|run| run.instance_id().to_owned()).unwrap_or_default(),
            lease: run.map(|run| nanos(run.lease_left().min(self.shortest))),
            detail: String::new(),
        };
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    pub fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs that are in user code of these processes: job, item and token.
    pub fn in_user_code(&self, counts: impl Fn(&str) -> bool) -> BTreeSet<(String, u32, u64)> {
        let mut runs = BTreeSet::new();
        for line in self.lines().into_iter().filter(|line| counts(&line.worker)) {
            let run = (line.job, line.item, line.token);
            match line.what {
                What::Start => drop(runs.insert(run)),
                What::End | What::Drop => drop(runs.remove(&run)),
                _ => {}
            }
        }
        runs
    }
}
