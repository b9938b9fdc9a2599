//! One of ten workers leaves: until everybody knows who took its items, and how many items moved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::Result;
use crate::crew::Crew;
use crate::machine::{Floor, wall};
use crate::options::Options;
use crate::report::Report;
use crate::server::Server;
use crate::worker::Spec;

const WORKERS: u32 = 10;

/// What each worker was last told that it owns.
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
    let floor = Floor::measure(server.dir())?;
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
            file: format!("shardingTotalCount: {items}\nrosterd:\n  strategy: STICKY\n"),
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
    // What follows an assignment, such as what is written for tools, is no part of this.
    std::thread::sleep(Duration::from_secs(if items > 1000 { 4 } else { 2 }));
    let before = owned.items.clone();
    let used = server.used();
    let leaver = 3usize;
    let asked = wall();
    owned.last = 0;
    crew.ask_to_leave(leaver)?;
    crew.hear_until("the items to be taken over", Duration::from_secs(60), |who, line| {
        owned.hear(who, line);
        owned.covers((0..WORKERS as usize).filter(|who| *who != leaver), items)
    })?;
    let took = (owned.last - asked) as f64 / 1e3;
    let used = server.used().since(used);
    let theirs = before.get(&leaver).cloned().unwrap_or_default();
    let moved: BTreeSet<u32> = owned
        .items
        .iter()
        .filter(|(who, _)| **who != leaver)
        .flat_map(|(who, own)| {
            own.iter().filter(|item| !before.get(who).is_some_and(|had| had.contains(item)))
        })
        .copied()
        .collect();
    let exactly = moved == theirs;
    let name = format!("{items} items, {WORKERS} workers, STICKY");
    println!(
        "  {name}: first assignment {first:.0} ms after the workers' start; leave {took:.1} ms, coordinator {:.0} ms of CPU; \
         {} items moved, the leaver had {}{}",
        used.ran * 1e3,
        moved.len(),
        theirs.len(),
        if exactly { "" } else { " (others moved!)" }
    );
    println!("    beside: {floor}");
    report.add("first assignment", &name, "ms", None, first, &floor);
    let target = (items == 5000).then_some(200.0);
    report.add("leave to last Assignment", &name, "ms", target, took, &floor);
    let strangers = moved.symmetric_difference(&theirs).count() as f64;
    report.add("leave: moved besides the leaver's", &name, "items", Some(0.0), strangers, &floor);
    Ok(())
}
