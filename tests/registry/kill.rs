//! A process that is killed in the middle of its writes has every acknowledged one on disk afterwards.
//!
//! The child writes with several writers at once and prints a line after each acknowledgement. The parent kills
//! it at some point, opens the store and compares. (A kill leaves the page cache alone; `sync` shows that
//! nothing is acknowledged before the disk has it.)

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rosterd::registry::Registry;
use rosterd::registry::embedded::EmbeddedRegistry;
use rosterd_domain::id::{Item, Token};
use rosterd_domain::txn::{Guard, Write};

use crate::backend::open;
use crate::process::{child, directory};
use crate::words::*;

const ROUNDS: u64 = 220;
const WRITERS: u32 = 8;

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let dir = tempfile::TempDir::new().unwrap();
    let (mut acks, mut in_writes, mut slowest) = (Acks::default(), 0, Duration::ZERO);
    block_on(prepare(&open(dir.path())));
    let mut random = 0x9e37_79b9_97f4_a7c1_u64;
    for round in 0..ROUNDS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Every eighth is killed while it opens the store, the others up to 40 ms into their writes.
        let opening = round % 8 == 0;
        let before = acks.count;
        run_and_kill(dir.path(), opening, Duration::from_micros(random % 40_000), &mut acks);
        in_writes += u64::from(acks.count > before);
        let start = Instant::now();
        let registry = open(dir.path());
        slowest = slowest.max(start.elapsed());
        block_on(compare(&registry, &mut acks, round));
    }
    assert!(in_writes >= 180, "only {in_writes} of {ROUNDS} kills came in the middle of writes");
    println!(
        "{ROUNDS} kills, {in_writes} in the middle of writes, {} acknowledged writes, none lost; \
         slowest opening {slowest:?}",
        acks.count
    );
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[derive(Clone, Copy, PartialEq)]
enum Churn {
    Made,
    Ended,
    Gone,
}

/// What the child was told.
#[derive(Default)]
struct Acks {
    /// The last acknowledged token by item.
    tokens: BTreeMap<u32, u64>,
    /// The job that comes and goes, and what was acknowledged of it last.
    churn: Option<(u64, Churn)>,
    count: u64,
}

impl Acks {
    fn read(&mut self, line: &str) {
        // The last line may have been cut off, the first one has the name of the test before it.
        let Some((_, ack)) = line.split_once("ack ") else { return };
        let Some(ack) = ack.strip_suffix('.') else { return };
        let words: Vec<&str> = ack.split_ascii_whitespace().collect();
        match words[..] {
            ["record", item, token] => {
                self.tokens.insert(item.parse().unwrap(), token.parse().unwrap());
            }
            ["made", n] => self.churn = Some((n.parse().unwrap(), Churn::Made)),
            ["ended", n] => self.churn = Some((n.parse().unwrap(), Churn::Ended)),
            ["gone", n] => self.churn = Some((n.parse().unwrap(), Churn::Gone)),
            _ => panic!("{line}"),
        }
        self.count += 1;
    }
}

async fn prepare(registry: &EmbeddedRegistry) {
    let records = (0..WRITERS).map(|item| write_record(item, None, 0));
    put(registry, std::iter::once(create(&j(), "i1")).chain(records)).await;
}

fn run_and_kill(dir: &Path, opening: bool, after: Duration, acks: &mut Acks) {
    let mut child = child::<&str>(&[], "kill::child_writes_until_killed", dir).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    if !opening {
        let first = lines.by_ref().map_while(Result::ok).find(|line| line.contains("ack "));
        acks.read(&first.expect("the child did not acknowledge anything"));
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    // What it had printed before stands in the pipe.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    child.wait().unwrap();
    rest.iter().for_each(|line| acks.read(line));
}

async fn compare(registry: &EmbeddedRegistry, acks: &mut Acks, round: u64) {
    let records = snapshot(registry).await.records;
    for item in 0..WRITERS {
        let (version, record) = &records[&Item(item)];
        let acknowledged = acks.tokens.entry(item).or_default();
        // Each writer counts token and version together, and has one write in flight.
        assert_eq!(record.token, Token(version.0), "round {round}, item {item}");
        assert!(
            (*acknowledged..=*acknowledged + 1).contains(&version.0),
            "round {round}, item {item}: {acknowledged} was acknowledged, {version} is there"
        );
        *acknowledged = version.0;
    }
    let Some((n, churn)) = acks.churn else { return };
    let found = registry.job(&job(&format!("churn-{n}"))).await.unwrap();
    match churn {
        Churn::Made => assert!(found.is_some(), "round {round}: job {n} is lost"),
        Churn::Ended => {
            assert!(found.is_none_or(|job| job.incarnation.is_none()), "round {round}: job {n} lives")
        }
        Churn::Gone => assert!(found.is_none(), "round {round}: job {n} is back"),
    }
}

#[test]
fn child_writes_until_killed() {
    let Some(dir) = directory() else { return };
    block_on(async {
        let registry = Arc::new(open(&dir));
        let mut tasks = Vec::new();
        for item in 0..WRITERS {
            tasks.push(tokio::spawn(write_records(registry.clone(), item)));
        }
        tasks.push(tokio::spawn(make_and_sweep(registry.clone())));
        for task in tasks {
            task.await.unwrap();
        }
    });
}

/// One line in one call, so that a kill cuts it off at most at its end.
fn acknowledge(text: std::fmt::Arguments<'_>) {
    let line = format!("ack {text}.\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

async fn write_records(registry: Arc<EmbeddedRegistry>, item: u32) {
    let mut version = snapshot(&*registry).await.records[&Item(item)].0.0;
    loop {
        put(&*registry, [write_record(item, Some(version), version + 1), running(item, Some("w"))]).await;
        version += 1;
        acknowledge(format_args!("record {item} {version}"));
    }
}

async fn make_and_sweep(registry: Arc<EmbeddedRegistry>) {
    let jobs = registry.jobs().await.unwrap();
    let last = jobs.iter().filter_map(|job| job.as_str().strip_prefix("churn-")?.parse::<u64>().ok()).max();
    // A name is never used twice: one of a job that is gone could be any below the time.
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    for n in last.unwrap_or(0).max(since).. {
        let name = job(&format!("churn-{n}"));
        committed(registry.commit(create_new(&name, "i")).await);
        acknowledge(format_args!("made {n}"));
        let guard = Guard::Incarnation(name.clone(), "i".into());
        committed(registry.commit(txn([guard], [Write::EndJob(name.clone())])).await);
        acknowledge(format_args!("ended {n}"));
        let offset = Write::Offset { job: j(), item: Item(0), data: n.to_string().as_bytes().into() };
        put(&*registry, [Write::SweepJob { job: name, limit: 1000 }, offset]).await;
        acknowledge(format_args!("gone {n}"));
    }
}
