//! Much work at once when one of several coordinators dies: the jobs that it led, the workers that it hosted.

use std::time::{Duration, Instant};

use crate::Result;
use crate::crew::Crew;
use crate::ensemble::Cost;
use crate::fleet::{Fleet, must, wait, wait_looking};
use crate::idle::{self, JOBS, may_open};
use crate::load::{Fires, Load};
use crate::machine::{Floor, Used, wall};
use crate::options::Options;
use crate::report::{Report, Set};
use crate::worker::Spec;

const PATIENCE: Duration = Duration::from_secs(180);
/// How long to measure after everything is led again, and before the death.
const AFTER: Duration = Duration::from_secs(10);
const BEFORE: Duration = Duration::from_secs(20);
/// A coordinator with ten thousand connections answers a request for its metrics in several milliseconds.
const SELDOM: Duration = Duration::from_millis(500);
const ITEMS: u32 = 10;
/// The least share of jobs that one of three leads once leaders have been spread; its fair share is a third.
const SHARE: f64 = 0.2;
/// A limit of coordinators that a thousand jobs of one worker exceed.
const SET: Set<'_> = &[("max_jobs_per_worker", "20000")];

/// A thousand jobs of ten items, of which the one that dies leads a third and hosts none.
pub(crate) fn settle(options: &Options, report: &mut Report) -> Result {
    if !options.zookeeper {
        println!("  only with --registry zookeeper");
        return Ok(());
    }
    report.sets(&[SET, &[("slots of a worker", "4096")]].concat());
    for jobs in options.sizes(&[1000], 200) {
        for _ in 0..options.runs {
            settle_once(options, jobs, report)?;
        }
    }
    Ok(())
}

fn settle_once(options: &Options, jobs: u32, report: &mut Report) -> Result {
    let mut fleet = Fleet::start(options, 3, SET)?;
    let floor = fleet.ensemble.floor()?;
    let load = Load { jobs, items: ITEMS, every: 10, processes: 2 };
    let mut crew = Crew::new();
    let mut outs = Vec::new();
    for host in fleet.seats.iter().take(2) {
        let out = host.dir().join("runs").display().to_string();
        crew.start(&Spec {
            server: host.address().to_owned(),
            address: "127.0.0.1".into(),
            slots: 4096,
            prefix: "tick-".into(),
            count: jobs,
            jobs,
            file: load.file(),
            conversations: 1,
            out: Some(out.clone()),
            ..Spec::default()
        })?;
        outs.push(out);
    }
    let all = f64::from(jobs);
    must("all jobs to be led, by all three", PATIENCE, || {
        Ok(fleet.counted("rosterd_jobs_led")? >= all && led_by(&fleet, 2)? > all * SHARE)
    })?;
    must("all jobs to have fired", PATIENCE, || Ok(fleet.counted("rosterd_runs_total")? >= 2.0 * all))?;
    // The writes of their registration are done.
    std::thread::sleep(AFTER);
    let calm = fleet.ensemble.stand()?;
    std::thread::sleep(BEFORE);
    let calm = fleet.ensemble.cost(&calm)?;
    let memory: Vec<f64> = fleet.seats.iter().map(|seat| seat.used().rss).collect();
    let (led, stand, commits) = (led_by(&fleet, 2)?, fleet.ensemble.stand()?, refused(&fleet)?);
    let (killed, since) = (wall(), Instant::now());
    fleet.seat(2)?.kill()?;
    let settled = wait(PATIENCE, || Ok(fleet.counted("rosterd_jobs_led")? >= all))?;
    let took = since.elapsed().as_secs_f64() * 1e3;
    let (cost, refused) = (fleet.ensemble.cost(&stand)?, refused(&fleet)? - commits);
    std::thread::sleep(AFTER);
    let until = wall();
    let stood = Standing::of(&mut fleet, all, memory)?;
    let seen = crew.leave_and_tell(&outs)?;
    let second = |micros: i64| micros.div_euclid(1_000_000);
    let fires = Fires::count(&load, &seen, second(killed), second(until));
    let before = second(killed) - i64::try_from(BEFORE.as_secs())?;
    let before = Fires::count(&load, &seen, before, second(killed));
    let name = format!("{jobs} jobs × {ITEMS} items every 10 s, 3 coordinators, 1 dies");
    let outcome = if settled { "all led again" } else { "NOT all led again" };
    println!("  {name}: it led {led}; {outcome} after {took:.0} ms; meanwhile {fires}");
    println!("    before it died: {before}");
    println!("    {stood}; before: {calm}");
    println!(
        "    until then {:.0} transactions of the server; {refused} of the coordinators were not applied; {cost}",
        cost.counts.transactions
    );
    println!("    beside: {floor}; {}", fleet.log());
    report.add("leaders: all led again", &name, "ms", None, if settled { took } else { f64::NAN }, &floor);
    report.add(
        "leaders: fires missed or late",
        &name,
        "runs",
        Some(0.0),
        (fires.missed + fires.late) as f64,
        &floor,
    );
    report.add("leaders: p99 lag before", &name, "ms", None, before.percentile(99.0), &floor);
    report.add("leaders: p99 lag meanwhile", &name, "ms", None, fires.percentile(99.0), &floor);
    report.add("leaders: latest meanwhile", &name, "ms", None, fires.percentile(100.0), &floor);
    report.add("leaders: led by the one that died", &name, "jobs", None, led, &floor);
    report.add("leaders: transactions until all led", &name, "", None, cost.counts.transactions, &floor);
    report.add("leaders: refused until all led", &name, "", None, refused, &floor);
    cost.report("until all led:", &name, &floor, report);
    calm.report("before it died:", &name, &floor, report);
    stood.report(&name, &floor, report);
    Ok(())
}

