//! `rosterd alarms`: what is wrong, who was notified, and what is silenced, as the coordinator that answers knows it.

use std::future::Future;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use super::failure::{Code, Failure, Result};
use super::output::form::{Form, ListForm, say};
use super::output::look::look;
use super::output::span::{date, json_time, when};
use super::output::table::{Cell, Table, col};
use super::output::text::{brief, or_dash};
use super::server::{Bearer, Server, bounded, refused};
use crate::config::value;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::alarm_service_client::AlarmServiceClient;

#[derive(Debug, Args)]
pub(crate) struct Alarms {
    #[command(subcommand)]
    command: AlarmsCommand,
}

#[derive(Debug, Subcommand)]
enum AlarmsCommand {
    /// List what is wrong, silences and receivers
    #[command(alias = "ls")]
    List(List),
    /// Do not tell anybody of some alarms for a time; they are raised and listed all the same
    Silence(Silence),
    /// Take a silence away
    #[command(alias = "delete")]
    Unsilence(Unsilence),
    /// Send a test message to receivers
    Test(Test),
}

#[derive(Debug, Args)]
struct List {
    /// Also those that have ended lately, and the last messages
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    form: ListForm,
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
    form: Form,
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
    let to = server.resolve()?;
    let channel = server.channel(&to).await?;
    let client = AlarmServiceClient::with_interceptor(channel, Bearer::new(&to.access)?);
    let answer = bounded(server.timeout, question, |request| call(client, request)).await?;
    Ok(answer.map_err(|status| refused(&to.access, &to.names(), status))?.into_inner())
}

impl Alarms {
    pub(crate) async fn run(self) -> Result {
        match self.command {
            AlarmsCommand::List(list) => list.run().await,
            AlarmsCommand::Silence(silence) => silence.run().await,
            AlarmsCommand::Unsilence(Unsilence { id, form, server }) => {
                let question = v1::DeleteSilenceRequest { id: id.clone() };
                ask(&server, question, |mut c, q| async move { c.delete_silence(q).await }).await?;
                form.show(|| json!({ "id": id, "effect": "removed" }), || format!("silence {id} removed"))
            }
            AlarmsCommand::Test(test) => test.run().await,
        }
    }
}

impl List {
    async fn run(self) -> Result {
        let question = v1::ListAlarmsRequest {};
        let found = ask(&self.server, question, |mut c, q| async move { c.list_alarms(q).await }).await?;
        let none = if found.active.is_empty() { "no alarms" } else { "" };
        let whole = self.form.is_table();
        self.form.show(|| all_as_json(&found), none, || alarms(&found.active))?;
        if whole { rest(&found, self.all, self.form.is_wide()) } else { Ok(()) }
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
            || format!("silence {} holds until {}", made.id, date(made.until.as_ref())),
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
            || delivered(&done.deliveries).text(false, look()),
        )?;
        if done.deliveries.is_empty() {
            let what = "no receivers are configured: add [[alarms.receivers]] to the configuration";
            return Err(Failure::failed(Code::NoReceiver, what));
        }
        if failed.is_empty() {
            return Ok(());
        }
        let why = format!("{} did not take the test: the reason stands beside it", failed.join(", "));
        Err(Failure::failed(Code::AlarmNotDelivered, why))
    }
}

/// What stands below the alarms themselves.
fn rest(found: &v1::ListAlarmsResponse, all: bool, wide: bool) -> Result {
    let mut tables = Vec::new();
    let row = |silence: &v1::Silence| {
        [
            Cell::from(silence.id.as_str()),
            or_dash(&silence.alarm).into(),
            or_dash(&silence.job).into(),
            when(silence.until.as_ref()),
            silence.by.as_str().into(),
            brief(&silence.comment, 200).into(),
        ]
    };
    let columns = [
        col("SILENCE").cut(8),
        col("ALARM"),
        col("JOB").cut(6),
        col("UNTIL"),
        col("BY").cut(6),
        col("WHY").cut(6),
    ];
    tables.push(Table::of(columns, found.silences.iter().map(row)));
    let row = |receiver: &v1::AlarmReceiver| {
        let state = match receiver.failures {
            0 => "ok".to_owned(),
            failures => format!("failed {failures} times: {}", brief(&receiver.error, 200)),
        };
        [Cell::from(receiver.name.as_str()), receiver.form.as_str().into(), Cell::state(state)]
    };
    let columns = [col("RECEIVER").cut(10), col("FORM"), col("STATE").cut(16)];
    tables.push(Table::of(columns, found.receivers.iter().map(row)));
    let row = |refused: &v1::RefusedHandler| [Cell::from(refused.job.as_str()), refused.why.as_str().into()];
    let columns = [col("JOB").cut(12), col("ITS OWN RECEIVER CANNOT BE USED").cut(32)];
    tables.push(Table::of(columns, found.refused.iter().map(row)));
    if all {
        tables.push(alarms(&found.resolved));
        tables.push(delivered(&found.deliveries));
    }
    for table in tables.iter().filter(|table| !table.is_empty()) {
        say(&format!("\n{}", table.text(wide, look())))?;
    }
    Ok(())
}

fn alarms(alarms: &[v1::Alarm]) -> Table {
    let row = |alarm: &v1::Alarm| {
        let state = match (alarm.resolved_at.as_ref(), alarm.silenced, alarm.told.is_empty()) {
            (Some(at), ..) => format!("ended {}", date(Some(at))),
            (None, true, _) => "silenced".to_owned(),
            (None, false, true) => "not notified yet".to_owned(),
            (None, false, false) => format!("notified {}", alarm.told.join(", ")),
        };
        [
            Cell::from(alarm.alarm.as_str()),
            Cell::state(alarm.severity.as_str()),
            or_dash(&alarm.job).into(),
            when(alarm.since.as_ref()),
            Cell::state(state),
            brief(&alarm.text, 200).into(),
        ]
    };
    let columns = [
        col("ALARM").named(),
        col("SEVERITY"),
        col("JOB").named().cut(8),
        col("SINCE"),
        col("STATE").cut(10),
        col("WHAT").cut(10),
    ];
    Table::of(columns, alarms.iter().map(row))
}

fn delivered(deliveries: &[v1::AlarmDelivery]) -> Table {
    let row = |delivery: &v1::AlarmDelivery| {
        let result = if delivery.error.is_empty() {
            "delivered".into()
        } else {
            format!("failed: {}", brief(&delivery.error, 200))
        };
        [
            when(delivery.at.as_ref()),
            Cell::from(delivery.receiver.as_str()),
            delivery.attempt.into(),
            Cell::state(result),
            brief(&delivery.title, 200).into(),
        ]
    };
    let columns =
        [col("AT"), col("RECEIVER").cut(8), col("ATTEMPT"), col("RESULT").cut(12), col("WHAT").cut(8)];
    Table::of(columns, deliveries.iter().map(row))
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
    let non_empty = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    json!({
        "id": silence.id, "alarm": non_empty(&silence.alarm), "job": non_empty(&silence.job),
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
