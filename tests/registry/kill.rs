//! A process that is killed in the middle of its writes has all acknowledged ones on disk afterwards.
//!
//! The child has several concurrent writers, each of which prints what it is about to write, and again when that is
//! acknowledged. The parent kills it at some point, opens the store and compares everything that was ever acknowledged.
//! (A kill does not affect the page cache; `sync` shows that nothing is acknowledged before the disk has it.)

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rosterd_domain::id::{Item, JobName, Token};
use rosterd_domain::txn::{Guard, Txn, Write};
use rosterd_registry::Registry;
use rosterd_registry::embedded::EmbeddedRegistry;

use crate::backend::open;
use crate::process::{child, directory};
use crate::words::*;

/// Kills while a write was started and not acknowledged.
const IN_WRITES: u32 = 200;
/// Every n-th child is killed while it opens the store.
const OPENING: u32 = 8;
/// The maximum of rounds: a child that is always killed between its writes does not write properly.
const MOST_ROUNDS: u32 = 300;
const WRITERS: u32 = 8;

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let dir = crate::words::dir();
    let (mut said, mut slowest) = (Said::default(), Duration::ZERO);
    let (mut rounds, mut in_writes, mut cut_off, mut kept) = (0, 0, 0, 0);
    block_on(prepare(&open(dir.path())));
    let mut random = 0x9e37_79b9_97f4_a7c1_u64;
    while in_writes < IN_WRITES && rounds < MOST_ROUNDS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let opening = rounds % OPENING == 0;
        run_and_kill(dir.path(), opening, Duration::from_micros(random % 40_000), &mut said);
        // A child without output may still be opening the store.
        in_writes += u32::from(!opening && !said.begun.is_empty());
        let start = Instant::now();
        let registry = open(dir.path());
        slowest = slowest.max(start.elapsed());
        let found = block_on(compare(&registry, &mut said, rounds));
        (cut_off, kept) = (cut_off + found.cut_off, kept + found.kept);
        rounds += 1;
    }
    println!(
        "{rounds} kills, {in_writes} in the middle of writes, of which {cut_off} left nothing and {kept} were stored; \
         {} acknowledged writes of {} jobs, none lost; slowest opening {slowest:?}",
        said.count,
        said.jobs.len(),
    );
    assert!(in_writes >= IN_WRITES, "only {in_writes} of {rounds} kills came in the middle of writes");
    assert!(said.offset.is_some(), "no offset was ever acknowledged");
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The state of a job that comes and goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Churn {
    Made,
    Ended,
    Gone,
}

/// A write that a child prints, twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Told {
    /// The record of an item, with token and version.
    Record(u32, u64),
    /// A job. Its last step writes the offset as well.
    Job(u64, Churn),
}

impl Told {
    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let number = |word: &str| word.parse::<u64>().unwrap();
        match words[..] {
            ["record", item, token] => Self::Record(item.parse().unwrap(), number(token)),
            ["made", n] => Self::Job(number(n), Churn::Made),
            ["ended", n] => Self::Job(number(n), Churn::Ended),
            ["gone", n] => Self::Job(number(n), Churn::Gone),
            _ => panic!("{text}"),
        }
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Record(item, token) => write!(f, "record {item} {token}"),
            Self::Job(n, churn) => write!(f, "{} {n}", format!("{churn:?}").to_lowercase()),
        }
    }
}

/// The output of all children so far.
#[derive(Default)]
struct Said {
    /// The last acknowledged token by item. Tokens count the writes, so it implies all before it.
    tokens: BTreeMap<u32, u64>,
    /// The jobs that came and went, with the last step of each that was acknowledged.
    jobs: BTreeMap<u64, Churn>,
    /// The job that was last acknowledged as gone, which the offset names.
    offset: Option<u64>,
    /// Writes that were started and not acknowledged when the last child was killed.
    begun: Vec<Told>,
    count: u64,
}

impl Said {
    fn read(&mut self, line: &str) {
        // The last line may have been cut off, the first one has the name of the test before it.
        let Some(line) = line.strip_suffix('.') else { return };
        if let Some((_, begun)) = line.split_once("begun ") {
            self.begun.push(Told::read(begun));
        }
        let Some((_, told)) = line.split_once("ack ") else { return };
        let told = Told::read(told);
        let place = self.begun.iter().position(|begun| *begun == told);
        self.begun.remove(place.expect("what is acknowledged was begun"));
        self.stored(told);
        self.count += 1;
    }

    /// It is on disk, and stays there.
    fn stored(&mut self, told: Told) {
        match told {
            Told::Record(item, token) => drop(self.tokens.insert(item, token)),
            Told::Job(n, churn) => drop(self.jobs.insert(n, churn)),
        }
        if let Told::Job(n, Churn::Gone) = told {
            self.offset = Some(n);
        }
    }
}

async fn prepare(registry: &EmbeddedRegistry) {
    let records = (0..WRITERS).map(|item| write_record(item, None, 0));
    put(registry, std::iter::once(create(&j(), "i1")).chain(records)).await;
}

