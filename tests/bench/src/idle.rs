//! Workers that only send heartbeats: the cost of each for a coordinator.

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Result;
use crate::crew::Crew;
use crate::machine::Used;
use crate::options::Options;
use crate::report::Report;
use crate::server::Server;
use crate::worker::Spec;

const PROCESSES: u32 = 4;
/// Workers share jobs, so that none has very many instances.
pub(crate) const JOBS: u32 = 100;

pub(crate) fn idle(options: &Options, report: &mut Report) -> Result {
    for workers in options.sizes(&[1000, 10_000], 500) {
        if !may_open(workers)? {
            continue;
        }
        for _ in 0..options.runs {
            take(options, workers, report)?;
        }
    }
    Ok(())
}

/// Raises the limit of open files to its maximum. Returns whether processes may have this many connections.
pub(crate) fn may_open(workers: u32) -> Result<bool> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let few = maximum.is_some_and(|maximum| maximum < u64::from(workers) + 200);
    if few {
        println!("  {workers} workers: not taken, this process may open only {maximum:?} files");
    }
    Ok(!few)
}

/// Starts about this many workers that share jobs. Returns how many.
pub(crate) fn start(crew: &mut Crew, server: &str, workers: u32) -> Result<u32> {
    let each = workers.div_ceil(PROCESSES);
    for process in 0..PROCESSES {
        crew.start(&Spec {
            server: server.to_owned(),
            address: "127.0.0.1".into(),
            slots: 4,
            prefix: "idle-".into(),
            first: process * each,
            count: 1,
            jobs: JOBS,
            step: 1,
            file: "shardingTotalCount: 10\n".into(),
            conversations: each,
            ..Spec::default()
        })?;
    }
    Ok(each * PROCESSES)
}

fn take(options: &Options, workers: u32, report: &mut Report) -> Result {
    let most = (workers + 1000).to_string();
    let set = [("max_connections", &*most), ("max_connections_per_ip", &most), ("max_workers", &most)];
    report.sets(&set);
    let server = Server::start(options, &set)?;
    let floor = server.floor()?;
    let empty = server.used();
    let mut crew = Crew::new();
    let since = Instant::now();
    let all = start(&mut crew, server.address(), workers)?;
    crew.wait_until_all_came(Duration::from_secs(300))?;
    let until = Instant::now() + Duration::from_secs(120);
    // All are attached, and the writes of that are done.
    let mut commits = 0.0;
    loop {
        std::thread::sleep(Duration::from_secs(2));
        let (attached, now) =
            (server.counted("rosterd_workers")?, server.counted("rosterd_commit_seconds_count")?);
        eprint!("\r  starting: {attached} attached, {now} transactions   ");
        if (attached >= f64::from(all) && now - commits < 10.0) || Instant::now() > until {
            break;
        }
        commits = now;
    }
    let start = since.elapsed().as_secs_f64();
    let (before, since) = (server.used(), Instant::now());
    let (theirs, stand) = (crew.used(), server.stand()?);
    std::thread::sleep(Duration::from_secs(options.seconds));
    let (used, seconds) = (server.used().since(before), since.elapsed().as_secs_f64());
    let (theirs, cost) = (crew.used().since(theirs), server.cost(stand.as_ref())?);
    let attached = server.counted("rosterd_workers")?;
    let Used { rss, threads, switches, .. } = used;
    let name = format!("{workers} workers, {JOBS} jobs");
    println!(
        "\n  {name}: {attached} attached after {start:.0} s; coordinator {:.3} cores, {rss:.0} MiB ({:.0} KiB a worker), {threads} threads, \
         {:.1} switches a heartbeat; workers {:.2} cores",
        used.ran / seconds,
        (rss - empty.rss) * 1024.0 / f64::from(workers),
        switches as f64 / seconds / f64::from(workers),
        theirs.ran / seconds
    );
    println!("    beside: {floor}; {}", server.log());
    if let Some(cost) = cost {
        println!("    {cost}");
        cost.report("idle workers:", &name, &floor, report);
    }
    report.add("idle workers: all attached", &name, "s", None, start, &floor);
    let each = (rss - empty.rss) * 1024.0 / f64::from(workers);
    report.add("idle workers: memory of each", &name, "KiB", None, each, &floor);
    report.add("idle workers: lost", &name, "workers", Some(0.0), f64::from(workers) - attached, &floor);
    report.add("idle workers: CPU", &name, "cores", None, used.ran / seconds, &floor);
    report.add("idle workers: RSS", &name, "MiB", None, rss, &floor);
    Ok(())
}
