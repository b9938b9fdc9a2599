//! The coordinator that hosts most workers is killed, and comes back, again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{host_of, millis, plain};
use crate::Result;
use crate::crew::Crew;
use crate::fleet::{Fleet, must, wait};
use crate::journal::{Reading, attached, boot, broken, judge};
use crate::machine::{Floor, percentile, wall};
use crate::options::Options;
use crate::report::Report;
use crate::worker::{Also, Spec};

const COORDINATORS: usize = 3;
const WORKERS: usize = 6;
const ITEMS: u32 = 12;
/// The job that fires each second, and the one whose runs last.
const TICK: &str = "tick-0";
const STEADY: &str = "steady";
const PATIENCE: Duration = Duration::from_secs(60);

/// The effects of one death.
struct Trial {
    /// When, by the clock that all share.
    killed: u64,
    /// The first scheduled time after it, in seconds.
    due: i64,
    /// Workers of the dead host, and milliseconds until each was welcomed elsewhere.
    hosted: usize,
    took: Vec<f64>,
}

/// Every run in flight goes on, no fire is lost, no worker is marked dead.
pub(crate) fn host(options: &Options, report: &mut Report) -> Result {
    if !options.zookeeper {
        println!("  only with --registry zookeeper");
        return Ok(());
    }
    let mut fleet = Fleet::start(options, COORDINATORS, &[])?;
    report.sets(&[("slots of a worker", "64")]);
    let floor = fleet.ensemble.floor()?;
    let (_crew, mut reading) = workers(&fleet)?;
    let from = wall() / 1_000_000 + 2;
    let stand = fleet.ensemble.stand()?;
    let mut trials = Vec::new();
    for _ in 0..options.trials(100, 3) {
        trials.push(trial(&mut fleet, &mut reading)?);
        // Progress, without other output.
        if trials.len() % 10 == 0 {
            eprintln!("  {} trials", trials.len());
        }
    }
    let until = wall() / 1_000_000 - 1;
    let cost = fleet.ensemble.cost(&stand)?;
    // Runs due until then have started by now, if they ever do.
    std::thread::sleep(Duration::from_secs(2));
    reading.poll()?;
    let found = Found::of(&reading, &trials, from, until);
    let name = found.report(&trials, &floor, report);
    println!("    {cost}");
    cost.report("host dies:", &name, &floor, report);
    let log = fleet.log();
    if log.contains("ERROR") {
        println!("  the coordinators said: {log}");
    }
    Ok(())
}

/// Workers that know all coordinators, two at each; their long runs have started.
fn workers(fleet: &Fleet) -> Result<(Crew, Reading)> {
    let mut crew = Crew::new();
    let mut reading = Reading::new()?;
    for n in 0..WORKERS {
        crew.start(&Spec {
            server: fleet.addresses(n % COORDINATORS, COORDINATORS),
            address: format!("worker-{n}"),
            slots: 64,
            prefix: "tick-".into(),
            count: 1,
            jobs: 1,
            file: format!("cron: '* * * * * ?'\nshardingTotalCount: {ITEMS}\nfailover: true\n"),
            work: 1,
            conversations: 1,
            journal: Some(reading.of(&format!("worker-{n}"))),
            also: Some(Also {
                job: STEADY.into(),
                file: format!("shardingTotalCount: {ITEMS}\nfailover: true\n"),
                work: 3_600_000,
            }),
            ..Spec::default()
        })?;
    }
    let at = |reading: &Reading, job: &str| -> (BTreeSet<String>, BTreeSet<u32>) {
        let runs = reading.lines.iter().filter(|line| line.job == job);
        runs.map(|line| (line.worker.clone(), line.item)).unzip()
    };
    must("runs at all workers", PATIENCE, || {
        reading.poll()?;
        Ok(at(&reading, TICK).0.len() == WORKERS)
    })?;
    fleet.seats.first().ok_or("no coordinator")?.call(&["jobs", "trigger", STEADY])?;
    must("long runs of all items", PATIENCE, || {
        reading.poll()?;
        Ok(at(&reading, STEADY).1.len() == ITEMS as usize)
    })?;
    Ok((crew, reading))
}

