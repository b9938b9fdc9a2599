//! Notifications for people and monitoring that are still pending.

use std::time::Duration;

use rosterd_domain::id::JobName;
use rosterd_domain::item::{Outcome, Source};
use rosterd_domain::plan::Entry;
use rosterd_domain::time::Mono;

use crate::io::Io;
use crate::io::event::Effect;
use crate::io::timers::Timer;

/// How many runs are logged one by one in a period.
const MOST: u32 = 20;

/// The length of a period.
const SPAN: Duration = Duration::from_secs(1);

/// Notifications for people and monitoring that are still pending.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    /// Jobs that no longer exist here, for monitoring.
    gone: Vec<JobName>,
    /// Runs that crashed, and their failover runs.
    notes: Notes,
}

/// How many were logged in the current period.
#[derive(Debug, Default)]
struct Notes {
    since: Option<Mono>,
    told: u32,
    /// Only counted, not logged.
    crashed: u64,
    failed_over: u64,
}

impl Telling {
    /// A job no longer exists here.
    pub(crate) fn has_gone(&mut self, name: &JobName) {
        self.gone.push(name.clone());
    }

    pub(crate) fn take_gone(&mut self) -> Vec<JobName> {
        std::mem::take(&mut self.gone)
    }

    pub(crate) fn note_run(&mut self, io: &mut Io, name: &JobName, entry: &Entry) {
        match entry {
            Entry::Ended { item, token, run, outcome: Outcome::Crashed, requeued, .. } => {
                if !self.may_note(io) {
                    self.notes.crashed += 1;
                    return;
                }
                let next = if *requeued { ": it is to run again" } else { "" };
                let what =
                    format!("item {item}: run {token} of {} crashed on {}{next}", run.fire, run.instance);
                let (item, token, instance) = (item.0, token.0, &run.instance);
                tracing::warn!(job = %name, item, token, %instance, requeued, "a run crashed");
                io.out.push(Effect::Note { job: Some(name.clone()), what });
            }
            Entry::Started { item, token, run } if run.source == Source::Failover => {
                if !self.may_note(io) {
                    self.notes.failed_over += 1;
                    return;
                }
                let what =
                    format!("item {item}: run {token} of {} is a failover, on {}", run.fire, run.instance);
                let (item, token, instance) = (item.0, token.0, &run.instance);
                tracing::info!(job = %name, item, token, %instance, "a crashed run is run again: failover");
                io.out.push(Effect::Note { job: Some(name.clone()), what });
            }
            _ => {}
        }
    }

    /// Whether one more can be logged in this period; if not, a timer is set for its end.
    fn may_note(&mut self, io: &mut Io) -> bool {
        let (now, notes) = (io.now.mono, &mut self.notes);
        let over = notes.since.is_none_or(|since| since.plus(SPAN) <= now);
        if over && notes.crashed + notes.failed_over == 0 {
            (notes.since, notes.told) = (Some(now), 0);
        }
        if notes.told < MOST {
            notes.told += 1;
            return true;
        }
        if notes.crashed + notes.failed_over == 0 {
            let end = notes.since.unwrap_or(now).plus(SPAN);
            io.timers.insert((end, Timer::Notes));
        }
        false
    }

    /// Logs in one line how many runs were only counted.
    pub(crate) fn tell_counted(&mut self, io: &mut Io) {
        let Notes { crashed, failed_over, .. } = std::mem::take(&mut self.notes);
        if crashed + failed_over > 0 {
            let what = format!(
                "{crashed} more runs crashed, and {failed_over} more were run again as failover, within a second"
            );
            tracing::warn!(
                crashed,
                failed_over,
                "more runs crashed or were run again than are told of one by one"
            );
            io.out.push(Effect::Note { job: None, what });
        }
    }
}
