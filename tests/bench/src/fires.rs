//! From scheduled time to user code: the lag of runs, how many a coordinator can start each second, and the cost.

use std::time::{Duration, Instant};

use crate::Result;
use crate::crew::Crew;
use crate::ensemble::Cost;
use crate::load::{Fires, Load};
use crate::machine::{Floor, Used, busy, cores, wall};
use crate::options::Options;
use crate::report::{Report, Set};
use crate::server::Server;
use crate::worker::{Seen, Spec};

/// Limits of a coordinator that thousands of jobs in one process exceed.
pub(crate) const SET: Set<'_> = &[("max_jobs_per_worker", "20000"), ("max_unacknowledged_reports", "8192")];
/// Slots of a worker, so that no run waits for one.
pub(crate) const SLOTS: u32 = 4096;

/// Reports these settings.
pub(crate) fn tell_settings(report: &mut Report) {
    report.sets(&[SET, &[("slots of a worker", &SLOTS.to_string())]].concat());
}

/// The results of one run.
pub(crate) struct Taken {
    pub(crate) fires: Fires,
    /// Runs that started in the time in which costs were counted.
    runs: f64,
    pub(crate) coordinator: Used,
    workers: Used,
    /// The cost of the ZooKeeper server, if there is one.
    zookeeper: Option<Cost>,
    /// Seconds that all processors together were busy, with this or other work.
    busy: f64,
    pub(crate) seconds: f64,
    commits: f64,
    commit_ms: f64,
    pub(crate) floor: Floor,
}

/// Eight items a fire, one to a hundred fires a second.
pub(crate) fn lag(options: &Options, report: &mut Report) -> Result {
    let loads: &[Load] = &[
        Load { jobs: 1, items: 8, every: 1, processes: 2 },
        Load { jobs: 10, items: 8, every: 1, processes: 2 },
        Load { jobs: 1000, items: 8, every: 10, processes: 2 },
        Load { jobs: 100, items: 8, every: 1, processes: 2 },
    ];
    let sizes = options.sizes(&[1, 10, 1000, 100], 100);
    tell_settings(report);
    for load in loads.iter().filter(|load| sizes.contains(&load.jobs)) {
        for _ in 0..options.runs {
            let taken = take(options, load)?;
            let name = load.name();
            let (p50, p99) = (taken.fires.percentile(50.0), taken.fires.percentile(99.0));
            taken.print(&name);
            report.add("lag p50", &name, "ms", Some(2.0 + taken.floor.write.0), p50, &taken.floor);
            report.add("lag p99", &name, "ms", Some(10.0), p99, &taken.floor);
            taken.add_costs("lag", &name, report);
        }
    }
    Ok(())
}

/// The largest number of jobs that was clean, together with all smaller ones that were tested.
#[derive(Debug, Clone, Default)]
struct Knee {
    clean: u32,
    broken: Option<u32>,
    floor: Option<Floor>,
}

impl Knee {
    fn tell(&mut self, jobs: u32, taken: &Taken) {
        self.floor = Some(taken.floor);
        match taken.fires.is_clean() {
            true if self.broken.is_none() => self.clean = jobs,
            true => {}
            false => self.broken = self.broken.or(Some(jobs)),
        }
    }

    fn report(&self, tried: &[u32], report: &mut Report) {
        let Some(floor) = &self.floor else { return };
        let broken = self.broken.map_or("none is not".to_owned(), |jobs| format!("{jobs} are not"));
        println!("  knee: {} jobs of one item each second are clean, {broken}", self.clean);
        let tried: Vec<String> = tried.iter().map(ToString::to_string).collect();
        let name = format!("of {} jobs × 1 item every 1 s, 4 workers", tried.join(", "));
        report.add("knee: none missed or later than 1 s", &name, "jobs", None, f64::from(self.clean), floor);
    }
}

