//! Crash images: the disk writes of a real process are recorded, cut off at any point, and a possible result of a crash
//! at that point is put on a separate disk and opened. It must contain everything that was acknowledged, only whole
//! transactions, and a store that goes on. The same holds for a crash during the recovery from a crash.
//!
//! `ROSTERD_CRASH_IMAGES=100000 cargo test --test registry crash` checks more images; `ROSTERD_CRASH_SEED` sets another
//! seed.

mod disk;
mod record;
#[allow(dead_code, reason = "shared with the simulation, which uses more of it")]
#[path = "../../support/rng.rs"]
mod rng;
mod work;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use rosterd_domain::id::Revision;
use rosterd_domain::txn::{Commit, Txn};
use rosterd_registry::Registry;
use tempfile::TempDir;

use self::disk::{Disk, Image, Survives, put};
use self::record::{Call, record};
use self::rng::Rng;
use self::work::{State, block_on, open, state, states, transactions};
use crate::words::*;

const LOG: &str = "data/registry.db-wal";
const FILES: [&str; 3] = ["data/registry.db", LOG, "data/registry.note"];

/// How many images are checked.
const IMAGES: usize = 6_000;
/// How many of them in one pass through a recording.
const PASS: usize = 200;

fn env(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A disk, the calls on it, and its required contents over time.
struct Recording {
    name: String,
    start: Disk,
    calls: Vec<Call>,
    /// In the order in which they may occur.
    states: Vec<State>,
    /// Which of them the acknowledgement `0` refers to.
    opened: usize,
    /// Its share of all images.
    share: usize,
}

/// The acknowledged state as of a call.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The earliest possible state.
    state: usize,
    revision: u64,
}

impl Recording {
    /// Notes what a call acknowledges.
    fn learn(&self, known: &mut Known, call: &Call) {
        let Call::Acknowledge(text) = call else { return };
        let (count, revision) = text.split_once(' ').expect("an acknowledgement has two numbers");
        known.state = self.opened + count.parse::<usize>().unwrap();
        known.revision = known.revision.max(revision.parse().unwrap());
    }

    /// The disk after the first `calls`, and the acknowledged state by then.
    fn at(&self, calls: usize, rng: &mut Rng) -> (Disk, Known) {
        let (mut disk, mut known) = (self.start.clone(), Known::default());
        for call in &self.calls[..calls] {
            disk.take(call, rng);
            self.learn(&mut known, call);
        }
        (disk, known)
    }
}

/// An undisturbed life.
static LIFE: LazyLock<Recording> = LazyLock::new(|| life("a life", &[], 300));

fn recorded(name: &str, child: &str, dir: &TempDir, more: &[&str]) -> Vec<Call> {
    let (calls, printed) = record(child, dir.path(), more);
    let acknowledged = calls.iter().filter(|call| matches!(call, Call::Acknowledge(_))).count();
    let printed = printed.lines().filter(|line| line.contains("ack ")).count();
    assert!(
        acknowledged == printed && printed > 3,
        "{name}: {acknowledged} of {printed} acknowledgements seen"
    );
    calls
}

/// A store's first life. One with a failing disk is not closed and reopened: strace counts the calls per thread, and
/// every opening has a new one.
fn life(name: &str, more: &[&str], share: usize) -> Recording {
    let dir = crate::words::dir();
    let child = if more.is_empty() { "crash::work::child_lives" } else { "crash::work::child_lives_on" };
    let calls = recorded(name, child, &dir, more);
    let states = block_on(states(&[], &transactions(0)));
    Recording { name: name.into(), start: Disk::default(), calls, states, opened: 0, share }
}

