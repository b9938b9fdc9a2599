//! Random histories of a store: transactions, sessions that end and begin or that the store ends without notice,
//! connections that are cut and restored, answers that are lost, watches and hints. The store in memory plays each step
//! first; the other store must have the same result: the same answers, the hints that the port promises, the same nodes
//! as seen by each session. Only the outcome of a transaction with a lost answer is first read from the store that lost
//! it.
//!
//! `SEED=n` plays only the history of that number, `CASES=n` more or fewer of them. A failing history is shrunk and
//! printed as a script, with its number.

use std::fmt;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestError, TestRng, TestRunner};
use rosterd_domain::id::JobName;
use rosterd_domain::txn::{Commit, Txn, Write};
use rosterd_registry::embedded::EmbeddedRegistry;
use rosterd_registry::memory::{MemoryRegistry, MemoryStore, SessionOptions};
use rosterd_registry::{Hint, Hints, ReadError, Registry};
use tempfile::TempDir;

use crate::backend::open;
use crate::same::{everything, guard, name, plain, write};
use crate::words::*;

/// One step. Sessions are numbered; a number is taken modulo their count.
#[derive(Debug, Clone)]
pub enum HistoryStep {
    /// Transactions submitted together, in this order.
    Commit(usize, Vec<Txn>),
    /// Starts a watch, in force after a following read.
    Watch(usize, JobName),
    Unwatch(usize, JobName),
    /// The session ends, and another one begins.
    End(usize),
    /// The session is cut off, others go on, and it is reconnected. Only if there are others.
    Cut(usize, Vec<Txn>),
    /// The session is cut off until the store ends it by itself; others go on, before that and after. Then it is
    /// notified of its end, may not write, and another begins.
    Expire(usize, Vec<Txn>, Vec<Txn>),
    /// The answer is lost on its way: the outcome of the transaction is read.
    Lose(usize, Txn),
    /// An older tool triggers an instance of a job.
    Foreign(JobName),
    /// Every session reads everything, and its hints.
    Look,
}

impl HistoryStep {
    /// The transactions, in the order of the answers; those of an ended session come last.
    fn asked(&self) -> impl Iterator<Item = Txn> {
        let (first, then, over) = match self {
            Self::Commit(_, txns) | Self::Cut(_, txns) => (txns.as_slice(), &[][..], false),
            Self::Expire(_, before, after) => (before.as_slice(), after.as_slice(), true),
            _ => (&[][..], &[][..], false),
        };
        first.iter().chain(then).cloned().chain(over.then(Txn::default))
    }
}

/// A life.
#[derive(Clone)]
pub struct Life(pub Vec<HistoryStep>);

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            let (what, txns) = match step {
                HistoryStep::Commit(who, txns) => (format!("session {who} commits"), txns.as_slice()),
                HistoryStep::Watch(who, job) => (format!("session {who} watches {job}"), &[][..]),
                HistoryStep::Unwatch(who, job) => (format!("session {who} unwatches {job}"), &[][..]),
                HistoryStep::End(who) => (format!("session {who} ends, and another begins"), &[][..]),
                HistoryStep::Cut(who, txns) => {
                    (format!("session {who} is cut off and comes back; the other commits"), txns.as_slice())
                }
                HistoryStep::Expire(who, before, after) => {
                    write!(f, "\n  session {who} is cut off, the other commits {before:?}")?;
                    ("it is ended unheard; the other commits".to_owned(), after.as_slice())
                }
                HistoryStep::Lose(who, txn) => {
                    (format!("session {who} does not hear what became of"), std::slice::from_ref(txn))
                }
                HistoryStep::Foreign(job) => {
                    (format!("an older tool triggers an instance of {job}"), &[][..])
                }
                HistoryStep::Look => ("all look".to_owned(), &[][..]),
            };
            write!(f, "\n  {what}")?;
            for Txn { guards, writes, .. } in txns {
                write!(f, "\n    guards {guards:?} writes {writes:?}")?;
            }
        }
        Ok(())
    }
}

/// The kind of histories.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// One session: there is no other that goes on while it is cut off.
    Alone,
    /// Two sessions.
    Two,
    /// The same, shorter, and the store ends one of the two by itself.
    Expiring,
}

