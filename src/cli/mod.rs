//! The command line: one file per command. It asks a coordinator through the admin service, or answers by itself
//! what needs none. Called by `main` alone.

mod alarms;
mod backup;
mod cluster;
mod complete;
mod completion;
mod conformance;
mod connection;
mod context;
mod contexts;
mod credentials;
mod cron;
mod dev;
mod doctor;
mod dump;
mod events;
mod examples;
mod exec;
mod explain;
mod export;
mod failure;
mod fires;
mod identity;
mod import;
mod info;
mod instances;
mod items;
mod jobs;
mod json;
mod log;
mod logs;
mod machines;
mod man;
mod options;
mod output;
mod plan;
mod probe;
#[cfg(test)]
mod reference;
mod restore;
mod runs;
mod serve;
mod server;
mod store;
mod top;
mod verify;
mod watch;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::CompleteEnv;
use futures_util::future::LocalBoxFuture;

use failure::{Code, Failure, Result};
use options::Listed;
use output::look::Choices;

/// A distributed scheduler for sharded cron jobs.
#[derive(Debug, Parser)]
#[command(name = "rosterd", version, after_help = failure::EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: CliCommand,
    #[command(flatten)]
    choices: Choices,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Serve on this machine with everything on one port, and a demonstration job
    Dev(dev::Dev),
    /// Serve: gRPC for workers and people, a page, health and metrics, all on one port
    Serve(serve::Serve),
    /// Ask whether a coordinator is serving
    Probe(probe::Probe),
    /// Show which coordinator answers, and how it is
    #[command(alias = "status")]
    Info(info::Info),
    /// Run a command as a worker: once per item each time the job fires
    Exec(Box<exec::Exec>),
    /// List, apply, trigger, pause, disable and remove jobs
    #[command(subcommand, alias = "job")]
    Jobs(jobs::JobsCommand),
    /// List a job's items: who owns them, what they do
    #[command(alias = "item")]
    Items(Listed<items::Items>),
    /// Explain an item: why it is where it is, what it waits for, when it runs next
    Explain(explain::Explain),
    /// List instances, drain or shut down one of them
    #[command(alias = "instance", alias = "workers", alias = "worker")]
    Instances(instances::Instances),
    /// List machines: where the workers of jobs run
    #[command(alias = "machine")]
    Machines(machines::Machines),
    /// List the coordinators: who is there, what they lead and how late they are
    Cluster(Listed<cluster::Cluster>),
    /// List runs, latest first; show one
    #[command(alias = "run")]
    Runs(runs::Runs),
    /// Write what a run wrote
    Logs(logs::Logs),
    /// List a job's scheduled times with the result of each
    #[command(alias = "fire")]
    Fires(Listed<fires::Fires>),
    /// List what was done to jobs and workers, and by whom, latest first
    #[command(alias = "event")]
    Events(Listed<events::Events>),
    /// List, silence and test alarms
    #[command(alias = "alarm")]
    Alarms(alarms::Alarms),
    /// Audit past runs: duplicates, overlaps, lost fires, ownership over time
    Verify(Box<verify::Verify>),
    /// Try whether a worker of your own client keeps the rules of the protocol
    Conformance(conformance::Conformance),
    /// Show what happens, as it happens
    Watch(watch::Watch),
    /// Show jobs, workers and runs on a whole terminal, once a second
    Top(top::Top),
    /// Look for what is wrong with a coordinator's machine or the way to it, and say what to do
    Doctor(Box<doctor::Doctor>),
    /// Show a job's whole tree in the store
    Dump(dump::Dump),
    /// Write all jobs of a namespace that is served, with their records, into a file for `rosterd restore`
    Backup(Box<backup::Backup>),
    /// Bring the jobs of a backup back, also while they are served and worked for
    Restore(Box<restore::Restore>),
    /// Write all jobs of a store, with their records, into a file; without a coordinator
    Export(export::Export),
    /// Read such a file into a store that nobody serves, or take over jobs of Elastic-Job's own
    Import(Box<import::Import>),
    /// Name connections, and say which is used
    #[command(subcommand)]
    Context(context::Contexts),
    /// Add, list and revoke credentials in a coordinator's file
    #[command(subcommand, alias = "credential")]
    Credentials(credentials::Credentials),
    /// Understand a cron expression
    #[command(subcommand)]
    Cron(cron::Cron),
    /// Spread items over instances as a strategy would
    Plan(plan::PlanCommand),
    /// Write a completion script for a shell
    Completion(completion::Completion),
    /// Write the manual, a page for each command
    Man(man::Man),
}

