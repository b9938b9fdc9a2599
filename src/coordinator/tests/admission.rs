//! Thousands of workers arrive at once.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_domain::id::WorkerId;
use rosterd_domain::id::{CoordinatorId, JobName, Namespace, Revision, ServerAddress, StreamNumber, Version};
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::time::Mono;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Purpose};
use rosterd_registry::ReadError;
use rosterd_session::code::Code;
use rosterd_session::frame::Hello;
use rosterd_session::frame::{FromWorker, ToWorker};
use rosterd_session::key;

use crate::io::event::StreamId;
use crate::io::event::{Answer, Effect, Event, Now, Query, ReadId, TxnId};
use crate::io::operation::{Health, Peer};
use crate::io::settings::Settings;
use crate::machine::Machine;
use crate::workers::admission::{AT_A_TIME, NAMES_AT_A_TIME};
use crate::workers::parts::link::AttachmentPhase;

const KEY: &str = "the key";

/// A worker that has no name yet.
const NEW: u64 = 0;

fn at(seconds: f64) -> Now {
    let since = Duration::from_secs_f64(seconds);
    Now { wall: Time::from_seconds(1000).plus(since), mono: Mono(since) }
}

fn worker(name: u64) -> WorkerId {
    WorkerId::new(format!("w{name}")).unwrap()
}

/// Effects of a machine whose results it has not received.
#[derive(Default)]
struct Stage {
    commits: Vec<(TxnId, Purpose)>,
    reads: Vec<(ReadId, Query)>,
    sent: Vec<(StreamId, ToWorker)>,
}

impl Stage {
    fn play(&mut self, machine: &mut Machine, now: Now, event: Event) {
        for effect in machine.handle(now, event) {
            match effect {
                Effect::Commit(id, txn) => self.commits.push((id, txn.purpose)),
                Effect::Read(id, query) => self.reads.push((id, query)),
                Effect::Send(stream, frame) => self.sent.push((stream, frame)),
                _ => {}
            }
        }
    }

    /// Applies all transactions with this purpose.
    fn apply(&mut self, machine: &mut Machine, now: Now, purpose: Purpose) -> usize {
        let (these, others) = self.commits.drain(..).partition(|(_, of)| *of == purpose);
        self.commits = others;
        let these: Vec<(TxnId, Purpose)> = these;
        for (id, _) in &these {
            self.play(machine, now, Event::Committed(*id, Commit::Committed(Revision(1))));
        }
        these.len()
    }

    fn wants(&self, wanted: &Query) -> usize {
        self.reads.iter().filter(|(_, query)| query == wanted).count()
    }

    /// Answers the oldest read of this kind.
    fn answer(&mut self, machine: &mut Machine, now: Now, query: &Query, answer: Answer) {
        let place = self.reads.iter().position(|(_, asked)| asked == query).expect("it was asked for");
        let (id, _) = self.reads.remove(place);
        self.play(machine, now, Event::Read(id, answer));
    }

    /// Answers every read of the coordinators: there are no others.
    fn alone(&mut self, machine: &mut Machine, now: Now) {
        while self.wants(&Query::Coordinators) > 0 {
            self.answer(machine, now, &Query::Coordinators, Answer::Coordinators(Ok(myself())));
        }
    }

    /// Answers the look-up for the worker's Hello: this is the stored attachment.
    fn found(&mut self, machine: &mut Machine, now: Now, name: u64) {
        let stored = attachment();
        let answer = Answer::Attachment(Ok(Some((Version(3), stored))));
        self.answer(machine, now, &Query::Attachment(worker(name)), answer);
    }

    fn hello(&mut self, machine: &mut Machine, now: Now, stream: StreamId, name: u64, jobs: &[JobName]) {
        self.hello_of(machine, now, stream, name, jobs, Peer::default());
    }

    fn hello_of(
        &mut self,
        machine: &mut Machine,
        now: Now,
        stream: StreamId,
        name: u64,
        jobs: &[JobName],
        peer: Peer,
    ) {
        let hello = Hello {
            namespace: None,
            identity: (name != NEW).then(|| (worker(name), KEY.into())),
            stream: StreamNumber(stream),
            address: ServerAddress::new("10.0.0.1").unwrap(),
            labels: BTreeMap::new(),
            slots: 1,
            in_flight: Vec::new(),
            jobs: jobs.to_vec(),
            asked: Vec::new(),
            client: String::new(),
            sent_at: None,
            holds_triggers: true,
        };
        self.play(machine, now, Event::Opened(stream, peer));
        self.play(machine, now, Event::Frame(stream, FromWorker::Hello(Box::new(hello))));
    }

