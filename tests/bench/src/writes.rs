//! The cost of fires for a ZooKeeper server, by the distribution of their items' ends, compared with the workers'
//! journals.

use std::collections::BTreeMap;
use std::time::Duration;

use rosterd_domain::verify::What;

use crate::Result;
use crate::crew::Crew;
use crate::fleet::must;
use crate::journal::Reading;
use crate::machine::wall;
use crate::options::Options;
use crate::report::Report;
use crate::server::Server;
use crate::worker::Spec;

const JOB: &str = "cron: '* * * * * ?'\nshardingTotalCount: 8\n";
const ITEMS: usize = 8;
const WORKERS: usize = 2;
/// How long the end of a run waits for those of its siblings, in milliseconds.
const WINDOW: f64 = 10.0;
/// The interval at which a coordinator with other writes writes its own node, in seconds.
const TELLS: f64 = 10.0;
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the handlers of a fire take, in milliseconds.
struct Case {
    what: &'static str,
    /// Of the first item.
    work: u64,
    /// How much later the last one ends; the others are in between.
    spread: u64,
}

const CASES: [Case; 3] = [
    Case { what: "empty handler", work: 0, spread: 0 },
    Case { what: "20 ms of work, ends over 20 ms", work: 20, spread: 20 },
    Case { what: "20 ms of work, ends over 200 ms", work: 20, spread: 200 },
];

/// Transactions and packets for each fire of a monitored job of eight items on two workers.
pub(crate) fn writes(options: &Options, report: &mut Report) -> Result {
    if !options.zookeeper {
        println!("  only with --registry zookeeper");
        return Ok(());
    }
    report.sets(&[("slots of a worker", "64")]);
    for case in &CASES {
        for _ in 0..options.runs {
            take(options, case, report)?;
        }
    }
    Ok(())
}

fn take(options: &Options, case: &Case, report: &mut Report) -> Result {
    let server = Server::start(options, &[])?;
    let floor = server.floor()?;
    let (_crew, mut reading) = workers(&server, case)?;
    let from = between_fires();
    let stand = server.stand()?;
    std::thread::sleep(Duration::from_secs(options.seconds));
    let until = between_fires();
    let cost = server.cost(stand.as_ref())?.ok_or("there is no ensemble")?;
    reading.poll()?;
    let fires = Fire::of(&reading, from, until);
    let whole = fires.iter().filter(|fire| fire.ends.len() == ITEMS).count();
    if fires.is_empty() {
        return Err("no fire was seen".into());
    }
    let of_all = |value: fn(&Fire) -> f64| fires.iter().map(value).sum::<f64>() / fires.len() as f64;
    let count = fires.len() as f64;
    let (spread, windows) = (of_all(Fire::spread), of_all(Fire::windows));
    // Its own node is written periodically, not by fires.
    let allowed = of_all(Fire::allowed) + cost.seconds / TELLS / count;
    let name = format!("{ITEMS} items, {WORKERS} workers, {}", case.what);
    let transactions = cost.counts.transactions / count;
    println!(
        "  {name}: {} fires, {whole} of them whole; ends over {spread:.1} ms in {windows:.1} windows of {WINDOW} ms; \
         {transactions:.2} transactions a fire, of {allowed:.2} allowed",
        fires.len()
    );
    println!("    {cost}; beside: {floor}");
    let mut add = |figure, unit, target, value| report.add(figure, &name, unit, target, value, &floor);
    add("transactions a fire", "", Some(allowed), transactions);
    add("packets received a fire", "", None, cost.counts.received / count);
    add("packets sent a fire", "", None, cost.counts.sent / count);
    add("ends of a fire's items lie over", "ms", None, spread);
    add("windows in which they ended", "", None, windows);
    add("fires that were not whole", "", Some(0.0), count - whole as f64);
    add("ZooKeeper CPU a fire", "µs", None, cost.ran * 1e6 / count);
    Ok(())
}

/// Two workers with journals; both have run something.
fn workers(server: &Server, case: &Case) -> Result<(Crew, Reading)> {
    let mut crew = Crew::new();
    let mut reading = Reading::new()?;
    for n in 0..WORKERS {
        crew.start(&Spec {
            server: server.address().to_owned(),
            address: format!("127.0.0.{}", n + 1),
            slots: 64,
            prefix: "tick-".into(),
            count: 1,
            jobs: 1,
            file: JOB.into(),
            work: case.work,
            spread: case.spread,
            conversations: 1,
            journal: Some(reading.of(&format!("worker-{n}"))),
            ..Spec::default()
        })?;
    }
    must("three fires at both workers", PATIENCE, || {
        reading.poll()?;
        let by = |n: usize| reading.starts().filter(|line| line.worker == format!("worker-{n}")).count();
        Ok((0..WORKERS).all(|n| by(n) >= 3 * ITEMS / WORKERS))
    })?;
    Ok((crew, reading))
}

/// Waits for the later half of a second, in which nothing is due and due runs have ended. Returns that second.
fn between_fires() -> i64 {
    let into = wall().rem_euclid(1_000_000);
    let left = if (500_000..800_000).contains(&into) { 0 } else { (1_500_000 - into) % 1_000_000 };
    std::thread::sleep(Duration::from_micros(u64::try_from(left).unwrap_or(0)));
    wall().div_euclid(1_000_000)
}

/// When the items of one fire ended, in milliseconds from the first of them.
struct Fire {
    ends: Vec<f64>,
}

impl Fire {
    /// The fires due after the second `from`, up to and including the second `until`.
    fn of(reading: &Reading, from: i64, until: i64) -> Vec<Self> {
        let mut ends: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
        for line in reading.lines.iter().filter(|line| line.what == What::End) {
            let second = line.fire.div_euclid(1000);
            if second > from && second <= until {
                ends.entry(second).or_default().push(line.at);
            }
        }
        let from_first = |mut at: Vec<u64>| {
            at.sort_unstable();
            let first = at.first().copied().unwrap_or(0);
            Self { ends: at.iter().map(|at| (at - first) as f64 / 1e6).collect() }
        };
        ends.into_values().map(from_first).collect()
    }

    fn spread(&self) -> f64 {
        self.ends.last().copied().unwrap_or(0.0)
    }

    /// How many windows cover all ends, if each begins with the first end that the previous one does not cover.
    fn windows(&self) -> f64 {
        let (mut windows, mut over) = (0.0, f64::NEG_INFINITY);
        for end in &self.ends {
            if *end > over {
                (windows, over) = (windows + 1.0, end + WINDOW);
            }
        }
        windows
    }

    /// How many transactions it may cost: one for all starts, and one for each group of ends.
    fn allowed(&self) -> f64 {
        match self.spread() {
            spread if spread <= 2.0 => 2.0,
            spread if spread <= 20.0 => 4.0,
            _ => 1.0 + self.windows(),
        }
    }
}
