//! `rosterd logs`: what a run wrote, as it wrote it.

use clap::Args;

use super::failure::{Code, Failure, Result};
use super::options::job_item;
use super::output::form::{say, say_all};
use super::runs::{Which, one, outcome};
use super::server::Server;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::watch_response::Event;

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Which item's
    #[arg(value_name = "JOB/ITEM", value_parser = job_item)]
    item: (String, u32),
    /// The run with this token [default: the latest that has ended]
    #[arg(long, value_name = "N")]
    token: Option<u64>,
    /// Go on with the output of each run that ends, until interrupted
    #[arg(short, long, conflicts_with = "token")]
    follow: bool,
    #[command(flatten)]
    server: Server,
}

impl Logs {
    pub(crate) async fn run(self) -> Result {
        let (job, item) = self.item;
        let admin = self.server.admin().await?;
        if self.follow {
            let mut client = admin.client();
            let mut events = admin.open(client.watch(v1::WatchRequest { job: job.clone() })).await?;
            while let Some(message) = events.message().await.map_err(|status| admin.refused(status))? {
                match message.event {
                    Some(Event::RunEnded(ended)) if ended.job == job && ended.item == item => {
                        show(&ended.output, &ended.error)?;
                    }
                    Some(Event::EventsLost(lost)) => {
                        eprintln!("rosterd: {} events were lost: this is too slow", lost.count)
                    }
                    _ => {}
                }
            }
            return Err(Failure::unavailable("the coordinator ended the watch: it is stopping"));
        }
        let run = one(&admin, &job, item, self.token.map_or(Which::LatestEnded, Which::Token)).await?;
        if run.output.is_empty() && run.error.is_empty() {
            let what = format!(
                "the run of {job}/{item} ({}) has no output: only what a run leaves at its end is kept",
                outcome(&run)
            );
            return Err(Failure::failed(Code::NotFound, what));
        }
        show(&run.output, &run.error)
    }
}

/// The output as it is; an error beside it.
fn show(output: &str, error: &str) -> Result {
    if !error.is_empty() {
        eprintln!("{}", error.trim_end());
    }
    if output.ends_with('\n') { say_all(output) } else { say(output) }
}
