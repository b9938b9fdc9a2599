//! What fires, and what idleness, cost a ZooKeeper server.

use std::time::Duration;

use crate::Result;
use crate::crew::Crew;
use crate::machine::Floor;
use crate::options::Options;
use crate::report::Report;
use crate::server::Server;
use crate::worker::Spec;

const JOB: &str = "cron: '* * * * * ?'\nshardingTotalCount: 8\n";

/// Transactions and packets for each fire of a monitored job of eight items on two workers, and with nothing due.
pub(crate) fn writes(options: &Options, report: &mut Report) -> Result {
    if !options.zookeeper {
        println!("  only with --registry zookeeper");
        return Ok(());
    }
    for _ in 0..options.runs {
        let server = Server::start(options, &[])?;
        let Some(ensemble) = server.ensemble() else { return Err("there is no ensemble".into()) };
        let floor = Floor::measure(server.dir())?;
        report.add("raw writes, 64 in flight", "one server", "/s", None, ensemble.raw()?, &floor);
        let seconds = options.seconds as f64;
        let before = ensemble.counts()?;
        std::thread::sleep(Duration::from_secs(options.seconds));
        let idle = ensemble.counts()?.since(before);
        let proofs = seconds / (10.0 / 6.0);
        report.add(
            "idle: transactions a minute",
            "one coordinator, no job",
            "",
            Some(60.0 / (10.0 / 6.0) + 1.0),
            idle.transactions * 60.0 / seconds,
            &floor,
        );
        let mut crew = Crew::new();
        for n in 0..2 {
            crew.start(&Spec {
                server: server.address().to_owned(),
                address: format!("127.0.0.{}", n + 1),
                slots: 64,
                prefix: "tick-".into(),
                count: 1,
                jobs: 1,
                file: JOB.into(),
                conversations: 1,
                ..Spec::default()
            })?;
        }
        let fired = || server.counted("rosterd_runs_total");
        while fired()? < 24.0 {
            std::thread::sleep(Duration::from_millis(200));
        }
        let (before, runs) = (ensemble.counts()?, fired()?);
        std::thread::sleep(Duration::from_secs(options.seconds));
        let (used, runs) = (ensemble.counts()?.since(before), fired()? - runs);
        let fires = runs / 8.0;
        let settings = "8 items, 2 workers, empty handler";
        let transactions = (used.transactions - proofs) / fires;
        report.add("transactions a fire", settings, "", Some(2.0), transactions, &floor);
        report.add("packets received a fire", settings, "", None, used.received / fires, &floor);
        report.add("packets sent a fire", settings, "", None, used.sent / fires, &floor);
        println!(
            "  {fires:.1} fires: {:.2} transactions, {:.1} packets received, {:.1} sent a fire; idle {:.1} transactions a minute",
            transactions,
            used.received / fires,
            used.sent / fires,
            idle.transactions * 60.0 / seconds
        );
    }
    Ok(())
}
