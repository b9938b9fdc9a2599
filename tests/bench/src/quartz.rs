//! The released Quartz 2.5.2, two JVMs as a cluster on PostgreSQL, and rosterd on its embedded store with two Rust
//! workers: the same jobs, one after the other in one run.
//!
//! Quartz with its defaults, and tuned as usual: 50 threads, batches of 50, a check-in each second. PostgreSQL syncs
//! its log, as our store does. Each job has one item, since Quartz has no items.

use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Result;
use crate::crew::Crew;
use crate::fires::{self, SET, SLOTS};
use crate::kills;
use crate::load::{Fires, Load};
use crate::machine::{Floor, Used, wall};
use crate::options::Options;
use crate::postgres::Postgres;
use crate::report::Report;
use crate::server::{scratch, target_dir};

/// The settings, in a line.
pub(crate) const SETTINGS: &str = "Quartz 2.5.2, two JVMs (-Xmx1g) as a cluster on one PostgreSQL server that syncs its log, and rosterd on its embedded store, one after the other";

const CLASS: &str = "rosterd.bench.QuartzWorker";
/// How long a JVM may take to start, or to stop.
const PATIENCE: Duration = Duration::from_secs(120);
/// Until its code is compiled and its connections are open.
const WARM: Duration = Duration::from_secs(10);
/// How long a run that will be killed takes, in milliseconds.
const WORK: u32 = 60_000;
/// Until it must have started elsewhere: twice the check-in, plus delays of a busy machine.
const RECOVERED: Duration = Duration::from_secs(60);

/// Settings of Quartz.
#[derive(Debug, Clone, Copy)]
struct Settings {
    name: &'static str,
    threads: u32,
    batch: u32,
    /// Milliseconds.
    check_in: u32,
}

const ALL: [Settings; 2] = [
    Settings { name: "Quartz, defaults", threads: 10, batch: 1, check_in: 7500 },
    Settings { name: "Quartz, tuned", threads: 50, batch: 50, check_in: 1000 },
];

/// Two JVMs and their database.
struct Cluster {
    database: Postgres,
    settings: Settings,
    crew: Crew,
    dir: TempDir,
    outs: Vec<String>,
    /// How many jobs, and how long a run takes.
    jobs: u32,
    work: u32,
    /// Which of them reported a run.
    runs: Option<usize>,
}

impl Cluster {
    fn open(settings: Settings, jobs: u32, work: u32) -> Result<Self> {
        let database = Postgres::start(&["fsync=on", "max_connections=200"]);
        let (crew, dir) = (Crew::new(), scratch()?);
        let mut cluster = Self { database, settings, crew, dir, outs: Vec::new(), jobs, work, runs: None };
        for _ in 0..2 {
            cluster.start()?;
            // The first creates the tables and the jobs, and may start at once.
            let runs = &mut cluster.runs;
            cluster.crew.hear_until("a JVM to come", PATIENCE, |who, line| {
                *runs = runs.or(line.starts_with("run ").then_some(who));
                line == "came"
            })?;
        }
        Ok(cluster)
    }

    fn start(&mut self) -> Result<usize> {
        let out = self.dir.path().join(format!("runs-{}", self.outs.len())).display().to_string();
        let place = target_dir().join("quartz");
        let Settings { threads, batch, check_in, .. } = self.settings;
        let mut java = Command::new("java");
        java.args(["-Xmx1g", "-cp"]);
        java.arg(format!("{0}/classes:{0}/dependency/*", place.display())).arg(CLASS);
        java.arg(format!("url=jdbc:postgresql://127.0.0.1:{}/postgres", self.database.port));
        java.args([
            "user=rosterd".to_owned(),
            format!("first={}", self.outs.is_empty()),
            format!("jobs={}", self.jobs),
            format!("work={}", self.work),
            format!("recovery={}", self.work > 0),
            format!("threads={threads}"),
            format!("batch={batch}"),
            format!("checkin={check_in}"),
            format!("out={out}"),
        ]);
        self.outs.push(out);
        self.crew.start_program(java)
    }

    fn floor(&self) -> Result<Floor> {
        Floor::measure(self.dir.path())
    }

    /// The results of its jobs' fires in this many seconds, and the usage of the JVMs.
    fn measure(mut self, load: &Load, seconds: u64) -> Result<(Fires, Used, f64)> {
        std::thread::sleep(WARM);
        let (from, since, used) = (wall(), Instant::now(), self.crew.used());
        std::thread::sleep(Duration::from_secs(seconds));
        let (until, used, seconds) = (wall(), self.crew.used().since(used), since.elapsed().as_secs_f64());
        let seen = self.crew.leave_and_tell(&self.outs)?;
        Ok((Fires::between(load, &seen, from, until), used, seconds))
    }
}

fn tell_settings(report: &mut Report) {
    report.sets(&[SET, &[("slots of a worker", &*SLOTS.to_string())]].concat());
}

