//! When a host marks one of its own workers dead.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::id::{
    CoordinatorId, InstanceId, Item, JobName, Revision, ServerAddress, StreamNumber, Token, Version, WorkerId,
};
use rosterd_domain::item::{Record, Running, Source, State};
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::txn::{Commit, Purpose, Write};
use rosterd_registry::ReadError;
use rosterd_session::frame::{FromWorker, Hello, ToWorker};

use crate::io::event::FrameCounts;
use crate::io::event::{Answer, Effect, Event, Query};
use crate::io::operation::Peer;
use crate::job::parts::cache::Cache;
use crate::job::parts::worker_index::WorkerIndex;
use crate::job::state::JobState;
use crate::machine::Machine;
use crate::workers::parts::link::AttachmentPhase;

use super::{at, hello, host, job_with, play};

#[test]
fn a_worker_is_marked_dead_after_a_lease_without_a_heartbeat() {
    let mut machine = host();
    assert_eq!(play(&mut machine, at(5.0), Event::Tick).1, 0);
    assert_eq!(play(&mut machine, at(5.1), Event::Tick).1, 1);
}

#[test]
fn a_worker_whose_heartbeats_are_yet_to_be_handled_is_not_marked_dead() {
    let mut machine = host();
    machine.set_inbox(FrameCounts { came: 8, taken: 5 }, BTreeSet::new());
    assert_eq!(play(&mut machine, at(5.1), Event::Tick).1, 0);
    let beat = FromWorker::Heartbeat { sequence: 1, in_flight: Vec::new(), lease: None };
    assert!(matches!(
        play(&mut machine, at(5.2), Event::Frame(1, beat)).0[..],
        [ToWorker::HeartbeatAck { .. }]
    ));
    machine.set_inbox(FrameCounts { came: 8, taken: 8 }, BTreeSet::new());
    assert_eq!(play(&mut machine, at(10.1), Event::Tick).1, 0);
    assert_eq!(play(&mut machine, at(10.3), Event::Tick).1, 1);
}

/// However long that takes: a host that cannot keep up has not observed silence. But it does not wait for later frames,
/// or a dead worker would live as long as others send.
#[test]
fn a_worker_is_marked_dead_once_all_frames_that_arrived_before_its_lease_ended_are_handled() {
    let mut machine = host();
    for second in 6..60_u32 {
        // Always 100 frames behind, five of which are handled each second.
        let taken = u64::from(5 * (second - 6));
        machine.set_inbox(FrameCounts { came: taken + 100, taken }, BTreeSet::new());
        let dead = play(&mut machine, at(f64::from(second)), Event::Tick).1;
        assert_eq!(dead, usize::from(taken == 100), "with {taken} of the received frames processed");
        if dead == 1 {
            return;
        }
    }
    panic!("it was never marked dead");
}

/// A worker that was never welcomed has no identity to come back with: it is not kept, and does not count as dead.
#[test]
fn a_worker_that_gives_up_before_the_welcome_is_not_marked_dead() {
    let mut machine = host();
    play(&mut machine, at(1.0), Event::Opened(2, Peer { address: "w".into(), ..Peer::default() }));
    let mut effects = machine.handle(at(1.0), Event::Frame(2, FromWorker::Hello(Box::new(hello()))));
    let Some(Effect::Commit(attach, _)) = effects.pop() else { panic!("no attach in {effects:?}") };
    play(&mut machine, at(1.5), Event::Closed(2));
    let effects = machine.handle(at(2.0), Event::Committed(attach, Commit::Committed(Revision(1))));
    let purposes = |effect: &Effect| match effect {
        Effect::Commit(_, txn) => Some(txn.purpose),
        _ => None,
    };
    assert_eq!(effects.iter().filter_map(purposes).collect::<Vec<_>>(), [Purpose::Goodbye]);
    assert_eq!(play(&mut machine, at(5.0), Event::Tick).1, 0);
}

