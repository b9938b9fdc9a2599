//! The demonstration of `rosterd dev`: one job of nine items, three workers over real gRPC in this process, and
//! a line on the terminal for each thing that happens.

use std::net::SocketAddr;
use std::sync::Arc;

use rosterd_client::{Job, Options, Run, Worker};
use rosterd_domain::plan::Became;
use tokio::sync::broadcast;

use super::AppError;
use super::lives::Lives;
use rosterd_api::backend::Backend as _;
use rosterd_coordinator::handle::{Happening, Operation};
use rosterd_runtime::tasks::{Phase, Tasks};
use rosterd_session::code::Refusal;

const JOB: &str = "demo";
const FILE: &str = "\
jobName: demo
cron: '0/5 * * * * ?'
shardingTotalCount: 9
shardingItemParameters: 0=Beijing,1=Shanghai,2=Shenzhen,3=Lagos,4=Cairo,5=Nairobi,6=Lima,7=Bogota,8=Quito
failover: true
description: the demonstration of rosterd dev
";

/// Makes the job, starts the workers and tells what happens; who has the tasks ends them before the coordinator.
pub(super) async fn start(lives: &Lives, address: SocketAddr) -> Result<Tasks, AppError> {
    let tasks = Tasks::default();
    let (handle, happenings) = (lives.handle(), lives.watch());
    let refused = |refusal: Refusal| AppError::Demo(refusal.to_string());
    handle.operate(Operation::apply(FILE, false).map_err(refused)?).await.map_err(refused)?;
    println!("{}", banner(address));
    let stop = tasks.stop(Phase::Edge);
    tasks.session(Phase::Edge, "demo narrator", {
        let stop = stop.clone();
        async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = narrate(happenings) => {}
            }
        }
    });
    for name in ["ann", "ben", "cleo"] {
        let stop = stop.clone();
        let url = format!("http://{address}");
        tasks.session(Phase::Edge, "demo worker", async move {
            let options = Options { address: name.to_string(), ..Options::default() };
            let job = Job::new(JOB).handler(|run: Run| async move {
                tokio::time::sleep(std::time::Duration::from_millis(200 + 40 * u64::from(run.item()))).await;
                run.set_output(format!("greeted {}", run.item_parameter()));
                Ok(())
            });
            let worker = Worker::new(options).server(url).slots(4).add(job).shutdown(stop.cancelled_owned());
            if let Err(error) = worker.run().await {
                tracing::warn!(worker = name, "a demonstration worker ended: {error}");
            }
        });
    }
    Ok(tasks)
}

fn banner(address: SocketAddr) -> String {
    format!(
        "rosterd is up on http://{address}\n\
         \n\
         \x20 state of the jobs   http://{address}/        metrics  http://{address}/metrics\n\
         \x20 look from outside   rosterd jobs list --server http://{address}\n\
         \x20 work with it        rosterd exec --server http://{address} --job demo -- sh -c 'echo item $ROSTERD_ITEM: $ROSTERD_ITEM_PARAMETER'\n\
         \n\
         The job `demo` has 9 items and fires every 5 seconds on three workers of this process. Ctrl-C ends it.\n"
    )
}

async fn narrate(mut happenings: broadcast::Receiver<Arc<Happening>>) {
    loop {
        match happenings.recv().await {
            Ok(happening) => {
                if let Some(line) = line(&happening) {
                    println!("{line}");
                }
            }
            Err(broadcast::error::RecvError::Lagged(lost)) => println!("… {lost} lines left out"),
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// What a person sees of a happening.
fn line(happening: &Happening) -> Option<String> {
    Some(match happening {
        Happening::Started { job, item, token, run } => format!(
            "  start     {job}/{item}  {} of {}  on {}  token {token}",
            run.source,
            run.fire,
            run.instance.address()
        ),
        Happening::Ended { job, item, outcome, output, error, run, .. } => {
            let said = if error.is_empty() { output } else { error };
            format!("  {:<9} {job}/{item}  by {}  {said}", outcome.as_str(), run.instance.address())
        }
        Happening::Assigned { job, owners, why, .. } => {
            let owners: Vec<String> = owners
                .iter()
                .map(|(instance, items)| {
                    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                    format!("{} [{}]", instance.address(), items.join(" "))
                })
                .collect();
            let why = why.as_ref().map(|why| format!("  ({why})")).unwrap_or_default();
            format!("assignment  {job}: {}{why}", owners.join("  "))
        }
        Happening::Worker { instance, change } => {
            format!("worker      {} {}", instance.address(), change.as_str())
        }
        Happening::Unrun { job, item, latest, count, became, .. } => {
            let result = match became {
                Became::Misfired => "misfired",
                Became::Skipped => "skipped",
                Became::Missed(_) => "missed",
            };
            format!("  {result:<9} {job}/{item}  {count} until {latest}")
        }
        Happening::Job { job, what, .. } => format!("job         {job}: {what}"),
        Happening::Asked { what, .. } => format!("asked       {what}"),
        Happening::Progress { .. } => return None,
    })
}
