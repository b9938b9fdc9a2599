//! `rosterd exec`: any program as a worker. One process per run, no shell; its exit code is the outcome.
//!
//! What the program writes goes to our own stdout and stderr, and its last 64 KiB into the report. On a terminal
//! each line is marked with `[job/item]`; a file or a pipe gets the bytes as they come.
//!
//! A run that is to stop gets SIGTERM, with all that it has started, and SIGKILL after the grace. Nothing outlives the
//! lease: the client drops the handler when that ends, and dropping it kills all of them before it returns. Nothing
//! outlives this process either, nor its being stopped: see [`guard`].
//!
//! The secret stays here: it is neither in the environment nor in the arguments of a program, and no process of this
//! user can read this one's memory.

mod cgroup;
mod child;
pub(super) mod guard;
mod job_command;
mod job_file;
mod output;
mod processes;
mod run_log;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rosterd_client::{Error, Failure as RunFailure, Hooks, Job, Options, Run, Worker};
use rosterd_domain::time::Time;
use rosterd_domain::verify::What;

use self::cgroup::Groups;
use self::child::{Child, Finished};
use self::job_command::Program;
use self::output::Printer;
use self::run_log::RunLog;
use super::connection::{Connection, Resolved};
use super::failure::{Code, Exit, Failure, Result};
use super::log;
use super::output::span::human;
use super::output::table::Ids;
use crate::config::value;

/// How much of a failed program's output goes into the error.
const ERROR_TAIL: usize = 2 << 10;

/// Shown below `--help`.
const ENVIRONMENT: &str = "The program is told by its environment:
  ROSTERD_JOB  ROSTERD_ITEM  ROSTERD_TOTAL     what it is to do: item 0 to total - 1 of the job
  ROSTERD_ITEM_PARAMETER  ROSTERD_JOB_PARAMETER
  ROSTERD_PROPS                                the job's properties, a JSON object of texts
  ROSTERD_FIRE_TIME                            the scheduled time, RFC 3339 in UTC
  ROSTERD_TOKEN                                grows per item: fence your writes with it
  ROSTERD_SOURCE                               NORMAL_TRIGGER, MISFIRE, FAILOVER or MANUAL
  ROSTERD_ATTEMPT  ROSTERD_INSTANCE            which attempt of the run, and whose
  ROSTERD_TASK_ID                              Elastic-Job's id of the task: job@-@item@-@READY@-@instance
  TRACEPARENT  TRACESTATE                      the W3C trace of the run, which all runs of its fire share
ROSTERD_CREDENTIAL, ROSTERD_CREDENTIAL_FILE and ROSTERD_KEY are not handed on. Exit code 0 is success, any other is failure.

Its output goes to our own stdout and stderr, its last 64 KiB into the report. To stop it,
it and all that it has started get SIGTERM, and SIGKILL after --grace. Nothing of it outlives
its lease, this process, or its own end: what it leaves in the background is killed.

With --allow-job-command it is the job's own command line (scriptCommandLine; 3.x: the property
script.command.line), split at spaces outside quotes, no shell. Its last argument is Elastic-Job's
sharding context as JSON: jobName, taskId, shardingTotalCount, jobParameter, shardingItem,
shardingParameter.";

