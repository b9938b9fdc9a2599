//! No secret in a line of the log or in an error: neither the parameters of jobs and items, which may be secrets, nor the
//! credentials of workers. The worlds' are canaries; looked for in all that coordinators and clients log, and in what refusals
//! and reasons say. (What people are answered is looked at where they ask.)
//!
//! Source: CVE-2022-22733, ElasticJob-UI's token that held the administrator's password; XXL-JOB #3375, a shared token that was
//! told to whoever asked.

use rosterd_domain::time::Time;
use rosterd_session::frame::{FromWorker, ToWorker};

use super::Invariant;
use crate::canary;
use crate::watch::{Shadow, Step};

/// Nothing is kept: what was logged waits where it was heard.
#[derive(Default)]
pub struct NoSecret;

impl Invariant for NoSecret {
    fn name(&self) -> &'static str {
        "no_secret"
    }

    fn applied(&mut self, _step: &Step<'_>) -> Result<(), String> {
        logged()
    }

    fn said(&mut self, _process: &str, _frame: &FromWorker) -> Result<(), String> {
        logged()
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, _now: &Shadow, _: Time) -> Result<(), String> {
        logged()?;
        let words = match frame {
            ToWorker::Refused { refusal, .. }
            | ToWorker::ReportAck { refusal: Some(refusal), .. }
            | ToWorker::Close(Some(refusal)) => &refusal.message,
            ToWorker::Cancel { message, .. }
            | ToWorker::Drain { message, .. }
            | ToWorker::Shutdown { message, .. } => message,
            _ => return Ok(()),
        };
        if canary::sings(words) { Err(format!("{process} is told {words:?}")) } else { Ok(()) }
    }
}

fn logged() -> Result<(), String> {
    canary::heard().first().map_or(Ok(()), |line| Err(format!("it is logged: {line}")))
}
