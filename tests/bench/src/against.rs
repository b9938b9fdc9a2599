//! The released Elastic-Job 3.0.4 and rosterd under the same load, one after the other in one run on the same ZooKeeper
//! server: absolute figures drift with the machine, ratios less so. In every second run the other side begins.
//!
//! Both with their defaults (monitored, misfires on), rosterd as one coordinator; sessions of 10 s; workers as separate
//! processes, empty handlers.

mod leave;
mod stage;

use crate::Result;
use crate::ensemble::Ensemble;
use crate::fires::{SET, SLOTS};
use crate::load::Load;
use crate::machine::Floor;
use crate::options::Options;
use crate::report::Report;
use stage::{Measured, Side, Stage};

pub(crate) use leave::leave;

/// Reports the non-default settings on our side.
fn tell_settings(report: &mut Report) {
    let workers = [("slots of a worker", &*SLOTS.to_string()), ("JVM of a worker", "-Xmx2g")];
    report.sets(&[SET, &workers].concat());
}

/// The settings, in a line.
pub(crate) const SETTINGS: &str = "Elastic-Job 3.0.4 and rosterd, one after the other on one ZooKeeper 3.9.5 server (tickTime 1 s, its log \
     synced to disk); sessions of 10 s, defaults otherwise; rosterd with one coordinator";

/// A fire of eight items on two workers: its cost for the server, and the lag of user code.
pub(crate) fn fire(options: &Options, report: &mut Report) -> Result {
    both(options, &Load { jobs: 1, items: 8, every: 1, processes: 2 }, report, |measured, add| {
        lags(measured, add);
        let fires = measured.runs / 8.0;
        add("transactions a fire", "", measured.cost.counts.transactions / fires);
        add("packets received a fire", "", measured.cost.counts.received / fires);
        add("packets sent a fire", "", measured.cost.counts.sent / fires);
        add("ZooKeeper CPU a fire", "ms", measured.cost.ran * 1e3 / fires);
    })
}

/// A hundred such jobs, due at the same instant.
pub(crate) fn hundred(options: &Options, report: &mut Report) -> Result {
    both(options, &Load { jobs: 100, items: 8, every: 1, processes: 2 }, report, |measured, add| {
        lags(measured, add);
        add("missed or later than 1 s", "runs", (measured.fires.missed + measured.fires.late) as f64);
        costs(measured, add);
    })
}

/// Ten thousand item runs due each second.
pub(crate) fn runs(options: &Options, report: &mut Report) -> Result {
    both(options, &Load { jobs: 100, items: 100, every: 1, processes: 2 }, report, |measured, add| {
        add("item runs", "/s", measured.runs / measured.seconds);
        costs(measured, add);
    })
}

