//! What is acknowledged is in the store when the acknowledgement leaves: a registration, a report, a leave.
//! (Operations are checked by who asks for them.)
//!
//! Source: a server that had been disabled ran its items all the same, since that was written later than it was said. What
//! is acknowledged is durable.

use std::collections::BTreeMap;

use rosterd::session::frame::ToWorker;
use rosterd_domain::id::InstanceId;
use rosterd_domain::time::Time;

use super::Invariant;
use crate::watch::Shadow;

/// Kept: who each process is.
#[derive(Default)]
pub struct Acknowledged {
    who: BTreeMap<String, InstanceId>,
}

impl Invariant for Acknowledged {
    fn name(&self) -> &'static str {
        "nothing_acknowledged_is_lost"
    }

    fn heard(&mut self, process: &str, frame: &ToWorker, now: &Shadow, _: Time) -> Result<(), String> {
        match frame {
            ToWorker::Welcome(welcome) => {
                self.who.insert(process.to_owned(), welcome.instance.clone());
                // Declared dead or taken over between the commit and this is possible; never written is not.
                let known = now.attachments.contains_key(&welcome.worker)
                    || now.departed.contains_key(&welcome.worker);
                if !known {
                    return Err(format!("{process} is welcomed as {} without an attachment", welcome.worker));
                }
            }
            ToWorker::GoodbyeAck => {
                let worker = self.who.get(process).and_then(InstanceId::worker);
                if let Some(worker) = worker.filter(|worker| now.attachments.contains_key(worker)) {
                    return Err(format!("{process} ({worker}) may go, but its attachment is still there"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
