//! Tests of the machine as a whole, by events and effects.

mod admission;
mod leases;
mod reports;
mod rights;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{
    CoordinatorId, Epoch, Generation, InstanceId, JobName, Namespace, Revision, ServerAddress, StreamNumber,
    Token, Version,
};
use rosterd_domain::snapshot::{self, InstanceSeen, JobNodes};
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Commit, Purpose};
use rosterd_domain::view::Job;
use rosterd_session::frame::{FromWorker, Hello, ToWorker};

use crate::io::event::{Answer, Effect, Event, Now, Query};
use crate::io::operation::Peer;
use crate::io::settings::Settings;
use crate::machine::Machine;

pub(crate) fn at(seconds: f64) -> Now {
    let since = Duration::from_secs_f64(seconds);
    Now { wall: Time::from_seconds(1000).plus(since), mono: Mono(since) }
}

/// Handles an event, and answers as an empty registry that accepts everything; returns the frames sent, and how many
/// workers were marked dead.
pub(crate) fn play(machine: &mut Machine, now: Now, event: Event) -> (Vec<ToWorker>, usize) {
    let (mut sent, mut verdicts, mut events) = (Vec::new(), 0, VecDeque::from([event]));
    while let Some(event) = events.pop_front() {
        for effect in machine.handle(now, event) {
            match effect {
                Effect::Commit(id, txn) => {
                    verdicts += usize::from(txn.purpose == Purpose::Expire);
                    events.push_back(Event::Committed(id, Commit::Committed(Revision(1))));
                }
                Effect::Read(id, Query::Attachments) => {
                    events.push_back(Event::Read(id, Answer::Attachments(Ok(BTreeMap::new()))));
                }
                Effect::Read(id, Query::Jobs) => {
                    events.push_back(Event::Read(id, Answer::Jobs(Ok(BTreeSet::new()))));
                }
                Effect::Send(_, frame) => sent.push(frame),
                _ => {}
            }
        }
    }
    (sent, verdicts)
}

pub(crate) fn hello() -> Hello {
    Hello {
        namespace: None,
        identity: None,
        stream: StreamNumber(1),
        address: ServerAddress::new("10.0.0.1").unwrap(),
        labels: BTreeMap::new(),
        slots: 1,
        in_flight: Vec::new(),
        jobs: Vec::new(),
        asked: Vec::new(),
        client: String::new(),
        sent_at: None,
        holds_triggers: true,
    }
}

/// A host whose one worker sent its last heartbeat at second 0, with a lease of 5 s.
pub(crate) fn host() -> Machine {
    let id = CoordinatorId::new("c").unwrap();
    let mut ids = 0;
    let ids = move || {
        ids += 1;
        format!("id-{ids}")
    };
    let settings = Settings::new(Namespace::new("n").unwrap(), id);
    let mut machine = Machine::new(settings, "session".into(), Box::new(ids));
    play(&mut machine, at(0.0), Event::Start);
    play(&mut machine, at(0.0), Event::Opened(1, Peer { address: "w".into(), ..Peer::default() }));
    let (sent, _) = play(&mut machine, at(0.0), Event::Frame(1, FromWorker::Hello(Box::new(hello()))));
    assert!(matches!(sent[..], [ToWorker::Welcome(_)]), "{sent:?}");
    machine
}

/// A job with nothing but the instance of this worker, owned by this session.
pub(crate) fn job_with(instance: &InstanceId) -> (JobName, Arc<Job>) {
    let config = br#"{"jobName":"j","cron":"0/2 * * * * ?","shardingTotalCount":1}"#;
    let nodes = JobNodes {
        revision: Revision(1),
        incarnation: Some("first".into()),
        created: Revision(1),
        base: Token(1),
        handler_type: "j".into(),
        config: Some(snapshot::Node { data: config.as_slice().into(), version: Version(0) }),
        policy: None,
        paused: false,
        servers: BTreeMap::new(),
        instances: [(instance.clone(), InstanceSeen { mine: true, node: None })].into(),
        leader: None,
        epoch: Epoch(0),
        generation: Generation(0),
        assignment: Arc::from([]),
        necessary: None,
        failover: BTreeSet::new(),
        triggers: BTreeMap::new(),
        announced: BTreeMap::new(),
        commands: BTreeMap::new(),
        foreign_triggers: BTreeMap::new(),
    };
    let name = JobName::new("j").unwrap();
    let view = Job::decode(&name, &nodes).unwrap().unwrap();
    (name, Arc::new(view))
}