    fn welcomed(&self) -> Vec<StreamId> {
        let welcome =
            |(stream, frame): &(StreamId, ToWorker)| matches!(frame, ToWorker::Welcome(_)).then_some(*stream);
        self.sent.iter().filter_map(welcome).collect()
    }

    fn closed(&self) -> Vec<(StreamId, Code)> {
        let close = |(stream, frame): &(StreamId, ToWorker)| match frame {
            ToWorker::Close(Some(refusal)) => Some((*stream, refusal.code)),
            _ => None,
        };
        self.sent.iter().filter_map(close).collect()
    }
}

/// Of a coordinator that does not exist.
fn attachment() -> Attachment {
    Attachment {
        host: CoordinatorId::new("gone").unwrap(),
        session: "old".into(),
        stream: StreamNumber(0),
        draining: false,
        leave_grace_ms: None,
        resume_key: key::digest(KEY),
        principal: None,
        address: ServerAddress::new("10.0.0.1").unwrap(),
        lease_ms: 5000,
    }
}

/// A coordinator that knows these workers, but not yet which coordinators exist.
fn begun(elsewhere: impl Iterator<Item = u64>) -> (Machine, Stage) {
    let mut ids = 0;
    let ids = move || {
        ids += 1;
        format!("id-{ids}")
    };
    let settings = Settings::new(Namespace::new("n").unwrap(), CoordinatorId::new("c").unwrap());
    let mut machine = Machine::new(settings, "session".into(), Box::new(ids));
    let mut stage = Stage::default();
    stage.play(&mut machine, at(0.0), Event::Start);
    stage.apply(&mut machine, at(0.0), Purpose::Coordinator);
    let read = elsewhere.map(|name| (worker(name), (Version(3), attachment()))).collect();
    stage.answer(&mut machine, at(0.0), &Query::Attachments, Answer::Attachments(Ok(read)));
    (machine, stage)
}

/// A coordinator that knows these workers of one that is gone.
fn machine(elsewhere: impl Iterator<Item = u64>) -> (Machine, Stage) {
    let (mut machine, mut stage) = begun(elsewhere);
    stage.alone(&mut machine, at(0.0));
    (machine, stage)
}

fn myself() -> BTreeMap<CoordinatorId, std::sync::Arc<str>> {
    [(CoordinatorId::new("c").unwrap(), "{}".into())].into()
}

/// Regression: ten thousand workers arrived at once, and each that was attached invalidated the reads that others
/// waited for. As long as any arrived none was welcomed; they gave up, and came again.
#[test]
fn a_worker_that_arrives_meanwhile_delays_no_welcome() {
    let (mut machine, mut stage) = machine(0..0);
    let job = JobName::new("j").unwrap();
    let reading = Query::Job(job.clone());
    for name in 1..=2 {
        stage.hello(&mut machine, at(1.0), name, name, std::slice::from_ref(&job));
        stage.found(&mut machine, at(1.0), name);
        stage.apply(&mut machine, at(1.0), Purpose::Attach);
        assert_eq!(stage.wants(&reading), 1, "one reading at a time");
    }
    stage.answer(&mut machine, at(1.1), &reading, Answer::Job(Box::new(Ok(None))));
    assert_eq!(stage.welcomed(), [1], "it was asked for after the first was attached, before the second was");
    stage.answer(&mut machine, at(1.2), &reading, Answer::Job(Box::new(Ok(None))));
    assert_eq!(stage.welcomed(), [1, 2]);
}

/// Regression: of ten thousand workers that arrived at once, a thousand were marked dead while this coordinator had not
/// welcomed them yet. A client cannot send a heartbeat before.
#[test]
fn the_lease_counts_from_the_welcome() {
    for name in [1, NEW] {
        let (mut machine, mut stage) = machine(0..0);
        let job = JobName::new("j").unwrap();
        stage.hello(&mut machine, at(1.0), 1, name, std::slice::from_ref(&job));
        if name != NEW {
            stage.found(&mut machine, at(1.0), name);
        }
        stage.apply(&mut machine, at(1.0), Purpose::Attach);
        stage.play(&mut machine, at(6.4), Event::Tick);
        assert_eq!(
            stage.apply(&mut machine, at(6.4), Purpose::Expire),
            0,
            "more than a lease after its Hello"
        );
        stage.answer(&mut machine, at(6.5), &Query::Job(job), Answer::Job(Box::new(Ok(None))));
        assert_eq!(stage.welcomed(), [1]);
        for (seconds, verdicts) in [(7.6, 0), (11.4, 0), (11.6, 1)] {
            stage.play(&mut machine, at(seconds), Event::Tick);
            assert_eq!(stage.apply(&mut machine, at(seconds), Purpose::Expire), verdicts, "at {seconds} s");
        }
    }
}