/// Random histories of a store.
pub fn lives(kind: OperationKind) -> BoxedStrategy<Life> {
    let step = if kind == OperationKind::Alone {
        step(1).boxed()
    } else {
        prop_oneof![19 => step(2), 3 => cut()].boxed()
    };
    let many = if kind == OperationKind::Expiring { 1..10_usize } else { 1..30 };
    let steps = prop::collection::vec(step, many).prop_map(begin);
    if kind != OperationKind::Expiring {
        return steps.prop_map(|steps| Life([steps, vec![HistoryStep::Look]].concat())).boxed();
    }
    (steps, 0..2_usize, some(), some(), any::<prop::sample::Index>())
        .prop_map(|(mut steps, who, before, after, at)| {
            let expire = HistoryStep::Expire(who, own(before, 1 - who), own(after, 1 - who));
            let at = 1 + at.index(steps.len());
            // Ephemerals that end with it.
            let held = own(vec![txn([], [elect(0)]), txn([], [write_instance("w")])], who);
            steps.splice(
                at..at,
                [HistoryStep::Commit(who, held), HistoryStep::Look, expire, HistoryStep::Look],
            );
            steps.push(HistoryStep::Look);
            Life(steps)
        })
        .boxed()
}

/// Most steps need a job; another one is prepared.
fn begin(mut steps: Vec<HistoryStep>) -> Vec<HistoryStep> {
    let first = txn([], [create(&j(), "i1"), write_record(0, None, 1)]);
    steps.insert(0, HistoryStep::Commit(0, vec![first, txn([], [prepare(&job("job-2"), "i1")])]));
    steps
}

/// A step of any session.
fn step(sessions: usize) -> impl Strategy<Value = HistoryStep> {
    let who = 0..sessions;
    prop_oneof![
        10 => (who.clone(), some()).prop_map(|(who, txns)| HistoryStep::Commit(who, own(txns, who))),
        3 => (who.clone(), name()).prop_map(|(who, job)| HistoryStep::Watch(who, job)),
        1 => (who.clone(), name()).prop_map(|(who, job)| HistoryStep::Unwatch(who, job)),
        1 => who.prop_map(HistoryStep::End),
        4 => Just(HistoryStep::Look),
    ]
}

/// A step that needs another session, or a store that is a server.
fn cut() -> impl Strategy<Value = HistoryStep> {
    let who = 0..2_usize;
    prop_oneof![
        (who.clone(), some()).prop_map(|(who, txns)| HistoryStep::Cut(who, own(txns, 1 - who))),
        (who, one()).prop_map(|(who, txn)| HistoryStep::Lose(who, own(vec![txn], who).remove(0))),
        name().prop_map(HistoryStep::Foreign),
    ]
}

/// Transactions with small numbers, so that many guards match and many do not.
fn some() -> impl Strategy<Value = Vec<Txn>> {
    prop::collection::vec(one(), 1..5)
}

fn one() -> impl Strategy<Value = Txn> {
    let one = (prop::collection::vec(guard(), 0..2), prop::collection::vec(write(), 1..4));
    one.prop_map(|(guards, writes)| txn(guards, writes))
}

/// A coordinator's node is written only by its own session, and a store may rely on it.
fn own(mut txns: Vec<Txn>, who: usize) -> Vec<Txn> {
    for write in txns.iter_mut().flat_map(|txn| &mut txn.writes) {
        if let Write::Coordinator { id, .. } = write {
            *id = coordinator(&format!("c{who}"));
        }
    }
    txns
}

/// A store with its sessions.
pub trait World {
    fn session(&self, who: usize) -> &dyn Registry;
    async fn end(&mut self, who: usize);
    /// The hints given so far; if they take time, those in `must` are awaited.
    async fn hints(&mut self, who: usize, must: &[Hint]) -> Vec<Hint>;
    fn sessions(&self) -> usize;
}

/// A store whose sessions can be cut off while others go on.
pub trait Cuts: World {
    async fn cut(&mut self, who: usize);
    async fn mend(&mut self, who: usize);
    /// The store ends a session that is cut off, without notice to its holder.
    async fn lapse(&mut self, who: usize);
    /// After the reconnect, the session is notified that it is over.
    async fn hear(&mut self, who: usize);
    /// Another session takes its place.
    async fn reopen(&mut self, who: usize);
    /// Writes a node of a job as a foreign tool would. Returns whether its parent existed.
    async fn foreign(&mut self, job: &JobName, path: &str) -> bool;
}

