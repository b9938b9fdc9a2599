//! A worker that a scene scripts, frame by frame: it can send what no client library would, under any credential. The
//! network's faults do not affect it, and the invariants only see its effects in the store.

use std::collections::BTreeMap;

use rosterd_coordinator::handle::{Peer, WorkerStream};
use rosterd_domain::id::{JobName, ServerAddress, StreamNumber, WorkerId};
use rosterd_session::code::Code;
use rosterd_session::frame::{FromWorker, Hello, ToWorker};
use rosterd_session::jobs::JobScope;

use crate::world::World;

/// One worker over all its streams.
pub struct ScriptedWorker {
    stream: Option<WorkerStream>,
    number: u64,
    sequence: u64,
    identity: Option<(WorkerId, String)>,
    /// The code with which its last stream was refused.
    pub refused: Option<Code>,
}

/// Its credential, its jobs, and the address that it states.
pub struct Shown {
    pub principal: &'static str,
    pub jobs: &'static [&'static str],
    pub address: &'static str,
}

impl ScriptedWorker {
    pub fn new() -> Self {
        Self { stream: None, number: 0, sequence: 0, identity: None, refused: None }
    }

    /// Opens its next stream, at the coordinator of this replica; its current one ends.
    pub fn comes(&mut self, world: &World, replica: usize, shown: &Shown) {
        let jobs =
            JobScope::parse(shown.jobs.iter().copied()).unwrap_or_else(|error| unreachable!("{error}"));
        let principal = Some(shown.principal.to_owned());
        let peer = Peer { address: "10.7.7.7:7777".into(), principal, jobs, ..Peer::default() };
        let handle = world.replicas[replica].running.as_ref().map(|running| running.handle.clone());
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
            // The end of a stream is noticed with its frames.
            let _ended = stream.inbox.put(frame, room);
        }
    }

    /// Reads the frames that have arrived, and keeps the lease alive.
    pub fn hears(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        while let Some(frame) = stream.outbox.try_recv() {
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