/// More and more jobs of one item that fire each second.
pub(crate) fn knee(options: &Options, report: &mut Report) -> Result {
    tell_settings(report);
    let mut sizes = options.sizes(&[2000, 5000, 8000, 10_000], 1000);
    sizes.sort_unstable();
    let mut knees = vec![Knee::default(); options.runs];
    for jobs in sizes.iter().copied() {
        let load = Load { jobs, items: 1, every: 1, processes: 4 };
        for knee in &mut knees {
            let taken = take(options, &load)?;
            knee.tell(jobs, &taken);
            let name = load.name();
            taken.print(&name);
            let of_interest = jobs <= 5000;
            let target = |value: f64| of_interest.then_some(value);
            report.add("knee p50", &name, "ms", None, taken.fires.percentile(50.0), &taken.floor);
            report.add("knee p99", &name, "ms", target(100.0), taken.fires.percentile(99.0), &taken.floor);
            report.add("knee missed", &name, "runs", target(0.0), taken.fires.missed as f64, &taken.floor);
            report.add(
                "knee coordinator RSS",
                &name,
                "MiB",
                target(300.0),
                taken.coordinator.rss,
                &taken.floor,
            );
            taken.add_costs("knee", &name, report);
        }
    }
    knees.iter().for_each(|knee| knee.report(&sizes, report));
    Ok(())
}

/// Ten thousand item runs due each second, a hundred in each fire.
pub(crate) fn runs(options: &Options, report: &mut Report) -> Result {
    let load = Load { jobs: 100, items: 100, every: 1, processes: 2 };
    tell_settings(report);
    for _ in 0..options.runs {
        let taken = take(options, &load)?;
        let name = load.name();
        taken.print(&name);
        let asked = taken.fires.expected as f64;
        let rate = load.rate() * (asked - taken.fires.missed as f64) / asked.max(1.0);
        report.add("item runs", &name, "/s", None, rate, &taken.floor);
        let (missed, late) = (taken.fires.missed as f64, taken.fires.late as f64);
        report.add("item runs missed", &name, "runs", Some(0.0), missed, &taken.floor);
        report.add("item runs later than 1 s", &name, "runs", Some(0.0), late, &taken.floor);
        report.add("item runs lag p50", &name, "ms", None, taken.fires.percentile(50.0), &taken.floor);
        report.add("item runs lag p99", &name, "ms", None, taken.fires.percentile(99.0), &taken.floor);
        taken.add_costs("item runs", &name, report);
    }
    Ok(())
}

pub(crate) fn take(options: &Options, load: &Load) -> Result<Taken> {
    let watch = |_: &Server, time| {
        std::thread::sleep(time);
        Ok(())
    };
    Ok(take_beside(options, load, watch)?.0)
}

/// Runs something else against the coordinator while its fires are measured, for that time.
pub(crate) fn take_beside<T>(
    options: &Options,
    load: &Load,
    beside: impl FnOnce(&Server, Duration) -> Result<T>,
) -> Result<(Taken, T)> {
    let server = Server::start(options, SET)?;
    let floor = server.floor()?;
    let mut crew = Crew::new();
    let shared = load.items > 1;
    let share = if shared { load.jobs } else { load.jobs.div_ceil(load.processes) };
    let outs: Vec<String> =
        (0..load.processes).map(|n| server.dir().join(format!("runs-{n}")).display().to_string()).collect();
    for (n, out) in (0u32..).zip(&outs) {
        let first = if shared { 0 } else { n * share };
        crew.start(&Spec {
            server: server.address().to_owned(),
            address: "127.0.0.1".into(),
            slots: SLOTS,
            prefix: "tick-".into(),
            first,
            count: share.min(load.jobs - first),
            jobs: load.jobs,
            file: load.file(),
            conversations: 1,
            out: Some(out.clone()),
            ..Spec::default()
        })?;
    }
    settle(&server, load)?;
    let (from, before) = (wall(), server.metrics()?);
    let (coordinator, workers, since) = (server.used(), crew.used(), Instant::now());
    let (stand, worked) = (server.stand()?, busy());
    let found = beside(&server, Duration::from_secs(options.seconds))?;
    let (until, after, seconds) = (wall(), server.metrics()?, since.elapsed().as_secs_f64());
    let (coordinator, workers) = (server.used().since(coordinator), crew.used().since(workers));
    let (zookeeper, worked) = (server.cost(stand.as_ref())?, busy() - worked);
    let seen = crew.leave_and_tell(&outs)?;
    let grown =
        |name: &str| after.get(name).copied().unwrap_or(0.0) - before.get(name).copied().unwrap_or(0.0);
    let commits = grown("rosterd_commit_seconds_count");
    let commit_ms = grown("rosterd_commit_seconds_sum") * 1e3 / commits.max(1.0);
    let log = server.log();
    if !log.is_empty() {
        println!("  the coordinator said: {log}");
    }
    let began = |seen: &&Seen| (from..until).contains(&(seen.fire * 1000 + seen.lag));
    let taken = Taken {
        fires: Fires::between(load, &seen, from, until),
        runs: (seen.iter().filter(began).count() as f64).max(1.0),
        coordinator,
        workers,
        zookeeper,
        busy: worked,
        seconds,
        commits,
        commit_ms,
        floor,
    };
    Ok((taken, found))
}