fn lags(measured: &Measured, add: &mut dyn FnMut(&str, &'static str, f64)) {
    add("lag p50", "ms", measured.fires.percentile(50.0));
    add("lag p99", "ms", measured.fires.percentile(99.0));
}

fn costs(measured: &Measured, add: &mut dyn FnMut(&str, &'static str, f64)) {
    add("CPU of all but ZooKeeper", "cores", measured.used.ran / measured.seconds);
    add("CPU of ZooKeeper", "cores", measured.cost.cores());
    add("RSS of all but ZooKeeper", "MiB", measured.used.rss);
}

/// Runs a load on both sides, a number of times, and reports the result of `figures`.
fn both(
    options: &Options,
    load: &Load,
    report: &mut Report,
    figures: impl Fn(&Measured, &mut dyn FnMut(&str, &'static str, f64)),
) -> Result {
    let ensemble = Ensemble::start()?;
    tell_settings(report);
    for run in 0..options.runs {
        let mut pair = Pair::default();
        for side in order(run) {
            let measured = Stage::open(options, &ensemble, side)?.measure(load, options.seconds)?;
            describe(side, load, &measured);
            figures(&measured, &mut |name, unit, value| pair.add(side, name, unit, value));
            pair.floor.get_or_insert(measured.floor);
        }
        pair.report(&load.name(), report);
    }
    Ok(())
}

/// The first side alternates, so that neither always has the warmer machine.
fn order(run: usize) -> [Side; 2] {
    if run.is_multiple_of(2) { [Side::Ours, Side::Theirs] } else { [Side::Theirs, Side::Ours] }
}

fn describe(side: Side, load: &Load, measured: &Measured) {
    let Measured { fires, seconds, runs, cost, used, floor } = measured;
    println!("  {}: {}, {seconds:.0} s", side.name(), load.name());
    println!("    {fires}");
    println!(
        "    {:.0} runs a second; {:.0} transactions a second; {:.2} cores and {:.0} MiB in {} threads, ZooKeeper {:.2} cores",
        runs / seconds,
        cost.counts.transactions / seconds,
        used.ran / seconds,
        used.rss,
        used.threads,
        cost.cores()
    );
    println!("    beside: {floor}");
}

/// The results of both sides in one run.
#[derive(Default)]
struct Pair {
    rows: Vec<(String, &'static str, Option<f64>, Option<f64>)>,
    floor: Option<Floor>,
}

impl Pair {
    fn add(&mut self, side: Side, name: &str, unit: &'static str, value: f64) {
        let place = self.rows.iter().position(|row| row.0 == name).unwrap_or_else(|| {
            self.rows.push((name.to_owned(), unit, None, None));
            self.rows.len() - 1
        });
        if let Some(row) = self.rows.get_mut(place) {
            match side {
                Side::Ours => row.2 = Some(value),
                Side::Theirs => row.3 = Some(value),
            }
        }
    }

    /// A row for each side, and one for the ratio.
    fn report(self, settings: &str, report: &mut Report) {
        let Some(floor) = self.floor else { return };
        for (name, unit, ours, theirs) in self.rows {
            for (side, value) in [(Side::Ours, ours), (Side::Theirs, theirs)] {
                if let Some(value) = value {
                    report.add(&name, &format!("{settings}: {}", side.name()), unit, None, value, &floor);
                }
            }
            // A ratio needs both values, and none of them may be zero.
            if let (Some(ours), Some(theirs)) = (ours.filter(|ours| *ours > 0.0), theirs) {
                let settings = format!("{settings}: theirs / ours");
                report.add(&name, &settings, "×", None, theirs / ours, &floor);
            }
        }
    }
}

/// How many jobs of one item can fire each second, all of them in every second.
pub(crate) fn knee(options: &Options, report: &mut Report) -> Result {
    let ensemble = Ensemble::start()?;
    tell_settings(report);
    for run in 0..options.runs {
        let mut pair = Pair { floor: Some(ensemble.floor()?), ..Pair::default() };
        for side in order(run) {
            let mut search = Search::of(side);
            while let Some(jobs) = search.next() {
                let load = Load { jobs, items: 1, every: 1, processes: 1 };
                let measured =
                    Stage::open(options, &ensemble, side)?.measure(&load, options.seconds.min(10))?;
                describe(side, &load, &measured);
                search.tell(measured.fires.is_clean());
            }
            println!("  {}: {} jobs are clean, {:?} are not", side.name(), search.good, search.bad);
            pair.add(side, "knee", "jobs", f64::from(search.good));
            if let Some(bad) = search.bad {
                pair.add(side, "knee: the next that was tried is not clean", "jobs", f64::from(bad));
            }
        }
        pair.report("jobs of 1 item each second, 1 worker", report);
    }
    Ok(())
}

/// The largest number that is clean: doubled until one is not, then bisected a few times.
#[derive(Debug)]
struct Search {
    good: u32,
    bad: Option<u32>,
    next: u32,
    steps: u32,
    most: u32,
}

impl Search {
    const STEPS: u32 = 8;
    /// It ends when the clean and the unclean number differ by less than this fraction.
    const NEAR: u32 = 10;

    fn of(side: Side) -> Self {
        let (next, most) = match side {
            Side::Ours => (1000, 16_000),
            Side::Theirs => (200, 1600),
        };
        Self { good: 0, bad: None, next, steps: 0, most }
    }

    fn next(&self) -> Option<u32> {
        let near = self.bad.is_some_and(|bad| bad - self.good <= bad / Self::NEAR);
        (self.steps < Self::STEPS && !near && self.next <= self.most).then_some(self.next)
    }

    fn tell(&mut self, clean: bool) {
        self.steps += 1;
        match clean {
            true => self.good = self.next,
            false => self.bad = Some(self.next),
        }
        self.next = self.bad.map_or(self.good * 2, |bad| self.good.midpoint(bad));
    }
}