/// Regression: its jobs kept it among their hosted workers forever, and a leader without any worker continued to lead,
/// as if it had one to send callbacks to.
#[test]
fn a_worker_that_dies_before_its_jobs_are_moved_is_hosted_by_none_of_them() {
    let mut machine = host();
    let job = JobName::new("j").unwrap();
    play(&mut machine, at(1.0), Event::Opened(2, Peer { address: "w".into(), ..Peer::default() }));
    let hello = Hello { jobs: vec![job.clone()], ..hello() };
    // The job's records are requested, and no answer comes.
    let (sent, _) = play(&mut machine, at(1.0), Event::Frame(2, FromWorker::Hello(Box::new(hello))));
    assert!(sent.is_empty() && machine.jobs.all[&job].roster.hosted().len() == 1, "{sent:?}");
    // The other worker, and this one: a lease after the time for which its client waits for its Welcome.
    assert_eq!(play(&mut machine, at(7.0), Event::Tick).1, 1);
    assert_eq!(play(&mut machine, at(12.1), Event::Tick).1, 1);
    assert!(machine.jobs.all[&job].roster.hosted().is_empty());
}

/// Regression: items were assigned to a worker that had given the job up, because it had been told that the job was
/// removed.
#[test]
fn a_job_that_is_given_up_is_not_registered_by_what_was_asked_before() {
    let mut machine = host();
    let job = JobName::new("j").unwrap();
    let register = FromWorker::Register {
        job: job.clone(),
        handler_type: String::new(),
        config: None,
        overwrite: false,
    };
    play(&mut machine, at(1.0), Event::Frame(1, register));
    assert_eq!(machine.jobs.all[&job].roster.registering().len(), 1);
    let unregister = FromWorker::Unregister { job: job.clone() };
    let (sent, _) = play(&mut machine, at(1.0), Event::Frame(1, unregister));
    assert!(sent.is_empty(), "whether it has an instance is not known: {sent:?}");
    assert!(machine.jobs.all[&job].roster.registering().is_empty());
}

/// Regression: a worker that gave a job up was told so at once, and a start in flight could still give it a run.
#[test]
fn a_worker_that_gives_a_job_up_is_answered_once_its_instance_has_gone() {
    let mut machine = host();
    let (id, instance) = machine
        .workers
        .here()
        .unordered_values()
        .map(|it| (it.id.clone(), it.instance.clone()))
        .next()
        .unwrap();
    let (name, view) = job_with(&instance);
    let mut job = JobState { cache: Cache::of(view), ..JobState::default() };
    job.roster.join(&name, &instance, &id, &mut WorkerIndex::default());
    machine.jobs.put(name.clone(), job);
    let unregister = FromWorker::Unregister { job: name.clone() };
    let effects = machine.handle(at(1.0), Event::Frame(1, unregister));
    let removes = Write::RemoveInstance(name.clone(), instance);
    let answered = |effects: &[Effect]| {
        effects.iter().any(|it| matches!(it, Effect::Send(1, ToWorker::Unregistered { job }) if *job == name))
    };
    let removal = effects.iter().find_map(|effect| match effect {
        Effect::Commit(id, txn) if txn.writes.contains(&removes) => Some(*id),
        _ => None,
    });
    assert!(!answered(&effects));
    let effects = machine.handle(at(1.1), Event::Committed(removal.unwrap(), Commit::Committed(Revision(2))));
    assert!(answered(&effects));
}

/// Regression: a read that a refused transaction had caused was answered while the drain was being written. The worker
/// then counted as one that had not requested to drain, and got runs.
#[test]
fn what_was_read_before_a_leave_does_not_take_it_back() {
    let mut machine = host();
    let Some((id, worker)) = machine.workers.here().iter().next() else { panic!("no worker is attached") };
    let (id, before) = (id.clone(), (worker.link.version(), worker.link.attachment().clone()));
    let effects = machine.handle(at(1.0), Event::Frame(1, FromWorker::DrainRequest));
    let drain = effects.iter().find_map(|effect| match effect {
        Effect::Commit(id, txn) if txn.purpose == Purpose::Drain => Some(*id),
        _ => None,
    });
    machine.all_jobs().workers_turn().own_read(&id, Ok(Some(before.clone())));
    let (sent, _) =
        play(&mut machine, at(1.1), Event::Committed(drain.unwrap(), Commit::Committed(Revision(2))));
    assert_eq!(sent, [ToWorker::Draining]);
    machine.all_jobs().workers_turn().own_read(&id, Ok(Some(before)));
    assert_eq!(machine.workers.here()[&id].link.phase(), AttachmentPhase::Draining { confirmed: true });
}