/// How many jobs the coordinator of a seat leads.
fn led_by(fleet: &Fleet, seat: usize) -> Result<f64> {
    fleet.seats.get(seat).map_or(Ok(0.0), |seat| seat.counted("rosterd_jobs_led"))
}

/// The system's state, and how long the dead one takes to serve again, and to lead its share.
struct Standing {
    watches: f64,
    nodes: f64,
    /// Memory of each coordinator before the death, in mebibytes.
    memory: Vec<f64>,
    /// Seconds after the start of its process.
    serves: f64,
    leads: f64,
}

impl Standing {
    fn of(fleet: &mut Fleet, jobs: f64, memory: Vec<f64>) -> Result<Self> {
        let (watches, nodes) = fleet.ensemble.holds()?;
        let since = Instant::now();
        fleet.seat(2)?.launch()?;
        let serves = since.elapsed().as_secs_f64();
        let leading = wait(PATIENCE, || Ok(led_by(fleet, 2)? > jobs * SHARE))?;
        let leads = if leading { since.elapsed().as_secs_f64() } else { f64::NAN };
        Ok(Self { watches, nodes, memory, serves, leads })
    }

    fn report(&self, name: &str, floor: &Floor, report: &mut Report) {
        let mut add = |figure: &str, unit, value| report.add(figure, name, unit, None, value, floor);
        add("watches", "", self.watches);
        add("znodes", "", self.nodes);
        for (seat, memory) in self.memory.iter().enumerate() {
            let hosts = if seat < 2 { "hosts a worker" } else { "hosts nobody" };
            add(&format!("RSS of coordinator {seat}, {hosts}"), "MiB", *memory);
        }
        add("start of a process to serving", "ms", self.serves * 1e3);
        add("start of a process to its share led", "ms", self.leads * 1e3);
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { watches, nodes, memory, serves, leads } = self;
        let memory: Vec<String> = memory.iter().map(|mib| format!("{mib:.0}")).collect();
        write!(
            f,
            "{watches} watches, {nodes} nodes; before one died the coordinators took {} MiB; one more serves {serves:.2} s after its \
             start and leads its share after {leads:.1} s",
            memory.join(", ")
        )
    }
}

/// Transactions of the live ones that conflicted.
fn refused(fleet: &Fleet) -> Result<f64> {
    let mut sum = 0.0;
    for seat in fleet.seats.iter().take(2) {
        sum += seat.metrics()?.get("rosterd_commits_total{outcome=\"not_applied\"}").unwrap_or(&0.0);
    }
    Ok(sum)
}

