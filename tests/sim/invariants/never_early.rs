//! No run starts before its time, although it may be in its record, and be sent, a moment earlier: an early Trigger
//! says how long to wait.
//!
//! Source: Dkron #541, whole crontabs that ran twice at midnight; XXL-JOB #3948, next fires that are read ahead of time.

use rosterd_domain::item::Source;
use rosterd_domain::time::Time;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::oracle::observer::Shadow;

/// Stateless.
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
                    "{process} receives the Trigger of {run:?} at {at}, which is due at {fire}, with a wait of {wait:?}"
                ))
            }
            _ => Ok(()),
        }
    }
}
