//! The contents of nodes that we wrote, or that somebody wrote in our place.

use std::str::from_utf8;

use rosterd_coordinator::member::Member;
use rosterd_domain::id::*;
use rosterd_domain::item::{ItemEvent, Missed, Outcome, Record, Running, Source};
use rosterd_domain::sharding::Sharding;
use rosterd_domain::snapshot::{Announced, Attachment, Command, InstanceNode, TriggerNode};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_domain::view::{Job, Timeline};
use rosterd_registry::memory::{MemoryStore, SessionOptions};
use rosterd_registry::{ReadError, Registry};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub const WORDS: &[&str] = &[
    "{",
    "}",
    "\"token\":",
    "\"last_fire\":",
    "\"state\":",
    "\"running\":",
    "\"crashed\":",
    "\"counters\":",
    "\"fired\":",
    "\"missed\":",
    "\"down\":",
    "\"2026-11-21T00:00:00Z\"",
    "\"instances\":",
    "\"owners\":",
    "\"floor\":",
    "\"gaps\":",
    "\"surplus\":",
    "\"before\":",
    "z:",
    "\"misfire\":",
    "\"fire\":",
    "\"source\":",
    "\"NORMAL_TRIGGER\"",
    "\"until\":",
    "\"9999-12-31T23:59:59Z\"",
    "\"-9999-01-01T00:00:00Z\"",
    "\"stream\":",
    "\"session\":",
    "\"host\":",
    "\"digest\":",
];

/// Parses data of ours; it must be the same once it was written again.
fn data<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(input: &[u8]) -> (Option<T>, char) {
    match serde_json::from_slice::<T>(input) {
        Ok(value) => {
            let written = serde_json::to_vec(&value).unwrap();
            assert_eq!(serde_json::from_slice::<T>(&written).unwrap(), value);
            (Some(value), '1')
        }
        Err(_) => (None, '0'),
    }
}

fn run(fire: Time, source: Source) -> Running {
    let instance = InstanceId::new("10.0.0.7@-@w1").unwrap();
    let worker = WorkerId::new("w1").unwrap();
    Running {
        fire,
        source,
        instance,
        worker,
        since: fire,
        trigger: None,
        held: false,
        cancelled: false,
        deaths: 0,
    }
}

/// All events of an item, at times that may or may not fit.
fn events(record: &Record) -> Vec<ItemEvent> {
    let at = Time(record.last_fire.0.saturating_add(1000));
    vec![
        ItemEvent::Start(run(at, Source::NormalTrigger)),
        ItemEvent::Start(run(record.misfire.unwrap_or(at), Source::Misfire)),
        ItemEvent::Start(run(at, Source::Manual)),
        ItemEvent::Claim(run(at, Source::Failover)),
        ItemEvent::Release,
        ItemEvent::Cancel,
        ItemEvent::End { outcome: Outcome::Succeeded, at, reported: true, requeue: false },
        ItemEvent::End { outcome: Outcome::Crashed, at, reported: false, requeue: true },
        ItemEvent::GiveUp { at },
        ItemEvent::Misfire { latest: at, count: u64::MAX },
        ItemEvent::Skip { latest: at, count: 1 },
        ItemEvent::Miss { latest: at, count: u64::MAX, reason: Missed::Down },
        ItemEvent::DropMisfire { reason: Missed::Disabled },
        ItemEvent::Cap {
            last_fire: Time(at.0.saturating_sub(1)),
            schedule: ("0 0 * * * ?".into(), "UTC".into()),
        },
    ]
}

pub fn records(input: &[u8]) -> String {
    let (record, mut kind) = data::<Record>(input);
    let mut kinds = String::from(kind);
    if let Some(record) = record {
        kinds += &lives(&record, 3);
        let mut sum = record.counters.clone();
        sum.add(&record.counters);
        kinds += &sum.ended().min(9).to_string();
    }
    for one in [
        data::<Attachment>(input).1,
        data::<Command>(input).1,
        data::<TriggerNode>(input).1,
        data::<InstanceNode>(input).1,
        data::<Announced>(input).1,
    ] {
        kind = one;
        kinds.push(kind);
    }
    let member = Member::parse(&String::from_utf8_lossy(input));
    kinds.push(if member == Member::default() { '0' } else { '1' });
    kinds
}

/// Plays the possible events, some steps deep; a token never falls, and rises when a run starts.
fn lives(record: &Record, deep: u32) -> String {
    let mut kinds = String::new();
    for event in events(record) {
        let Ok(next) = record.apply(&event) else {
            kinds.push('-');
            continue;
        };
        match event {
            ItemEvent::Start(_) | ItemEvent::Claim(_) => {
                assert!(next.token > record.token, "{record:?} {event:?}")
            }
            _ => assert!(next.token >= record.token, "{record:?} {event:?}"),
        }
        kinds.push('+');
        if deep > 1 {
            lives(&next, deep - 1);
        }
    }
    kinds
}