/// A store whose answers may be lost.
pub trait Loses: Cuts {
    /// Submits a transaction and suppresses its answer.
    async fn lose(&mut self, who: usize, txn: Txn) -> Commit;
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Came {
    Nothing,
    Answers(Vec<Result<(), String>>),
    /// The outcome of a transaction by a read: whether it was applied, and whether its answer was really lost.
    Lost {
        applied: bool,
        unknown: bool,
    },
    /// Whether a foreign tool could write.
    Written(bool),
    /// Hints and visible nodes, for each session.
    Seen(Vec<(Vec<Hint>, String)>),
    /// Hints, up to the end of a watch.
    Heard(Vec<Hint>),
}

/// Plays a history alone.
async fn live(world: &mut impl World, life: &Life) -> Vec<Came> {
    let mut came = Vec::new();
    for step in &life.0 {
        came.push(take(world, step, None).await);
    }
    came
}

/// Plays a history of one session twice, in memory and in another store. Returns the results of each step.
async fn live_alone(model: &mut InMemory, world: &mut impl World, life: &Life) -> (Vec<Came>, Vec<Came>) {
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    for step in &life.0 {
        expected.push(take(model, step, None).await);
        found.push(take(world, step, expected.last()).await);
    }
    (expected, found)
}

/// The same with sessions that are cut off and answers that are lost.
pub async fn live_twice(model: &mut InMemory, world: &mut impl Loses, life: &Life) -> (Vec<Came>, Vec<Came>) {
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    for (n, step) in life.0.iter().enumerate() {
        if let HistoryStep::Lose(who, txn) = step {
            let came = lose(world, *who, txn, n).await;
            expected.push(follow(model, *who, txn, n, &came).await);
            found.push(came);
        } else {
            expected.push(take_cut(model, step, None).await);
            found.push(take_cut(world, step, expected.last()).await);
        }
    }
    (expected, found)
}

/// Plays a step; `must`: its result in the other store.
async fn take(world: &mut impl World, step: &HistoryStep, must: Option<&Came>) -> Came {
    match step {
        HistoryStep::Commit(who, txns) => Came::Answers(commit(world.session(*who), txns).await),
        HistoryStep::Watch(who, job) => {
            world.session(*who).watch(job);
            world.session(*who).job(job).await.unwrap();
            Came::Nothing
        }
        HistoryStep::Unwatch(who, job) => {
            // Hints of changes before this may be missing after it.
            let told: &[Hint] = if let Some(Came::Heard(told)) = must { told } else { &[] };
            let heard = world.hints(*who, told).await;
            world.session(*who).unwatch(job);
            Came::Heard(heard)
        }
        HistoryStep::End(who) => {
            world.end(*who).await;
            Came::Nothing
        }
        HistoryStep::Look => look(world, must).await,
        HistoryStep::Cut(..) | HistoryStep::Expire(..) | HistoryStep::Lose(..) | HistoryStep::Foreign(_) => {
            unreachable!("one session has no other: {step:?}")
        }
    }
}

async fn take_cut(world: &mut impl Cuts, step: &HistoryStep, must: Option<&Came>) -> Came {
    match step {
        HistoryStep::Cut(who, txns) => {
            world.cut(*who).await;
            let answers = commit(world.session(1 - *who), txns).await;
            world.mend(*who).await;
            Came::Answers(answers)
        }
        HistoryStep::Expire(who, before, after) => {
            world.cut(*who).await;
            let mut answers = commit(world.session(1 - *who), before).await;
            world.lapse(*who).await;
            answers.extend(commit(world.session(1 - *who), after).await);
            world.hear(*who).await;
            // Whatever it writes: it no longer has the right to.
            let late =
                txn([], [Write::Coordinator { id: coordinator(&format!("c{who}")), data: "late".into() }]);
            answers.extend(commit(world.session(*who), &[late]).await);
            assert_eq!(world.session(*who).jobs().await, Err(ReadError::Fenced));
            world.reopen(*who).await;
            Came::Answers(answers)
        }
        HistoryStep::Foreign(job) => {
            Came::Written(world.foreign(job, &format!("/trigger/{}", instance("w"))).await)
        }
        step => take(world, step, must).await,
    }
}

/// The transaction with a unique marker write, by which it is recognized.
fn traced(txn: &Txn, who: usize, n: usize) -> Txn {
    let mut txn = txn.clone();
    txn.write(Write::Coordinator { id: coordinator(&format!("c{who}")), data: format!("step {n}").into() });
    txn
}

/// Commits without an answer, and reads the outcome. A request that did not leave in time is answered late.
async fn lose(world: &mut impl Loses, who: usize, txn: &Txn, n: usize) -> Came {
    let answer = world.lose(who, traced(txn, who, n)).await;
    let coordinators = world.session(who).coordinators().await.unwrap();
    let trace = coordinators.get(&coordinator(&format!("c{who}")));
    let applied = trace.is_some_and(|data| **data == *format!("step {n}"));
    let unknown = answer == Commit::Unknown;
    assert!(
        unknown || plain(answer).is_ok() == applied,
        "step {n}: the answer says otherwise than the nodes"
    );
    Came::Lost { applied, unknown }
}

/// A transaction that was applied in the other store must succeed here; one that was not, and was not answered, may
/// fail either way.
async fn follow(model: &InMemory, who: usize, txn: &Txn, n: usize, came: &Came) -> Came {
    let Came::Lost { applied, unknown } = *came else { unreachable!("{came:?}") };
    if unknown && !applied {
        return came.clone();
    }
    let here = plain(model.session(who).commit(traced(txn, who, n)).await);
    Came::Lost { applied: here.is_ok(), unknown }
}

async fn look(world: &mut impl World, must: Option<&Came>) -> Came {
    let mut seen = Vec::new();
    for who in 0..world.sessions() {
        let sight = everything(world.session(who), true).await;
        let must = match must {
            Some(Came::Seen(all)) => all[who].0.as_slice(),
            _ => &[],
        };
        seen.push((world.hints(who, must).await, sight));
    }
    Came::Seen(seen)
}

async fn commit(registry: &dyn Registry, txns: &[Txn]) -> Vec<Result<(), String>> {
    let waiting: Vec<_> = txns.iter().map(|txn| registry.commit(txn.clone())).collect();
    let mut answers = Vec::new();
    for commit in waiting {
        answers.push(plain(commit.await));
    }
    answers
}

/// The waiting hints.
fn drain(hints: &mut Hints) -> Vec<Hint> {
    std::iter::from_fn(|| hints.try_recv()).filter(|hint| !matches!(hint, Hint::Session(_))).collect()
}

/// The model.
pub struct InMemory {
    store: MemoryStore,
    sessions: Vec<(MemoryRegistry, Hints)>,
}

impl InMemory {
    pub fn new(sessions: usize) -> Self {
        let store = MemoryStore::new(&namespace());
        let sessions = (0..sessions).map(|_| Self::open(&store)).collect();
        Self { store, sessions }
    }

