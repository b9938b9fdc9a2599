//! `rosterd jobs trigger`: a fire by hand, and, where somebody waits for it, how it went.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tonic::Streaming;

use super::change::Named;
use super::report::lines;
use crate::cli::failure::{Code, Failure, Result};
use crate::cli::json;
use crate::cli::output::look::log_in_color;
use crate::cli::output::span::{human, time};
use crate::cli::output::table::{Ids, painted, style};
use crate::cli::output::text::{brief, count};
use crate::cli::server::{Admin, Client};
use crate::config::value;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::watch_response::Event;

#[derive(Debug, Args)]
pub(crate) struct Trigger {
    /// Only these items
    #[arg(long = "items", alias = "item", value_name = "N,N", value_delimiter = ',')]
    items: Vec<u32>,
    /// Where an item is running, run it once more after that
    #[arg(long)]
    after_current: bool,
    /// Wait until all its runs have ended, and tell how they go; the exit code is 1 unless all succeed
    #[arg(short, long)]
    wait: bool,
    /// With --wait: wait no longer than this
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = value::positive)]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    job: Named,
}

impl Trigger {
    pub(crate) async fn run(self) -> Result {
        let Named { name, form, server } = self.job;
        let admin = server.admin().await?;
        let question = v1::GetJobRequest { job: name.clone(), ..Default::default() };
        let job = admin.ask(question, |mut c: Client, q| async move { c.get_job(q).await }).await?;
        // Asked for before the trigger: nothing that it starts is missed.
        let mut client = admin.client();
        let events = match self.wait {
            true => Some(admin.open(client.watch(v1::WatchRequest { job: name.clone() })).await?),
            false => None,
        };
        let question = v1::TriggerJobRequest {
            job: name.clone(),
            items: self.items.clone(),
            after_current: self.after_current,
        };
        let answer = admin.ask(question, |mut c: Client, q| async move { c.trigger_job(q).await }).await?;
        let summary = job.summary.unwrap_or_default();
        if summary.instances == 0 {
            eprintln!("rosterd: warning: {name} has no worker: its items run when one comes");
        }
        let mut printed =
            json!({ "trigger_id": answer.trigger_id, "changes": json::changes(&answer.changes) });
        let Some(events) = events else {
            return form.show(|| printed, || lines(&answer.changes));
        };
        let items =
            if self.items.is_empty() { (0..summary.sharding_total_count).collect() } else { self.items };
        if form.is_text() {
            eprint!("{}", lines(&answer.changes));
        }
        let mut waiting = FireProgress {
            job: name.clone(),
            id: answer.trigger_id.clone(),
            failover: job.spec.lines().any(|line| line.trim() == "failover: true"),
            items: items.into_iter().map(|item| (item, None)).collect(),
            loud: form.is_text(),
        };
        let done = waiting.until_all_ended(&admin, events);
        match self.wait_timeout {
            None => done.await?,
            Some(most) => tokio::time::timeout(most, done).await.map_err(|_| {
                Failure::late(format!(
                    "its runs have not ended within {}: see `rosterd items {name}`; the trigger stays",
                    value::show(most)
                ))
            })??,
        }
        printed["runs"] = waiting.as_json();
        form.show(|| printed, || waiting.summary())?;
        waiting.verdict()
    }
}

/// The items whose runs have not ended yet, and how those of the others did.
struct FireProgress {
    job: String,
    id: String,
    /// A run that crashes is run again.
    failover: bool,
    items: BTreeMap<u32, Option<Ended>>,
    loud: bool,
}

#[derive(Debug, Clone)]
struct Ended {
    outcome: String,
    error: String,
    output: String,
    token: u64,
    fire: Option<prost_types::Timestamp>,
    /// It is run again elsewhere.
    again: bool,
}

impl FireProgress {
    async fn until_all_ended(&mut self, admin: &Admin, mut events: Streaming<v1::WatchResponse>) -> Result {
        while self.items.values().any(|ended| ended.as_ref().is_none_or(|ended| ended.again)) {
            let message = events.message().await.map_err(|status| admin.refused(status))?;
            let Some(message) = message else {
                return Err(Failure::unavailable("the coordinator is stopping: the trigger stays"));
            };
            match message.event {
                Some(Event::RunStarted(e)) if e.job == self.job => {
                    let run = e.run.unwrap_or_default();
                    if self.is_ours(e.item, &run) {
                        let on = Ids::of([run.instance.as_str()].into_iter()).text(&run.instance);
                        self.show_line(e.item, "started", &format!("on {on}"));
                    }
                }
                Some(Event::RunEnded(e)) if e.job == self.job => {
                    let run = e.run.clone().unwrap_or_default();
                    if self.is_ours(e.item, &run) {
                        self.ended(message.at.as_ref(), e, run);
                    }
                }
                Some(Event::EventsLost(_)) => {
                    return Err(Failure::unavailable(format!(
                        "this watch was too slow and lost events: see `rosterd runs {}`; the trigger stays",
                        self.job
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// One of the trigger, or the failover of one that crashed.
    fn is_ours(&self, item: u32, run: &v1::RunInFlight) -> bool {
        match self.items.get(&item) {
            Some(Some(ended)) => ended.again && run.fire_time == ended.fire,
            Some(None) => run.trigger_id == self.id,
            None => false,
        }
    }

    fn ended(&mut self, at: Option<&prost_types::Timestamp>, e: v1::RunEndedEvent, run: v1::RunInFlight) {
        let outcome = json::outcome(e.outcome()).unwrap_or_else(|| "ended".into());
        let took = at.zip(run.started_at.as_ref()).map(|(to, from)| human(time(to).since(time(from))));
        let again = outcome == "crashed" && self.failover;
        let mut rest = took.map(|took| format!("in {took}")).unwrap_or_default();
        if !e.error.is_empty() {
            rest += &format!(": {}", brief(&e.error, 100));
        }
        if again {
            rest += ", it runs again elsewhere";
        }
        self.show_line(e.item, &outcome, &rest);
        let ended =
            Ended { outcome, error: e.error, output: e.output, token: run.token, fire: run.fire_time, again };
        self.items.insert(e.item, Some(ended));
    }

    fn show_line(&self, item: u32, word: &str, rest: &str) {
        if self.loud {
            eprintln!("{}/{item} {} {rest}", self.job, painted(word, style(word), log_in_color()));
        }
    }

    fn as_json(&self) -> Value {
        let run = |(item, ended): (&u32, &Option<Ended>)| {
            let ended = ended.as_ref();
            json!({
                "item": item, "token": ended.map(|ended| ended.token), "outcome": ended.map(|ended| &ended.outcome),
                "error": ended.map(|ended| &ended.error), "output": ended.map(|ended| &ended.output),
            })
        };
        self.items.iter().map(run).collect()
    }

    fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for ended in self.items.values().flatten() {
            *counts.entry(ended.outcome.as_str()).or_default() += 1;
        }
        counts
    }

    fn summary(&self) -> String {
        let counts = self.counts();
        let parts = counts.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect::<Vec<_>>();
        format!("{}: {}", count(self.items.len(), "run"), parts.join(", "))
    }

    fn verdict(&self) -> Result {
        let bad: usize =
            self.counts().iter().filter(|(outcome, _)| **outcome != "succeeded").map(|(_, n)| n).sum();
        if bad == 0 {
            return Ok(());
        }
        let what = format!("{} of {} did not succeed", bad, count(self.items.len(), "run"));
        Err(Failure::failed(Code::RunFailed, what))
    }
}
