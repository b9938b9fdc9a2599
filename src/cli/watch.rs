//! `rosterd watch`: what happens, a line each, until it is interrupted.

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Failure, Result};
use super::json;
use super::server::Server;
use super::show::{Form, brief, json_time, ranges, say, short_time, word};
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::watch_response::Event;

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Only of this job
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    job: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Watch {
    pub(crate) async fn run(self) -> Result {
        let admin = self.server.admin().await?;
        let asked = admin.client().watch(v1::WatchRequest { job: self.job }).await;
        let mut events = asked.map_err(|status| admin.refused(status))?.into_inner();
        while let Some(message) = events.message().await? {
            if let Some(event) = &message.event {
                let at = message.at.as_ref();
                self.form.show(|| as_json(at, event), || as_text(at, event))?;
            }
        }
        say("")?;
        Err(Failure::unavailable("the coordinator ended the watch: it is stopping"))
    }
}

fn as_json(at: Option<&prost_types::Timestamp>, event: &Event) -> Value {
    let (name, mut value) = match event {
        Event::RunStarted(e) => (
            "run_started",
            json!({ "job": e.job, "item": e.item, "run": e.run.as_ref().map(json::in_flight) }),
        ),
        Event::RunEnded(e) => (
            "run_ended",
            json!({
                "job": e.job, "item": e.item, "run": e.run.as_ref().map(json::in_flight),
                "outcome": json::outcome(e.outcome()), "error": e.error, "output": e.output,
            }),
        ),
        Event::RunProgress(e) => {
            let run = e.run.clone().unwrap_or_default();
            let value = json!({
                "job": run.job, "item": run.item, "token": run.token,
                "percent": e.percent, "message": e.message,
            });
            ("run_progress", value)
        }
        Event::FiresNotRun(e) => (
            "fires_not_run",
            json!({
                "job": e.job, "item": e.item, "first": json_time(e.first.as_ref()),
                "latest": json_time(e.latest.as_ref()), "count": e.count, "result": json::result(e.result()),
                "reason": Some(&e.reason).filter(|reason| !reason.is_empty()),
            }),
        ),
        Event::Assigned(e) => {
            let owners: serde_json::Map<_, _> =
                e.owners.iter().map(|o| (o.instance.clone(), o.items.clone().into())).collect();
            let value =
                json!({ "job": e.job, "generation": e.generation, "assignment": owners, "why": e.why });
            ("assigned", value)
        }
        Event::Worker(e) => {
            let change = word(e.change().as_str_name(), "WORKER_CHANGE_");
            ("worker", json!({ "instance": e.instance, "change": change, "what": e.what }))
        }
        Event::Job(e) => {
            let action = word(e.action().as_str_name(), "JOB_ACTION_");
            ("job", json!({ "job": e.job, "action": action, "what": e.what, "principal": e.principal }))
        }
        Event::EventsLost(e) => ("events_lost", json!({ "count": e.count })),
    };
    value["event"] = name.into();
    value["at"] = json_time(at);
    value
}

fn as_text(at: Option<&prost_types::Timestamp>, event: &Event) -> String {
    let told = match event {
        Event::RunStarted(e) => {
            let run = e.run.clone().unwrap_or_default();
            format!("{}/{} started {}", e.job, e.item, of_run(&run))
        }
        Event::RunEnded(e) => {
            let run = e.run.clone().unwrap_or_default();
            let outcome = json::outcome(e.outcome()).unwrap_or_else(|| "ended".into());
            let error = if e.error.is_empty() { String::new() } else { format!(": {}", brief(&e.error, 80)) };
            format!("{}/{} {outcome} {}{error}", e.job, e.item, of_run(&run))
        }
        Event::RunProgress(e) => {
            let run = e.run.clone().unwrap_or_default();
            format!("{}/{} {}% {}", run.job, run.item, e.percent, brief(&e.message, 80))
        }
        Event::FiresNotRun(e) => {
            let reason = if e.reason.is_empty() { String::new() } else { format!(" ({})", e.reason) };
            let (first, latest) = (short_time(e.first.as_ref()), short_time(e.latest.as_ref()));
            let span = if e.count > 1 { format!("{} fires, {first} to {latest}", e.count) } else { latest };
            format!("{}/{} {}{reason}: {span}", e.job, e.item, json::result(e.result()))
        }
        Event::Assigned(e) => {
            let owners = e.owners.iter().map(|o| format!("{} {}", o.instance, ranges(&o.items)));
            format!("{} assigned: {} ({})", e.job, owners.collect::<Vec<_>>().join("; "), e.why)
        }
        Event::Worker(e) => format!("{} {}", e.instance, e.what),
        Event::Job(e) => format!("{} {}", e.job, e.what),
        Event::EventsLost(e) => format!("{} events were lost: this watch is too slow", e.count),
    };
    format!("{}  {told}", short_time(at)).trim_end().to_owned()
}

fn of_run(run: &v1::RunInFlight) -> String {
    format!(
        "{} of {} on {}, token {}",
        json::source(run.source()),
        short_time(run.fire_time.as_ref()),
        run.instance,
        run.token
    )
}