/// Waits until all jobs fire.
fn settle(server: &Server, load: &Load) -> Result {
    let until = Instant::now() + Duration::from_secs(180);
    let step = Duration::from_secs(u64::from(load.every).max(2));
    let mut before = server.counted("rosterd_runs_started_total")?;
    while Instant::now() < until {
        std::thread::sleep(step);
        let now = server.counted("rosterd_runs_started_total")?;
        let rate = (now - before) / step.as_secs_f64();
        eprint!("\r  starting: {rate:.0} of {:.0} runs a second   ", load.rate());
        if rate >= load.rate() * 0.9 {
            // Once more for jobs that are still being registered.
            std::thread::sleep(step);
            eprintln!();
            return Ok(());
        }
        before = now;
    }
    eprintln!();
    Ok(())
}

impl Taken {
    fn per_run(&self, used: Used) -> f64 {
        used.ran * 1e6 / self.runs
    }

    /// The processor time by process, and how many runs it would allow.
    fn add_costs(&self, figure: &str, name: &str, report: &mut Report) {
        let mut add = |what: &str, unit, value| {
            report.add(&format!("{figure} {what}"), name, unit, None, value, &self.floor);
        };
        add("coordinator CPU", "cores", self.coordinator.ran / self.seconds);
        add("coordinator CPU a run", "µs", self.per_run(self.coordinator));
        add("workers CPU", "cores", self.workers.ran / self.seconds);
        add("workers CPU a run", "µs", self.per_run(self.workers));
        add("all processors busy", "cores", self.busy / self.seconds);
        add("runs that they allow", "/s", self.allowed());
        add("runs a transaction", "", self.runs / self.commits.max(1.0));
        if let Some(cost) = &self.zookeeper {
            add("ZooKeeper CPU a run", "µs", cost.ran * 1e6 / self.runs);
            cost.report(figure, name, &self.floor, report);
        }
    }

    /// Runs a second that would use all processors, at the processor time of a run here, over all processes.
    fn allowed(&self) -> f64 {
        let zookeeper = self.zookeeper.as_ref().map_or(0.0, |cost| cost.ran);
        let all = self.coordinator.ran + self.workers.ran + zookeeper;
        cores() as f64 * self.runs / all.max(f64::MIN_POSITIVE)
    }

    pub(crate) fn print(&self, name: &str) {
        println!("  {name}, {:.0} s", self.seconds);
        println!("    {}", self.fires);
        let Used { ran, waited, system, rss, threads, switches } = self.coordinator;
        println!(
            "    coordinator {:.2} cores ({:.0} % in the kernel), {:.0} µs a run, {:.1} switches a run, {rss:.0} MiB, {threads} threads; \
             it waited {waited:.1} s for a processor",
            ran / self.seconds,
            100.0 * system / ran,
            self.per_run(self.coordinator),
            switches as f64 / self.runs
        );
        println!(
            "    {:.2} transactions a run of {:.1} ms each; workers {:.2} cores, {:.0} µs a run",
            self.commits / self.runs,
            self.commit_ms,
            self.workers.ran / self.seconds,
            self.per_run(self.workers)
        );
        if let Some(cost) = &self.zookeeper {
            println!("    {cost}; {:.0} µs of its processor time a run", cost.ran * 1e6 / self.runs);
        }
        println!(
            "    processors busy {:.2} of {}; they allow {:.0} runs a second, {:.0} began",
            self.busy / self.seconds,
            cores(),
            self.allowed(),
            self.runs / self.seconds
        );
        println!("    beside: {}", self.floor);
    }
}