/// A recovery from a crash somewhere in `first`. After a kill unsynced data is still visible, and may be lost if the
/// power fails as well; the cut is where a commit is written and not synced.
fn recovery(first: &Recording, number: usize, killed: bool, share: usize) -> Recording {
    let mut rng = Rng::new(7_000 + number as u64);
    let mut calls = first.calls.len() / 10 + rng.index(first.calls.len() * 8 / 10);
    let log = Path::new(LOG);
    while killed && !matches!(&first.calls[calls], Call::Sync(file, _) if file == log) {
        calls += 1;
    }
    let (disk, known) = first.at(calls, &mut rng);
    let survives = if killed { Survives::All } else { Survives::Some(rng.below(1_001)) };
    let image = disk.crashed(survives, &mut rng);
    let name = format!("recovery {number} of {} at {calls}, {survives:?}", first.name);
    let found = look(&image, first, known).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    let dir = crate::words::dir();
    put(&image, dir.path());
    let calls = recorded(&name, "crash::work::child_recovers", &dir, &[]);
    let (start, from) = if killed { (disk, known.state) } else { (Disk::holding(&image), found) };
    let mut all: Vec<State> = first.states[from..found].to_vec();
    let opened = all.len();
    let before: Vec<Txn> = transactions(0).into_iter().take(found).collect();
    all.extend(block_on(states(&before, &transactions(1))));
    Recording { name, start, calls, states: all, opened, share }
}

/// A directory for an image. The image is tested, not the syncs of the disk under it.
fn scratch() -> TempDir {
    let fast = Path::new("/dev/shm");
    if fast.is_dir() { TempDir::new_in(fast) } else { TempDir::new() }.unwrap()
}

/// Why an image fails.
#[derive(Debug)]
enum Wrong {
    /// It is refused, with a reason.
    Refused(String),
    /// It is served despite an error.
    Silent(String),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Refused(text) | Self::Silent(text)) = self;
        f.write_str(text)
    }
}

/// Opens an image and returns its state, or what is wrong with it.
fn look(image: &Image, recording: &Recording, known: Known) -> Result<usize, Wrong> {
    let dir = scratch();
    put(image, dir.path());
    let looked = block_on(async {
        let registry = open(dir.path()).map_err(Wrong::Refused)?;
        let found = state(&registry).await;
        let at = recording.states.iter().skip(known.state).position(|state| *state == found);
        let Some(at) = at else {
            let lost = recording.states.iter().position(|state| *state == found);
            return Err(Wrong::Silent(match lost {
                Some(before) => format!("{} are acknowledged, the state of {before} is there", known.state),
                None => format!("a state that never was: {found:#?}"),
            }));
        };
        // It goes on, and reuses no number.
        match registry.commit(create_new(&job("probe"), "i")).await {
            Commit::Committed(revision) if revision.0 > known.revision => Ok(known.state + at),
            Commit::Committed(Revision(next)) => {
                let last = known.revision;
                Err(Wrong::Silent(format!("revision {last} was acknowledged, {next} comes next")))
            }
            other => Err(Wrong::Refused(format!("it does not go on: {other:?}"))),
        }
    });
    if let Err(Wrong::Silent(wrong)) = &looked {
        return Err(Wrong::Silent(format!("{wrong}; the image is kept in {}", dir.keep().display())));
    }
    looked
}

fn survives(rng: &mut Rng) -> Survives {
    match rng.index(10) {
        0 => Survives::All,
        1 => Survives::Nothing,
        2 | 3 => Survives::Stale(rng.below(1_001)),
        _ => Survives::Some(rng.below(1_001)),
    }
}

/// Goes through a recording once and checks about `images` crashes. Returns how many.
fn pass(recording: &Recording, images: usize, seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let (mut disk, mut known, mut looked) = (recording.start.clone(), Known::default(), 0);
    let calls = recording.calls.len();
    for (number, call) in recording.calls.iter().enumerate() {
        if rng.index(calls) < images {
            let survives = survives(&mut rng);
            let image = disk.crashed(survives, &mut rng);
            if let Err(wrong) = look(&image, recording, known) {
                let next = format!("{call:.60?}");
                panic!(
                    "{}: cut before call {number} ({next}), {survives:?}, seed {seed}: {wrong}",
                    recording.name
                );
            }
            looked += 1;
        }
        disk.take(call, &mut rng);
        recording.learn(&mut known, call);
    }
    looked
}