fn trial(fleet: &mut Fleet, reading: &mut Reading) -> Result<Trial> {
    reading.poll()?;
    let victim = fleet.most("rosterd_streams")?;
    let address = fleet.seat(victim)?.address().to_owned();
    let names: Vec<String> = (0..WORKERS).map(|n| format!("worker-{n}")).collect();
    let hosted: BTreeSet<String> =
        names.into_iter().filter(|name| host_of(reading, name) == Some(plain(&address))).collect();
    let (killed, due) = (boot(), wall() / 1_000_000 + 1);
    fleet.seat(victim)?.kill()?;
    let mut took = BTreeMap::new();
    wait(Duration::from_secs(20), || {
        reading.poll()?;
        for line in reading.lines.iter().rev().take_while(|line| line.at > killed) {
            if attached(line).is_some() && hosted.contains(&line.worker) {
                let since = millis(killed, line.at);
                took.entry(line.worker.clone())
                    .and_modify(|ms: &mut f64| *ms = ms.min(since))
                    .or_insert(since);
            }
        }
        Ok(took.len() == hosted.len())
    })?;
    wait(Duration::from_secs(20), || {
        reading.poll()?;
        Ok((0..ITEMS).all(|item| ran(reading, item, killed).any(|fire| fire > due)))
    })?;
    fleet.seat(victim)?.launch()?;
    Ok(Trial { killed, due, hosted: hosted.len(), took: took.into_values().collect() })
}

/// The scheduled times of an item whose runs started after a moment.
fn ran(reading: &Reading, item: u32, after: u64) -> impl Iterator<Item = i64> {
    let lines = reading.lines.iter().rev().take_while(move |line| line.at > after);
    lines.filter(move |line| line.job == TICK && line.item == item).map(|line| line.fire / 1000)
}

struct Found {
    failovers: usize,
    merged: usize,
    /// Scheduled times, and their items that never ran.
    missed: Vec<(i64, u32)>,
    broken: usize,
    /// Trials without any of these.
    good: usize,
}

impl Found {
    fn of(reading: &Reading, trials: &[Trial], from: i64, until: i64) -> Self {
        let verdict = judge(&reading.lines);
        let broken = broken(&verdict);
        let failovers: Vec<u64> =
            verdict.runs.iter().filter(|run| run.source == "FAILOVER").map(|run| run.start).collect();
        let ran: BTreeSet<(i64, u32)> = verdict.of(TICK).map(|run| (run.fire / 1000, run.item)).collect();
        let due = (from..until).flat_map(|fire| (0..ITEMS).map(move |item| (fire, item)));
        let missed: Vec<(i64, u32)> = due.filter(|due| !ran.contains(due)).collect();
        let mut good = 0;
        for (n, trial) in trials.iter().enumerate() {
            let (next, fire) = trials.get(n + 1).map_or((u64::MAX, i64::MAX), |next| (next.killed, next.due));
            let false_alarm = failovers.iter().any(|at| (trial.killed..next).contains(at));
            let lost = missed.iter().any(|(due, _)| (trial.due - 1..fire - 1).contains(due));
            good += usize::from(!false_alarm && !lost && trial.took.len() == trial.hosted);
        }
        let good = if broken == 0 { good } else { 0 };
        let merged = verdict.by_source(TICK, "MISFIRE").len();
        Self { failovers: failovers.len(), merged, missed, broken, good }
    }

    /// Reports the results, under their names.
    fn report(&self, trials: &[Trial], floor: &Floor, report: &mut Report) -> String {
        let Self { failovers, merged, missed, broken, good } = self;
        let mut took: Vec<f64> = trials.iter().flat_map(|trial| trial.took.iter().copied()).collect();
        took.sort_by(f64::total_cmp);
        let hosted: usize = trials.iter().map(|trial| trial.hosted).sum();
        let (p50, p99) = (percentile(&took, 50.0), percentile(&took, 99.0));
        let name = format!("{COORDINATORS} coordinators, {WORKERS} workers, {} kills", trials.len());
        println!(
            "  {name}: {good} of {} good; {failovers} false failovers, {} fires of items missed, {merged} merged into the next, \
             {broken} promises broken; {} of {hosted} workers taken in elsewhere after p50 {p50:.0} p99 {p99:.0} max {:.0} ms",
            trials.len(),
            missed.len(),
            took.len(),
            percentile(&took, 100.0)
        );
        for (n, trial) in trials.iter().enumerate() {
            let slow = trial.took.iter().filter(|ms| **ms > 1000.0).count();
            if slow > 0 {
                println!("    kill {n}: {slow} of {} workers needed more than a second", trial.hosted);
            }
        }
        if let [first, ..] = missed.as_slice() {
            println!("    the first that was missed: due {} item {}", first.0, first.1);
        }
        println!("    beside: {floor}");
        let mut add =
            |figure: &str, unit, target, value| report.add(figure, &name, unit, target, value, floor);
        add("host dies: trials that went wrong", "", Some(0.0), (trials.len() - good) as f64);
        add("host dies: false failovers", "runs", Some(0.0), *failovers as f64);
        add("host dies: missed", "runs", Some(0.0), missed.len() as f64);
        add("host dies: merged into the next", "runs", None, *merged as f64);
        add("host dies: promises broken", "", Some(0.0), *broken as f64);
        add("host dies: attached again p50", "ms", None, p50);
        add("host dies: attached again p99", "ms", Some(1000.0), p99);
        name
    }
}