/// All commands, each with examples below its help.
pub fn command() -> clap::Command {
    examples::added(Cli::command())
}

/// The codes that the command line itself says, and what each means.
pub fn codes() -> Vec<(String, &'static str)> {
    Code::ALL.iter().map(|(code, meaning)| (code.name(), *meaning)).collect()
}

/// Parses the arguments of this process, does what they say, and says how it went.
pub fn main() -> ExitCode {
    // Nobody's to call but ours, and before there are threads.
    if std::env::args_os().nth(1).is_some_and(|first| first == exec::guard::NAME) {
        return exec::guard::Guard::parse_from(std::env::args_os().skip(1)).run();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == dev::WORKER) {
        return dev::DevWorker::parse_from(std::env::args_os().skip(1)).run();
    }
    CompleteEnv::with_factory(command).var(completion::VARIABLE).complete();
    let cli = match Cli::from_arg_matches(&command().get_matches()) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    cli.choices.hold();
    let done = match cli.command {
        CliCommand::Context(context) => context.run(),
        CliCommand::Credentials(credentials) => credentials.run(),
        CliCommand::Cron(cron) => cron.run(),
        CliCommand::Plan(plan) => plan.run(),
        CliCommand::Completion(completion) => completion.run(),
        CliCommand::Man(man) => man.run(command()),
        command => runtime().map_err(|error| Failure::failed(Code::Runtime, error)).and_then(|runtime| {
            // Boxed: else all commands are compiled once for each way in which a runtime may poll them.
            let command: LocalBoxFuture<'_, Result> = Box::pin(command.run());
            let done = runtime.block_on(command);
            runtime.shutdown_background();
            done
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// The runtime that carries connections, with one thread fewer than there are processors: a coordinator decides on a thread of
/// its own, which the last one would displace.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.saturating_sub(1).max(1);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

impl CliCommand {
    async fn run(self) -> Result {
        match self {
            Self::Dev(dev) => dev.run().await,
            Self::Serve(serve) => serve.run().await,
            Self::Probe(probe) => probe.run().await,
            Self::Info(info) => info.run().await,
            Self::Exec(exec) => exec.run().await,
            Self::Jobs(jobs) => jobs.run().await,
            Self::Items(items) => items.list().run().await,
            Self::Explain(explain) => explain.run().await,
            Self::Instances(instances) => instances.run().await,
            Self::Machines(machines) => machines.run().await,
            Self::Cluster(cluster) => cluster.list().run().await,
            Self::Runs(runs) => runs.run().await,
            Self::Logs(logs) => logs.run().await,
            Self::Fires(fires) => fires.list().run().await,
            Self::Events(events) => events.list().run().await,
            Self::Alarms(alarms) => alarms.run().await,
            Self::Verify(verify) => verify.run().await,
            Self::Conformance(conformance) => conformance.run().await,
            Self::Watch(watch) => watch.run().await,
            Self::Top(top) => top.run().await,
            Self::Doctor(doctor) => doctor.run().await,
            Self::Dump(dump) => dump.run().await,
            Self::Backup(backup) => backup.run().await,
            Self::Restore(restore) => restore.run().await,
            Self::Export(export) => export.run().await,
            Self::Import(import) => import.run().await,
            Self::Context(context) => context.run(),
            Self::Credentials(credentials) => credentials.run(),
            Self::Cron(cron) => cron.run(),
            Self::Plan(plan) => plan.run(),
            Self::Completion(completion) => completion.run(),
            Self::Man(man) => man.run(command()),
        }
    }
}