fn run_and_kill(dir: &Path, opening: bool, after: Duration, said: &mut Said) {
    let mut child = child::<&str>(&[], "kill::child_writes_until_killed", dir).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    // Read continuously: no child may be killed while it waits for room in the pipe.
    let (tell, lines) = mpsc::channel();
    let reader =
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
    if !opening {
        let first = lines.iter().inspect(|line| said.read(line)).find(|line| line.contains("ack "));
        assert!(first.is_some(), "the child did not acknowledge anything");
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "it ended before it was killed: {status}");
    lines.iter().for_each(|line| said.read(&line));
    reader.join().unwrap().unwrap();
}

/// The outcomes of the writes of one kill that were started and not acknowledged.
struct Found {
    cut_off: usize,
    kept: usize,
}

/// Everything that was acknowledged is there, started writes entirely or not at all, and nothing else.
async fn compare(registry: &EmbeddedRegistry, said: &mut Said, round: u32) -> Found {
    let records = snapshot(registry).await.records;
    let begun = std::mem::take(&mut said.begun);
    let (mut cut_off, mut kept) = (0, 0);
    for told in begun {
        let is_there = match told {
            Told::Record(item, token) => records[&Item(item)].0.0 == token,
            Told::Job(n, churn) => state(registry, n).await == Some(churn),
        };
        if is_there {
            said.stored(told);
            kept += 1;
        } else {
            cut_off += 1;
        }
    }
    for item in 0..WRITERS {
        let (version, record) = &records[&Item(item)];
        let acknowledged = said.tokens.get(&item).copied().unwrap_or_default();
        // Each writer counts token and version together.
        assert_eq!(record.token, Token(version.0), "round {round}, item {item}");
        assert_eq!(
            version.0, acknowledged,
            "round {round}, item {item}: what is there, what was acknowledged"
        );
    }
    // Removed ones are missing: see below.
    for (n, churn) in said.jobs.iter().filter(|(_, churn)| **churn != Churn::Gone) {
        assert_eq!(state(registry, *n).await, Some(*churn), "round {round}: job {n}");
    }
    let there = registry.jobs().await.unwrap();
    let known = |n: u64| said.jobs.get(&n).is_some_and(|churn| *churn != Churn::Gone);
    let strange: Vec<_> = there.iter().filter_map(number).filter(|n| !known(*n)).collect();
    assert!(strange.is_empty(), "round {round}: nobody has made {strange:?}, or they are gone");
    let offset = registry.offset(&j(), Item(0)).await.unwrap();
    let offset = offset.map(|data| String::from_utf8_lossy(&data).into_owned());
    assert_eq!(offset, said.offset.map(|n| n.to_string()), "round {round}: the offset");
    Found { cut_off, kept }
}

fn churning(n: u64) -> JobName {
    job(&format!("churn-{n}"))
}

fn number(job: &JobName) -> Option<u64> {
    job.as_str().strip_prefix("churn-")?.parse().ok()
}

/// The state of a job; one that was never created is not distinguished from one that is gone.
async fn state(registry: &EmbeddedRegistry, n: u64) -> Option<Churn> {
    match registry.job(&churning(n)).await.unwrap() {
        None => Some(Churn::Gone),
        Some(nodes) if nodes.incarnation.is_none() => Some(Churn::Ended),
        Some(_) => Some(Churn::Made),
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
fn say(word: &str, told: Told) {
    let line = format!("{word} {told}.\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Commits a write that must succeed, and prints it before and after.
async fn tell(registry: &EmbeddedRegistry, told: Told, txn: Txn) {
    say("begun", told);
    committed(registry.commit(txn).await);
    say("ack", told);
}

async fn write_records(registry: Arc<EmbeddedRegistry>, item: u32) {
    let mut version = snapshot(&*registry).await.records[&Item(item)].0.0;
    loop {
        let writes = [write_record(item, Some(version), version + 1), running(item, Some("w"))];
        tell(&registry, Told::Record(item, version + 1), txn([], writes)).await;
        version += 1;
    }
}

async fn make_and_sweep(registry: Arc<EmbeddedRegistry>) {
    let last = registry.jobs().await.unwrap().iter().filter_map(number).max();
    // A name is never reused: names count up from the time, so those of removed jobs can be any below it.
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    for n in last.unwrap_or(0).max(since).. {
        let name = churning(n);
        tell(&registry, Told::Job(n, Churn::Made), create_new(&name, "i")).await;
        let guard = Guard::Incarnation(name.clone(), "i".into());
        let end = txn([guard], [Write::EndJob(name.clone())]);
        tell(&registry, Told::Job(n, Churn::Ended), end).await;
        let offset = Write::Offset { job: j(), item: Item(0), data: n.to_string().as_bytes().into() };
        let sweep = txn([], [Write::SweepJob { job: name, limit: 1000 }, offset]);
        tell(&registry, Told::Job(n, Churn::Gone), sweep).await;
    }
}
