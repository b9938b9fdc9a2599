//! `rosterd alarms`: what is wrong, who was told, and what is not told for a time. Of the coordinator that answers.

use std::future::Future;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::failure::{Exit, Failure, Result};
use super::server::{Bearer, Server, refused};
use super::show::{Form, brief, json_time, or_dash, short_time, table};
use crate::config::value;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::alarm_service_client::AlarmServiceClient;

const EXAMPLE: &str = "Examples:
  rosterd alarms list
  rosterd alarms silence deploy --job 'report-*' --for 2h --comment 'we move the database'
  rosterd alarms unsilence deploy
  rosterd alarms test --receiver ops";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Alarms {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what is wrong, silences, receivers and the last messages
    List(List),
    /// Do not tell anybody of some alarms for a time; they are raised and listed all the same
    Silence(Silence),
    /// Take a silence away
    Unsilence(Unsilence),
    /// Send a test message to receivers
    Test(Test),
}

#[derive(Debug, Args)]
struct List {
    /// What was over lately, and the last messages, as well
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
struct Silence {
    /// A name for it: 1 to 64 ASCII letters, digits or . _ -
    id: String,
    /// Only alarms of this kind
    #[arg(long, value_name = "KIND", default_value = "", hide_default_value = true)]
    alarm: String,
    /// Only of this job, or of jobs that begin so where it ends with *
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    job: String,
    /// For how long
    #[arg(long = "for", value_name = "DURATION", value_parser = value::duration)]
    span: Duration,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    comment: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
struct Unsilence {
    /// The silence
    id: String,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
struct Test {
    /// Only this receiver
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    receiver: String,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

type Client = AlarmServiceClient<InterceptedService<Channel, Bearer>>;

/// Connects and asks one thing; bounded in time.
async fn ask<Q, A, F>(server: &Server, question: Q, call: impl FnOnce(Client, Request<Q>) -> F) -> Result<A>
where
    F: Future<Output = Result<Response<A>, Status>>,
{
    let access = server.identity.access()?;
    let channel = server.channel(&access).await?;
    let client = AlarmServiceClient::with_interceptor(channel, Bearer::new(&access)?);
    let mut request = Request::new(question);
    request.set_timeout(server.timeout);
    match tokio::time::timeout(server.timeout, call(client, request)).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(refused(&access, &server.server.join(","), status)),
        Err(_) => {
            let what = format!("no answer within {}; --timeout waits longer", value::show(server.timeout));
            Err(Failure::new(Exit::Unavailable, "DEADLINE_EXCEEDED", what))
        }
    }
}

impl Alarms {
    pub(crate) async fn run(self) -> Result {
        match self.command {
            Command::List(list) => list.run().await,
            Command::Silence(silence) => silence.run().await,
            Command::Unsilence(Unsilence { id, server }) => {
                let question = v1::DeleteSilenceRequest { id };
                ask(&server, question, |mut c, q| async move { c.delete_silence(q).await }).await?;
                Ok(())
            }
            Command::Test(test) => test.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result {
        let question = v1::ListAlarmsRequest {};
        let found = ask(&self.server, question, |mut c, q| async move { c.list_alarms(q).await }).await?;
        self.form.show(|| all_as_json(&found), || text(&found, self.all))
    }
}

impl Silence {
    async fn run(self) -> Result {
        let Self { id, alarm, job, span, comment, form, server } = self;
        let silence = v1::Silence { id, alarm, job, comment, ..Default::default() };
        let duration = prost_types::Duration {
            seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
        };
        let question = v1::PutSilenceRequest { silence: Some(silence), duration: Some(duration) };
        let made = ask(&server, question, |mut c, q| async move { c.put_silence(q).await }).await?;
        let made = made.silence.unwrap_or_default();
        form.show(
            || silence_as_json(&made),
            || format!("silence {} holds until {}", made.id, short_time(made.until.as_ref())),
        )
    }
}

impl Test {
    async fn run(self) -> Result {
        let question = v1::TestAlarmsRequest { receiver: self.receiver };
        let done = ask(&self.server, question, |mut c, q| async move { c.test_alarms(q).await }).await?;
        let failed: Vec<&str> = done
            .deliveries
            .iter()
            .filter(|delivery| !delivery.error.is_empty())
            .map(|delivery| delivery.receiver.as_str())
            .collect();
        self.form.show(
            || done.deliveries.iter().map(delivery_as_json).collect(),
            || match done.deliveries.as_slice() {
                [] => "no receivers are configured: see [[alarms.receivers]] of the configuration".into(),
                deliveries => delivered(deliveries),
            },
        )?;
        if failed.is_empty() {
            return Ok(());
        }
        let why = format!("{} did not take the test: the reason stands beside it", failed.join(", "));
        Err(Failure::failed("ALARM_NOT_DELIVERED", why))
    }
}

fn text(found: &v1::ListAlarmsResponse, all: bool) -> String {
    let mut parts = vec![match found.active.as_slice() {
        [] => "no alarms\n".to_owned(),
        active => alarms(active),
    }];
    if !found.silences.is_empty() {
        let row = |silence: &v1::Silence| {
            let (alarm, job) = (or_dash(&silence.alarm), or_dash(&silence.job));
            let until = short_time(silence.until.as_ref());
            [silence.id.clone(), alarm, job, until, silence.by.clone(), brief(&silence.comment, 60)]
        };
        parts.push(table(["SILENCE", "ALARM", "JOB", "UNTIL", "BY", "WHY"], found.silences.iter().map(row)));
    }
    if !found.receivers.is_empty() {
        let row = |receiver: &v1::AlarmReceiver| {
            let state = match receiver.failures {
                0 => "well".to_owned(),
                failures => format!("{failures} failures: {}", brief(&receiver.error, 80)),
            };
            [receiver.name.clone(), receiver.form.clone(), state]
        };
        parts.push(table(["RECEIVER", "FORM", "STATE"], found.receivers.iter().map(row)));
    }
    if !found.refused.is_empty() {
        let row = |refused: &v1::RefusedHandler| [refused.job.clone(), refused.why.clone()];
        parts.push(table(["JOB", "ITS OWN RECEIVER CANNOT BE USED"], found.refused.iter().map(row)));
    }
    if all && !found.resolved.is_empty() {
        parts.push(alarms(&found.resolved));
    }
    if all && !found.deliveries.is_empty() {
        parts.push(delivered(&found.deliveries));
    }
    parts.join("\n")
}

fn alarms(alarms: &[v1::Alarm]) -> String {
    let row = |alarm: &v1::Alarm| {
        let state = match (alarm.resolved_at.as_ref(), alarm.silenced, alarm.told.is_empty()) {
            (Some(at), ..) => format!("over {}", short_time(Some(at))),
            (None, true, _) => "silenced".to_owned(),
            (None, false, true) => "not told yet".to_owned(),
            (None, false, false) => format!("told {}", alarm.told.join(", ")),
        };
        let (job, since) = (or_dash(&alarm.job), short_time(alarm.since.as_ref()));
        [alarm.alarm.clone(), alarm.severity.clone(), job, since, state, brief(&alarm.text, 100)]
    };
    table(["ALARM", "SEVERITY", "JOB", "SINCE", "STATE", "WHAT"], alarms.iter().map(row))
}

fn delivered(deliveries: &[v1::AlarmDelivery]) -> String {
    let row = |delivery: &v1::AlarmDelivery| {
        let result = if delivery.error.is_empty() { "delivered".into() } else { brief(&delivery.error, 100) };
        let at = short_time(delivery.at.as_ref());
        [at, delivery.receiver.clone(), delivery.attempt.to_string(), result, brief(&delivery.title, 80)]
    };
    table(["AT", "RECEIVER", "ATTEMPT", "RESULT", "WHAT"], deliveries.iter().map(row))
}

fn all_as_json(found: &v1::ListAlarmsResponse) -> Value {
    let alarm = |alarm: &v1::Alarm| {
        json!({
            "key": alarm.key, "alarm": alarm.alarm, "rule": alarm.rule, "severity": alarm.severity,
            "job": Some(&alarm.job).filter(|job| !job.is_empty()), "text": alarm.text,
            "since": json_time(alarm.since.as_ref()), "raised_at": json_time(alarm.raised_at.as_ref()),
            "resolved_at": json_time(alarm.resolved_at.as_ref()), "silenced": alarm.silenced, "told": alarm.told,
        })
    };
    let receiver = |receiver: &v1::AlarmReceiver| {
        json!({
            "name": receiver.name, "form": receiver.form, "failures": receiver.failures,
            "error": Some(&receiver.error).filter(|error| !error.is_empty()),
            "next_attempt_at": json_time(receiver.next_attempt_at.as_ref()),
        })
    };
    json!({
        "active": found.active.iter().map(alarm).collect::<Value>(),
        "resolved": found.resolved.iter().map(alarm).collect::<Value>(),
        "silences": found.silences.iter().map(silence_as_json).collect::<Value>(),
        "receivers": found.receivers.iter().map(receiver).collect::<Value>(),
        "deliveries": found.deliveries.iter().map(delivery_as_json).collect::<Value>(),
        "refused": found.refused.iter().map(|of| json!({ "job": of.job, "why": of.why })).collect::<Value>(),
    })
}

fn silence_as_json(silence: &v1::Silence) -> Value {
    let said = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    json!({
        "id": silence.id, "alarm": said(&silence.alarm), "job": said(&silence.job),
        "until": json_time(silence.until.as_ref()), "comment": silence.comment, "by": silence.by,
    })
}

fn delivery_as_json(delivery: &v1::AlarmDelivery) -> Value {
    json!({
        "at": json_time(delivery.at.as_ref()), "receiver": delivery.receiver, "form": delivery.form,
        "title": delivery.title, "keys": delivery.keys, "attempt": delivery.attempt, "test": delivery.test,
        "error": Some(&delivery.error).filter(|error| !error.is_empty()),
    })
}