fn recordings() -> Vec<Recording> {
    let fails = |when: &str| format!("inject=fsync,fdatasync:error=EIO:when={when}");
    let full = |when: &str| format!("inject=pwrite64:error=ENOSPC:when={when}");
    let plain = &*LIFE;
    let mut all = Vec::new();
    for number in 0..6 {
        all.push(recovery(plain, number, number % 2 == 0, 60));
    }
    for when in ["40", "44", "48"] {
        all.push(life(&format!("sync {when} fails"), &["-e", &fails(when)], 60));
    }
    for when in ["150..190", "400..401"] {
        all.push(life(&format!("no space for writes {when}"), &["-e", &full(when)], 60));
    }
    all
}

#[test]
#[allow(clippy::print_stdout, reason = "the figure is the result")]
fn every_crash_image_holds_what_was_acknowledged() {
    let (images, seed) = (env("ROSTERD_CRASH_IMAGES", IMAGES), env("ROSTERD_CRASH_SEED", 1));
    let more = recordings();
    let recordings: Vec<&Recording> = more.iter().chain([&*LIFE]).collect();
    let shares: usize = recordings.iter().map(|recording| recording.share).sum();
    let mut passes = Vec::new();
    for recording in &recordings {
        let wanted = (images * recording.share / shares).max(1);
        for first in (0..wanted).step_by(PASS) {
            passes.push((*recording, PASS.min(wanted - first), (seed * 1_000_000 + passes.len()) as u64));
        }
    }
    let (next, looked, began) = (AtomicUsize::new(0), AtomicUsize::new(0), Instant::now());
    in_threads(|| {
        while let Some((recording, images, seed)) = passes.get(next.fetch_add(1, Ordering::Relaxed)) {
            looked.fetch_add(pass(recording, *images, *seed), Ordering::Relaxed);
        }
    });
    for recording in &recordings {
        let acknowledged = recording.calls.iter().filter(|call| matches!(call, Call::Acknowledge(_))).count();
        println!("{}: {} calls, {acknowledged} acknowledgements", recording.name, recording.calls.len());
    }
    let looked = looked.into_inner();
    println!("crash images {looked}, violations 0, {:.1} s", began.elapsed().as_secs_f64());
    assert!(looked * 10 > images * 8, "only {looked} images of {images}");
}

/// Corruption by the disk is detected, or harmless, whenever it happens: flipped bits, sectors that are empty or
/// misplaced. The note beside the database must be the latest: without it a log with a damaged end looks like one that
/// ends earlier.
#[test]
#[allow(clippy::print_stdout, reason = "the figure is the result")]
fn what_the_disk_spoils_is_never_served_as_if_it_were_whole() {
    let (images, seed) = (env("ROSTERD_CRASH_IMAGES", IMAGES) / 8, env("ROSTERD_CRASH_SEED", 1));
    let life = &*LIFE;
    let mut plan = Rng::new(seed as u64);
    // Where to cut, in order, so that the recording is gone through once.
    let mut cuts: Vec<usize> = (0..images).map(|_| plan.index(life.calls.len() + 1)).collect();
    cuts.sort_unstable();
    let (next, found, harmless) =
        (Mutex::new((0, life.start.clone(), Known::default(), 0)), AtomicUsize::new(0), AtomicUsize::new(0));
    in_threads(|| {
        loop {
            let (cut, image, known) = {
                let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                let (number, disk, known, taken) = &mut *next;
                let Some(cut) = cuts.get(*number).copied() else { return };
                for call in &life.calls[*taken..cut] {
                    disk.take(call, &mut Rng::new(0));
                    life.learn(known, call);
                }
                (*number, *taken) = (*number + 1, cut);
                ((*number, cut), disk.crashed(Survives::All, &mut Rng::new(0)), *known)
            };
            let mut rng = Rng::new((seed * 1_000_000 + cut.0) as u64);
            let mut spoilt = image.clone();
            let Some(what) = spoil(&mut spoilt, &mut rng) else { continue };
            match look(&spoilt, life, known) {
                Ok(_) => harmless.fetch_add(1, Ordering::Relaxed),
                Err(Wrong::Refused(text)) => {
                    let remedies =
                        ["check the disk", "from a backup", "delete this file", "move the file away"];
                    let helps = remedies.iter().any(|remedy| text.contains(remedy));
                    assert!(text.contains("registry.") && helps, "{what}: {text}");
                    found.fetch_add(1, Ordering::Relaxed)
                }
                Err(Wrong::Silent(text)) => panic!("cut at {}, {what}, seed {seed}: {text}", cut.1),
            };
        }
    });
    let (found, harmless) = (found.into_inner(), harmless.into_inner());
    println!(
        "spoilt images {}: {found} refused with a reason, {harmless} harmless, 0 silent",
        found + harmless
    );
    assert!(found * 4 > images && harmless > 0, "{found} and {harmless} of {images}");
}

