//! Plays inputs against a target and watches over them: no panic, bounded processor time, bounded memory.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::mutate::{mutate, shorten};
use crate::rng::Rng;
use crate::{ALLOCATED, MIB, TARGETS};

/// How long one input may keep a processor busy, in a build without optimization.
const MOST_TIME: Duration = Duration::from_secs(2);
/// How many inputs are mutated further.
const POOL: usize = 1000;
/// After this time without an end an input hangs, and the watchdog reports it.
const HANGS: Duration = Duration::from_secs(120);

/// A parser of foreign input.
pub struct Target {
    pub name: &'static str,
    /// Reads an input. Returns the kind of outcome, so that unusual ones can be mutated further.
    pub read: fn(&[u8]) -> String,
    /// Words of its inputs.
    pub words: &'static [&'static str],
    /// Rounds of a short play.
    pub rounds: u32,
    /// Its memory limit: a constant, and a number of bytes for each byte of the input.
    pub memory: (usize, usize),
}

impl Target {
    pub const fn new(name: &'static str, read: fn(&[u8]) -> String, words: &'static [&'static str]) -> Self {
        Self { name, read, words, rounds: 1000, memory: (8 * MIB, 2048) }
    }
}

/// An input that went wrong.
#[derive(Debug)]
struct Broken {
    input: Vec<u8>,
    why: String,
}

/// One target at a time: allocations are counted for the whole process.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// The text of the last panic, while one is expected.
    static PANIC: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Captures the panics of inputs.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let expected = PANIC.with_borrow_mut(|panic| match panic {
                Some(text) => {
                    text.get_or_insert_with(|| info.to_string());
                    true
                }
                None => false,
            });
            if !expected {
                before(info);
            }
        }));
    });
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// Plays one input. Returns its outcome, or the failure.
fn one(target: &Target, input: &[u8]) -> Result<String, String> {
    PANIC.set(Some(None));
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let began = cpu();
    let done = catch_unwind(AssertUnwindSafe(|| (target.read)(input)));
    let took = cpu() - began;
    let used = ALLOCATED.peak_usage().saturating_sub(before);
    let panic = PANIC.take().flatten();
    let outcome = done.map_err(|_| panic.unwrap_or_else(|| "a panic without a text".to_owned()))?;
    if took > MOST_TIME {
        return Err(format!("{} bytes took {took:?} of a processor", input.len()));
    }
    let (base, each) = target.memory;
    if used > base + each * input.len() {
        return Err(format!("{} bytes took {used} bytes of memory", input.len()));
    }
    Ok(outcome)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus")
}

/// The kept inputs of a target.
pub fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = root().join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    files.into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
}

/// Plays the corpus, then rounds of mutated inputs while `goes_on`. Returns how many.
fn rounds(target: &Target, seed: u64, mut goes_on: impl FnMut(u64) -> bool) -> Result<u64, Broken> {
    listen_to_panics();
    let _watched = Watched::start(target.name, seed);
    let mut rng = Rng::new(seed);
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut pool: Vec<Vec<u8>> = Vec::new();
    let broken = |input: &[u8], why: String| {
        let input = if why.contains("bytes took") {
            input.to_vec()
        } else {
            shorten(input, |shorter| one(target, shorter).is_err())
        };
        let why = one(target, &input).err().unwrap_or(why);
        Broken { input, why }
    };
    for (file, input) in corpus(target.name) {
        let outcome = one(target, &input)
            .map_err(|why| Broken { input: input.clone(), why: format!("{}: {why}", file.display()) })?;
        seen.insert(outcome);
        pool.push(input);
    }
    let mut done = 0;
    while goes_on(done) {
        done += 1;
        Watched::again();
        let from = rng.index(pool.len());
        let input = mutate(&pool[from], &pool, target.words, &mut rng);
        let outcome = one(target, &input).map_err(|why| broken(&input, why))?;
        if seen.insert(outcome) {
            let place = pool.len();
            if place < POOL {
                pool.push(input);
            } else {
                pool[rng.index(POOL)] = input;
            }
        }
    }
    Ok(done)
}

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("there is no target {name}"))
}

/// A short play, the same every time.
pub fn play(name: &str) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let target = target(name);
    let played = rounds(target, 7700, |done| done < u64::from(target.rounds));
    tell(target, played);
}

/// Plays target after target in small portions, each portion with another seed.
pub fn go_on(seconds: u64, name: Option<&str>) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let until = Instant::now() + Duration::from_secs(seconds);
    let first =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let wanted: Vec<&Target> = match name {
        Some(name) => vec![target(name)],
        None => TARGETS.iter().collect(),
    };
    let mut total = 0;
    for seed in first.. {
        for target in &wanted {
            let end = (Instant::now() + Duration::from_secs(5)).min(until);
            let played = rounds(target, seed, |_| Instant::now() < end);
            total += tell(target, played);
            if Instant::now() >= until {
                println!("fuzz: {total} inputs in {seconds} s, none went wrong");
                return;
            }
        }
        println!("fuzz: {total} inputs so far");
    }
}

fn tell(target: &Target, played: Result<u64, Broken>) -> u64 {
    let broken = match played {
        Ok(rounds) => return rounds,
        Err(broken) => broken,
    };
    let file = keep(target.name, &broken.input);
    let shown = broken.input.escape_ascii().to_string();
    panic!(
        "{}: {}\ninput, {} bytes: {}\nIt is kept in {}. Once it is mended, put it into tests/fuzz/corpus/{} under a name that \
         tells what was wrong.",
        target.name,
        broken.why,
        broken.input.len(),
        shown.chars().take(2000).collect::<String>(),
        file.display(),
        target.name
    );
}

fn keep(name: &str, input: &[u8]) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz");
    std::fs::create_dir_all(&dir).unwrap();
    let sum = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let file = dir.join(format!("{name}-{sum:016x}"));
    std::fs::write(&file, input).unwrap();
    file
}

/// Watches from outside over an input that never ends: nothing inside can.
struct Watched;

static SINCE: Mutex<Option<(Instant, String)>> = Mutex::new(None);

impl Watched {
    fn start(name: &str, seed: u64) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            std::thread::spawn(|| {
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                    let since = SINCE.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some((at, what)) = &*since
                        && at.elapsed() > HANGS
                    {
                        eprintln!("{what} does not come to an end: this process gives up");
                        std::process::abort();
                    }
                }
            });
        });
        let now = Some((Instant::now(), format!("an input of {name} with seed {seed}")));
        *SINCE.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Self
    }

    fn again() {
        if let Some((at, _)) = &mut *SINCE.lock().unwrap_or_else(PoisonError::into_inner) {
            *at = Instant::now();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        *SINCE.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Tests the checks themselves: panics, long times and large allocations are found.
#[test]
fn what_goes_wrong_is_found() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    listen_to_panics();
    fn panics(input: &[u8]) -> String {
        assert!(!input.contains(&b'!'), "it holds what it must not");
        String::new()
    }
    fn takes_much(input: &[u8]) -> String {
        vec![1_u8; input.len() << 20].iter().map(|byte| u64::from(*byte)).sum::<u64>().to_string()
    }
    let target = |read| Target::new("watch", read, &[]);
    assert_eq!(one(&target(panics), b"fine"), Ok(String::new()));
    assert!(one(&target(panics), b"a!b").unwrap_err().contains("it holds what it must not"));
    assert_eq!(shorten(b"some!thing", |input| one(&target(panics), input).is_err()), b"!");
    assert!(one(&target(takes_much), b"a").is_ok());
    assert!(one(&target(takes_much), b"123456789").unwrap_err().contains("bytes of memory"));
}