/// One job each second: the lag of user code.
pub(crate) fn lag(options: &Options, report: &mut Report) -> Result {
    // A job of one item has one worker at a time.
    let load = Load { jobs: 1, items: 1, every: 1, processes: 1 };
    tell_settings(report);
    for _ in 0..options.runs {
        let taken = fires::take(options, &load)?;
        println!("  rosterd: {}", taken.fires);
        add_lags(report, "rosterd", &taken.fires, &taken.floor);
        for settings in ALL {
            let cluster = Cluster::open(settings, load.jobs, 0)?;
            let floor = cluster.floor()?;
            let (fires, used, seconds) = cluster.measure(&load, options.seconds)?;
            println!("  {}: {fires}; {:.2} cores, {:.0} MiB", settings.name, used.ran / seconds, used.rss);
            add_lags(report, settings.name, &fires, &floor);
            report.add("memory of the JVMs", settings.name, "MiB", None, used.rss, &floor);
        }
    }
    Ok(())
}

fn add_lags(report: &mut Report, name: &str, fires: &Fires, floor: &Floor) {
    let name = format!("1 job each second: {name}");
    report.add("lag p50", &name, "ms", None, fires.percentile(50.0), floor);
    report.add("lag p99", &name, "ms", None, fires.percentile(99.0), floor);
    report.add("missed", &name, "runs", None, fires.missed as f64, floor);
    report.add("run twice", &name, "runs", None, fires.twice as f64, floor);
}

/// How many jobs can fire each second, all of them in every second: in increasing steps, until one is not clean.
pub(crate) fn knee(options: &Options, report: &mut Report) -> Result {
    tell_settings(report);
    let theirs = options.sizes(&[50, 75, 100, 150, 200, 300, 400], 50);
    let ours = options.sizes(&[1000, 2000, 4000, 5000], 1000);
    for _ in 0..options.runs {
        let mut clean = Steps::default();
        for jobs in ours.iter().copied() {
            let load = Load { jobs, items: 1, every: 1, processes: 2 };
            let taken = fires::take(options, &load)?;
            if !clean.took("rosterd", jobs, &taken.fires, taken.floor) {
                break;
            }
        }
        clean.report("rosterd", report);
        for settings in ALL {
            let mut clean = Steps::default();
            for jobs in theirs.iter().copied() {
                let load = Load { jobs, items: 1, every: 1, processes: 2 };
                let cluster = Cluster::open(settings, jobs, 0)?;
                let floor = cluster.floor()?;
                let (fires, ..) = cluster.measure(&load, options.seconds)?;
                if !clean.took(settings.name, jobs, &fires, floor) {
                    break;
                }
            }
            clean.report(settings.name, report);
        }
    }
    Ok(())
}

/// The largest number that was clean.
#[derive(Default)]
struct Steps {
    good: u32,
    /// Duplicate runs at that number of jobs.
    twice: usize,
    floor: Option<Floor>,
}

impl Steps {
    fn took(&mut self, name: &str, jobs: u32, fires: &Fires, floor: Floor) -> bool {
        println!("  {name}: {jobs} jobs each second: {fires}");
        self.floor = Some(floor);
        // Duplicate runs are reported, and do not end the search: with its defaults a cluster has them at any load.
        let clean = fires.missed + fires.late == 0 && fires.expected > 0;
        if clean {
            (self.good, self.twice) = (jobs, fires.twice);
        }
        clean
    }

    fn report(&self, name: &str, report: &mut Report) {
        let Some(floor) = &self.floor else { return };
        let name = format!("jobs that fire each second, 2 workers: {name}");
        report.add("knee: none missed or later than 1 s", &name, "jobs", None, f64::from(self.good), floor);
        report.add("… of which were run twice", &name, "runs", None, self.twice as f64, floor);
    }
}

/// Kills the process of a run in flight, and measures until it runs elsewhere.
pub(crate) fn crash(options: &Options, report: &mut Report) -> Result {
    let trials = options.trials(3, 1);
    kills::worker(options, report)?;
    report.sets(&[]);
    for settings in ALL {
        for trial in 0..trials {
            let mut cluster = Cluster::open(settings, 1, WORK)?;
            let floor = cluster.floor()?;
            let runs = &mut cluster.runs;
            if runs.is_none() {
                cluster.crew.hear_until("the run", PATIENCE, |who, line| {
                    *runs = line.starts_with("run ").then_some(who);
                    runs.is_some()
                })?;
            }
            // Both must have checked in, or the missing one is not detected; somewhere between two check-ins.
            let pause = u64::from(settings.check_in) + u64::try_from(wall() % 1000).unwrap_or(0);
            std::thread::sleep(Duration::from_millis(pause));
            let killed = wall();
            cluster.crew.kill(cluster.runs.ok_or("no run")?)?;
            let mut at = None;
            cluster.crew.hear_until("the run elsewhere", RECOVERED, |_, line| {
                at = line.strip_prefix("run true ").and_then(|at| at.parse::<i64>().ok());
                at.is_some()
            })?;
            let took = (at.ok_or("no run")? - killed) as f64 / 1e3;
            println!("  {}, trial {trial}: {took:.0} ms; {floor}", settings.name);
            let name = format!("1 job, requestRecovery: {}", settings.name);
            report.add("crash to run elsewhere", &name, "ms", None, took, &floor);
        }
    }
    Ok(())
}
