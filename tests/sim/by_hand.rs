//! A worker that a scene speaks for, frame by frame: what no client library would say, under any credential. It has no part
//! in the network's faults, and the invariants know nothing of it but what is written.

use std::collections::BTreeMap;

use rosterd_coordinator::handle::{Peer, WorkerStream};
use rosterd_domain::id::{JobName, ServerAddress, StreamNumber, WorkerId};
use rosterd_session::code::Code;
use rosterd_session::frame::{FromWorker, Hello, ToWorker};
use rosterd_session::jobs::Jobs;

use crate::world::World;

/// One worker over all its streams.
pub struct ByHand {
    stream: Option<WorkerStream>,
    number: u64,
    sequence: u64,
    identity: Option<(WorkerId, String)>,
    /// How its last stream was refused.
    pub refused: Option<Code>,
}

/// As whom it comes, for which jobs, and where it says it is.
pub struct Shown {
    pub principal: &'static str,
    pub jobs: &'static [&'static str],
    pub address: &'static str,
}

impl ByHand {
    pub fn new() -> Self {
        Self { stream: None, number: 0, sequence: 0, identity: None, refused: None }
    }

    /// Its next stream, at the coordinator of this seat; the one that it had ends.
    pub fn comes(&mut self, world: &World, seat: usize, shown: &Shown) {
        let jobs = Jobs::parse(shown.jobs.iter().copied()).unwrap_or_else(|error| unreachable!("{error}"));
        let principal = Some(shown.principal.to_owned());
        let peer = Peer { address: "10.7.7.7:7777".into(), principal, jobs, ..Peer::default() };
        let handle = world.seats[seat].running.as_ref().map(|running| running.handle.clone());
        self.refused = None;
        self.stream = handle.and_then(|handle| handle.open(peer).ok());
        (self.number, self.sequence) = (self.number + 1, 0);
        let hello = Hello {
            namespace: None,
            identity: self.identity.clone(),
            stream: StreamNumber(self.number),
            address: ServerAddress::new(shown.address).unwrap_or_else(|error| unreachable!("{error}")),
            labels: BTreeMap::new(),
            slots: 16,
            in_flight: Vec::new(),
            jobs: Vec::new(),
            asked: Vec::new(),
            client: "by hand".into(),
            sent_at: None,
            holds_triggers: false,
        };
        self.says(FromWorker::Hello(Box::new(hello)));
    }

    pub fn registers(&self, job: JobName) {
        let handler_type = job.to_string();
        self.says(FromWorker::Register { job, handler_type, config: None, overwrite: false });
    }

    pub fn says(&self, frame: FromWorker) {
        if let Some(stream) = &self.stream
            && let Some(room) = stream.inbox.try_room(512)
        {
            // An end is heard of with what has come.
            let _ended = stream.inbox.put(frame, room);
        }
    }

    /// Takes what has come, and lives on.
    pub fn hears(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        while let Ok(frame) = stream.outbox.try_recv() {
            match frame {
                ToWorker::Welcome(welcome) => self.identity = Some((welcome.worker, welcome.resume_key)),
                ToWorker::Close(refusal) => self.refused = refusal.map(|refusal| refusal.code),
                _ => {}
            }
        }
        if self.identity.is_some() {
            self.sequence += 1;
            let (sequence, in_flight) = (self.sequence, Vec::new());
            self.says(FromWorker::Heartbeat { sequence, in_flight, lease: None });
        }
    }

    pub fn worker(&self) -> Option<&WorkerId> {
        self.identity.as_ref().map(|(worker, _)| worker)
    }
}
