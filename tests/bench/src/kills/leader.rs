//! A coordinator that hosts nobody and leads its share of the jobs is killed: what that does to the lag of their fires.

use std::time::Duration;

use crate::Result;
use crate::crew::Crew;
use crate::fleet::{Fleet, must};
use crate::journal::{Reading, boot, broken, judge};
use crate::machine::{Floor, percentile, wall};
use crate::options::Options;
use crate::report::Report;
use crate::worker::Spec;

const JOBS: u32 = 20;
const ITEMS: u32 = 4;
/// The one that dies; workers know the other two.
const VICTIM: usize = 2;
const HOSTS: usize = 2;
/// It leads so many jobs at least, of a third that are its share.
const LEADS: f64 = 3.0;
/// How long leaders may go on moving once it leads some jobs.
const REST: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn leader(options: &Options, report: &mut Report) -> Result {
    if !options.zookeeper {
        println!("  only with --registry zookeeper");
        return Ok(());
    }
    let window = Duration::from_secs(if options.quick { 5 } else { 15 });
    let fleet = Fleet::start(options, HOSTS + 1, &[])?;
    let (_crew, mut reading) = workers(&fleet)?;
    let mut fleet = Moving { fleet, came: wall() };
    let name = format!("{JOBS} jobs × {ITEMS} items each second, {} s before and after", window.as_secs());
    let (mut in_time, kills) = (0, options.trials(20, 2));
    for _ in 0..kills {
        let floor = Floor::measure(fleet.fleet.ensemble.dir())?;
        let joined = fleet.joined(&mut reading)?;
        let leads = fleet.led()?;
        std::thread::sleep(window);
        let killed = wall();
        fleet.fleet.seat(VICTIM)?.kill()?;
        std::thread::sleep(window);
        reading.poll()?;
        let span = i64::try_from(window.as_micros())?;
        let (before, after) = (lags(&reading, killed - span, killed), lags(&reading, killed, killed + span));
        let p99 = (percentile(&before, 99.0), percentile(&after, 99.0));
        let (worst, worst_before) = (percentile(&after, 100.0), percentile(&before, 100.0));
        let good = p99.1 <= 2.0 * p99.0 && worst <= 1000.0;
        in_time += u32::from(good);
        println!(
            "  leader of {leads} jobs killed: p99 {:.1} ms before (latest {worst_before:.1}), {:.1} after (latest {worst:.1}); \
             latest while it had come {:.1}; {floor}",
            p99.0,
            p99.1,
            percentile(&joined, 100.0)
        );
        report.add("leader dies: p99 before", &name, "ms", None, p99.0, &floor);
        report.add("leader dies: p99 after", &name, "ms", None, p99.1, &floor);
        report.add("leader dies: p99 after / before", &name, "×", Some(2.0), p99.1 / p99.0, &floor);
        report.add("leader dies: latest after", &name, "ms", Some(1000.0), worst, &floor);
        report.add("leader comes: p99", &name, "ms", None, percentile(&joined, 99.0), &floor);
        report.add("leader comes: latest", &name, "ms", Some(1000.0), percentile(&joined, 100.0), &floor);
        fleet.came = wall();
        fleet.fleet.seat(VICTIM)?.launch()?;
    }
    let broken = broken(&judge(&reading.lines));
    println!(
        "  {in_time} of {kills} kills with p99 within twice that of before and nothing above 1 s; {broken} promises broken"
    );
    Ok(())
}

/// Coordinators of which one comes and goes.
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
    fn joined(&self, reading: &mut Reading) -> Result<Vec<f64>> {
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

/// Milliseconds from due time to user code, sorted, of what was due between two moments of the calendar.
fn lags(reading: &Reading, from: i64, until: i64) -> Vec<f64> {
    // The lines' own clock is finer than the calendar that they name.
    let offset = wall() - i64::try_from(boot() / 1000).unwrap_or(i64::MAX);
    let starts = reading.starts().filter(|line| (from..until).contains(&(line.fire * 1000)));
    let lag = |at: u64, fire: i64| i64::try_from(at / 1000).unwrap_or(i64::MAX) + offset - fire * 1000;
    let mut lags: Vec<f64> = starts.map(|line| lag(line.at, line.fire) as f64 / 1e3).collect();
    lags.sort_by(f64::total_cmp);
    lags
}
