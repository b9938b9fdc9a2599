//! The demonstration of `rosterd dev`: one job of nine items, three workers that are processes of this program, and a
//! line on the terminal for each thing that happens. It invites to break things, so it lives on when they are broken.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rosterd_domain::plan::FireResult;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::AppError;
use super::supervisor::Supervisor;
use rosterd_api::backend::Backend as _;
use rosterd_coordinator::handle::{ClusterEvent, Operation};
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};
use rosterd_session::code::Refusal;

/// The job's name, and its handler's.
pub const JOB: &str = "demo";
const FILE: &str = "\
jobName: demo
cron: '0/5 * * * * ?'
shardingTotalCount: 9
shardingItemParameters: 0=Beijing,1=Shanghai,2=Shenzhen,3=Lagos,4=Cairo,5=Nairobi,6=Lima,7=Bogota,8=Quito
failover: true
description: the demonstration of rosterd dev
";
const WORKERS: [&str; 3] = ["ann", "ben", "cleo"];

/// By then somebody has seen what goes on.
const HINT_AFTER: Duration = Duration::from_secs(10);
/// How long a worker that has ended stays away: long enough to see its items move.
const BACK_AFTER: Duration = Duration::from_secs(10);
/// How long a worker may take to leave at the end.
const LEAVING: Duration = Duration::from_secs(3);

/// How the demonstration speaks.
#[derive(Debug, Clone)]
pub struct Voice {
    pub color: bool,
    /// How this program is called from a shell.
    pub program: String,
    /// The first word of a process that is a worker: `PROGRAM WORD NAME URL`. It leaves when its stdin ends.
    pub worker: &'static str,
}