    fn open(store: &MemoryStore) -> (MemoryRegistry, Hints) {
        let session = store.open("m", SessionOptions::default());
        let hints = session.hints();
        (session, hints)
    }
}

impl World for InMemory {
    fn session(&self, who: usize) -> &dyn Registry {
        &self.sessions[who].0
    }

    async fn end(&mut self, who: usize) {
        assert!(self.store.expire(&self.sessions[who].0.session()));
        self.sessions[who] = Self::open(&self.store);
    }

    async fn hints(&mut self, who: usize, _must: &[Hint]) -> Vec<Hint> {
        drain(&mut self.sessions[who].1)
    }

    fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

impl Cuts for InMemory {
    async fn cut(&mut self, who: usize) {
        assert!(self.store.suspend(&self.sessions[who].0.session()));
    }

    async fn mend(&mut self, who: usize) {
        assert!(self.store.resume(&self.sessions[who].0.session()));
    }

    async fn lapse(&mut self, who: usize) {
        assert!(self.store.end_unheard(&self.sessions[who].0.session()));
    }

    async fn hear(&mut self, who: usize) {
        assert!(self.store.resume(&self.sessions[who].0.session()));
    }

    async fn reopen(&mut self, who: usize) {
        self.sessions[who] = Self::open(&self.store);
    }

    async fn foreign(&mut self, job: &JobName, path: &str) -> bool {
        self.store.foreign(job, path, Some(b""), false)
    }
}

/// The embedded store: its session ends with its process, here with the whole store.
struct Embedded {
    dir: TempDir,
    session: Option<(EmbeddedRegistry, Hints)>,
}

impl Embedded {
    fn new() -> Self {
        let dir = crate::words::dir();
        let mut new = Self { dir, session: None };
        new.open();
        new
    }

    fn open(&mut self) {
        drop(self.session.take());
        let session = open(self.dir.path());
        let hints = session.hints();
        self.session = Some((session, hints));
    }
}

impl World for Embedded {
    fn session(&self, _who: usize) -> &dyn Registry {
        &self.session.as_ref().unwrap().0
    }

    async fn end(&mut self, _who: usize) {
        self.open();
    }

    async fn hints(&mut self, _who: usize, _must: &[Hint]) -> Vec<Hint> {
        // The preceding read came after all hints of earlier answers.
        drain(&mut self.session.as_mut().unwrap().1)
    }

