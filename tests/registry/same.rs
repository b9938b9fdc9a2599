//! Random transactions have the same effect in memory and embedded: the same answers, the same nodes, and after a
//! restart of the embedded store the same persistent ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rosterd_domain::id::*;
use rosterd_domain::snapshot::{ForeignTrigger, JobNodes, Stage};
use rosterd_domain::txn::{Commit, Guard, Txn, Write};
use rosterd_registry::embedded::EmbeddedRegistry;
use rosterd_registry::memory::{MemoryStore, SessionOptions};
use rosterd_registry::{DumpNode, Registry};

use crate::backend::open;
use crate::words::*;

/// Small numbers, so that versions often match and often do not.
fn version() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0_u64), 3 => Just(1), 2 => Just(2), 1 => 3..6_u64]
}

pub fn name() -> impl Strategy<Value = JobName> {
    prop_oneof![6 => Just(j()), 2 => Just(job("job-2")), 1 => Just(job("job-3"))]
}

fn incarnation() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just("i1"), 1 => Just("i2")]
}

fn some_instance() -> impl Strategy<Value = Option<InstanceId>> {
    prop_oneof![Just(None), Just(Some(instance("w"))), Just(Some(instance("v")))]
}

pub fn guard() -> impl Strategy<Value = Guard> {
    let arguments = (name(), incarnation(), version(), 0..3_u32);
    (0..9, arguments).prop_map(|(which, (job, incarnation, version, item))| match which {
        0 => Guard::Incarnation(job, incarnation.into()),
        1 => Guard::NoJob(job),
        2 => Guard::Generation(job, Generation(version)),
        3 => Guard::Epoch(job, Epoch(version)),
        4 => Guard::Config(job, Version(version)),
        5 => Guard::Attachment(worker("w"), Version(version)),
        6 => Guard::NoAttachment(worker("w")),
        7 => Guard::Record(job, Item(item), Version(version)),
        _ => Guard::Prepared(job, incarnation.into()),
    })
}

pub fn write() -> impl Strategy<Value = Write> {
    let arguments = (name(), incarnation(), version(), 0..3_u32, some_instance(), any::<bool>());
    (0..WRITES, arguments).prop_map(|(which, (job, incarnation, version, item, instance, yes))| {
        let item = Item(item);
        let unique =
            instance.as_ref().map_or("u", |id| id.as_str().rsplit('@').next().unwrap_or("u")).to_owned();
        let expect = yes.then_some(version);
        match which {
            0 | 1 => create(&job, incarnation),
            2 => Write::Config(job, format!("{version}").into()),
            3 => Write::Policy(job, "p".into()),
            4 => Write::EndJob(job),
            5 => Write::SweepJob { job, limit: version as usize * 5 },
            6 => Write::Paused(job, yes),
            7 | 8 => Write::Assignment { job, expect: Generation(version), data: bytes("a") },
            9 => Write::RaiseNecessary(job),
            10 => Write::ClearNecessary(job, Version(version)),
            11 => Write::Elect { job, coordinator: coordinator("c"), expect: Epoch(version) },
            12 => Write::Abdicate { job, expect: Epoch(version) },
            13..=15 => {
                Write::Record { job, item, expect: expect.map(Version), record: Arc::new(record(version)) }
            }
            16 => Write::Offset { job, item, data: bytes("o") },
            17 => Write::Running { job, item, instance },
            18 => Write::Failover { job, item, instance },
            19 => Write::Misfire { job, item, marked: yes },
            20 => Write::ItemInstance { job, item, instance },
            21 => Write::FailoverItem { job, item, crashed: yes.then_some((at(1), Token(version))) },
            22 => Write::Server { job, server: server(), enabled: expect.map(|v| v > 0) },
            23 => Write::RemoveServer(job, server()),
            24 => write_instance(&unique),
            25 => Write::RemoveInstance(job, crate::words::instance(&unique)),
            26 => trigger(item.0, "t"),
            27 => Write::RemoveTrigger(job, item),
            28 => attach("w", expect, version),
            29 => command(),
            30 => Write::RemoveCommand(job, command_name()),
            31 => Write::RemoveAttachment { worker: worker("w"), expect: Version(version) },
            32 => Write::Coordinator { id: coordinator("c"), data: "d".into() },
            33 | 34 => prepare(&job, incarnation),
            35 => reveal(&job, incarnation, "i1"),
            36 => Write::Numbering { offset: 100 * version, expect: expect.map(Version) },
            37 => Write::HandlerType(job, format!("app.Handler{version}").into()),
            38 => Write::ItemDisabled { job, item, disabled: yes },
            39 => Write::Started { job, item, present: yes },
            40 => Write::Completed { job, item, present: yes },
            41 => {
                let stage = if yes { Stage::Started } else { Stage::Completed };
                Write::Announced { job, stage, announced: Box::new(announced(version, instance)) }
            }
            42 | 43 => Write::RenewJob { job, incarnation: if yes { "i3" } else { "i1" }.into() },
            _ => Write::ClearForeignTrigger {
                job,
                instance: crate::words::instance(&unique),
                how: ForeignTrigger { node: true, data: None },
            },
        }
    })
}

/// How many choices [`write`] has.
const WRITES: u32 = 45;