impl Voice {
    /// Prints a line. A reader that went away ends the output and nothing else.
    fn say(&self, line: &str) {
        let mut out = std::io::stdout().lock();
        let _gone = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    fn paint(&self, text: &str, color: &str) -> String {
        if self.color { format!("\u{1b}[{color}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

const GREEN: &str = "32";
const RED: &str = "31";
const YELLOW: &str = "33";
const CYAN: &str = "36";
const BOLD: &str = "1";
const DIM: &str = "2";

/// Makes the job, starts the workers and tells what happens; who has the tasks ends them before the coordinator.
pub(super) async fn start(
    supervisor: &Supervisor,
    address: SocketAddr,
    voice: Voice,
) -> Result<Tasks, AppError> {
    let tasks = Tasks::default();
    let (handle, events) = (supervisor.handle(), supervisor.watch());
    let refused = |refusal: Refusal| AppError::Demo(refusal.to_string());
    handle.operate(Operation::apply(FILE, false).map_err(refused)?).await.map_err(refused)?;
    let me = std::env::current_exe().map_err(|error| AppError::Demo(error.to_string()))?;
    voice.say(&banner(address, &voice));
    let stop = tasks.stop(ShutdownPhase::Edge);
    tasks.session(ShutdownPhase::Edge, "demo narrator", {
        let (stop, voice) = (stop.clone(), voice.clone());
        async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = narrate(events, &voice) => {}
            }
        }
    });
    tasks.session(ShutdownPhase::Edge, "demo hint", {
        let (stop, voice) = (stop.clone(), voice.clone());
        async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(HINT_AFTER) => voice.say(&hint(address, &voice)),
            }
        }
    });
    for name in WORKERS {
        tasks.session(
            ShutdownPhase::Edge,
            "demo worker",
            keep(me.clone(), name, address, voice.clone(), stop.clone()),
        );
    }
    Ok(tasks)
}

/// Keeps a worker there: one that ends, in whatever way, comes back after a while.
async fn keep(me: PathBuf, name: &'static str, address: SocketAddr, voice: Voice, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let started = Command::new(&me)
            .args([voice.worker, name, &format!("http://{address}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        // Waiting for a process closes a stdin that it has still.
        let (mut worker, stdin) = match started.map(|mut worker| (worker.stdin.take(), worker)) {
            Ok((stdin, worker)) => (worker, stdin),
            Err(error) => return voice.say(&format!("worker      {name} cannot be started: {error}")),
        };
        let id = worker.id().unwrap_or_default();
        voice.say(&format!("worker      {name} is process {}", voice.paint(&id.to_string(), BOLD)));
        tokio::select! {
            () = stop.cancelled() => return leave(worker, stdin).await,
            ended = worker.wait() => {
                let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                let text = format!("{name} has ended ({how}); it comes back in {} s", BACK_AFTER.as_secs());
                voice.say(&format!("worker      {}", voice.paint(&text, YELLOW)));
            }
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(BACK_AFTER) => {}
        }
    }
}

/// The end of its stdin tells a worker to leave.
async fn leave(mut worker: Child, stdin: Option<ChildStdin>) {
    drop(stdin);
    if tokio::time::timeout(LEAVING, worker.wait()).await.is_err() {
        // It is gone, or is killed when it is dropped.
        let _gone = worker.start_kill();
    }
}

/// How to ask this coordinator from another terminal.
fn asking(address: SocketAddr) -> String {
    if address.port() == 7700 && address.ip().is_loopback() {
        String::new()
    } else {
        format!(" --server {address}")
    }
}

fn banner(address: SocketAddr, voice: &Voice) -> String {
    let (program, server) = (&voice.program, asking(address));
    format!(
        "{}\n\
         \n\
         \x20 console   http://{address}/\n\
         \x20 metrics   http://{address}/metrics\n\
         \x20 jobs      {program} jobs list{server}\n\
         \n\
         The job `demo` has 9 items and fires every 5 seconds; three workers share them.\n\
         Ctrl-C ends it.\n",
        voice.paint(&format!("rosterd is up on http://{address}"), BOLD)
    )
}

/// What to type next.
fn hint(address: SocketAddr, voice: &Voice) -> String {
    let (program, server) = (&voice.program, asking(address));
    let lines = [
        "Now break something, from another terminal:".to_owned(),
        "  kill -9 PID                  a worker's: its items run on the others".to_owned(),
        format!("  {program} jobs trigger demo --wait{server}"),
        format!("  {program} explain demo/3{server}"),
        format!("  {program} exec --job demo --handler demo{server} -- echo hello"),
        format!("or open http://{address}/"),
    ];
    let lines: Vec<String> = lines.iter().map(|line| voice.paint(line, CYAN)).collect();
    format!("\n{}\n", lines.join("\n"))
}

async fn narrate(mut events: broadcast::Receiver<Arc<ClusterEvent>>, voice: &Voice) {
    loop {
        match events.recv().await {
            Ok(event) => {
                if let Some(line) = line(&event, voice) {
                    voice.say(&line);
                }
            }
            Err(broadcast::error::RecvError::Lagged(lost)) => voice.say(&format!("… {lost} lines left out")),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// What a person sees of an event.
fn line(event: &ClusterEvent, voice: &Voice) -> Option<String> {
    Some(match event {
        ClusterEvent::Started { job, item, token, run } => {
            let source = run.source.to_string();
            let source = if source == "NORMAL_TRIGGER" { source } else { voice.paint(&source, YELLOW) };
            let token = voice.paint(&format!("token {token}"), DIM);
            format!("  start     {job}/{item}  on {:<5} {source}  {token}", run.instance.address())
        }
        ClusterEvent::Ended { job, item, outcome, output, error, run, .. } => {
            let outcome = outcome.as_str();
            let color = if outcome == "succeeded" { GREEN } else { RED };
            let text = if error.is_empty() { output } else { error };
            let text = text.lines().next().unwrap_or_default();
            let outcome = voice.paint(&format!("{outcome:<9}"), color);
            format!("  {outcome} {job}/{item}  by {:<5} {text}", run.instance.address())
        }
        ClusterEvent::Assigned { job, owners, why, .. } => {
            let owners: Vec<String> = owners
                .iter()
                .map(|(instance, items)| {
                    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                    format!("{} [{}]", instance.address(), items.join(" "))
                })
                .collect();
            let why = why.as_ref().map(|why| format!("\n            ({why})")).unwrap_or_default();
            format!("{}  {job}: {}{why}", voice.paint("assignment", BOLD), owners.join("  "))
        }
        ClusterEvent::Worker { instance, change } => {
            format!("worker      {} {}", instance.address(), change.as_str())
        }
        ClusterEvent::NotRun { job, item, latest, count, result, .. } => {
            let result = match result {
                FireResult::Misfired => "misfired",
                FireResult::Skipped => "skipped",
                FireResult::Missed(_) => "missed",
            };
            let result = voice.paint(&format!("{result:<9}"), YELLOW);
            format!("  {result} {job}/{item}  {count} until {latest}")
        }
        ClusterEvent::Job { job, what, .. } if job.as_str() == JOB && what == "removed" => {
            format!("job         {job}: removed; start `{} dev` again and it is made anew", voice.program)
        }
        ClusterEvent::Job { job, what, .. } => format!("job         {job}: {what}"),
        ClusterEvent::Asked { what, .. } => format!("asked       {what}"),
        ClusterEvent::Progress { .. } => return None,
    })
}
