//! One stream speaks for a worker: the number of the stream over which it is attached only grows, so that an abandoned
//! stream never speaks for it again, and no two processes are ever the same worker.
//!
//! Source: Elastic-Job #1832. Two containers of one address on two hosts were one instance, and both ran everything; XXL-JOB
//! #2499, calls to a pod that had been replaced.

use std::collections::BTreeMap;

use rosterd_domain::id::WorkerId;
use rosterd_domain::time::Time;
use rosterd_domain::txn::Write;
use rosterd_session::frame::ToWorker;

use super::Invariant;
use crate::oracle::observer::{AppliedStep, Shadow};

/// State: the process of each worker.
#[derive(Default)]
pub struct OneStream {
    process: BTreeMap<WorkerId, String>,
}

impl Invariant for OneStream {
    fn name(&self) -> &'static str {
        "one_stream"
    }

    fn applied(&mut self, step: &AppliedStep<'_>) -> Result<(), String> {
        for write in step.txn.into_iter().flat_map(|txn| &txn.writes) {
            if let Write::Attachment { worker, node, .. } = write
                && let Some(before) = step.before.attachments.get(worker)
                && node.stream < before.stream
            {
                let (new, old) = (node.stream, before.stream);
                return Err(format!("{worker} is attached over stream {new} after {old}"));
            }
        }
        Ok(())
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, _now: &Shadow, _: Time) -> Result<(), String> {
        let ToWorker::Welcome(welcome) = frame else { return Ok(()) };
        let before = self.process.entry(welcome.worker.clone()).or_insert_with(|| process.to_owned());
        if before == process {
            return Ok(());
        }
        Err(format!("{process} is welcomed as {}, which is {before}", welcome.worker))
    }
}
