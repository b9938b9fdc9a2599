//! A coordinator that hosts no workers and leads its share of the jobs is killed: the effect on the lag of their fires.

use std::time::Duration;

use crate::Result;
use crate::crew::Crew;
use crate::ensemble::Cost;
use crate::fleet::{Fleet, must, wait};
use crate::journal::{Reading, boot, broken, judge};
use crate::machine::{Floor, percentile, wall};
use crate::options::Options;
use crate::report::Report;
use crate::worker::Spec;

const JOBS: u32 = 20;
const ITEMS: u32 = 4;
/// The one that is killed; workers know the other two.
const VICTIM: usize = 2;
const HOSTS: usize = 2;
/// It leads at least this many jobs; a third is its share.
const LEADS: f64 = 3.0;
/// How long it may take to lead them, and how many names are tried: one in fifty ranks first for fewer.
const COMES: Duration = Duration::from_secs(30);
const NAMES: usize = 4;
/// How long leaders may go on moving once it leads some jobs.
const REST: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn leader(options: &Options, report: &mut Report) -> Result {
    if !options.zookeeper {
        println!("  only with --registry zookeeper");
        return Ok(());
    }
    let window = Duration::from_secs(if options.quick { 5 } else { 15 });
    report.sets(&[("slots of a worker", "256")]);
    let fleet = Fleet::start(options, HOSTS + 1, &[])?;
    let (_crew, mut reading) = workers(&fleet)?;
    let mut fleet = Moving { fleet, came: wall() };
    let name = format!("{JOBS} jobs × {ITEMS} items each second, {} s before and after", window.as_secs());
    let (mut deaths, mut last, kills) = (Vec::new(), None, options.trials(20, 2));
    for _ in 0..kills {
        let joined = fleet.joined(&mut reading)?;
        let leads = fleet.led()?;
        std::thread::sleep(window);
        let (killed, stand) = (wall(), fleet.fleet.ensemble.stand()?);
        fleet.fleet.seat(VICTIM)?.kill()?;
        std::thread::sleep(window);
        reading.poll()?;
        let cost = fleet.fleet.ensemble.cost(&stand)?;
        // While nothing is measured: it disturbs.
        let floor = fleet.fleet.ensemble.floor()?;
        let span = i64::try_from(window.as_micros())?;
        let (before, after) = (lags(&reading, killed - span, killed), lags(&reading, killed, killed + span));
        let latest = latest(&reading, killed, killed + span);
        let death = Death { leads, before, after, latest, joined, cost };
        death.report(&name, &floor, report);
        deaths.push(death);
        last = Some(floor);
        fleet.came = wall();
        fleet.fleet.seat(VICTIM)?.launch()?;
    }
    let broken = broken(&judge(&reading.lines));
    let doubled = deaths.iter().filter(|death| death.doubled()).count();
    let before = percentile(&all(&deaths, |death| &death.before), 99.0);
    let after = percentile(&all(&deaths, |death| &death.after), 99.0);
    println!(
        "  all {kills} kills: p99 {before:.1} ms before, {after:.1} after; after {doubled} of them above twice that of before \
         the same one; {broken} promises broken"
    );
    if let Some(floor) = last {
        report.add("leader dies: kills", &name, "", None, f64::from(kills), &floor);
        report.add("leader dies: all, p99 before", &name, "ms", None, before, &floor);
        report.add("leader dies: all, p99 after", &name, "ms", None, after, &floor);
        report.add("leader dies: all, p99 after / before", &name, "×", Some(2.0), after / before, &floor);
        report.add("leader dies: kills with p99 doubled", &name, "", None, doubled as f64, &floor);
        report.add("leader dies: promises broken", &name, "", Some(0.0), broken as f64, &floor);
    }
    Ok(())
}

/// The lags of all deaths together, sorted: with a single death, fifteen fires of each job, three fires would decide
/// the p99.
fn all(deaths: &[Death], of: impl Fn(&Death) -> &[f64]) -> Vec<f64> {
    let mut lags: Vec<f64> = deaths.iter().flat_map(of).copied().collect();
    lags.sort_by(f64::total_cmp);
    lags
}

/// The effect of one death on fires; milliseconds, sorted.
struct Death {
    leads: f64,
    before: Vec<f64>,
    after: Vec<f64>,
    /// How long after the death the latest of these was due, in seconds.
    latest: f64,
    /// While it joined.
    joined: Vec<f64>,
    /// After its death.
    cost: Cost,
}

impl Death {
    /// p99 before and after.
    fn p99(&self) -> (f64, f64) {
        (percentile(&self.before, 99.0), percentile(&self.after, 99.0))
    }

    /// Whether its p99 is above twice the earlier one.
    fn doubled(&self) -> bool {
        let (before, after) = self.p99();
        after > 2.0 * before
    }

