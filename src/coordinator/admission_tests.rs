//! When thousands come at once.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_domain::id::{CoordinatorId, JobName, Namespace, Revision, ServerAddress, StreamNumber, Version};
use rosterd_domain::snapshot::Attachment;
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Purpose};

use super::*;
use crate::event::{Answer, Effect, Event, Now, Query, ReadId, TxnId};
use crate::handle::Peer;
use crate::settings::Settings;
use crate::worker::Phase;
use rosterd_registry::ReadError;
use rosterd_session::frame::{FromWorker, ToWorker};
use rosterd_session::key;

const KEY: &str = "the key";

fn at(seconds: f64) -> Now {
    let since = Duration::from_secs_f64(seconds);
    Now { wall: Time::from_seconds(1000).plus(since), mono: Mono(since) }
}

fn worker(name: u64) -> WorkerId {
    WorkerId::new(format!("w{name}")).unwrap()
}

/// What a node wants done, and has not been told the end of.
#[derive(Default)]
struct Stage {
    commits: Vec<(TxnId, Purpose)>,
    reads: Vec<(ReadId, Query)>,
    sent: Vec<(StreamId, ToWorker)>,
}

impl Stage {
    fn play(&mut self, node: &mut Node, now: Now, event: Event) {
        for effect in node.handle(now, event) {
            match effect {
                Effect::Commit(id, txn) => self.commits.push((id, txn.purpose)),
                Effect::Read(id, query) => self.reads.push((id, query)),
                Effect::Send(stream, frame) => self.sent.push((stream, frame)),
                _ => {}
            }
        }
    }

    /// All transactions of this purpose are applied.
    fn apply(&mut self, node: &mut Node, now: Now, purpose: Purpose) -> usize {
        let (these, others) = self.commits.drain(..).partition(|(_, of)| *of == purpose);
        self.commits = others;
        let these: Vec<(TxnId, Purpose)> = these;
        for (id, _) in &these {
            self.play(node, now, Event::Committed(*id, Commit::Committed(Revision(1))));
        }
        these.len()
    }

    fn wants(&self, wanted: &Query) -> usize {
        self.reads.iter().filter(|(_, query)| query == wanted).count()
    }

    /// The oldest reading of this kind ends.
    fn answer(&mut self, node: &mut Node, now: Now, query: &Query, answer: Answer) {
        let place = self.reads.iter().position(|(_, asked)| asked == query).expect("it was asked for");
        let (id, _) = self.reads.remove(place);
        self.play(node, now, Event::Read(id, answer));
    }

    /// Nobody else is there, as often as that is asked.
    fn alone(&mut self, node: &mut Node, now: Now) {
        while self.wants(&Query::Coordinators) > 0 {
            self.answer(node, now, &Query::Coordinators, Answer::Coordinators(Ok(myself())));
        }
    }

    /// The worker's attachment is what is stored; it is looked up for its Hello.
    fn found(&mut self, node: &mut Node, now: Now, name: u64) {
        let stored = attachment();
        let answer = Answer::Attachment(Ok(Some((Version(3), stored))));
        self.answer(node, now, &Query::Attachment(worker(name)), answer);
    }

    fn hello(&mut self, node: &mut Node, now: Now, stream: StreamId, name: u64, jobs: &[JobName]) {
        self.hello_of(node, now, stream, name, jobs, Peer::default());
    }