/// It has given up after six seconds, and its next Hello takes a while.
#[test]
fn the_lease_of_a_worker_that_was_not_welcomed_counts_from_the_end_of_its_stream() {
    for attached in [true, false] {
        let (mut machine, mut stage) = machine(0..0);
        stage.hello(&mut machine, at(1.0), 1, 1, &[JobName::new("j").unwrap()]);
        stage.found(&mut machine, at(1.0), 1);
        let attach = |stage: &mut Stage, machine: &mut Machine, seconds| {
            assert_eq!(stage.apply(machine, at(seconds), Purpose::Attach), 1);
        };
        if attached {
            attach(&mut stage, &mut machine, 1.1);
        }
        stage.play(&mut machine, at(6.9), Event::Closed(1));
        if !attached {
            attach(&mut stage, &mut machine, 6.9);
        }
        for (seconds, verdicts) in [(7.1, 0), (11.8, 0), (12.0, 1)] {
            stage.play(&mut machine, at(seconds), Event::Tick);
            assert_eq!(stage.apply(&mut machine, at(seconds), Purpose::Expire), verdicts, "at {seconds} s");
        }
    }
}

/// Its machine has vanished, or it is frozen: nothing ends its stream, and no read that its Welcome needs is answered.
#[test]
fn a_new_worker_does_not_wait_for_its_welcome_without_end() {
    let (mut machine, mut stage) = machine(0..0);
    stage.hello(&mut machine, at(1.0), 1, NEW, &[JobName::new("j").unwrap()]);
    stage.apply(&mut machine, at(1.0), Purpose::Attach);
    for (seconds, verdicts) in [(2.0, 0), (6.1, 0), (11.9, 0), (12.1, 1)] {
        stage.play(&mut machine, at(seconds), Event::Tick);
        assert_eq!(stage.apply(&mut machine, at(seconds), Purpose::Expire), verdicts, "at {seconds} s");
    }
}

#[test]
fn a_read_that_fails_welcomes_no_one() {
    let (mut machine, mut stage) = machine(0..0);
    let job = JobName::new("j").unwrap();
    let reading = Query::Job(job.clone());
    stage.hello(&mut machine, at(1.0), 1, 1, std::slice::from_ref(&job));
    stage.found(&mut machine, at(1.0), 1);
    stage.apply(&mut machine, at(1.0), Purpose::Attach);
    let failed = Err(ReadError::Unavailable("no answer".into()));
    stage.answer(&mut machine, at(1.1), &reading, Answer::Job(Box::new(failed)));
    assert_eq!((stage.welcomed(), stage.wants(&reading)), (Vec::new(), 0));
    stage.play(&mut machine, at(2.2), Event::Tick);
    stage.answer(&mut machine, at(2.3), &reading, Answer::Job(Box::new(Ok(None))));
    assert_eq!(stage.welcomed(), [1]);
}

#[test]
fn nothing_is_written_for_a_caller_that_has_given_up() {
    let (mut machine, mut stage) = machine(0..0);
    stage.hello(&mut machine, at(1.0), 1, 1, &[]);
    stage.play(&mut machine, at(1.5), Event::Closed(1));
    stage.found(&mut machine, at(1.6), 1);
    assert_eq!(stage.apply(&mut machine, at(1.6), Purpose::Attach), 0);
    assert!(machine.workers.here().is_empty());
}

