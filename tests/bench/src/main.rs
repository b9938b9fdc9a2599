//! The benchmarks: a real coordinator process, real worker processes, figures beside what the machine itself can do.
//!
//! `cargo xtask bench [--only NAME[,NAME]] [--runs N] [--quick] [--registry zookeeper]`. Every figure is taken several times and printed
//! with minimum, median and maximum, next to one durable write, one round trip over loopback and the load average
//! of the same moment; at the end a table, and one JSON line per figure. A target is information: missing it fails
//! nothing, since the machine may be busy. All traffic stays on loopback, every loop is bounded in count and time,
//! and processes are ended by their own ids.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

mod crash;
mod crew;
mod ensemble;
mod fires;
mod idle;
mod leave;
mod machine;
mod options;
mod report;
mod server;
mod worker;
mod writes;

use std::process::ExitCode;

use options::Options;
use report::Report;

/// What the figures' functions may end with.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A figure: its name, what it shows, and what takes it.
type Figure = (&'static str, &'static str, fn(&Options, &mut Report) -> Result);

const FIGURES: [Figure; 6] = [
    ("lag", "due time to user code, 8 items a fire", fires::lag),
    ("knee", "jobs of one item that fire each second", fires::knee),
    ("leave", "5,000 items on 10 workers, one says goodbye", leave::leave),
    ("crash", "kill -9 of a worker until its items run elsewhere", crash::crash),
    ("writes", "what fires and idleness cost a ZooKeeper server", writes::writes),
    ("idle", "idle workers on one coordinator", idle::idle),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, spec] = arguments.as_slice()
        && mode == worker::MODE
    {
        return worker::main(spec);
    }
    let options = match Options::parse(&arguments, &FIGURES.map(|(name, what, _)| (name, what))) {
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
    for (name, what, take) in FIGURES {
        if !options.wants(name) {
            continue;
        }
        println!("\n== {name}: {what}");
        if let Err(error) = take(&options, &mut report) {
            eprintln!("{name} could not be taken: {error}");
            failed = true;
        }
    }
    report.print();
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