pub fn transactions() -> impl Strategy<Value = Vec<(Txn, bool)>> {
    let one = (prop::collection::vec(guard(), 0..2), prop::collection::vec(write(), 1..4), any::<bool>());
    let one = one.prop_map(|(guards, writes, wait)| (txn(guards, writes), wait));
    prop::collection::vec(one, 1..60).prop_map(|mut all| {
        // Most writes need a job; another one is prepared.
        all.insert(0, (txn([], [create(&j(), "i1"), write_record(0, None, 1)]), true));
        all.insert(1, (txn([], [prepare(&job("job-2"), "i1")]), true));
        all
    })
}

/// Submits all, waiting where marked: transactions without a wait share a batch.
pub async fn carry_out(registry: &dyn Registry, all: &[(Txn, bool)]) -> Vec<Result<(), String>> {
    let mut waiting = Vec::new();
    let mut answers = Vec::new();
    for (txn, wait) in all {
        waiting.push(registry.commit(txn.clone()));
        if *wait {
            for commit in waiting.drain(..) {
                answers.push(plain(commit.await));
            }
        }
    }
    for commit in waiting {
        answers.push(plain(commit.await));
    }
    answers
}

pub fn plain(commit: Commit) -> Result<(), String> {
    match commit {
        Commit::Committed(_) => Ok(()),
        Commit::Conflict(text) => Err(text),
        Commit::Fenced => Err("fenced".to_owned()),
        other => panic!("{other:?}"),
    }
}

/// Everything that a reader can see, without the revisions: those differ by store.
pub async fn everything(registry: &dyn Registry, ephemerals: bool) -> String {
    let mut text = String::new();
    for job in registry.jobs().await.unwrap() {
        let mut snapshot = registry.snapshot(&job).await.unwrap().unwrap();
        snapshot.nodes =
            JobNodes { revision: Revision(0), created: Revision(0), base: Token(0), ..snapshot.nodes };
        if !ephemerals {
            snapshot.nodes.instances.clear();
            snapshot.nodes.leader = None;
        }
        let mut dump = registry.dump(&job).await.unwrap().unwrap();
        dump.retain(|_, DumpNode { ephemeral, .. }| ephemerals || !*ephemeral);
        text.push_str(&format!("{job}: {snapshot:#?}\n{dump:#?}\n"));
    }
    text.push_str(&format!("{:?}\n", registry.attachments().await.unwrap()));
    let numbering = registry.numbering().await.unwrap();
    text.push_str(&format!("numbers from {} at {:?}\n", numbering.offset, numbering.version));
    if ephemerals {
        text.push_str(&format!("{:?}\n", registry.coordinators().await.unwrap()));
    }
    text
}

/// The names of all kinds, and the kind of a write: an addition to the port does not compile until it is added here.
macro_rules! kinds {
    ($of:ident: $all:ident, $kind:ident, $($name:ident)*) => {
        const $all: &[&str] = &[$(stringify!($name)),*];

        fn $kind(one: &$of) -> &'static str {
            match one {
                $($of::$name { .. } => stringify!($name),)*
            }
        }
    };
}

kinds! { Guard: GUARDS, guard_kind,
    Incarnation NoJob Generation Epoch Config Record Attachment NoAttachment Prepared
}

kinds! { Write: ALL_WRITES, write_kind,
    CreateJob PrepareJob RevealJob RenewJob Numbering Config Policy HandlerType EndJob SweepJob Paused Assignment RaiseNecessary
    ClearNecessary Elect Abdicate Record Offset Running Failover Misfire ItemDisabled ItemInstance FailoverItem Started
    Completed Announced Server RemoveServer Instance RemoveInstance Trigger RemoveTrigger Command RemoveCommand
    ClearForeignTrigger Attachment RemoveAttachment Coordinator
}

/// Checks the coverage: kinds that are never generated, or never accepted, are never compared.
#[tokio::test]
async fn every_kind_of_guard_and_write_is_made_accepted_and_refused() {
    let seed = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), seed);
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    for _ in 0..400 {
        let all = transactions().new_tree(&mut runner).unwrap().current();
        let memory = MemoryStore::new(&namespace()).open("m", SessionOptions::default());
        for ((Txn { guards, writes, .. }, _), answer) in all.iter().zip(carry_out(&memory, &all).await) {
            let seen = &mut seen[usize::from(answer.is_ok())];
            seen.extend(guards.iter().map(|guard| ("guard", guard_kind(guard))));
            seen.extend(writes.iter().map(|write| ("write", write_kind(write))));
        }
    }
    let guards = GUARDS.iter().map(|kind| ("guard", *kind));
    let whole = BTreeSet::from_iter(guards.chain(ALL_WRITES.iter().map(|kind| ("write", *kind))));
    let missing = seen.map(|seen| whole.difference(&seen).copied().collect::<Vec<_>>());
    assert_eq!(missing, [Vec::new(), Vec::new()], "never refused, and never accepted");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_embedded_do_the_same(all in transactions()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let dir = crate::words::dir();
            let memory = MemoryStore::new(&namespace()).open("m", SessionOptions::default());
            let embedded: EmbeddedRegistry = open(dir.path());
            let (one, other) = (carry_out(&memory, &all).await, carry_out(&embedded, &all).await);
            prop_assert_eq!(one, other);
            prop_assert_eq!(everything(&memory, true).await, everything(&embedded, true).await);
            drop(embedded);
            let embedded = open(dir.path());
            let whole = everything(&embedded, true).await;
            prop_assert_eq!(everything(&memory, false).await, everything(&embedded, false).await);
            prop_assert!(!whole.contains("ephemeral: true") && whole.ends_with("{}\n"), "{}", whole);
            Ok(())
        })?;
    }
}
