//! The cost of idle coordinators for a ZooKeeper server: the session proofs of each, and pings.

use std::time::Duration;

use crate::Result;
use crate::crew::Crew;
use crate::fleet::{Fleet, must};
use crate::options::Options;
use crate::report::Report;
use crate::worker::Spec;

const JOBS: u32 = 10;
/// Due long after the measurement.
const JOB: &str = "cron: '0 0 0 1 1 ? 2099'\nshardingTotalCount: 8\n";
/// Workers at each coordinator.
const WORKERS: u32 = 2;
/// The session of a coordinator, in seconds: it is proved by a write each sixth of that.
const SESSION: f64 = 10.0;
const PROOFS: f64 = 60.0 / (SESSION / 6.0);
/// A connection that is idle for three twentieths of the session sends a ping.
const PINGS: f64 = 60.0 / (SESSION * 3.0 / 20.0);
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait for elections and assignments to settle.
const REST: Duration = Duration::from_secs(10);

/// Alone, and two with jobs and workers.
pub(crate) fn quiet(options: &Options, report: &mut Report) -> Result {
    if !options.zookeeper {
        println!("  only with --registry zookeeper");
        return Ok(());
    }
    report.sets(&[("slots of a worker", "4")]);
    for (coordinators, workers) in [(1, 0), (2, WORKERS)] {
        for _ in 0..options.runs {
            take(options, coordinators, workers, report)?;
        }
    }
    Ok(())
}

fn take(options: &Options, coordinators: usize, workers: u32, report: &mut Report) -> Result {
    let fleet = Fleet::start(options, coordinators, &[])?;
    let floor = fleet.ensemble.floor()?;
    let mut crew = Crew::new();
    for seat in &fleet.seats {
        for _ in 0..workers {
            crew.start(&Spec {
                server: seat.address().to_owned(),
                address: "127.0.0.1".into(),
                slots: 4,
                prefix: "still-".into(),
                count: JOBS,
                jobs: JOBS,
                file: JOB.into(),
                conversations: 1,
                ..Spec::default()
            })?;
        }
    }
    let all = coordinators as f64;
    if workers > 0 {
        must("all workers to be attached and all jobs to be led", PATIENCE, || {
            let attached = fleet.counted("rosterd_workers")?;
            Ok(attached >= all * f64::from(workers) && fleet.counted("rosterd_jobs_led")? >= f64::from(JOBS))
        })?;
    }
    std::thread::sleep(REST);
    // One of the connections is that of the request.
    let connections = (fleet.ensemble.connections()? - 1.0) / all;
    let before = fleet.used();
    let stand = fleet.ensemble.stand()?;
    let seconds = options.at_leisure(60);
    std::thread::sleep(Duration::from_secs(seconds));
    let cost = fleet.ensemble.cost(&stand)?;
    let used = fleet.used().since(before);
    let a_minute = |count: f64| count * 60.0 / cost.seconds / all;
    let name = match workers {
        0 => format!("{coordinators} coordinator, no job, {seconds} s"),
        _ => format!("{coordinators} coordinators, {JOBS} jobs, {workers} workers each, {seconds} s"),
    };
    let (transactions, received) = (a_minute(cost.counts.transactions), a_minute(cost.counts.received));
    println!(
        "  {name}: {transactions:.1} transactions, {received:.1} packets received and {:.1} sent for each coordinator a minute, over \
         {connections:.1} connections; coordinators {:.4} cores, ZooKeeper {:.4}",
        a_minute(cost.counts.sent),
        used.ran / cost.seconds / all,
        cost.cores()
    );
    println!("    beside: {floor}");
    let mut add = |figure, unit, target, value| report.add(figure, &name, unit, target, value, &floor);
    // One more may fall into the time span.
    let one = 60.0 / cost.seconds;
    add("quiet: transactions", "/min each", Some(PROOFS + one), transactions);
    let packets = PROOFS + PINGS * connections + 2.0 * one;
    add("quiet: packets received", "/min each", Some(packets), received);
    add("quiet: packets sent", "/min each", None, a_minute(cost.counts.sent));
    add("quiet: connections", "each", None, connections);
    add("quiet: coordinator CPU", "cores each", None, used.ran / cost.seconds / all);
    add("quiet: ZooKeeper CPU", "cores", None, cost.cores());
    Ok(())
}