pub fn sharding(input: &[u8]) -> String {
    // Text before a tab is packed as the store packs it.
    let packed = input.iter().position(|byte| *byte == b'\t').map(|at| pack(&input[..at]));
    let mut kind = String::new();
    for data in [Some(input.to_vec()), packed].into_iter().flatten() {
        match Sharding::decode(&data) {
            Ok(sharding) => {
                assert_eq!(Sharding::decode(&sharding.encode()).unwrap(), sharding);
                let _ = sharding.withdrawn();
                kind += &format!(
                    "{} {} {}",
                    sharding.gaps.len().min(3),
                    sharding.surplus.len().min(3),
                    sharding.floors.len().min(3)
                );
            }
            Err(error) => kind += &crate::texts::told(&error),
        }
    }
    kind
}

fn pack(text: &[u8]) -> Vec<u8> {
    use flate2::Compression;
    use flate2::write::DeflateEncoder;
    use std::io::Write as _;
    let mut encoder = DeflateEncoder::new(b"z:".to_vec(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Nodes of a job that anybody could have written.
const PLACES: &[&str] = &[
    "/config",
    "/sharding",
    "/sharding/0",
    "/sharding/7",
    "/sharding/x",
    "/sharding/0/instance",
    "/sharding/0/running",
    "/sharding/0/misfire",
    "/servers/10.0.0.7",
    "/servers/strange name",
    "/instances/10.0.0.7@-@w1",
    "/instances/no instance",
    "/trigger/10.0.0.7@-@w1",
    "/leader/election/instance",
    "/leader/sharding/necessary",
    "/leader/failover/items/0",
    "/leader/failover/items/99999999999",
    "/guarantee/started",
    "/guarantee/completed",
    "/offset/0",
    "/rosterd/policy",
    "/rosterd/instances/10.0.0.7@-@w1",
    "/rosterd/triggers/0",
    "/rosterd/commands/cancel-0",
    "/rosterd/paused",
    "/rosterd/incarnation",
    "/rosterd/incarnation/other",
    "/rosterd/tokens",
];

/// Each line is a node: the number of its place, and its data.
pub fn tree(input: &[u8]) -> String {
    let store = MemoryStore::new(&Namespace::new("ns").unwrap());
    let session = store.open("fuzz", SessionOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let job = JobName::new("words").unwrap();
        let made = Write::CreateJob {
            job: job.clone(),
            incarnation: "i1".into(),
            handler_type: "h".into(),
            config: r#"{"jobName":"words","cron":"0/5 * * * * ?","shardingTotalCount":3}"#.into(),
            policy: "{}".into(),
            assignment: Sharding::made_at(Time(0)).encode().into(),
        };
        let mut txn = Txn::new(Purpose::Other);
        txn.write(made);
        assert!(matches!(session.commit(txn).await, Commit::Committed(_)));
        let mut kind = String::new();
        for line in input.split(|byte| *byte == b'\n') {
            let Some(space) = line.iter().position(|byte| *byte == b' ') else { continue };
            let number: usize = from_utf8(&line[..space]).unwrap_or_default().parse().unwrap_or_default();
            let place = PLACES[number % PLACES.len()];
            let put = store.foreign(&job, place, Some(&line[space + 1..]), number > PLACES.len());
            kind.push(if put { '1' } else { '0' });
        }
        kind + &read(&session, &job).await
    })
}

async fn read(session: &dyn Registry, name: &JobName) -> String {
    let mut kind = String::new();
    match session.whole(name).await {
        Ok(whole) => {
            let Some(whole) = whole else { return kind };
            let nodes = whole.snapshot.nodes;
            match Job::decode(name, &nodes) {
                Ok(Some(job)) => {
                    let next = Timeline::new(&job).next(Time::from_seconds(1_795_219_200));
                    kind += &format!("a job {} {}", next.is_some(), job.rules.items.min(5));
                }
                Ok(None) => kind += "none",
                Err(why) => {
                    assert!(why.len() <= 64 << 10, "{} bytes of why", why.len());
                    kind += &why.chars().filter(char::is_ascii_lowercase).take(24).collect::<String>();
                }
            }
        }
        Err(error) => kind += &damage(&error),
    }
    for outcome in [
        session.job(name).await.err(),
        session.snapshot(name).await.err(),
        session.numbering().await.err(),
        session.attachments().await.err(),
        session.coordinators().await.err(),
    ] {
        kind.push(if outcome.is_some() { '!' } else { '.' });
    }
    let nodes = session.dump(name).await.unwrap().unwrap_or_default();
    kind + &nodes.len().to_string()
}

fn damage(error: &ReadError) -> String {
    let ReadError::Damaged { path, reason } = error else { panic!("{error}") };
    assert!(reason.len() <= 16 << 10, "{} bytes of why", reason.len());
    path.clone()
}
