//! From due time to user code: how late runs begin, how many a coordinator can start each second, and what that
//! costs it.

use std::time::{Duration, Instant};

use crate::Result;
use crate::crew::Crew;
use crate::load::{Fires, Load};
use crate::machine::{Floor, Used, wall};
use crate::options::Options;
use crate::report::Report;
use crate::server::Server;
use crate::worker::{Seen, Spec};

/// What one run showed.
struct Taken {
    fires: Fires,
    /// That were due in the time in which costs were counted, about.
    runs: f64,
    coordinator: Used,
    workers: Used,
    seconds: f64,
    commits: f64,
    commit_ms: f64,
    floor: Floor,
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

/// More and more jobs of one item that fire each second.
pub(crate) fn knee(options: &Options, report: &mut Report) -> Result {
    for jobs in options.sizes(&[1000, 2000, 5000, 8000, 10_000], 1000) {
        let load = Load { jobs, items: 1, every: 1, processes: 4 };
        for _ in 0..options.runs {
            let taken = take(options, &load)?;
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
    Ok(())
}

/// Ten thousand item runs asked for each second, a hundred in each fire.
pub(crate) fn runs(options: &Options, report: &mut Report) -> Result {
    let load = Load { jobs: 100, items: 100, every: 1, processes: 2 };
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

fn take(options: &Options, load: &Load) -> Result<Taken> {
    let server =
        Server::start(options, &[("max_jobs_per_worker", "20000"), ("max_unacknowledged_reports", "8192")])?;
    let floor = Floor::measure(server.dir())?;
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
            slots: 4096,
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
    std::thread::sleep(Duration::from_secs(options.seconds));
    let (until, after, seconds) = (wall(), server.metrics()?, since.elapsed().as_secs_f64());
    let (coordinator, workers) = (server.used().since(coordinator), crew.used().since(workers));
    // What was due within the window may still be on its way.
    std::thread::sleep(Duration::from_millis(1500));
    crew.leave()?;
    let mut seen = Vec::new();
    for out in &outs {
        seen.extend(Seen::read(out)?);
    }
    let grown =
        |name: &str| after.get(name).copied().unwrap_or(0.0) - before.get(name).copied().unwrap_or(0.0);
    let commits = grown("rosterd_commit_seconds_count");
    let commit_ms = grown("rosterd_commit_seconds_sum") * 1e3 / commits.max(1.0);
    let log = server.log();
    if !log.is_empty() {
        println!("  the coordinator said: {log}");
    }
    let (first, last) = (from.div_euclid(1_000_000) + 1, until.div_euclid(1_000_000));
    let taken = Taken {
        fires: Fires::count(load, &seen, first, last),
        runs: (load.rate() * seconds).max(1.0),
        coordinator,
        workers,
        seconds,
        commits,
        commit_ms,
        floor,
    };
    Ok(taken)
}

/// Waits until all jobs fire.
fn settle(server: &Server, load: &Load) -> Result {
    let until = Instant::now() + Duration::from_secs(180);
    let step = Duration::from_secs(u64::from(load.every).max(2));
    let mut before = server.counted("rosterd_fires_total")?;
    while Instant::now() < until {
        std::thread::sleep(step);
        let now = server.counted("rosterd_fires_total")?;
        let rate = (now - before) / step.as_secs_f64();
        eprint!("\r  starting: {rate:.0} of {:.0} runs a second   ", load.rate());
        if rate >= load.rate() * 0.9 {
            // Once more for what is still being registered.
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

    fn add_costs(&self, figure: &str, name: &str, report: &mut Report) {
        let cores = self.coordinator.ran / self.seconds;
        report.add(&format!("{figure} coordinator CPU"), name, "cores", None, cores, &self.floor);
        let each = self.per_run(self.coordinator);
        report.add(&format!("{figure} coordinator CPU a run"), name, "µs", None, each, &self.floor);
    }

    fn print(&self, name: &str) {
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
        println!("    beside: {}", self.floor);
    }
}
