//! When a host marks a worker of its own dead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::id::{
    CoordinatorId, Epoch, Generation, InstanceId, Item, JobName, Namespace, Revision, ServerAddress,
    StreamNumber, Token, Version, WorkerId,
};
use rosterd_domain::item::{Record, Running, Source, State};
use rosterd_domain::snapshot::{self, Attachment, InstanceSeen, JobNodes};
use rosterd_domain::time::{Mono, Time};
use rosterd_domain::txn::{Commit, Purpose, Write};
use rosterd_domain::view::Job;

use crate::event::{Answer, Effect, Event, Now, Query};
use crate::handle::Peer;
use crate::job::JobState;
use crate::node::{Frames, Node};
use crate::settings::Settings;
use crate::worker::Phase;
use rosterd_session::frame::{FromWorker, Hello, ToWorker};

pub(crate) fn at(seconds: f64) -> Now {
    let since = Duration::from_secs_f64(seconds);
    Now { wall: Time::from_seconds(1000).plus(since), mono: Mono(since) }
}

/// Hands an event over, and answers as an empty registry that accepts everything; what was sent, and how many were
/// marked dead.
fn play(node: &mut Node, now: Now, event: Event) -> (Vec<ToWorker>, usize) {
    let (mut sent, mut verdicts, mut events) = (Vec::new(), 0, VecDeque::from([event]));
    while let Some(event) = events.pop_front() {
        for effect in node.handle(now, event) {
            match effect {
                Effect::Commit(id, txn) => {
                    verdicts += usize::from(txn.purpose == Purpose::Verdict);
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

/// A host whose one worker was last heard at second 0, with a lease of 5 s.
pub(crate) fn host() -> Node {
    let id = CoordinatorId::new("c").unwrap();
    let mut ids = 0;
    let ids = move || {
        ids += 1;
        format!("id-{ids}")
    };
    let settings = Settings::new(Namespace::new("n").unwrap(), id);
    let mut node = Node::new(settings, "session".into(), Box::new(ids));
    play(&mut node, at(0.0), Event::Start);
    play(&mut node, at(0.0), Event::Opened(1, Peer { address: "w".into(), ..Peer::default() }));
    let (sent, _) = play(&mut node, at(0.0), Event::Frame(1, FromWorker::Hello(Box::new(hello()))));
    assert!(matches!(sent[..], [ToWorker::Welcome(_)]), "{sent:?}");
    node
}

#[test]
fn a_worker_is_declared_dead_when_nothing_was_heard_for_its_lease() {
    let mut node = host();
    assert_eq!(play(&mut node, at(5.0), Event::Tick).1, 0);
    assert_eq!(play(&mut node, at(5.1), Event::Tick).1, 1);
}

#[test]
fn a_worker_whose_heartbeats_wait_to_be_taken_in_is_not_declared_dead() {
    let mut node = host();
    node.set_frames(Frames { came: 8, taken: 5 });
    assert_eq!(play(&mut node, at(5.1), Event::Tick).1, 0);
    let beat = FromWorker::Heartbeat { sequence: 1, in_flight: Vec::new(), lease: None };
    assert!(matches!(play(&mut node, at(5.2), Event::Frame(1, beat)).0[..], [ToWorker::HeartbeatAck { .. }]));
    node.set_frames(Frames { came: 8, taken: 8 });
    assert_eq!(play(&mut node, at(10.1), Event::Tick).1, 0);
    assert_eq!(play(&mut node, at(10.3), Event::Tick).1, 1);
}

/// However long that takes: a host that cannot keep up has not heard silence. But what comes later is not waited for,
/// or the dead would live for as long as others talk.
#[test]
fn a_worker_is_declared_dead_once_all_is_taken_in_that_had_come_when_its_lease_was_over() {
    let mut node = host();
    for second in 6..60_u32 {
        // Always 100 frames behind, of which five are taken in each second.
        let taken = u64::from(5 * (second - 6));
        node.set_frames(Frames { came: taken + 100, taken });
        let dead = play(&mut node, at(f64::from(second)), Event::Tick).1;
        assert_eq!(
            dead,
            usize::from(taken == 100),
            "with {taken} of the frames that had come by then taken in"
        );
        if dead == 1 {
            return;
        }
    }
    panic!("it was never marked dead");
}

/// A worker that was never welcomed has no identity to come back with: it is not kept, and nobody died.
#[test]
fn who_gives_up_before_the_welcome_is_no_dead_worker() {
    let mut node = host();
    play(&mut node, at(1.0), Event::Opened(2, Peer { address: "w".into(), ..Peer::default() }));
    let mut effects = node.handle(at(1.0), Event::Frame(2, FromWorker::Hello(Box::new(hello()))));
    let Some(Effect::Commit(attach, _)) = effects.pop() else { panic!("no attach in {effects:?}") };
    play(&mut node, at(1.5), Event::Closed(2));
    let effects = node.handle(at(2.0), Event::Committed(attach, Commit::Committed(Revision(1))));
    let purposes = |effect: &Effect| match effect {
        Effect::Commit(_, txn) => Some(txn.purpose),
        _ => None,
    };
    assert_eq!(effects.iter().filter_map(purposes).collect::<Vec<_>>(), [Purpose::Goodbye]);
    assert_eq!(play(&mut node, at(5.0), Event::Tick).1, 0);
}

/// It would be for ever among those whom its jobs have here: a leader without any worker would believe that it has one to
/// ask, and go on leading.
#[test]
fn who_dies_before_its_jobs_are_moved_is_hosted_by_none_of_them() {
    let mut node = host();
    let job = JobName::new("j").unwrap();
    play(&mut node, at(1.0), Event::Opened(2, Peer { address: "w".into(), ..Peer::default() }));
    let hello = Hello { jobs: vec![job.clone()], ..hello() };
    // The job's records are asked for, and no answer comes.
    let (sent, _) = play(&mut node, at(1.0), Event::Frame(2, FromWorker::Hello(Box::new(hello))));
    assert!(sent.is_empty() && node.jobs[&job].hosted.len() == 1, "{sent:?}");
    assert_eq!(play(&mut node, at(7.0), Event::Tick).1, 2);
    assert!(node.jobs[&job].hosted.is_empty());
}

/// Items were given to a worker that had been told meanwhile that the job was removed, and had given it up.
#[test]
fn a_job_that_is_given_up_is_not_registered_by_what_was_asked_before() {
    let mut node = host();
    let job = JobName::new("j").unwrap();
    let register = FromWorker::Register {
        job: job.clone(),
        handler_type: String::new(),
        config: None,
        overwrite: false,
    };
    play(&mut node, at(1.0), Event::Frame(1, register));
    assert_eq!(node.jobs[&job].registering.len(), 1);
    let unregister = FromWorker::Unregister { job: job.clone() };
    let (sent, _) = play(&mut node, at(1.0), Event::Frame(1, unregister));
    assert!(sent.is_empty(), "whether it has an instance is not known: {sent:?}");
    assert!(node.jobs[&job].registering.is_empty());
}

/// Who gave a job up was told so at once, and might still be given a run by a start that was under way.
#[test]
fn who_gives_a_job_up_is_answered_once_its_instance_has_gone() {
    let mut node = host();
    let (id, instance) = node.workers.values().map(|it| (it.id.clone(), it.instance.clone())).next().unwrap();
    let (name, view) = job_with(&instance);
    let mut job = JobState { view: Some(view), loaded: true, ..JobState::default() };
    job.hosted.insert(instance.clone(), id.clone());
    node.jobs.insert(name.clone(), Box::new(job));
    let unregister = FromWorker::Unregister { job: name.clone() };
    let effects = node.handle(at(1.0), Event::Frame(1, unregister));
    let removes = Write::RemoveInstance(name.clone(), instance);
    let answered = |effects: &[Effect]| {
        effects.iter().any(|it| matches!(it, Effect::Send(1, ToWorker::Unregistered { job }) if *job == name))
    };
    let removal = effects.iter().find_map(|effect| match effect {
        Effect::Commit(id, txn) if txn.writes.contains(&removes) => Some(*id),
        _ => None,
    });
    assert!(!answered(&effects));
    let effects = node.handle(at(1.1), Event::Committed(removal.unwrap(), Commit::Committed(Revision(2))));
    assert!(answered(&effects));
}

/// What a refused transaction had asked for arrived while the leave was being written: the worker counted as one that had
/// not asked to leave, and was given runs.
#[test]
fn what_was_read_before_a_leave_does_not_take_it_back() {
    let mut node = host();
    let Some((id, worker)) = node.workers.first_key_value() else { panic!("nobody is here") };
    let (id, before) = (id.clone(), (worker.version, worker.attachment.clone()));
    let effects = node.handle(at(1.0), Event::Frame(1, FromWorker::DrainRequest));
    let drain = effects.iter().find_map(|effect| match effect {
        Effect::Commit(id, txn) if txn.purpose == Purpose::Drain => Some(*id),
        _ => None,
    });
    node.own_read(&id, Ok(Some(before.clone())));
    let (sent, _) =
        play(&mut node, at(1.1), Event::Committed(drain.unwrap(), Commit::Committed(Revision(2))));
    assert_eq!(sent, [ToWorker::Draining]);
    node.own_read(&id, Ok(Some(before)));
    assert_eq!(node.workers[&id].phase, Phase::Draining { confirmed: true });
}

/// A job with nothing but the instance of this worker, of which this session is the owner.
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

/// It had been hosted here, then by another that marked it dead and was gone before it had taken the instance away: the node
/// stood for as long as this session lived, and items belonged to it.
#[test]
fn an_instance_of_ours_of_a_worker_that_is_nowhere_is_looked_into() {
    let mut node = host();
    let worker = WorkerId::new("w").unwrap();
    let instance = InstanceId::from_parts(&ServerAddress::new("10.0.0.1").unwrap(), &worker).unwrap();
    let (name, view) = job_with(&instance);
    let here = JobState {
        hosted: [(instance.clone(), worker.clone())].into(),
        view: Some(view.clone()),
        ..JobState::default()
    };
    node.look_at_left_behind(&here, &view);
    assert!(node.lookups_pending.is_empty(), "it is here");
    let job = JobState { view: Some(view.clone()), ..JobState::default() };
    node.look_at_left_behind(&job, &view);
    node.jobs.insert(name.clone(), Box::new(job));
    let effects = node.handle(at(1.1), Event::Tick);
    let read = effects.iter().find_map(|effect| match effect {
        Effect::Read(id, Query::Attachment(of)) if *of == worker => Some(*id),
        _ => None,
    });
    node.handle(at(1.2), Event::Read(read.unwrap(), Answer::Attachment(Ok(None))));
    assert!(node.jobs[&name].leaving.contains(&instance));
}

/// The host of a worker had marked it dead, and died before it ended the worker's run. The others found only that there
/// was no such attachment any more; the item was one that the job had no more, and nobody ever looked at its record.
#[test]
fn records_that_name_somebody_who_is_attached_nowhere_are_read_again() {
    let mut node = host();
    let (job, worker) = (JobName::new("j").unwrap(), WorkerId::new("w").unwrap());
    let address = ServerAddress::new("10.0.0.2").unwrap();
    let now = at(1.0).wall;
    let run = Running {
        fire: now,
        source: Source::NormalTrigger,
        instance: InstanceId::from_parts(&address, &worker).unwrap(),
        worker: worker.clone(),
        since: now,
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    };
    let record = Record { state: State::Running(run), ..Record::new(Token(1), now) };
    let mut state = JobState { loaded: true, ..JobState::default() };
    state.records.insert(Item(3), (Version(0), record));
    node.jobs.insert(job.clone(), Box::new(state));
    let attachment = Attachment {
        host: CoordinatorId::new("other").unwrap(),
        session: "other".into(),
        stream: StreamNumber(1),
        draining: false,
        leave_grace_ms: None,
        resume_key: String::new(),
        principal: None,
        address,
        lease_ms: 5000,
    };
    node.attachments_read(BTreeMap::from([(worker, (Version(0), attachment))]));
    assert!(!node.jobs[&job].stale_records, "its worker is there");
    node.attachments_read(BTreeMap::new());
    assert!(node.jobs[&job].stale_records);
}