/// Ten thousand workers at one of two coordinators, which dies. Coordinators count those that are attached once a second.
pub(crate) fn herd(options: &Options, report: &mut Report) -> Result {
    if !options.zookeeper {
        println!("  only with --registry zookeeper");
        return Ok(());
    }
    for workers in options.sizes(&[10_000], 500) {
        if may_open(workers)? {
            herd_once(options, workers, report)?;
        }
    }
    Ok(())
}

fn herd_once(options: &Options, workers: u32, report: &mut Report) -> Result {
    let most = (workers + 1000).to_string();
    let set = [("max_connections", &*most), ("max_connections_per_ip", &most), ("max_workers", &most)];
    report.sets(&[&set[..], &[("slots of a worker", "4")]].concat());
    let mut fleet = Fleet::start(options, 2, &set)?;
    let floor = fleet.ensemble.floor()?;
    let mut crew = Crew::new();
    let all = f64::from(idle::start(&mut crew, &fleet.addresses(0, 2), workers)?);
    crew.wait_until_all_came(PATIENCE)?;
    let since = Instant::now();
    must("all workers to be attached", 2 * PATIENCE, || Ok(fleet.counted("rosterd_workers")? >= all))?;
    let came = since.elapsed().as_secs_f64();
    // The writes of their registration are done.
    std::thread::sleep(AFTER);
    let there = fleet.seats.first().ok_or("no coordinator")?.counted("rosterd_workers")?;
    let (stand, since) = (fleet.ensemble.stand()?, Instant::now());
    fleet.seat(0)?.kill()?;
    // The other one.
    let before = fleet.used();
    let verdicts = fleet.counted("rosterd_workers_expired_total")?;
    let mut marks: Vec<(f64, f64)> = Vec::new();
    let back = wait_looking(SELDOM, PATIENCE, || {
        let attached = fleet.counted("rosterd_workers")?;
        marks.push((since.elapsed().as_secs_f64(), attached));
        Ok(attached >= all)
    })?;
    let cost = Herded { zookeeper: fleet.ensemble.cost(&stand)?, left: fleet.used().since(before) };
    let when = |part: f64| marks.iter().find(|(_, n)| *n >= part * all).map_or(f64::NAN, |(at, _)| *at);
    // The dead one's session ends after ten seconds, and leases five later: a worker that is not back by then is marked
    // dead.
    std::thread::sleep(Duration::from_secs(20).saturating_sub(since.elapsed()) + AFTER);
    let dead = fleet.counted("rosterd_workers_expired_total")? - verdicts;
    let left = fleet.counted("rosterd_workers")?;
    let name = format!("{workers} workers, {JOBS} jobs, 2 coordinators");
    println!(
        "  {name}: all had come {came:.0} s after the last began; {there} lost their coordinator; half were elsewhere after \
         {:.1} s, 99 % after {:.1} s, {} after {:.1} s; {dead} marked dead; {left} attached at the end",
        when(0.5),
        when(0.99),
        if back { "all" } else { "NOT all" },
        when(1.0)
    );
    println!("    beside: {floor}; {}", fleet.log());
    report.add("herd: half attached again", &name, "s", None, when(0.5), &floor);
    report.add("herd: all attached again", &name, "s", Some(30.0), when(1.0), &floor);
    report.add("herd: marked dead", &name, "workers", Some(0.0), dead, &floor);
    report.add("herd: all came after the last began", &name, "s", None, came, &floor);
    cost.report(&name, &floor, report);
    Ok(())
}

/// The cost until all were attached again.
struct Herded {
    zookeeper: Cost,
    /// The remaining coordinator.
    left: Used,
}

impl Herded {
    fn report(&self, name: &str, floor: &Floor, report: &mut Report) {
        let Self { zookeeper, left } = self;
        let cores = left.ran / zookeeper.seconds;
        println!("    until then: the coordinator {cores:.2} cores and {:.0} MiB; {zookeeper}", left.rss);
        report.add("herd: coordinator CPU", name, "cores", None, cores, floor);
        report.add("herd: coordinator RSS", name, "MiB", None, left.rss, floor);
        zookeeper.report("herd:", name, floor, report);
    }
}
