//! One of ten workers leaves: until all workers know the new owners of its items, and how many items moved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::Result;
use crate::crew::Crew;
use crate::ensemble::{Cost, Ensemble};
use crate::machine::wall;
use crate::options::Options;
use crate::report::Report;
use crate::server::Server;
use crate::worker::Spec;

pub(crate) const WORKERS: u32 = 10;
/// How long the writes after an assignment may take.
pub(crate) const AFTERWARDS: Duration = Duration::from_secs(3);

/// The last Assignment of each worker.
#[derive(Default)]
struct Owned {
    items: BTreeMap<usize, BTreeSet<u32>>,
    /// When the last Assignment came, by the workers' clocks.
    last: i64,
}

impl Owned {
    fn hear(&mut self, who: usize, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["assigned", _, _, at, items] = words.as_slice() {
            self.last = self.last.max(at.parse().unwrap_or(0));
            self.items.insert(who, items.split(',').filter_map(|item| item.parse().ok()).collect());
        }
    }

    /// Whether these workers own all items, each the same number.
    fn covers(&self, who: impl Iterator<Item = usize>, items: u32) -> bool {
        let Some(all) = who.map(|who| self.items.get(&who)).collect::<Option<Vec<&BTreeSet<u32>>>>() else {
            return false;
        };
        let (least, most) = all
            .iter()
            .fold((usize::MAX, 0), |(least, most), own| (least.min(own.len()), most.max(own.len())));
        let union: BTreeSet<u32> = all.iter().flat_map(|own| own.iter().copied()).collect();
        let sum: usize = all.iter().map(|own| own.len()).sum();
        union.len() == items as usize && sum == items as usize && most - least <= 1
    }
}

impl Owned {
    /// The items that have a new owner.
    fn moved(&self, before: &BTreeMap<usize, BTreeSet<u32>>, leaver: usize) -> BTreeSet<u32> {
        let stayed = self.items.iter().filter(|(who, _)| **who != leaver);
        let new = |(who, own): (&usize, &BTreeSet<u32>)| {
            let had = before.get(who).cloned().unwrap_or_default();
            own.difference(&had).copied().collect::<Vec<u32>>()
        };
        stayed.flat_map(new).collect()
    }
}

pub(crate) fn leave(options: &Options, report: &mut Report) -> Result {
    for items in options.sizes(&[100, 1000, 5000], 1000) {
        for _ in 0..options.runs {
            take(options, items, report)?;
        }
    }
    Ok(())
}

fn take(options: &Options, items: u32, report: &mut Report) -> Result {
    let server = Server::start(options, &[])?;
    let floor = server.floor()?;
    let found = one(&server, server.ensemble(), items, "STICKY")?;
    let name = format!("{items} items, {WORKERS} workers, STICKY");
    println!("  {name}: {found}");
    println!("    beside: {floor}");
    report.add("first assignment", &name, "ms", None, found.first, &floor);
    let target = (items == 5000).then_some(200.0);
    report.add("leave to last Assignment", &name, "ms", target, found.took, &floor);
    report.add("leave: coordinator CPU", &name, "ms", None, found.cpu * 1e3, &floor);
    if let Some(cost) = &found.cost {
        println!("    from the wish until {} s after the last Assignment: {cost}", AFTERWARDS.as_secs());
        report.add("leave: transactions", &name, "", None, cost.counts.transactions, &floor);
        report.add("leave: packets received", &name, "", None, cost.counts.received, &floor);
        report.add("leave: ZooKeeper CPU", &name, "ms", None, cost.ran * 1e3, &floor);
    }
    report.add("leave: moved besides the leaver's", &name, "items", Some(0.0), found.strangers, &floor);
    Ok(())
}

/// The effects of one leaving worker.
pub(crate) struct Found {
    /// Milliseconds from the workers' start to the first assignment.
    first: f64,
    /// Milliseconds from the request to leave to the last Assignment.
    pub(crate) took: f64,
    /// Seconds of the coordinator's processor time until then.
    cpu: f64,
    moved: usize,
    had: usize,
    /// Items that moved unnecessarily.
    strangers: f64,
    /// The cost of the ZooKeeper server, including the mirrors that are written afterwards.
    pub(crate) cost: Option<Cost>,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, took, cpu, moved, had, strangers, cost } = self;
        write!(
            f,
            "first assignment {first:.0} ms after the workers' start; leave {took:.1} ms, coordinator {:.0} ms of CPU; \
             {moved} items moved, the leaver had {had}, {strangers} moved besides",
            cpu * 1e3
        )?;
        cost.as_ref().map_or(Ok(()), |cost| write!(f, "; {:.0} transactions", cost.counts.transactions))
    }
}

/// Ten workers share the items of a job, and one of them leaves. `ensemble`: what counts transactions, if anything.
pub(crate) fn one(server: &Server, ensemble: Option<&Ensemble>, items: u32, strategy: &str) -> Result<Found> {
    let mut crew = Crew::new();
    let mut owned = Owned::default();
    let started = wall();
    for _ in 0..WORKERS {
        crew.start(&Spec {
            server: server.address().to_owned(),
            address: "127.0.0.1".into(),
            slots: 16,
            prefix: "wide-".into(),
            count: 1,
            jobs: 1,
            file: format!("shardingTotalCount: {items}\nrosterd:\n  strategy: {strategy}\n"),
            conversations: 1,
            say: true,
            ..Spec::default()
        })?;
    }
    crew.hear_until("the first assignment", Duration::from_secs(60), |who, line| {
        owned.hear(who, line);
        owned.covers(0..WORKERS as usize, items)
    })?;
    let first = (owned.last - started) as f64 / 1e3;
    // The writes after an assignment, such as mirrors, are not part of this.
    std::thread::sleep(Duration::from_secs(if items > 1000 { 4 } else { 2 }));
    let before = owned.items.clone();
    let (used, stand) = (server.used(), ensemble.map(Ensemble::stand).transpose()?);
    let leaver = 3usize;
    let asked = wall();
    owned.last = 0;
    crew.ask_to_leave(leaver)?;
    crew.hear_until("the items to be taken over", Duration::from_secs(60), |who, line| {
        owned.hear(who, line);
        owned.covers((0..WORKERS as usize).filter(|who| *who != leaver), items)
    })?;
    let took = (owned.last - asked) as f64 / 1e3;
    let cpu = server.used().since(used).ran;
    std::thread::sleep(AFTERWARDS);
    let cost = ensemble.zip(stand.as_ref()).map(|(ensemble, stand)| ensemble.cost(stand)).transpose()?;
    let had = before.get(&leaver).cloned().unwrap_or_default();
    let moved = owned.moved(&before, leaver);
    let strangers = moved.symmetric_difference(&had).count() as f64;
    Ok(Found { first, took, cpu, moved: moved.len(), had: had.len(), strangers, cost })
}