/// Corrupts something. Returns what; `None`: there is nothing yet.
fn spoil(image: &mut Image, rng: &mut Rng) -> Option<String> {
    let name = FILES[rng.index(FILES.len())];
    let bytes = image.get_mut(Path::new(name))?.as_mut().filter(|bytes| !bytes.is_empty())?;
    let (length, sectors) = (bytes.len(), bytes.len().div_ceil(512));
    let (from, to) = (rng.index(sectors) * 512, rng.index(sectors) * 512);
    let end = (to + 512).min(length);
    Some(match rng.index(4) {
        0 | 1 => {
            let flips: Vec<usize> = (0..1 + rng.index(3)).map(|_| rng.index(length * 8)).collect();
            flips.iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
            format!("bits {flips:?} of {name} flipped")
        }
        2 => {
            bytes[to..end].fill(0);
            format!("the sector at {to} of {name} empty")
        }
        _ => {
            let moved: Vec<u8> = bytes.iter().skip(from).take(end - to).copied().collect();
            bytes[to..to + moved.len()].copy_from_slice(&moved);
            format!("the sector at {to} of {name} holds that of {from}")
        }
    })
}

/// Regression: the names of the directories on the way to a new store were not synced.
#[test]
fn a_new_store_does_not_go_with_the_name_of_its_directory() {
    let life = &*LIFE;
    let first = life.calls.iter().position(|call| matches!(call, Call::Acknowledge(_))).unwrap();
    let image = life.at(first, &mut Rng::new(0)).0.crashed(Survives::Nothing, &mut Rng::new(0));
    assert!(image.contains_key(Path::new("data/registry.db")), "{:?}", image.keys());
}

/// Regression: the log of a killed writer was read and acted on while it was only in the system's memory.
#[test]
fn what_was_read_after_a_kill_is_there_after_a_power_cut() {
    // Some syncs of the log only cover acknowledged data.
    let recovery =
        (0..20).map(|number| recovery(&LIFE, number, true, 0)).find(|recovery| recovery.opened > 0);
    let recovery = recovery.expect("each kill came when all was acknowledged");
    let opened = recovery.calls.iter().position(|call| matches!(call, Call::Acknowledge(_))).unwrap();
    let (disk, known) = recovery.at(opened + 1, &mut Rng::new(0));
    let image = disk.crashed(Survives::Nothing, &mut Rng::new(0));
    look(&image, &recovery, known).unwrap_or_else(|wrong| panic!("{wrong}"));
}

fn in_threads(work: impl Fn() + Sync) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(8);
    let panics = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&work)) {
                    panics.lock().unwrap_or_else(PoisonError::into_inner).push(panic);
                }
            });
        }
    });
    if let Some(panic) = panics.into_inner().unwrap_or_else(PoisonError::into_inner).pop() {
        std::panic::resume_unwind(panic);
    }
}