    fn hello_of(
        &mut self,
        node: &mut Node,
        now: Now,
        stream: StreamId,
        name: u64,
        jobs: &[JobName],
        peer: Peer,
    ) {
        let hello = Hello {
            namespace: None,
            identity: Some((worker(name), KEY.into())),
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
        self.play(node, now, Event::Opened(stream, peer));
        self.play(node, now, Event::Frame(stream, FromWorker::Hello(Box::new(hello))));
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

/// By a coordinator that is not there.
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

/// A coordinator that knows these workers, and not yet which coordinators there are.
fn begun(elsewhere: impl Iterator<Item = u64>) -> (Node, Stage) {
    let mut ids = 0;
    let ids = move || {
        ids += 1;
        format!("id-{ids}")
    };
    let settings = Settings::new(Namespace::new("n").unwrap(), CoordinatorId::new("c").unwrap());
    let mut node = Node::new(settings, "session".into(), Box::new(ids));
    let mut stage = Stage::default();
    stage.play(&mut node, at(0.0), Event::Start);
    stage.apply(&mut node, at(0.0), Purpose::Coordinator);
    let read = elsewhere.map(|name| (worker(name), (Version(3), attachment()))).collect();
    stage.answer(&mut node, at(0.0), &Query::Attachments, Answer::Attachments(Ok(read)));
    (node, stage)
}

/// A coordinator that knows these workers of one that is gone.
fn node(elsewhere: impl Iterator<Item = u64>) -> (Node, Stage) {
    let (mut node, mut stage) = begun(elsewhere);
    stage.alone(&mut node, at(0.0));
    (node, stage)
}

fn myself() -> BTreeMap<CoordinatorId, std::sync::Arc<str>> {
    [(CoordinatorId::new("c").unwrap(), "{}".into())].into()
}

/// Ten thousand workers came at once, and each that was attached made the readings void that others waited for: as long
/// as any came nobody was welcomed, gave up, and came again.
#[test]
fn who_comes_meanwhile_delays_no_welcome() {
    let (mut node, mut stage) = node(0..0);
    let job = JobName::new("j").unwrap();
    let reading = Query::Job(job.clone());
    for name in 1..=2 {
        stage.hello(&mut node, at(1.0), name, name, std::slice::from_ref(&job));
        stage.found(&mut node, at(1.0), name);
        stage.apply(&mut node, at(1.0), Purpose::Attach);
        assert_eq!(stage.wants(&reading), 1, "one reading at a time");
    }
    stage.answer(&mut node, at(1.1), &reading, Answer::Job(Box::new(Ok(None))));
    assert_eq!(stage.welcomed(), [1], "it was asked for after the first was attached, before the second was");
    stage.answer(&mut node, at(1.2), &reading, Answer::Job(Box::new(Ok(None))));
    assert_eq!(stage.welcomed(), [1, 2]);
}

#[test]
fn a_reading_that_fails_welcomes_nobody() {
    let (mut node, mut stage) = node(0..0);
    let job = JobName::new("j").unwrap();
    let reading = Query::Job(job.clone());
    stage.hello(&mut node, at(1.0), 1, 1, std::slice::from_ref(&job));
    stage.found(&mut node, at(1.0), 1);
    stage.apply(&mut node, at(1.0), Purpose::Attach);
    let failed = Err(ReadError::Unavailable("no answer".into()));
    stage.answer(&mut node, at(1.1), &reading, Answer::Job(Box::new(failed)));
    assert_eq!((stage.welcomed(), stage.wants(&reading)), (Vec::new(), 0));
    stage.play(&mut node, at(2.2), Event::Tick);
    stage.answer(&mut node, at(2.3), &reading, Answer::Job(Box::new(Ok(None))));
    assert_eq!(stage.welcomed(), [1]);
}

#[test]
fn nothing_is_written_for_who_has_given_up() {
    let (mut node, mut stage) = node(0..0);
    stage.hello(&mut node, at(1.0), 1, 1, &[]);
    stage.play(&mut node, at(1.5), Event::Closed(1));
    stage.found(&mut node, at(1.6), 1);
    assert_eq!(stage.apply(&mut node, at(1.6), Purpose::Attach), 0);
    assert!(node.workers.is_empty());
}

#[test]
fn only_so_many_are_attached_at_a_time_and_nobody_waits_in_vain() {
    let (mut node, mut stage) = node(0..0);
    let most = AT_A_TIME as u64;
    for name in 1..=most + 3 {
        stage.hello(&mut node, at(1.0), name, name, &[]);
    }
    let asked = |stage: &Stage, name| stage.wants(&Query::Attachment(worker(name)));
    assert_eq!((asked(&stage, most), asked(&stage, most + 1)), (1, 0));
    // A Welcome, or an end, is another one's turn; one that has gone has none.
    stage.play(&mut node, at(1.1), Event::Closed(most + 1));
    stage.found(&mut node, at(1.1), 1);
    stage.apply(&mut node, at(1.1), Purpose::Attach);
    assert_eq!(stage.welcomed(), [1]);
    assert_eq!([1, 2, 3].map(|more| asked(&stage, most + more)), [0, 1, 0]);
    // The first in the queue has waited too long for another one to get in line.
    stage.hello(&mut node, at(3.1), most + 4, most + 4, &[]);
    assert_eq!(stage.closed(), [(most + 4, Code::Overloaded)]);
    // So would it itself, once its turn came.
    stage.play(&mut node, at(3.2), Event::Closed(2));
    assert_eq!(stage.closed()[1..], [(most + 3, Code::Overloaded)]);
    stage.hello(&mut node, at(3.3), most + 5, most + 5, &[]);
    assert_eq!(asked(&stage, most + 5), 1);
}

/// On thousands of streams its workers said thousands of names each: whoever came meanwhile was told to come again.
#[test]
fn a_credential_that_says_thousands_of_names_keeps_no_other_waiting() {
    let (mut node, mut stage) = node(0..0);
    let peer = |name: &str| Peer { principal: Some(name.into()), ..Peer::default() };
    let names = (0..NAMES_AT_A_TIME).map(|n| JobName::new(format!("said-{n}")).unwrap());
    let names: Vec<JobName> = names.collect();
    for name in 1..=3 {
        stage.hello_of(&mut node, at(1.0), name, name, &names, peer("hostile"));
    }
    stage.hello_of(&mut node, at(1.0), 4, 4, &[], peer("honest"));
    let asked = |stage: &Stage, name| stage.wants(&Query::Attachment(worker(name)));
    assert_eq!([1, 2, 3, 4].map(|name| asked(&stage, name)), [1, 0, 0, 1]);
    assert!(node.admission.is_settled(), "nobody can be looked at now");
    // Its own line is too long, and no other's.
    stage.hello_of(&mut node, at(3.1), 5, 5, &[], peer("hostile"));
    stage.hello_of(&mut node, at(3.1), 6, 6, &[], peer("honest"));
    assert_eq!((stage.closed(), asked(&stage, 6)), (vec![(5, Code::Overloaded)], 1));
    // An end is another one's turn.
    stage.play(&mut node, at(3.2), Event::Closed(1));
    assert_eq!(stage.closed()[1..], [(2, Code::Overloaded), (3, Code::Overloaded)]);
    stage.hello_of(&mut node, at(3.3), 7, 7, &names, peer("hostile"));
    assert_eq!(asked(&stage, 7), 1);
}

#[test]
fn who_is_on_the_way_here_is_not_declared_dead() {
    let (mut node, mut stage) = node(1..4);
    // The Hello of the first is being worked on, the second was heard and came to nothing, the third is silent.
    for name in 1..=2 {
        stage.hello(&mut node, at(4.0), name, name, &[]);
    }
    stage.play(&mut node, at(4.0), Event::Closed(2));
    stage.found(&mut node, at(4.0), 2);
    let living = || Answer::Coordinators(Ok(myself()));
    stage.play(&mut node, at(5.1), Event::Tick);
    stage.answer(&mut node, at(5.2), &Query::Coordinators, living());
    assert_eq!(stage.apply(&mut node, at(5.2), Purpose::Verdict), 1);
    assert!(!node.elsewhere.contains_key(&worker(3)));
    // A lease after it was heard the second is dead as well; the first is still waited for.
    stage.play(&mut node, at(8.9), Event::Tick);
    assert_eq!(stage.wants(&Query::Coordinators), 0);
    stage.play(&mut node, at(9.1), Event::Tick);
    stage.answer(&mut node, at(9.2), &Query::Coordinators, living());
    assert_eq!(stage.apply(&mut node, at(9.2), Purpose::Verdict), 1);
    assert_eq!(node.elsewhere.keys().collect::<Vec<_>>(), [&worker(1)]);
    stage.found(&mut node, at(9.3), 1);
    stage.apply(&mut node, at(9.3), Purpose::Attach);
    assert_eq!(stage.welcomed(), [1]);
}

/// The host itself had it in flight, with its next Hello in its own queue.
#[test]
fn a_host_waits_for_the_hello_that_it_has_not_looked_at() {
    let (mut node, mut stage) = node(0..0);
    stage.hello(&mut node, at(1.0), 1, 1, &[]);
    stage.found(&mut node, at(1.0), 1);
    stage.apply(&mut node, at(1.0), Purpose::Attach);
    stage.play(&mut node, at(5.0), Event::Closed(1));
    stage.hello(&mut node, at(5.9), 2, 1, &[]);
    stage.play(&mut node, at(6.1), Event::Tick);
    assert_eq!(
        (stage.apply(&mut node, at(6.1), Purpose::Verdict), node.workers[&worker(1)].phase),
        (0, Phase::Attached)
    );
    // It was refused: now silence counts, from when it was last heard.
    let none = Answer::Attachment(Err(ReadError::Unavailable("no answer".into())));
    stage.answer(&mut node, at(6.2), &Query::Attachment(worker(1)), none);
    stage.play(&mut node, at(7.3), Event::Tick);
    assert_eq!(stage.apply(&mut node, at(7.3), Purpose::Verdict), 1);
}

/// The earlier stream of the two kept its place among those who come, and its worker from being marked dead, until it
/// was closed.
#[test]
fn of_two_hellos_that_were_both_written_the_earlier_ends() {
    for answered in [[0, 1], [1, 0]] {
        let (mut node, mut stage) = node(0..0);
        let job = JobName::new("j").unwrap();
        let reading = Query::Job(job.clone());
        stage.hello(&mut node, at(1.0), 1, 1, std::slice::from_ref(&job));
        stage.found(&mut node, at(1.0), 1);
        // The second is looked at when the first was written, and nobody has heard of that yet.
        stage.hello(&mut node, at(1.1), 2, 1, std::slice::from_ref(&job));
        let stored = Attachment { stream: StreamNumber(1), ..attachment() };
        let answer = Answer::Attachment(Ok(Some((Version(4), stored))));
        stage.answer(&mut node, at(1.1), &Query::Attachment(worker(1)), answer);
        let written: Vec<TxnId> = stage.commits.drain(..).map(|(id, _)| id).collect();
        for place in answered {
            stage.play(&mut node, at(1.2), Event::Committed(written[place], Commit::Committed(Revision(1))));
        }
        assert_eq!(stage.closed(), [(1, Code::StreamSuperseded)]);
        while stage.wants(&reading) > 0 {
            stage.answer(&mut node, at(1.3), &reading, Answer::Job(Box::new(Ok(None))));
        }
        assert_eq!(stage.welcomed(), [2]);
        assert!(!node.is_coming(&worker(1)), "nobody waits for another Hello");
        assert_eq!(node.stream_of(&worker(1)), Some(StreamNumber(2)));
    }
}

#[test]
fn those_who_are_dead_together_are_judged_together() {
    let (mut node, mut stage) = node(0..500);
    stage.play(&mut node, at(5.1), Event::Tick);
    let mut readings = 0;
    while stage.wants(&Query::Coordinators) > 0 {
        readings += 1;
        stage.answer(&mut node, at(5.2), &Query::Coordinators, Answer::Coordinators(Ok(myself())));
        stage.apply(&mut node, at(5.2), Purpose::Verdict);
    }
    assert_eq!((readings, node.elsewhere.len()), (2, 0));
}

/// What became of the verdict was not known and could not be read, and nobody asked again: it stayed attached for ever.
#[test]
fn a_verdict_whose_fate_is_not_known_is_looked_into_until_it_is() {
    let (mut node, mut stage) = node(1..2);
    let living = || Answer::Coordinators(Ok(myself()));
    stage.play(&mut node, at(5.1), Event::Tick);
    stage.answer(&mut node, at(5.2), &Query::Coordinators, living());
    let verdict = stage.commits.iter().find(|(_, of)| *of == Purpose::Verdict).map(|(id, _)| *id);
    stage.commits.clear();
    stage.play(&mut node, at(5.3), Event::Committed(verdict.unwrap(), Commit::Unknown));
    for seconds in [5.4, 6.5] {
        let failed = Answer::Attachment(Err(ReadError::Unavailable("no answer".into())));
        stage.answer(&mut node, at(seconds), &Query::Attachment(worker(1)), failed);
        stage.play(&mut node, at(seconds + 1.1), Event::Tick);
    }
    // It was not applied: it is due once more, a lease after that was found.
    stage.found(&mut node, at(8.0), 1);
    stage.alone(&mut node, at(8.0));
    stage.play(&mut node, at(13.1), Event::Tick);
    stage.answer(&mut node, at(13.2), &Query::Coordinators, living());
    assert_eq!(stage.apply(&mut node, at(13.2), Purpose::Verdict), 1);
    assert!(node.elsewhere.is_empty());
}

/// Who is attached was read at once, and who is there a second later, when the host had just died: the lease was counted from
/// when the attachment was found, though the host had acknowledged heartbeats since.
#[test]
fn a_lease_is_counted_from_when_the_host_is_known_to_have_gone() {
    let (mut node, mut stage) = begun(1..2);
    stage.play(&mut node, at(4.0), Event::Tick);
    stage.alone(&mut node, at(4.0));
    for seconds in [5.1, 8.9] {
        stage.play(&mut node, at(seconds), Event::Tick);
        assert_eq!(stage.wants(&Query::Coordinators), 0, "nobody is to be judged");
    }
    stage.play(&mut node, at(9.1), Event::Tick);
    stage.alone(&mut node, at(9.2));
    assert_eq!(stage.apply(&mut node, at(9.2), Purpose::Verdict), 1);
}

/// The coordinators were asked for before the attachment was found, and its host came in between.
#[test]
fn who_is_missing_in_an_older_reading_has_not_gone() {
    let (mut node, mut stage) = begun(1..2);
    stage.answer(&mut node, at(0.1), &Query::Coordinators, Answer::Coordinators(Ok(myself())));
    assert_eq!(node.elsewhere[&worker(1)].gone_since, None);
    let mut living = myself();
    living.insert(attachment().host, "{}".into());
    while stage.wants(&Query::Coordinators) > 0 {
        stage.answer(&mut node, at(0.2), &Query::Coordinators, Answer::Coordinators(Ok(living.clone())));
    }
    stage.play(&mut node, at(6.0), Event::Tick);
    assert_eq!(
        (stage.apply(&mut node, at(6.0), Purpose::Verdict), stage.wants(&Query::Coordinators)),
        (0, 0)
    );
}