#[test]
fn only_so_many_are_attached_at_a_time_and_nobody_waits_in_vain() {
    let (mut machine, mut stage) = machine(0..0);
    let most = AT_A_TIME as u64;
    for name in 1..=most + 3 {
        stage.hello(&mut machine, at(1.0), name, name, &[]);
    }
    let asked = |stage: &Stage, name| stage.wants(&Query::Attachment(worker(name)));
    assert_eq!((asked(&stage, most), asked(&stage, most + 1)), (1, 0));
    // A Welcome, or the end of a stream, gives the turn to another one; a stream that has ended has no turn.
    stage.play(&mut machine, at(1.1), Event::Closed(most + 1));
    stage.found(&mut machine, at(1.1), 1);
    stage.apply(&mut machine, at(1.1), Purpose::Attach);
    assert_eq!(stage.welcomed(), [1]);
    assert_eq!([1, 2, 3].map(|more| asked(&stage, most + more)), [0, 1, 0]);
    // The first in the queue has waited too long for another one to be queued.
    stage.hello(&mut machine, at(5.1), most + 4, most + 4, &[]);
    assert_eq!(stage.closed(), [(most + 4, Code::Overloaded)]);
    // The same applies to itself once its turn comes.
    stage.play(&mut machine, at(5.2), Event::Closed(2));
    assert_eq!(stage.closed()[1..], [(most + 3, Code::Overloaded)]);
    stage.hello(&mut machine, at(5.3), most + 5, most + 5, &[]);
    assert_eq!(asked(&stage, most + 5), 1);
}

/// Regression: the attachment and the instances of each client that had given up stood for a lease, and ten thousand
/// that came again and again never settled.
#[test]
fn a_new_worker_that_gives_up_before_its_welcome_is_gone_at_once() {
    let (mut machine, mut stage) = machine(0..0);
    let jobs = [JobName::new("j").unwrap()];
    stage.hello_of(&mut machine, at(1.0), 1, NEW, &jobs, Peer::default());
    assert_eq!(stage.apply(&mut machine, at(1.1), Purpose::Attach), 1);
    assert_eq!((machine.workers.here().len(), stage.welcomed()), (1, vec![]), "its job is read first");
    stage.play(&mut machine, at(1.2), Event::Closed(1));
    assert_eq!(stage.apply(&mut machine, at(1.3), Purpose::Goodbye), 1);
    assert!(machine.workers.here().is_empty());
}

/// While the store refuses some transactions and writes others, the outage lasts: its end gives each job a turn.
#[test]
fn an_outage_is_over_once_the_store_has_not_failed_for_a_while() {
    let (mut machine, mut stage) = machine(0..0);
    let commit = |stage: &mut Stage, machine: &mut Machine, seconds, commit| {
        stage.hello_of(machine, at(seconds), (seconds * 10.0) as u64, NEW, &[], Peer::default());
        let (id, _) = stage.commits.pop().unwrap();
        machine.handle(at(seconds), Event::Committed(id, commit))
    };
    let health = |effects: Vec<Effect>| {
        let health = |effect| if let Effect::Health(health) = effect { Some(health) } else { None };
        effects.into_iter().find_map(health)
    };
    let full = || Commit::Unavailable("the disk is full".into());
    let done = || Commit::Committed(Revision(1));
    assert_eq!(health(commit(&mut stage, &mut machine, 1.0, full())), Some(Health::Suspended));
    assert_eq!(health(commit(&mut stage, &mut machine, 1.1, done())), None);
    assert_eq!(health(commit(&mut stage, &mut machine, 1.2, full())), None);
    assert_eq!(health(commit(&mut stage, &mut machine, 2.1, done())), None);
    assert_eq!(health(commit(&mut stage, &mut machine, 2.2, done())), Some(Health::Serving));
}

/// Regression: its workers sent thousands of names each, on thousands of streams, and all others were told to
/// reconnect.
#[test]
fn a_credential_that_says_thousands_of_names_keeps_no_other_waiting() {
    let (mut machine, mut stage) = machine(0..0);
    let peer = |name: &str| Peer { principal: Some(name.into()), ..Peer::default() };
    let names = (0..NAMES_AT_A_TIME).map(|n| JobName::new(format!("said-{n}")).unwrap());
    let names: Vec<JobName> = names.collect();
    for name in 1..=3 {
        stage.hello_of(&mut machine, at(1.0), name, name, &names, peer("hostile"));
    }
    stage.hello_of(&mut machine, at(1.0), 4, 4, &[], peer("honest"));
    let asked = |stage: &Stage, name| stage.wants(&Query::Attachment(worker(name)));
    assert_eq!([1, 2, 3, 4].map(|name| asked(&stage, name)), [1, 0, 0, 1]);
    assert!(machine.workers.admission().is_settled(), "no worker can be read now");
    // Its own queue is too long, and no other.
    stage.hello_of(&mut machine, at(5.1), 5, 5, &[], peer("hostile"));
    stage.hello_of(&mut machine, at(5.1), 6, 6, &[], peer("honest"));
    assert_eq!((stage.closed(), asked(&stage, 6)), (vec![(5, Code::Overloaded)], 1));
    // The end of a stream gives the turn to another one.
    stage.play(&mut machine, at(5.2), Event::Closed(1));
    assert_eq!(stage.closed()[1..], [(2, Code::Overloaded), (3, Code::Overloaded)]);
    stage.hello_of(&mut machine, at(5.3), 7, 7, &names, peer("hostile"));
    assert_eq!(asked(&stage, 7), 1);
}

