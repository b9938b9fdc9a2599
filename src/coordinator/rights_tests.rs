//! What a credential's name and its jobs mean to who comes back.

use rosterd_domain::id::{Item, JobName, Revision, ServerAddress, StreamNumber, Token, Version, WorkerId};
use rosterd_domain::item::{Record, Running, Source, State};
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::txn::{Commit, Write};

use crate::event::{Answer, Effect, Event, Query, StreamId};
use crate::failure_detector::tests::{at, hello, host, job_with};
use crate::handle::Peer;
use crate::job::JobState;
use crate::node::Node;
use rosterd_session::code::Code;
use rosterd_session::frame::{CancelReason, FromWorker, Hello, ToWorker};
use rosterd_session::jobs::Jobs;
use rosterd_session::key;

const KEY: &str = "the key";

fn peer(principal: &str, jobs: &[&str]) -> Peer {
    let jobs = Jobs::parse(jobs.iter().copied()).unwrap();
    Peer { principal: Some(principal.into()), jobs, ..Peer::default() }
}

/// The worker comes back on this stream with its key; it is asked for its attachment, as which this is found.
fn comes_back(
    node: &mut Node,
    stream: StreamId,
    peer: Peer,
    id: &WorkerId,
    stored: Attachment,
    jobs: &[JobName],
) -> Vec<Effect> {
    node.handle(at(1.0), Event::Opened(stream, peer));
    let hello = Hello {
        identity: Some((id.clone(), KEY.into())),
        stream: StreamNumber(stream),
        jobs: jobs.to_vec(),
        ..hello()
    };
    let effects = node.handle(at(1.0), Event::Frame(stream, FromWorker::Hello(Box::new(hello))));
    let read = effects.iter().find_map(|effect| match effect {
        Effect::Read(read, Query::Attachment(of)) if of == id => Some(*read),
        _ => None,
    });
    let found = Answer::Attachment(Ok(Some((Version(0), stored))));
    node.handle(at(1.1), Event::Read(read.unwrap(), found))
}

/// The worker of a host, its attachment with that key, and the principal that it came with.
fn attached(node: &Node, principal: Option<&str>) -> (WorkerId, Attachment) {
    let worker = node.workers.values().next().unwrap();
    let (resume_key, principal) = (key::digest(KEY), principal.map(str::to_owned));
    (worker.id.clone(), Attachment { resume_key, principal, ..worker.attachment.clone() })
}

/// As which the attachment is written, and how a stream is ended.
fn outcome(effects: &[Effect]) -> (Option<Option<String>>, Option<Code>) {
    let written = effects.iter().find_map(|effect| match effect {
        Effect::Commit(_, txn) => txn.writes.iter().find_map(|write| match write {
            Write::Attachment { node, .. } => Some(node.principal.clone()),
            _ => None,
        }),
        _ => None,
    });
    let refused = effects.iter().find_map(|effect| match effect {
        Effect::Send(2, ToWorker::Close(Some(refusal))) => Some(refusal.code),
        _ => None,
    });
    (written, refused)
}

/// The key alone was enough: who had it and a credential of its own went on with the jobs of another.
#[test]
fn a_worker_comes_back_with_the_credential_that_it_came_with_and_no_other() {
    let came = |stored: Option<&str>, shows: Peer| {
        let mut node = host();
        let (id, stored) = attached(&node, stored);
        outcome(&comes_back(&mut node, 2, shows, &id, stored, &[]))
    };
    assert_eq!(came(Some("a"), peer("b", &[])), (None, Some(Code::ResumeRefused)));
    assert_eq!(came(Some("a"), peer("a", &["j"])), (Some(Some("a".into())), None));
    // Where nobody was asked before, it is bound from now on; where nobody is asked now, it stays bound.
    assert_eq!(came(None, peer("b", &[])), (Some(Some("b".into())), None));
    assert_eq!(came(Some("a"), Peer::default()), (Some(Some("a".into())), None));
}

/// It left the machine that an operator had disabled by another name.
#[test]
fn a_worker_that_comes_back_stays_on_the_machine_that_it_came_with() {
    let mut node = host();
    let (id, stored) = attached(&node, None);
    let before = stored.address.clone();
    node.handle(at(1.0), Event::Opened(2, Peer::default()));
    let address = ServerAddress::new("elsewhere").unwrap();
    let identity = Some((id.clone(), KEY.into()));
    let hello = Hello { identity, stream: StreamNumber(2), address, ..hello() };
    let effects = node.handle(at(1.0), Event::Frame(2, FromWorker::Hello(Box::new(hello))));
    let read = effects.iter().find_map(|effect| match effect {
        Effect::Read(read, Query::Attachment(_)) => Some(*read),
        _ => None,
    });
    let found = Answer::Attachment(Ok(Some((Version(0), stored))));
    let effects = node.handle(at(1.1), Event::Read(read.unwrap(), found));
    let Some(Effect::Commit(attach, txn)) = effects.last() else { panic!("no attach in {effects:?}") };
    let [Write::Attachment { node: written, .. }] = &txn.writes[..] else { panic!("{txn:?}") };
    assert_eq!(written.address, before);
    let instance = node.workers[&id].instance.clone();
    node.handle(at(1.2), Event::Committed(*attach, Commit::Committed(Revision(1))));
    let worker = &node.workers[&id];
    assert_eq!((&worker.instance, &worker.address), (&instance, &before));
}