    fn report(&self, name: &str, floor: &Floor, report: &mut Report) {
        let Self { leads, before, after, latest, joined, cost } = self;
        let (p99, worst) = (self.p99(), |lags: &[f64]| percentile(lags, 100.0));
        println!(
            "  leader of {leads} jobs killed: p99 {:.1} ms before (latest {:.1}), {:.1} after (latest {:.1}, due {latest:.1} s after it); \
             latest while it had come {:.1}; {cost}; {floor}",
            p99.0,
            worst(before),
            p99.1,
            worst(after),
            worst(joined)
        );
        report.add("leader dies: p99 before", name, "ms", None, p99.0, floor);
        report.add("leader dies: p99 after", name, "ms", None, p99.1, floor);
        report.add("leader dies: p99 after / before", name, "×", None, p99.1 / p99.0, floor);
        report.add("leader dies: latest after", name, "ms", Some(1000.0), worst(after), floor);
        report.add("leader comes: p99", name, "ms", None, percentile(joined, 99.0), floor);
        report.add("leader comes: latest", name, "ms", Some(1000.0), worst(joined), floor);
        cost.report("leader dies:", name, floor, report);
    }
}

/// Coordinators, one of which comes and goes.
struct Moving {
    fleet: Fleet,
    /// When it was last started, by the calendar.
    came: i64,
}

impl Moving {
    /// How many jobs the one leads.
    fn led(&self) -> Result<f64> {
        self.fleet.seats.get(VICTIM).map_or(Ok(0.0), |seat| seat.counted("rosterd_jobs_led"))
    }

    /// Waits until it leads its share; the lags until then, and until everything is at rest again.
    fn joined(&mut self, reading: &mut Reading) -> Result<Vec<f64>> {
        for _ in 0..NAMES {
            if wait(COMES, || Ok(self.led()? >= LEADS))? {
                break;
            }
            // Leaders are ranked by a number derived from names, and a coordinator has a new name each time.
            self.fleet.seat(VICTIM)?.kill()?;
            self.came = wall();
            self.fleet.seat(VICTIM)?.launch()?;
        }
        must("its share of the jobs", PATIENCE, || Ok(self.led()? >= LEADS))?;
        std::thread::sleep(REST);
        reading.poll()?;
        Ok(lags(reading, self.came, wall() - 1_000_000))
    }
}

fn workers(fleet: &Fleet) -> Result<(Crew, Reading)> {
    let mut crew = Crew::new();
    let mut reading = Reading::new()?;
    for n in 0..HOSTS {
        let address = fleet.seats.get(n).ok_or("no coordinator")?.address();
        crew.start(&Spec {
            server: address.to_owned(),
            address: format!("worker-{n}"),
            slots: 256,
            prefix: "tick-".into(),
            count: JOBS,
            jobs: JOBS,
            file: format!("cron: '* * * * * ?'\nshardingTotalCount: {ITEMS}\n"),
            conversations: 1,
            journal: Some(reading.of(&format!("worker-{n}"))),
            ..Spec::default()
        })?;
    }
    must("all jobs to be run by both", PATIENCE, || {
        reading.poll()?;
        let by = |n: usize| reading.lines.iter().filter(|line| line.worker == format!("worker-{n}")).count();
        Ok((0..HOSTS).all(|n| by(n) >= 4 * JOBS as usize))
    })?;
    Ok((crew, reading))
}

/// Milliseconds from scheduled time to user code, sorted, for scheduled times between two moments of the calendar.
fn lags(reading: &Reading, from: i64, until: i64) -> Vec<f64> {
    let mut lags: Vec<f64> = with_due_times(reading, from, until).map(|(_, lag)| lag).collect();
    lags.sort_by(f64::total_cmp);
    lags
}

/// How many seconds after the first moment the latest of these was due.
fn latest(reading: &Reading, from: i64, until: i64) -> f64 {
    let latest = with_due_times(reading, from, until).max_by(|one, other| one.1.total_cmp(&other.1));
    latest.map_or(f64::NAN, |(due, _)| (due - from) as f64 / 1e6)
}

/// Scheduled times by the calendar in microseconds, with the lag in milliseconds.
fn with_due_times(reading: &Reading, from: i64, until: i64) -> impl Iterator<Item = (i64, f64)> {
    // The lines' own clock is finer than the calendar that they name.
    let offset = wall() - i64::try_from(boot() / 1000).unwrap_or(i64::MAX);
    let starts = reading.starts().map(|line| (line.at, line.fire * 1000));
    let starts = starts.filter(move |(_, due)| (from..until).contains(due));
    starts.map(move |(at, due)| {
        let at = i64::try_from(at / 1000).unwrap_or(i64::MAX) + offset;
        (due, (at - due) as f64 / 1e3)
    })
}
