//! Random lives of a store: transactions, sessions that end and begin, connections that are cut and mended, watches
//! and hints. The store in memory lives first; what every step came to there is what it must come to elsewhere: the
//! same answers, the hints that the port promises, the same nodes as each session sees them.
//!
//! `SEED=n` lives the life of that number alone, `CASES=n` more or fewer of them. A life that goes wrong is made as
//! short as it goes and printed as a script, with its number.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestError, TestRng, TestRunner};
use rosterd::registry::embedded::EmbeddedRegistry;
use rosterd::registry::memory::{MemoryRegistry, MemoryStore, SessionOptions};
use rosterd::registry::{Hint, Hints, Registry};
use rosterd_domain::id::JobName;
use rosterd_domain::txn::{Txn, Write};
use tempfile::TempDir;

use crate::backend::open;
use crate::same::{everything, guard, name, plain, write};
use crate::words::*;

/// After so long a hint that must come does not.
const PATIENCE: Duration = Duration::from_secs(30);

/// One thing that happens. Sessions are numbered; a number is taken modulo how many there are.
#[derive(Debug, Clone)]
pub enum Step {
    /// Transactions handed over together, in this order.
    Commit(usize, Vec<Txn>),
    /// From now on, as a read after it tells.
    Watch(usize, JobName),
    Unwatch(usize, JobName),
    /// The session ends, and another one begins.
    End(usize),
    /// The session is cut off, others go on, and it is connected again. Only where there are others.
    Cut(usize, Vec<Txn>),
    /// Everybody looks at everything, and at its hints.
    Look,
}

/// A life.
#[derive(Clone)]
pub struct Life(pub Vec<Step>);

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            let (what, txns) = match step {
                Step::Commit(who, txns) => (format!("session {who} commits"), txns.as_slice()),
                Step::Watch(who, job) => (format!("session {who} watches {job}"), &[][..]),
                Step::Unwatch(who, job) => (format!("session {who} unwatches {job}"), &[][..]),
                Step::End(who) => (format!("session {who} ends, and another begins"), &[][..]),
                Step::Cut(who, txns) => {
                    (format!("session {who} is cut off and comes back; the other commits"), txns.as_slice())
                }
                Step::Look => ("all look".to_owned(), &[][..]),
            };
            write!(f, "\n  {what}")?;
            for Txn { guards, writes, .. } in txns {
                write!(f, "\n    guards {guards:?} writes {writes:?}")?;
            }
        }
        Ok(())
    }
}

/// Lives of a store with so many sessions.
pub fn lives(sessions: usize) -> impl Strategy<Value = Life> {
    let who = 0..sessions;
    let plain = prop_oneof![
        10 => (who.clone(), some()).prop_map(|(who, txns)| Step::Commit(who, own(txns, who))),
        3 => (who.clone(), name()).prop_map(|(who, job)| Step::Watch(who, job)),
        1 => (who.clone(), name()).prop_map(|(who, job)| Step::Unwatch(who, job)),
        1 => who.clone().prop_map(Step::End),
        4 => Just(Step::Look),
    ];
    let cut = (who, some()).prop_map(|(who, txns)| Step::Cut(who, own(txns, 1_usize.saturating_sub(who))));
    let step = if sessions > 1 { prop_oneof![19 => plain, 1 => cut].boxed() } else { plain.boxed() };
    prop::collection::vec(step, 1..30).prop_map(|mut steps| {
        // Most of it needs a job.
        let first = txn([], [create(&j(), "i1"), write_record(0, None, 1)]);
        steps.insert(0, Step::Commit(0, vec![first]));
        steps.push(Step::Look);
        Life(steps)
    })
}

/// Transactions of small numbers, so that much of it fits and much does not.
fn some() -> impl Strategy<Value = Vec<Txn>> {
    let one = (prop::collection::vec(guard(), 0..2), prop::collection::vec(write(), 1..4));
    prop::collection::vec(one.prop_map(|(guards, writes)| txn(guards, writes)), 1..5)
}

/// A coordinator's node is written by its own session alone, and a store may rely on it.
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
    async fn cut(&mut self, who: usize);
    async fn mend(&mut self, who: usize);
    /// The hints given so far; where they take time, those that must come are waited for.
    async fn hints(&mut self, who: usize, must: &[Hint]) -> Vec<Hint>;
    fn sessions(&self) -> usize;
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Came {
    Nothing,
    Answers(Vec<Result<(), String>>),
    /// Hints and sight, for each session.
    Seen(Vec<(Vec<Hint>, String)>),
}