#[derive(Debug, Args)]
#[command(after_help = ENVIRONMENT)]
pub(crate) struct Exec {
    /// The namespace that must be served
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// The job
    #[arg(long, value_name = "NAME")]
    job: String,
    /// Names what runs the job, the same on all its workers [default: the job's name]
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
    /// How many runs at a time [default: twice the cores, at least 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    slots: Option<u32>,
    /// How operators know this machine [default: its host name]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// A free label; may be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// How long a program may take to end after SIGTERM; never longer than its lease
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = value::duration)]
    grace: Duration,
    /// SIGKILL this long after SIGTERM, where that is less than --grace
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    kill_after: Option<Duration>,
    /// Kill programs when this process was stopped or starved for so long; never later than their lease ends
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = value::duration)]
    guard_silence: Duration,
    /// How long runs may go on when this worker is asked to leave
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = value::duration)]
    drain_deadline: Duration,
    /// Mark each line of output with [job/item]; auto: on a terminal
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    prefix: Prefix,
    /// What is logged on stderr
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    log: String,
    /// Add a line for each run that begins and stops, for `rosterd verify --log`
    #[arg(long, value_name = "FILE")]
    run_log: Option<PathBuf>,
    /// Run the job's own command line (scriptCommandLine of Elastic-Job's SCRIPT jobs): whoever may change the job
    /// chooses what runs on this machine as this user
    #[arg(long, conflicts_with = "program")]
    allow_job_command: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    #[command(flatten)]
    registration: job_file::Registration,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Prefix {
    Auto,
    Always,
    Never,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// What all runs share.
struct Setting {
    program: Program,
    kill_after: Duration,
    silence: Duration,
    printer: Printer,
    run_log: Option<RunLog>,
    groups: Option<Groups>,
}

impl Exec {
    pub(crate) async fn run(self) -> Result {
        log::start(&self.log, false)?;
        hide_memory()?;
        let program = program(self.program, self.allow_job_command)?;
        let config = self.registration.text(&self.job, self.handler.as_deref())?;
        let prefixed = match self.prefix {
            Prefix::Auto => std::io::stdout().is_terminal(),
            when => when == Prefix::Always,
        };
        let grace = self.registration.disconnect_grace.map(|grace| grace * 3 / 5);
        let mut options = Options::default();
        let address = self.address.unwrap_or_else(|| options.address.clone());
        let run_log = self.run_log.as_ref().map(|path| {
            let what = |error| Failure::usage(format!("--run-log {}: {error}", path.display()));
            RunLog::open(path, &address).map_err(what)
        });
        let setting = Arc::new(Setting {
            program,
            kill_after: self.kill_after.map_or(self.grace, |after| after.min(self.grace)),
            silence: grace.map_or(self.guard_silence, |grace| grace.min(self.guard_silence)),
            printer: Printer::start(prefixed),
            run_log: run_log.transpose()?,
            groups: Groups::of_this_process(),
        });
        let Resolved { servers, access } = self.connection.resolve()?;
        options.servers = servers;
        options.credential = access.credential;
        options.ca = access.ca;
        options.certificate = access.certificate;
        options.key = access.key;
        options.insecure_credential = access.insecure_credential;
        options.namespace = self.namespace;
        options.address = address;
        options.labels = self.label.into_iter().collect();
        options.slots = self.slots.unwrap_or(options.slots);
        options.drain_timeout = self.drain_deadline;
        // The guard kills at the end of the grace; what the client drops was not killed by then.
        options.stop_grace = self.grace + Duration::from_secs(1);
        let mut job = Job::new(&self.job);
        if let Some(handler) = self.handler {
            job = job.handler_type(handler);
        } else if self.allow_job_command {
            // What runs is the job's own: there is nothing to agree on.
            job = job.handler_type("");
        }
        if let Some(config) = config {
            job = job.config(config).overwrite(self.registration.overwrite);
        }
        let shared = setting.clone();
        let job = job.handler(move |run: Run| attempt(shared.clone(), run));
        let mut worker = Worker::new(options).add(job);
        if std::io::stderr().is_terminal() {
            worker = worker.hooks(TerminalHooks);
        }
        let done = worker.run().await;
        setting.printer.flush().await;
        done.map_err(failure)
    }
}

/// What the terminal shows of the connection.
struct TerminalHooks;

impl Hooks for TerminalHooks {
    fn attached(&self, server: &str, instance_id: &str) {
        let me = Ids::of([instance_id].into_iter()).text(instance_id);
        eprintln!("connected to {server} as {me}");
    }

    fn registered(&self, job: &str, items: u32, next_fire_in: Option<Duration>) {
        let next = match next_fire_in {
            Some(next) => format!("next fire in {}", human(next)),
            None => "no scheduled time to come".to_owned(),
        };
        eprintln!("job {job}: {items} items, {next}");
    }
}

/// One run: a process from its start to its end.
async fn attempt(setting: Arc<Setting>, run: Run) -> Result<String, RunFailure> {
    let label = format!("{}/{}", run.job(), run.item());
    // Whatever becomes of this process, the program does not outlive the lease: the guard knows when it ends.
    let patience = || setting.silence.min(run.lease_left());
    let program = setting.program.of(&run)?;
    let line = setting.run_log.as_ref().map(|log| log.run(&run));
    // A run of which nothing would be known must not begin.
    line.as_ref().map_or(Ok(()), |line| line.start(&run))?;
    let line = Noted(line);
    let group = setting.groups.as_ref().and_then(Groups::make);
    let (environment, printer) = (environment(&run), &setting.printer);
    let child = Child::start(&program, environment, patience(), &label, printer, line.0.as_ref(), group)
        .map_err(|error| RunFailure::new(format!("{}: {error}", program[0].to_string_lossy())))?;
    let Finished { status, output, stopped } =
        child.finish(run.cancelled(), setting.kill_after, patience).await?;
    line.ended(if stopped { What::Cancel } else { What::End }, &ending(status));
    if stopped {
        run.set_output(output.text());
        return Err(RunFailure::cancelled());
    }
    if status.success() {
        return Ok(output.text());
    }
    run.set_output(output.text());
    Err(RunFailure::new(format!("{}\n{}", ending(status), output.last(ERROR_TAIL)).trim_end()))
}

/// The line that says how a run stopped: "dropped", unless another one was printed.
struct Noted(Option<run_log::RunLine>);

impl Noted {
    fn ended(mut self, what: What, how: &str) {
        if let Some(line) = self.0.take() {
            line.say(what, how);
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.say(What::Drop, "");
        }
    }
}

fn ending(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// What the program gets.
fn environment(run: &Run) -> Vec<(&'static str, String)> {
    let fire = jiff::Timestamp::try_from(run.fire_time()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let mut variables = vec![
        ("ROSTERD_JOB", run.job().to_owned()),
        ("ROSTERD_ITEM", run.item().to_string()),
        ("ROSTERD_ITEM_PARAMETER", run.item_parameter().to_owned()),
        ("ROSTERD_TOTAL", run.total().to_string()),
        ("ROSTERD_JOB_PARAMETER", run.job_parameter().to_owned()),
        ("ROSTERD_PROPS", serde_json::json!(run.props()).to_string()),
        ("ROSTERD_FIRE_TIME", Time::from(fire).to_string()),
        ("ROSTERD_TOKEN", run.token().to_string()),
        ("ROSTERD_SOURCE", run.source().to_string()),
        ("ROSTERD_INSTANCE", run.instance_id().to_owned()),
        ("ROSTERD_TASK_ID", run.task_id().to_owned()),
        ("ROSTERD_ATTEMPT", run.attempt().to_string()),
    ];
    // As OpenTelemetry hands a context to a program.
    for (name, header) in [("TRACEPARENT", "traceparent"), ("TRACESTATE", "tracestate")] {
        variables.extend(run.trace_context().get(header).map(|value| (name, value.clone())));
    }
    variables
}

/// Programs run as the same user as this process, which holds the secret: its memory and environment are not theirs to
/// read, nor are its core dumps.
fn hide_memory() -> Result {
    let what = |error| {
        Failure::failed(Code::Worker, format!("this process cannot be hidden from programs: {error}"))
    };
    processes::hide_memory().map_err(what)
}

/// The command that runs start; refuses to take it from the job unless this machine's operator has allowed that.
fn program(given: Vec<OsString>, allow_job_command: bool) -> Result<Program> {
    match given.first() {
        Some(program) => find_program(program).map(|()| Program::Given(given)),
        None if allow_job_command => Ok(Program::OfJob),
        None => Err(Failure::usage(
            "no program: give one after --, or add --allow-job-command to run the job's own command line \
             (scriptCommandLine), which whoever may change the job chooses",
        )),
    }
}

/// Refuses a program that is not there, before a job is registered for it.
#[allow(clippy::disallowed_methods, reason = "PATH is where programs are")]
fn find_program(program: &OsString) -> Result {
    let path = Path::new(program);
    let there = if path.components().count() > 1 {
        path.is_file()
    } else {
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&dirs).map(|dir: PathBuf| dir.join(path)).any(|path| path.is_file())
    };
    if there {
        return Ok(());
    }
    Err(Failure::usage(format!("{}: no such program; give its path, or one that is in PATH", path.display())))
}

fn failure(error: Error) -> Failure {
    match &error {
        Error::Refused { job, code, message, .. } if message.contains(job.as_str()) => {
            Failure::refused(code, message)
        }
        Error::Refused { job, code, message, .. } => Failure::refused(code, format!("job {job}: {message}")),
        Error::Options(_) => Failure::usage(error),
        Error::Rejected(link) => {
            let exit = if link.is_about_rights() { Exit::Credential } else { Exit::Failed };
            match link.reason() {
                Some(code) => Failure::refused(code, link.message()).or_instead(Exit::Failed, exit),
                None => Failure::new(exit, Code::Rejected, error.to_string()),
            }
        }
        _ => Failure::failed(Code::Worker, error),
    }
}
