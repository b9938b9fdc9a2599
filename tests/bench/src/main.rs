//! The benchmarks: a real coordinator process, real worker processes, figures beside the capacity of the machine.
//!
//! `cargo xtask bench [--only NAME[,NAME]] [--runs N] [--quick] [--registry zookeeper] [--against elasticjob|quartz]`.
//! Every figure is measured several times and printed with minimum, median and maximum, next to one durable write, one
//! round trip over loopback and the load average of the same moment; at the end a table, and one JSON line per figure.
//! A target is informational: missing it is not a failure, since the machine may be busy. All traffic stays on
//! loopback, every loop is bounded in count and time, and processes are killed by their own ids.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod against;
mod clients;
mod crew;
mod ensemble;
mod fires;
mod fleet;
mod herd;
mod history;
mod idle;
mod journal;
mod kills;
mod leave;
mod load;
mod machine;
mod options;
#[path = "../../support/postgres.rs"]
mod postgres;
mod quartz;
mod quiet;
mod report;
mod server;
mod web;
mod worker;
mod writes;

use std::process::ExitCode;

use options::{Options, Other};
use report::Report;

/// The result of the figures' functions.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A figure: its name, its description, and its function.
type Figure = (&'static str, &'static str, fn(&Options, &mut Report) -> Result);

const FIGURES: [Figure; 16] = [
    ("lag", "scheduled time to user code, 8 items a fire", fires::lag),
    ("knee", "jobs of one item that fire each second", fires::knee),
    ("runs", "100 jobs of 100 items each second: item runs a second", fires::runs),
    ("leave", "5,000 items on 10 workers, one says goodbye", leave::leave),
    ("crash", "kill -9 of a worker until its items run elsewhere", kills::worker),
    ("host", "kill -9 of the coordinator that hosts most workers", kills::host),
    ("leader", "kill -9 of a coordinator that leads jobs, and the lag of their fires", kills::leader),
    ("settle", "1,000 jobs on three coordinators, one is killed", herd::settle),
    ("herd", "10,000 workers lose their coordinator at once", herd::herd),
    ("writes", "what fires cost a ZooKeeper server", writes::writes),
    ("quiet", "what coordinators cost a ZooKeeper server while nothing is due", quiet::quiet),
    ("idle", "idle workers on one coordinator", idle::idle),
    ("history", "rows of the history a second, in SQLite and in PostgreSQL", history::history),
    ("rest", "a hundred REST requests a second beside a thousand fires a second", web::rest),
    ("console", "up to a hundred open pages of the console, a thousand jobs of ten items live", web::console),
    ("clients", "each client's conformance worker: runs a second, latency, memory", clients::clients),
];

/// The figures that are compared with Elastic-Job, with `--against elasticjob`.
const AGAINST: [Figure; 5] = [
    ("fire", "a fire of 8 items on 2 workers: transactions, packets, lag", against::fire),
    ("hundred", "a hundred such fires at the same instant: lag, processors", against::hundred),
    ("runs", "100 jobs of 100 items each second: item runs a second", against::runs),
    ("leave", "5,000 items on 10 workers, one leaves", against::leave),
    ("knee", "jobs of one item that fire each second, none of them late", against::knee),
];

/// The figures that are compared with Quartz, with `--against quartz`.
const QUARTZ: [Figure; 3] = [
    ("lag", "one job each second: scheduled time to user code", quartz::lag),
    ("knee", "jobs that fire each second, none of them missed or late", quartz::knee),
    ("crash", "kill -9 of a process until its run runs elsewhere", quartz::crash),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, spec] = arguments.as_slice()
        && mode == worker::MODE
    {
        return worker::main(spec);
    }
    let figures = match Options::against(&arguments) {
        Some(Other::ElasticJob) => &AGAINST[..],
        Some(Other::Quartz) => &QUARTZ[..],
        None => &FIGURES[..],
    };
    let known: Vec<(&str, &str)> = figures.iter().map(|(name, what, _)| (*name, *what)).collect();
    let options = match Options::parse(&arguments, &known) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            return ExitCode::from(2);
        }
    };
    let mut report = Report::default();
    let mut failed = false;
    println!("{}", machine::describe());
    println!("{} runs of each; {}", options.runs, options.settings());
    for (name, what, take) in figures {
        if !options.wants(name) {
            continue;
        }
        println!("\n== {name}: {what}");
        report.begin(name);
        if let Err(error) = take(&options, &mut report) {
            eprintln!("{name} could not be taken: {error}");
            failed = true;
        }
    }
    report.print();
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