/// Regression: it had been hosted here, then by another host that marked it dead and died before it had removed the
/// instance. The node remained as long as this session lived, and owned items.
#[test]
fn an_instance_of_ours_of_a_worker_that_is_nowhere_is_looked_into() {
    let mut machine = host();
    let worker = WorkerId::new("w").unwrap();
    let instance = InstanceId::from_parts(&ServerAddress::new("10.0.0.1").unwrap(), &worker).unwrap();
    let (name, view) = job_with(&instance);
    let mut here = JobState { cache: Cache::of(view.clone()), ..JobState::default() };
    here.roster.join(&name, &instance, &worker, &mut WorkerIndex::default());
    let look = |machine: &mut Machine, job: JobState| {
        machine.jobs.put(name.clone(), job);
        let mut all = machine.all_jobs();
        let (mut turn, job) = all.turn_of(&name).unwrap();
        turn.look_at_left_behind(job, &view);
    };
    look(&mut machine, here);
    assert!(machine.workers.expiry().looks_at_nobody(), "it is attached here");
    let job = JobState { cache: Cache::of(view.clone()), ..JobState::default() };
    look(&mut machine, job);
    let effects = machine.handle(at(1.1), Event::Tick);
    let read = effects.iter().find_map(|effect| match effect {
        Effect::Read(id, Query::Attachment(of)) if *of == worker => Some(*id),
        _ => None,
    });
    machine.handle(at(1.2), Event::Read(read.unwrap(), Answer::Attachment(Ok(None))));
    assert!(machine.jobs.all[&name].roster.is_leaving(&instance));
}

/// Regression: the host of a worker had marked it dead, and died before it ended the worker's run. The others only
/// found that the attachment no longer existed; the job no longer had the item, and nobody ever looked at its record.
#[test]
fn records_that_name_someone_who_is_attached_nowhere_are_read_again() {
    let mut machine = host();
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
    let mut state = JobState { cache: Cache::absent(), ..JobState::default() };
    state.cache.put_record(Item(3), Version(0), record.into());
    machine.jobs.put(job.clone(), state);
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
    let read = |machine: &mut Machine, found| {
        machine.all_jobs().workers_turn().attachments_read(found);
        machine.all_jobs().hand_on();
    };
    read(&mut machine, BTreeMap::from([(worker, (Version(0), attachment))]));
    assert!(!machine.jobs.all[&job].cache.records_are_stale(), "its worker is there");
    read(&mut machine, BTreeMap::new());
    assert!(machine.jobs.all[&job].cache.records_are_stale());
}

/// Regression: a node of the job became damaged, and the index went on to name the workers of the decision state before that.
#[test]
fn a_job_that_cannot_be_read_has_to_do_with_none_of_its_instances() {
    let mut machine = host();
    let worker = WorkerId::new("w").unwrap();
    let instance = InstanceId::from_parts(&ServerAddress::new("10.0.0.1").unwrap(), &worker).unwrap();
    let (name, view) = job_with(&instance);
    machine.jobs.put(name.clone(), JobState { cache: Cache::of(view), ..JobState::default() });
    assert_eq!(machine.jobs.index.of(&worker).count(), 1);
    let damaged = ReadError::Damaged { path: "/j/config".into(), reason: "it is empty".into() };
    machine.all_jobs().nodes_read(name, Err(damaged));
    assert_eq!(machine.jobs.index.of(&worker).count(), 0);
    machine.all_jobs().mark_dead(&worker);
}