/// Lives a life. `must`: what each step came to elsewhere.
pub async fn live(world: &mut impl World, life: &Life, must: Option<&[Came]>) -> Vec<Came> {
    let mut came = Vec::new();
    for (n, step) in life.0.iter().enumerate() {
        came.push(match step {
            Step::Commit(who, txns) => Came::Answers(commit(world.session(*who), txns).await),
            Step::Watch(who, job) => {
                world.session(*who).watch(job);
                world.session(*who).job(job).await.unwrap();
                Came::Nothing
            }
            Step::Unwatch(who, job) => {
                world.session(*who).unwatch(job);
                Came::Nothing
            }
            Step::End(who) => {
                world.end(*who).await;
                Came::Nothing
            }
            Step::Cut(who, txns) => {
                world.cut(*who).await;
                let answers = commit(world.session(1 - *who), txns).await;
                world.mend(*who).await;
                Came::Answers(answers)
            }
            Step::Look => look(world, must.and_then(|must| must.get(n))).await,
        });
    }
    came
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

/// What waits.
pub fn drain(hints: &mut Hints) -> Vec<Hint> {
    std::iter::from_fn(|| hints.try_recv()).filter(|hint| !matches!(hint, Hint::Session(_))).collect()
}

/// Waits until all that must come has come, in any order; also gives what came besides. `given`: what has come.
pub async fn wait_for(hints: &mut Hints, mut given: Vec<Hint>, must: &[Hint]) -> Vec<Hint> {
    let must: BTreeSet<&Hint> = must.iter().collect();
    given.extend(drain(hints));
    while !must.iter().all(|hint| given.contains(hint)) {
        match tokio::time::timeout(PATIENCE, hints.recv()).await {
            Ok(Some(hint)) => given.push(hint),
            // What is missing is told by the comparison.
            _ => break,
        }
    }
    given
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

    async fn cut(&mut self, who: usize) {
        assert!(self.store.suspend(&self.sessions[who].0.session()));
    }

    async fn mend(&mut self, who: usize) {
        assert!(self.store.resume(&self.sessions[who].0.session()));
    }

    async fn hints(&mut self, who: usize, _must: &[Hint]) -> Vec<Hint> {
        drain(&mut self.sessions[who].1)
    }

    fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

/// The embedded store: its session ends with its process, here with the whole store.
struct Embedded {
    dir: TempDir,
    session: Option<(EmbeddedRegistry, Hints)>,
}

impl Embedded {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
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

    async fn cut(&mut self, _who: usize) {
        unreachable!("one session has no other");
    }

    async fn mend(&mut self, _who: usize) {
        unreachable!("one session has no other");
    }

    async fn hints(&mut self, _who: usize, _must: &[Hint]) -> Vec<Hint> {
        // What was read before this came after all hints of what was answered before.
        drain(&mut self.session.as_mut().unwrap().1)
    }

    fn sessions(&self) -> usize {
        1
    }
}

/// Whether it came to the same, as far as the port promises it: of hints there may be more, never fewer. `blame`: what
/// of a refusal must agree.
pub fn same(
    life: &Life,
    expected: &[Came],
    found: &[Came],
    blame: impl Fn(&Txn, &str) -> String,
) -> TestCaseResult {
    for (n, step) in life.0.iter().enumerate() {
        let (expected, found) = (&expected[n], &found[n]);
        match (step, expected, found) {
            (Step::Commit(_, txns) | Step::Cut(_, txns), Came::Answers(expected), Came::Answers(found)) => {
                for ((txn, expected), found) in txns.iter().zip(expected).zip(found) {
                    let words =
                        |answer: &Result<(), String>| answer.clone().map_err(|text| blame(txn, &text));
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
                    let missing: Vec<_> = must.iter().filter(|hint| !hints.contains(hint)).collect();
                    prop_assert!(
                        missing.is_empty(),
                        "step {n}: session {who} was not told {missing:?}, only {hints:?}"
                    );
                }
            }
            (_, expected, found) => prop_assert_eq!(expected, found, "step {}", n),
        }
    }
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Lives so many lives, each of a seed of its own; the first that fails is shortened and told.
pub fn live_all(sessions: usize, cases: u64, shorten: u32, try_one: impl Fn(Life) -> TestCaseResult) {
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
        match TestRunner::new_with_rng(config, rng).run(&lives(sessions), &try_one) {
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
    live_all(1, 250, 4096, |life| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let expected = live(&mut InMemory::new(1), &life, None).await;
            let found = live(&mut Embedded::new(), &life, Some(&expected)).await;
            same(&life, &expected, &found, |_, text| text.to_owned())
        })
    });
}

/// The comparison is worth nothing if it cannot fail: a store that forgets one hint, or one node, is found out.
#[test]
fn a_store_that_forgets_is_found_out() {
    let watch = Step::Watch(0, j());
    let made = Step::Commit(0, vec![txn([], [create(&j(), "i1")])]);
    let assigned = Step::Commit(0, vec![txn([], [assign(0, "a")])]);
    let lived = |steps: &[Step]| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let life = Life(steps.to_vec());
        let came = runtime.block_on(live(&mut InMemory::new(1), &life, None));
        (life, came)
    };
    let (life, whole) = lived(&[made.clone(), watch.clone(), assigned.clone(), Step::Look]);
    let against = |steps: &[Step]| same(&life, &whole, &lived(steps).1, |_, text| text.to_owned());
    assert!(against(&life.0).is_ok());
    let unwatched = against(&[made.clone(), Step::Unwatch(0, j()), assigned.clone(), Step::Look]);
    assert!(unwatched.unwrap_err().to_string().contains("session 0 was not told [Job("));
    let nothing = Step::Commit(0, vec![txn([], [])]);
    let unassigned = against(&[made.clone(), watch.clone(), nothing, Step::Look]);
    assert!(unassigned.unwrap_err().to_string().contains("session 0 sees something else"));
    let refused = against(&[made, watch, Step::Commit(0, vec![txn([], [assign(1, "a")])]), Step::Look]);
    assert!(refused.unwrap_err().to_string().contains("step 2: another answer"));
}
