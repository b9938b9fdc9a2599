//! A worker is killed: until its items run elsewhere, on survivors that are busy with their own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rosterd_domain::verify::What;

use crate::Result;
use crate::crew::Crew;
use crate::journal::{Reading, broken, judge};
use crate::machine::wall;
use crate::options::Options;
use crate::report::Report;
use crate::server::Server;
use crate::worker::Spec;

const WORKERS: u32 = 3;
const ITEMS: u32 = 9;
/// Milliseconds.
const LEASE: u64 = 5000;
const GRACE: u64 = 500;
const MARGIN: f64 = 500.0;

pub(crate) fn worker(options: &Options, report: &mut Report) -> Result {
    let trials = options.trials(20, 2);
    report.sets(&[("slots of a worker", "16")]);
    for (what, file, limit) in [
        (format!("lease {LEASE} ms"), String::new(), LEASE),
        (
            format!("disconnect_grace {GRACE} ms"),
            format!("rosterd:\n  disconnect_grace_ms: {GRACE}\n"),
            GRACE,
        ),
    ] {
        let server = Server::start(options, &[])?;
        let mut bad = 0;
        for trial in 0..trials {
            let (floor, stand) = (server.floor()?, server.stand()?);
            let found = take(&server, &format!("crash-{trial}-"), &file, limit)?;
            let cost = server.cost(stand.as_ref())?;
            let target = limit as f64 + MARGIN;
            let name = format!("{what}, {ITEMS} items, {WORKERS} workers, busy");
            println!(
                "  {name}: first {:.0} last {:.0} ms, {} lost, {} twice, {} promises broken; {floor}",
                found.first, found.last, found.lost, found.twice, found.broken
            );
            bad += u32::from(found.lost + found.twice + found.broken > 0 || found.last > target);
            if let Some(cost) = cost {
                println!("    workers' start and end included: {cost}");
                cost.report("crash:", &name, &floor, report);
            }
            report.add("crash to first item elsewhere", &name, "ms", None, found.first, &floor);
            report.add("crash to last item elsewhere", &name, "ms", Some(target), found.last, &floor);
            report.add(
                "crash: lost, twice or broken",
                &name,
                "",
                Some(0.0),
                f64::from(found.lost + found.twice + found.broken),
                &floor,
            );
        }
        println!("  {what}: {} of {trials} trials in time, none lost, none twice", trials - bad);
    }
    Ok(())
}

struct Found {
    /// Milliseconds.
    first: f64,
    last: f64,
    lost: u32,
    twice: u32,
    /// Broken promises, judged from the workers' journals.
    broken: u32,
}

/// A run that started, as a worker reported it.
struct Began {
    item: u32,
    failover: bool,
    at: i64,
}

fn began(line: &str) -> Option<Began> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["run", _, item, _, source, _, at] = words.as_slice() else { return None };
    Some(Began { item: item.parse().ok()?, failover: *source == "Failover", at: at.parse().ok()? })
}

fn take(server: &Server, prefix: &str, file: &str, limit: u64) -> Result<Found> {
    let mut crew = Crew::new();
    let mut reading = Reading::new()?;
    for n in 0..WORKERS {
        crew.start(&Spec {
            server: server.address().to_owned(),
            address: "127.0.0.1".into(),
            slots: 16,
            prefix: prefix.into(),
            count: 1,
            jobs: 1,
            file: format!("shardingTotalCount: {ITEMS}\nfailover: true\n{file}"),
            work: 60_000,
            conversations: 1,
            say: true,
            journal: Some(reading.of(&format!("worker-{n}"))),
            ..Spec::default()
        })?;
    }
    let mut share: BTreeMap<usize, usize> = BTreeMap::new();
    crew.hear_until("the assignment", Duration::from_secs(20), |who, line| {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["assigned", _, _, _, items] = words.as_slice() {
            share.insert(who, items.split(',').filter(|item| !item.is_empty()).count());
        }
        share.len() == WORKERS as usize && share.values().all(|n| *n == (ITEMS / WORKERS) as usize)
    })?;
    server.call(&["jobs", "trigger", &format!("{prefix}0")])?;
    let mut runs: BTreeMap<u32, usize> = BTreeMap::new();
    crew.hear_until("the first runs", Duration::from_secs(20), |who, line| {
        runs.extend(began(line).map(|began| (began.item, who)));
        runs.len() == ITEMS as usize
    })?;
    // Somewhere between two heartbeats.
    let pause = 700 + u64::try_from(wall() % 1000).unwrap_or(0);
    std::thread::sleep(Duration::from_millis(pause));
    let victim = 0;
    let theirs: BTreeSet<u32> =
        runs.iter().filter(|(_, who)| **who == victim).map(|(item, _)| *item).collect();
    let killed = wall();
    crew.kill(victim)?;
    reading.note(&format!("worker-{victim}"), What::Killed)?;
    let found = listen(&mut crew, &theirs, killed, limit)?;
    reading.poll()?;
    let broken = u32::try_from(broken(&judge(&reading.lines)))?;
    Ok(Found { broken, ..found })
}

fn listen(crew: &mut Crew, theirs: &BTreeSet<u32>, killed: i64, limit: u64) -> Result<Found> {
    let mut again: BTreeMap<u32, u32> = BTreeMap::new();
    let (mut first, mut last) = (f64::INFINITY, 0f64);
    let mut until = Instant::now() + Duration::from_millis(limit * 2 + 5000);
    while let Some((_, line)) = crew.hear(until)? {
        let Some(began) = began(&line) else { continue };
        let counts = again.entry(began.item).or_default();
        *counts += 1;
        if began.failover && theirs.contains(&began.item) && *counts == 1 {
            let took = (began.at - killed) as f64 / 1e3;
            (first, last) = (first.min(took), last.max(took));
        }
        if theirs.iter().all(|item| again.contains_key(item)) {
            // There may be no more lines.
            until = until.min(Instant::now() + Duration::from_secs(1));
        }
    }
    let lost = theirs.iter().filter(|item| !again.contains_key(item)).count();
    let twice = again.iter().filter(|(item, times)| **times > 1 || !theirs.contains(item)).count();
    Ok(Found { first, last, lost: u32::try_from(lost)?, twice: u32::try_from(twice)?, broken: 0 })
}
