//! The role of a credential's name and jobs when a worker comes back.

use rosterd_domain::id::{Item, JobName, Revision, ServerAddress, StreamNumber, Token, Version, WorkerId};
use rosterd_domain::item::{Record, Running, Source, State};
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::txn::{Commit, Write};
use rosterd_session::code::Code;
use rosterd_session::frame::{CancelReason, FromWorker, Hello, ToWorker};
use rosterd_session::jobs::JobScope;
use rosterd_session::key;

use crate::io::event::{Answer, Effect, Event, Query, StreamId};
use crate::io::operation::Peer;
use crate::job::parts::cache::{Cache, KnownJob};
use crate::job::parts::worker_index::WorkerIndex;
use crate::job::state::JobState;
use crate::machine::Machine;
use crate::tests::{at, hello, host, job_with};

const KEY: &str = "the key";

fn peer(principal: &str, jobs: &[&str]) -> Peer {
    let jobs = JobScope::parse(jobs.iter().copied()).unwrap();
    Peer { principal: Some(principal.into()), jobs, ..Peer::default() }
}

/// The worker comes back on this stream with its key; its attachment is looked up, with this result.
fn comes_back(
    machine: &mut Machine,
    stream: StreamId,
    peer: Peer,
    id: &WorkerId,
    stored: Attachment,
    jobs: &[JobName],
) -> Vec<Effect> {
    machine.handle(at(1.0), Event::Opened(stream, peer));
    let hello = Hello {
        identity: Some((id.clone(), KEY.into())),
        stream: StreamNumber(stream),
        jobs: jobs.to_vec(),
        ..hello()
    };
    let effects = machine.handle(at(1.0), Event::Frame(stream, FromWorker::Hello(Box::new(hello))));
    let read = effects.iter().find_map(|effect| match effect {
        Effect::Read(read, Query::Attachment(of)) if of == id => Some(*read),
        _ => None,
    });
    let found = Answer::Attachment(Ok(Some((Version(0), stored))));
    machine.handle(at(1.1), Event::Read(read.unwrap(), found))
}

/// The worker of a host, its attachment with that key, and the principal that it used.
fn attached(machine: &Machine, principal: Option<&str>) -> (WorkerId, Attachment) {
    let worker = machine.workers.here().unordered_values().next().unwrap();
    let (resume_key, principal) = (key::digest(KEY), principal.map(str::to_owned));
    (worker.id.clone(), Attachment { resume_key, principal, ..worker.link.attachment().clone() })
}

/// The principal in the written attachment, and the code with which a stream is closed.
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

/// Regression: the key alone was enough, so anyone who had it and a credential of their own took over another's jobs.
#[test]
fn a_worker_comes_back_with_the_credential_that_it_came_with_and_no_other() {
    let came = |stored: Option<&str>, shows: Peer| {
        let mut machine = host();
        let (id, stored) = attached(&machine, stored);
        outcome(&comes_back(&mut machine, 2, shows, &id, stored, &[]))
    };
    assert_eq!(came(Some("a"), peer("b", &[])), (None, Some(Code::ResumeRefused)));
    assert_eq!(came(Some("a"), peer("a", &["j"])), (Some(Some("a".into())), None));
    // Without authentication before, it is bound from now on; without authentication now, it stays bound.
    assert_eq!(came(None, peer("b", &[])), (Some(Some("b".into())), None));
    assert_eq!(came(Some("a"), Peer::default()), (Some(Some("a".into())), None));
}

/// Regression: it left a disabled machine by stating another address.
#[test]
fn a_worker_that_comes_back_stays_on_the_machine_that_it_came_with() {
    let mut machine = host();
    let (id, stored) = attached(&machine, None);
    let before = stored.address.clone();
    machine.handle(at(1.0), Event::Opened(2, Peer::default()));
    let address = ServerAddress::new("elsewhere").unwrap();
    let identity = Some((id.clone(), KEY.into()));
    let hello = Hello { identity, stream: StreamNumber(2), address, ..hello() };
    let effects = machine.handle(at(1.0), Event::Frame(2, FromWorker::Hello(Box::new(hello))));
    let read = effects.iter().find_map(|effect| match effect {
        Effect::Read(read, Query::Attachment(_)) => Some(*read),
        _ => None,
    });
    let found = Answer::Attachment(Ok(Some((Version(0), stored))));
    let effects = machine.handle(at(1.1), Event::Read(read.unwrap(), found));
    let Some(Effect::Commit(attach, txn)) = effects.last() else { panic!("no attach in {effects:?}") };
    let [Write::Attachment { node: written, .. }] = &txn.writes[..] else { panic!("{txn:?}") };
    assert_eq!(written.address, before);
    let instance = machine.workers.here()[&id].instance.clone();
    machine.handle(at(1.2), Event::Committed(*attach, Commit::Committed(Revision(1))));
    let worker = &machine.workers.here()[&id];
    assert_eq!((&worker.instance, &worker.address), (&instance, &before));
}