    fn sessions(&self) -> usize {
        1
    }
}

/// Whether the results are equal, as far as the port promises: there may be more hints, never fewer. `blame`: the part
/// of a refusal that must agree.
pub fn same(
    life: &Life,
    expected: &[Came],
    found: &[Came],
    blame: impl Fn(&Txn, &str) -> String,
) -> TestCaseResult {
    for (n, step) in life.0.iter().enumerate() {
        let (expected, found) = (&expected[n], &found[n]);
        match (step, expected, found) {
            (_, Came::Answers(expected), Came::Answers(found)) => {
                prop_assert_eq!(expected.len(), found.len(), "step {}", n);
                for ((txn, expected), found) in step.asked().zip(expected).zip(found) {
                    let words =
                        |answer: &Result<(), String>| answer.clone().map_err(|text| blame(&txn, &text));
                    prop_assert_eq!(words(expected), words(found), "step {}: another answer to {:?}", n, txn);
                }
            }
            (_, Came::Seen(expected), Came::Seen(found)) => {
                for (who, ((must, sight), (hints, seen))) in expected.iter().zip(found).enumerate() {
                    let differs = sight.lines().zip(seen.lines()).find(|(one, other)| one != other);
                    prop_assert!(
                        sight == seen,
                        "step {n}: session {who} sees something else, first {differs:?}"
                    );
                    told(n, who, must, hints)?;
                }
            }
            (HistoryStep::Unwatch(who, _), Came::Heard(must), Came::Heard(hints)) => {
                told(n, *who, must, hints)?
            }
            (_, expected, found) => prop_assert_eq!(expected, found, "step {}", n),
        }
    }
    Ok(())
}

fn told(n: usize, who: usize, must: &[Hint], hints: &[Hint]) -> TestCaseResult {
    let missing: Vec<_> = must.iter().filter(|hint| !hints.contains(hint)).collect();
    prop_assert!(missing.is_empty(), "step {n}: session {who} was not told {missing:?}, only {hints:?}");
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Plays a number of histories, each with a separate seed; the first that fails is shrunk and printed.
pub fn live_all(kind: OperationKind, cases: u64, shorten: u32, try_one: impl Fn(Life) -> TestCaseResult) {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + number("CASES").unwrap_or(1),
        None => 0..number("CASES").unwrap_or(cases),
    };
    for seed in seeds {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let config =
            Config { cases: 1, failure_persistence: None, max_shrink_iters: shorten, ..Config::default() };
        match TestRunner::new_with_rng(config, rng).run(&lives(kind), &try_one) {
            Ok(()) => {}
            Err(TestError::Fail(why, life)) => {
                panic!("SEED={seed} goes wrong: {why}\nThe shortest life that does:{life:?}\n")
            }
            Err(TestError::Abort(why)) => panic!("SEED={seed} is given up: {why}"),
        }
    }
}

#[test]
fn memory_and_embedded_live_the_same_lives() {
    live_all(OperationKind::Alone, 400, 4096, |life| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (expected, found) = live_alone(&mut InMemory::new(1), &mut Embedded::new(), &life).await;
            same(&life, &expected, &found, |_, text| text.to_owned())
        })
    });
}

/// Tests the comparison itself: a store that loses one hint, or one node, is detected.
#[test]
fn a_store_that_forgets_is_found_out() {
    let watch = HistoryStep::Watch(0, j());
    let made = HistoryStep::Commit(0, vec![txn([], [create(&j(), "i1")])]);
    let assigned = HistoryStep::Commit(0, vec![txn([], [assign(0, "a")])]);
    let lived = |steps: &[HistoryStep]| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let life = Life(steps.to_vec());
        let came = runtime.block_on(live(&mut InMemory::new(1), &life));
        (life, came)
    };
    let (life, whole) = lived(&[made.clone(), watch.clone(), assigned.clone(), HistoryStep::Look]);
    let against = |steps: &[HistoryStep]| same(&life, &whole, &lived(steps).1, |_, text| text.to_owned());
    assert!(against(&life.0).is_ok());
    let another = JobName::new("another").unwrap();
    let unwatched =
        against(&[made.clone(), HistoryStep::Watch(0, another), assigned.clone(), HistoryStep::Look]);
    assert!(unwatched.unwrap_err().to_string().contains("session 0 was not told [Job("));
    let nothing = HistoryStep::Commit(0, vec![txn([], [])]);
    let unassigned = against(&[made.clone(), watch.clone(), nothing, HistoryStep::Look]);
    assert!(unassigned.unwrap_err().to_string().contains("session 0 sees something else"));
    let refused =
        against(&[made, watch, HistoryStep::Commit(0, vec![txn([], [assign(1, "a")])]), HistoryStep::Look]);
    assert!(refused.unwrap_err().to_string().contains("step 2: another answer"));
}