#[test]
fn a_worker_on_its_way_here_is_not_marked_dead() {
    let (mut machine, mut stage) = machine(1..4);
    // The Hello of the first is being processed, that of the second was received and failed, the third is silent.
    for name in 1..=2 {
        stage.hello(&mut machine, at(4.0), name, name, &[]);
    }
    stage.play(&mut machine, at(4.0), Event::Closed(2));
    stage.found(&mut machine, at(4.0), 2);
    let living = || Answer::Coordinators(Ok(myself()));
    stage.play(&mut machine, at(5.1), Event::Tick);
    stage.answer(&mut machine, at(5.2), &Query::Coordinators, living());
    assert_eq!(stage.apply(&mut machine, at(5.2), Purpose::Expire), 1);
    assert!(machine.workers.elsewhere(&worker(3)).is_none());
    // A lease after its Hello the second is dead as well; the first is still awaited.
    stage.play(&mut machine, at(8.9), Event::Tick);
    assert_eq!(stage.wants(&Query::Coordinators), 0);
    stage.play(&mut machine, at(9.1), Event::Tick);
    stage.answer(&mut machine, at(9.2), &Query::Coordinators, living());
    assert_eq!(stage.apply(&mut machine, at(9.2), Purpose::Expire), 1);
    assert_eq!(machine.workers.all_elsewhere().collect::<Vec<_>>(), [&worker(1)]);
    stage.found(&mut machine, at(9.3), 1);
    stage.apply(&mut machine, at(9.3), Purpose::Attach);
    assert_eq!(stage.welcomed(), [1]);
}

/// Regression: the host marked it dead while its next Hello was in the host's own queue.
#[test]
fn a_host_waits_for_the_hello_that_it_has_not_looked_at() {
    let (mut machine, mut stage) = machine(0..0);
    stage.hello(&mut machine, at(1.0), 1, 1, &[]);
    stage.found(&mut machine, at(1.0), 1);
    stage.apply(&mut machine, at(1.0), Purpose::Attach);
    stage.play(&mut machine, at(5.0), Event::Closed(1));
    stage.hello(&mut machine, at(5.9), 2, 1, &[]);
    stage.play(&mut machine, at(6.1), Event::Tick);
    assert_eq!(
        (
            stage.apply(&mut machine, at(6.1), Purpose::Expire),
            machine.workers.here()[&worker(1)].link.phase()
        ),
        (0, AttachmentPhase::Attached)
    );
    // It was refused: now silence counts, from its last frame.
    let none = Answer::Attachment(Err(ReadError::Unavailable("no answer".into())));
    stage.answer(&mut machine, at(6.2), &Query::Attachment(worker(1)), none);
    stage.play(&mut machine, at(7.3), Event::Tick);
    assert_eq!(stage.apply(&mut machine, at(7.3), Purpose::Expire), 1);
}

/// Regression: the earlier of the two streams kept its place among the pending ones, and its worker from being marked
/// dead, until it was closed.
#[test]
fn of_two_hellos_that_were_both_written_the_earlier_ends() {
    for answered in [[0, 1], [1, 0]] {
        let (mut machine, mut stage) = machine(0..0);
        let job = JobName::new("j").unwrap();
        let reading = Query::Job(job.clone());
        stage.hello(&mut machine, at(1.0), 1, 1, std::slice::from_ref(&job));
        stage.found(&mut machine, at(1.0), 1);
        // The second is processed after the first was written, but before its commit is known.
        stage.hello(&mut machine, at(1.1), 2, 1, std::slice::from_ref(&job));
        let stored = Attachment { stream: StreamNumber(1), ..attachment() };
        let answer = Answer::Attachment(Ok(Some((Version(4), stored))));
        stage.answer(&mut machine, at(1.1), &Query::Attachment(worker(1)), answer);
        let written: Vec<TxnId> = stage.commits.drain(..).map(|(id, _)| id).collect();
        for place in answered {
            stage.play(
                &mut machine,
                at(1.2),
                Event::Committed(written[place], Commit::Committed(Revision(1))),
            );
        }
        assert_eq!(stage.closed(), [(1, Code::StreamSuperseded)]);
        while stage.wants(&reading) > 0 {
            stage.answer(&mut machine, at(1.3), &reading, Answer::Job(Box::new(Ok(None))));
        }
        assert_eq!(stage.welcomed(), [2]);
        assert!(!machine.workers.admission().is_coming(&worker(1)), "no worker waits for another Hello");
        assert_eq!(machine.workers.here()[&worker(1)].link.stream_number(), (StreamNumber(2)));
    }
}

