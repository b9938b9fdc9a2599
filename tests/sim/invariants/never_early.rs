//! No run begins before its time, though it may stand in its record, and be told, a moment earlier: a Trigger that
//! comes early says how long to wait.
//!
//! Source: Dkron #541, whole crontabs that ran twice at midnight; XXL-JOB #3948, next fires that are read ahead of time.

use rosterd_domain::item::Source;
use rosterd_domain::time::Time;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::watch::Shadow;

/// Nothing is kept.
#[derive(Default)]
pub struct NeverEarly;

impl Invariant for NeverEarly {
    fn name(&self) -> &'static str {
        "never_early"
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, _now: &Shadow, at: Time) -> Result<(), String> {
        match frame {
            ToWorker::Trigger(trigger)
                if trigger.source == Source::NormalTrigger && at.plus(trigger.starts_in) < trigger.fire =>
            {
                let (run, fire, wait) = (&trigger.run, trigger.fire, trigger.starts_in);
                Err(format!(
                    "{process} is told at {at} of {run:?}, which is due at {fire}, to wait for {wait:?}"
                ))
            }
            _ => Ok(()),
        }
    }
}
