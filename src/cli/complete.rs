//! What a shell offers for an argument: asked of the coordinator that a command would ask, and not for long.

use std::time::Duration;

use clap::Parser;
use clap_complete::CompletionCandidate;
use rosterd_wire::proto::v1;

use super::server::Server;

/// A person waits at a prompt.
const PATIENCE: Duration = Duration::from_millis(300);

/// The connection, by the environment and the context alone: what was typed so far is not known here.
#[derive(Debug, Parser)]
struct CompletionServer {
    #[command(flatten)]
    server: Server,
}

/// The names of jobs; none if no coordinator answers in time.
pub(crate) fn job_names() -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let Ok(connection) = CompletionServer::try_parse_from(["rosterd"]) else { return Vec::new() };
    let names = async {
        let question = v1::ListJobsRequest::default();
        connection
            .server
            .ask(question, |mut client, question| async move { client.list_jobs(question).await })
            .await
    };
    match runtime.block_on(async { tokio::time::timeout(PATIENCE, names).await }) {
        Ok(Ok(answer)) => answer.jobs.into_iter().map(|job| CompletionCandidate::new(job.name)).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}