/// One whose worker runs item 0 of a job under token 5.
fn at_work() -> (Node, WorkerId, Attachment, JobName) {
    let mut node = host();
    let (id, stored) = attached(&node, Some("a"));
    let instance = node.workers[&id].instance.clone();
    let (name, view) = job_with(&instance);
    let run = Running {
        fire: at(0.0).wall,
        source: Source::NormalTrigger,
        instance: instance.clone(),
        worker: id.clone(),
        since: at(0.0).wall,
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    };
    let record =
        Record { token: Token(5), state: State::Running(run), ..Record::new(Token(0), at(0.0).wall) };
    let mut job = JobState { view: Some(view), loaded: true, ..JobState::default() };
    job.records.insert(Item(0), (Version(1), record));
    job.offsets.insert(Item(0), None);
    job.hosted.insert(instance, id.clone());
    node.jobs.insert(name.clone(), Box::new(job));
    let worker = node.workers.get_mut(&id).unwrap();
    worker.runs.insert((name.clone(), Item(0)));
    worker.jobs.insert(name.clone());
    (node, id, stored, name)
}

/// It named none of its jobs when it came back, and so kept the ones that its credential had lost.
#[test]
fn a_worker_whose_credential_lost_a_job_is_no_instance_of_it_and_its_run_is_stopped() {
    for named in [false, true] {
        let (mut node, id, stored, name) = at_work();
        let instance = node.workers[&id].instance.clone();
        let jobs = if named { vec![name.clone()] } else { Vec::new() };
        let effects = comes_back(&mut node, 2, peer("a", &["other"]), &id, stored, &jobs);
        let Some(Effect::Commit(attach, _)) = effects.last() else { panic!("no attach in {effects:?}") };
        let mut effects = node.handle(at(1.2), Event::Committed(*attach, Commit::Committed(Revision(1))));
        // The records, as they are, of all that is read for its Welcome.
        node.workers.get_mut(&id).unwrap().moving.clear();
        node.welcome_if_moved(&id);
        effects.append(&mut node.out);
        let sent: Vec<&ToWorker> = effects
            .iter()
            .filter_map(|effect| if let Effect::Send(2, frame) = effect { Some(frame) } else { None })
            .collect();
        let [ToWorker::Welcome(_), ToWorker::Refused { job, refusal }, ToWorker::Cancel { run, reason, .. }] =
            &sent[..]
        else {
            panic!("{sent:?}")
        };
        assert_eq!((job.as_str(), refusal.code), (name.as_str(), Code::PermissionDenied));
        assert!(refusal.message.contains("only for other"), "{}", refusal.message);
        assert_eq!((&run.job, run.token, *reason), (&name, Token(5), CancelReason::Fenced));
        let job = &node.jobs[&name];
        assert!(!job.hosted.contains_key(&instance) && job.leaving.contains(&instance));
        let worker = &node.workers[&id];
        assert!(!worker.jobs.contains(&name) && worker.concerns(&name), "it may say how the run ended");
    }
}

/// Thousands of names that are only said, each of which cost a look at each of thousands of workers, were seconds of silence.
#[test]
fn a_name_that_is_only_said_concerns_nobody_but_who_said_it() {
    let mut node = host();
    let (id, other) = (node.workers.keys().next().unwrap().clone(), WorkerId::new("other").unwrap());
    let said = JobName::new("said").unwrap();
    let mut job = JobState { loaded: true, named_by: [other.clone()].into(), ..JobState::default() };
    assert_eq!(node.heard_of(&said, &mut job), [other.clone()].into());
    node.awaiting_read.insert(said.clone(), [other.clone()].into());
    assert_eq!(node.heard_of(&said, &mut job), [other].into());
    // One that was there may have been heard of by anybody.
    let mut job = JobState { existed: true, ..job };
    assert_eq!(node.heard_of(&said, &mut job), [id].into());
}

/// A job that there is not gets no state because somebody says that it had it.
#[test]
fn a_name_that_a_hello_only_says_makes_no_state() {
    let mut node = host();
    let (id, stored) = attached(&node, Some("a"));
    let said = JobName::new("said").unwrap();
    let effects = comes_back(&mut node, 2, peer("a", &["j"]), &id, stored, &[said]);
    let Some(Effect::Commit(attach, _)) = effects.last() else { panic!("no attach in {effects:?}") };
    let effects = node.handle(at(1.2), Event::Committed(*attach, Commit::Committed(Revision(1))));
    assert!(node.jobs.is_empty());
    let told =
        |effect: &Effect| matches!(effect, Effect::Send(2, ToWorker::Refused { job, .. }) if job == "said");
    assert!(effects.iter().any(told), "{effects:?}");
}
