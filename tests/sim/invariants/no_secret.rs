//! No secret appears in a log line or an error: neither the parameters of jobs and items, which may be secrets, nor the
//! credentials of workers. The worlds' secrets are canaries; they are searched in everything that coordinators and
//! clients log, and in refusals and reasons. (The answers to operators are checked where they are requested.)
//!
//! Source: CVE-2022-22733, ElasticJob-UI's token that held the administrator's password; XXL-JOB #3375, a shared token
//! that was returned to any caller.

use rosterd_domain::time::Time;
use rosterd_session::frame::{FromWorker, ToWorker};

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};
use crate::oracle::planted_secrets;

/// Stateless: the subscriber keeps the leaked lines.
#[derive(Default)]
pub struct NoSecret;

impl Invariant for NoSecret {
    fn name(&self) -> &'static str {
        "no_secret"
    }

    fn applied(&mut self, _step: &AppliedStep<'_>) -> Result<(), String> {
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
        if planted_secrets::leaks_secret(words) {
            Err(format!("{process} receives {words:?}"))
        } else {
            Ok(())
        }
    }
}

fn logged() -> Result<(), String> {
    planted_secrets::leaked_lines().first().map_or(Ok(()), |line| Err(format!("it is logged: {line}")))
}
