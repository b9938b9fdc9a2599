//! `rosterd watch`: what happens, a line each, until it is interrupted.

use clap::Args;
use serde_json::{Value, json};

use super::failure::{Failure, Result};
use super::json;
use super::options::OnlyJob;
use super::output::form::{Form, say};
use super::output::look::look;
use super::output::span::{date, json_time, time};
use super::output::table::{Ids, cut, painted, style};
use super::output::text::{brief, ranges, word};
use super::server::{Client, Server};
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::watch_response::Event;

#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    job: OnlyJob,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Watch {
    pub(crate) async fn run(self) -> Result {
        let admin = self.server.admin().await?;
        let job = self.job.name();
        if !job.is_empty() {
            // A job that does not exist would never send an event.
            let question = v1::GetJobRequest { job: job.clone(), ..Default::default() };
            admin.ask(question, |mut c: Client, q| async move { c.get_job(q).await }).await?;
        }
        let mut client = admin.client();
        let mut events = admin.open(client.watch(v1::WatchRequest { job })).await?;
        while let Some(message) = events.message().await.map_err(|status| admin.refused(status))? {
            if let Some(event) = &message.event {
                let at = message.at.as_ref();
                self.form.show_next(|| as_json(at, event), || as_text(at, event))?;
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

/// A line. On a terminal it is no longer than that: the time of day, ids as short as they can be, no token.
fn as_text(at: Option<&prost_types::Timestamp>, event: &Event) -> String {
    let (who, word, rest) = parts(event);
    let Some(columns) = look().width else {
        return format!("{}  {}", date(at), joined(&[&who, &word, &rest]));
    };
    let clock = at.zip(look().zone.as_ref()).map_or_else(
        || date(at),
        |(at, zone)| time(at).timestamp().to_zoned(zone.clone()).strftime("%H:%M:%S").to_string(),
    );
    let line = cut(&format!("{clock}  {}", joined(&[&who, &word, &rest])), columns);
    // The word stands behind whom it is about, who may be called so, too.
    let before = clock.len() + 2 + if who.is_empty() { 0 } else { who.len() + 1 };
    match line.get(before..).and_then(|rest| rest.strip_prefix(word.as_str())) {
        Some(rest) => format!("{}{}{rest}", &line[..before], painted(&word, style(&word), look().color)),
        None => line,
    }
}

fn joined(parts: &[&String]) -> String {
    let parts: Vec<&str> = parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
    parts.join(" ").trim_end().to_owned()
}

/// Whom it is about, what happened in a word, and the rest.
fn parts(event: &Event) -> (String, String, String) {
    let item = |job: &str, item: u32| format!("{job}/{item}");
    match event {
        Event::RunStarted(e) => {
            let run = e.run.clone().unwrap_or_default();
            (item(&e.job, e.item), "started".into(), of_run(&run))
        }
        Event::RunEnded(e) => {
            let run = e.run.clone().unwrap_or_default();
            let outcome = json::outcome(e.outcome()).unwrap_or_else(|| "ended".into());
            let error = if e.error.is_empty() { String::new() } else { format!(": {}", brief(&e.error, 80)) };
            (item(&e.job, e.item), outcome, of_run(&run) + &error)
        }
        Event::RunProgress(e) => {
            let run = e.run.clone().unwrap_or_default();
            (item(&run.job, run.item), format!("{}%", e.percent), brief(&e.message, 80))
        }
        Event::FiresNotRun(e) => {
            let reason = if e.reason.is_empty() { String::new() } else { format!(" ({})", e.reason) };
            let (first, latest) = (date(e.first.as_ref()), date(e.latest.as_ref()));
            let span = if e.count > 1 { format!("{} fires, {first} to {latest}", e.count) } else { latest };
            (item(&e.job, e.item), format!("{}{reason}:", json::result(e.result())), span)
        }
        Event::Assigned(e) => {
            let owners = e.owners.iter().map(|o| format!("{} {}", shown(&o.instance), ranges(&o.items)));
            let owners = owners.collect::<Vec<_>>().join("; ");
            (e.job.clone(), "assigned:".into(), format!("{owners} ({})", e.why))
        }
        Event::Worker(e) => (shown(&e.instance), e.what.clone(), String::new()),
        Event::Job(e) => (e.job.clone(), e.what.clone(), String::new()),
        Event::EventsLost(e) => {
            (String::new(), format!("{} events were lost: this watch is too slow", e.count), String::new())
        }
    }
}

fn of_run(run: &v1::RunInFlight) -> String {
    let (source, on) = (json::source(run.source()), shown(&run.instance));
    if look().width.is_some() {
        return format!("{source} on {on}");
    }
    format!("{source} of {} on {on}, token {}", date(run.fire_time.as_ref()), run.token)
}

/// An instance's id, short on a terminal.
fn shown(id: &str) -> String {
    if look().width.is_some() { Ids::of([id].into_iter()).text(id) } else { id.to_owned() }
}