/// A host whose worker runs item 0 of a job with token 5.
fn at_work() -> (Machine, WorkerId, Attachment, JobName) {
    let mut machine = host();
    let (id, stored) = attached(&machine, Some("a"));
    let instance = machine.workers.here()[&id].instance.clone();
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
    let mut job = JobState { cache: Cache::of(view), ..JobState::default() };
    job.cache.put_record(Item(0), Version(1), record.into());
    job.dispatch.put_offset(Item(0), None);
    job.roster.join(&name, &instance, &id, &mut WorkerIndex::default());
    machine.jobs.put(name.clone(), job);
    let worker = machine.workers.get_mut(&id).unwrap();
    worker.ledger.run_began(&name, Item(0));
    worker.work.begin(&name);
    (machine, id, stored, name)
}

/// Regression: it listed none of its jobs when it came back, and so kept those that its credential had lost.
#[test]
fn a_worker_whose_credential_lost_a_job_is_not_an_instance_of_it_and_its_run_is_stopped() {
    for named in [false, true] {
        let (mut machine, id, stored, name) = at_work();
        let instance = machine.workers.here()[&id].instance.clone();
        let jobs = if named { vec![name.clone()] } else { Vec::new() };
        let effects = comes_back(&mut machine, 2, peer("a", &["other"]), &id, stored, &jobs);
        let Some(Effect::Commit(attach, _)) = effects.last() else { panic!("no attach in {effects:?}") };
        let mut effects = machine.handle(at(1.2), Event::Committed(*attach, Commit::Committed(Revision(1))));
        // As if all records for its Welcome had been read, unchanged.
        machine.workers.get_mut(&id).unwrap().link.wait_for_nothing();
        machine.all_jobs().workers_turn().welcome_if_moved(&id);
        machine.all_jobs().hand_on();
        effects.append(&mut machine.io.out);
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
        let job = &machine.jobs.all[&name];
        assert!(!job.roster.hosts(&instance) && job.roster.is_leaving(&instance));
        let worker = &machine.workers.here()[&id];
        assert!(!worker.work.has(&name) && worker.concerns(&name), "it may report the end of the run");
    }
}

/// Regression: thousands of made-up names, each of which cost a check of each of thousands of workers, blocked for
/// seconds.
#[test]
fn a_name_that_exists_only_in_registrations_concerns_only_the_workers_that_named_it() {
    let mut machine = host();
    let (id, other) =
        (machine.workers.here().keys().next().unwrap().clone(), WorkerId::new("other").unwrap());
    let said = JobName::new("said").unwrap();
    let mut job = JobState { cache: Cache::absent(), ..JobState::default() };
    job.roster.was_named_by([other.clone()]);
    machine.jobs.put(said.clone(), job);
    let heard_of = |machine: &mut Machine| {
        let mut all = machine.all_jobs();
        let (mut turn, job) = all.turn_of(&said).unwrap();
        turn.heard_of(&said, job)
    };
    assert_eq!(heard_of(&mut machine), [other.clone()].into());
    machine.workers.wait_again(&said, [other.clone()].into());
    assert_eq!(heard_of(&mut machine), [other].into());
    // Any worker may know of a job that existed.
    machine.jobs.all.get_mut(&said).unwrap().cache.found(KnownJob::Ending);
    assert_eq!(heard_of(&mut machine), [id].into());
}

/// A job that does not exist gets no state because a worker says that it had it.
#[test]
fn a_name_that_a_hello_only_says_makes_no_state() {
    let mut machine = host();
    let (id, stored) = attached(&machine, Some("a"));
    let said = JobName::new("said").unwrap();
    let effects = comes_back(&mut machine, 2, peer("a", &["j"]), &id, stored, &[said]);
    let Some(Effect::Commit(attach, _)) = effects.last() else { panic!("no attach in {effects:?}") };
    let effects = machine.handle(at(1.2), Event::Committed(*attach, Commit::Committed(Revision(1))));
    assert!(machine.jobs.all.is_empty());
    let told =
        |effect: &Effect| matches!(effect, Effect::Send(2, ToWorker::Refused { job, .. }) if job == "said");
    assert!(effects.iter().any(told), "{effects:?}");
}