#[test]
fn workers_that_expire_together_are_handled_together() {
    let (mut machine, mut stage) = machine(0..500);
    stage.play(&mut machine, at(5.1), Event::Tick);
    let mut readings = 0;
    while stage.wants(&Query::Coordinators) > 0 {
        readings += 1;
        stage.answer(&mut machine, at(5.2), &Query::Coordinators, Answer::Coordinators(Ok(myself())));
        stage.apply(&mut machine, at(5.2), Purpose::Expire);
    }
    assert_eq!((readings, machine.workers.all_elsewhere().count()), (2, 0));
}

/// Regression: the outcome of marking it dead was unknown and could not be read, and nobody asked again, so it stayed
/// attached forever.
#[test]
fn an_expiry_with_an_unknown_outcome_is_read_until_it_is_known() {
    let (mut machine, mut stage) = machine(1..2);
    let living = || Answer::Coordinators(Ok(myself()));
    stage.play(&mut machine, at(5.1), Event::Tick);
    stage.answer(&mut machine, at(5.2), &Query::Coordinators, living());
    let expiry = stage.commits.iter().find(|(_, of)| *of == Purpose::Expire).map(|(id, _)| *id);
    stage.commits.clear();
    stage.play(&mut machine, at(5.3), Event::Committed(expiry.unwrap(), Commit::Unknown));
    for seconds in [5.4, 6.5] {
        let failed = Answer::Attachment(Err(ReadError::Unavailable("no answer".into())));
        stage.answer(&mut machine, at(seconds), &Query::Attachment(worker(1)), failed);
        stage.play(&mut machine, at(seconds + 1.1), Event::Tick);
    }
    // It was not applied: it is due again, a lease after that was found.
    stage.found(&mut machine, at(8.0), 1);
    stage.alone(&mut machine, at(8.0));
    stage.play(&mut machine, at(13.1), Event::Tick);
    stage.answer(&mut machine, at(13.2), &Query::Coordinators, living());
    assert_eq!(stage.apply(&mut machine, at(13.2), Purpose::Expire), 1);
    assert!(machine.workers.all_elsewhere().next().is_none());
}

/// Regression: the attachments were read at once, and the coordinators a second later, when the host had just died. The
/// lease was counted from when the attachment was found, although the host had acknowledged heartbeats since.
#[test]
fn a_lease_is_counted_from_when_the_host_is_known_to_have_gone() {
    let (mut machine, mut stage) = begun(1..2);
    stage.play(&mut machine, at(4.0), Event::Tick);
    stage.alone(&mut machine, at(4.0));
    for seconds in [5.1, 8.9] {
        stage.play(&mut machine, at(seconds), Event::Tick);
        assert_eq!(stage.wants(&Query::Coordinators), 0, "no worker is due for a check");
    }
    stage.play(&mut machine, at(9.1), Event::Tick);
    stage.alone(&mut machine, at(9.2));
    assert_eq!(stage.apply(&mut machine, at(9.2), Purpose::Expire), 1);
}

/// The coordinators were requested before the attachment was found, and its host appeared in between.
#[test]
fn a_worker_that_an_older_read_lacks_has_not_gone() {
    let (mut machine, mut stage) = begun(1..2);
    stage.answer(&mut machine, at(0.1), &Query::Coordinators, Answer::Coordinators(Ok(myself())));
    assert_eq!(machine.workers.elsewhere(&worker(1)).unwrap().gone_since(), None);
    let mut living = myself();
    living.insert(attachment().host, "{}".into());
    while stage.wants(&Query::Coordinators) > 0 {
        stage.answer(&mut machine, at(0.2), &Query::Coordinators, Answer::Coordinators(Ok(living.clone())));
    }
    stage.play(&mut machine, at(6.0), Event::Tick);
    assert_eq!(
        (stage.apply(&mut machine, at(6.0), Purpose::Expire), stage.wants(&Query::Coordinators)),
        (0, 0)
    );
}
