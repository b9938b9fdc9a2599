//! Alarms: current problems, who was notified, and silences. They belong to the coordinator that is asked.

use std::time::Duration;

use axum::extract::{Path, State};
use rosterd_alarms::desk::{self, View};
use rosterd_alarms::letter;
use rosterd_domain::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::problem::Problem;
use super::shape::time;
use super::{Json, JsonResult, Query, Shared, Who};
use crate::alarms::SilenceRequest;

/// Longest body of a silence.
const BODY: usize = 16 << 10;

/// Current and recent alarms.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Alarms {
    /// Active alarms, raised by this coordinator.
    active: Vec<Alarm>,
    /// Recently resolved alarms, the latest first.
    resolved: Vec<Alarm>,
    silences: Vec<Silence>,
    receivers: Vec<Receiver>,
    /// The last messages, the latest first.
    deliveries: Vec<Delivery>,
    /// Jobs whose own jobErrorHandlerType cannot be used.
    refused: Vec<RefusedHandler>,
}

/// An alarm.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Alarm {
    /// The same on every coordinator and after every restart.
    key: String,
    /// Its kind.
    alarm: &'static str,
    /// The name of its rule.
    rule: String,
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_name: Option<String>,
    /// The problem, for people.
    text: String,
    /// Since when it has been observed.
    since: String,
    raised_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolved_at: Option<String>,
    /// Whether it is silenced: then nobody is notified.
    silenced: bool,
    /// Receivers that were notified.
    told: Vec<String>,
}

/// A silence: until it ends, nobody is notified of the alarms that it matches.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Silence {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    alarm: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    until: String,
    comment: String,
    /// The credential that created it.
    by: String,
}

/// A receiver of notifications.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Receiver {
    name: String,
    form: &'static str,
    /// Failures since the last accepted message.
    failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// When the next attempt is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
}

/// An attempt to notify a receiver.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delivery {
    at: String,
    receiver: String,
    form: &'static str,
    title: String,
    /// The keys of its alarms.
    keys: Vec<String>,
    /// The number of this attempt since the last accepted message.
    attempt: u32,
    test: bool,
    /// Whether the receiver accepted it.
    delivered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A job that names an unusable receiver.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RefusedHandler {
    job_name: String,
    why: String,
}

fn alarm(alarm: letter::Alarm, silenced: bool, told: Vec<String>) -> Alarm {
    Alarm {
        key: alarm.key,
        alarm: alarm.alarm.as_str(),
        rule: alarm.rule,
        severity: alarm.severity.as_str(),
        job_name: alarm.job_name.map(|job| job.to_string()),
        text: alarm.text,
        since: time(alarm.since),
        raised_at: time(alarm.raised_at),
        resolved_at: alarm.resolved_at.map(time),
        silenced,
        told,
    }
}

fn silence(silence: rosterd_alarms::silence::Silence) -> Silence {
    Silence {
        id: silence.id,
        alarm: silence.alarm.map(rosterd_alarms::kind::AlarmKind::as_str),
        job: silence.job,
        until: time(silence.until),
        comment: silence.comment,
        by: silence.by,
    }
}

fn delivery(delivery: desk::Delivery) -> Delivery {
    Delivery {
        at: time(delivery.at),
        receiver: delivery.receiver,
        form: delivery.form,
        title: delivery.title,
        keys: delivery.keys,
        attempt: delivery.attempt,
        test: delivery.test,
        delivered: delivery.error.is_none(),
        error: delivery.error,
    }
}

fn receiver(receiver: desk::ReceiverView) -> Receiver {
    Receiver {
        name: receiver.name,
        form: receiver.form,
        failures: receiver.post.failures,
        error: receiver.post.error,
        next_attempt_at: receiver.post.not_before.map(time),
    }
}

#[utoipa::path(get, path = "/api/alarms", tag = "alarms", responses((status = 200, body = Alarms)))]
/// Lists alarms that this coordinator raised, recently resolved ones, silences, receivers and the last messages.
pub(super) async fn list_alarms(State(rest): Shared) -> JsonResult<Alarms> {
    let View { active, resolved, silences, receivers, deliveries, refused } = rest.alarms.view();
    let refused = refused.into_iter().map(|(job, why)| RefusedHandler { job_name: job.to_string(), why });
    Ok(Json(Alarms {
        active: active.into_iter().map(|of| alarm(of.alarm, of.silenced, of.notified)).collect(),
        resolved: resolved.into_iter().map(|of| alarm(of, false, Vec::new())).collect(),
        silences: silences.into_iter().map(silence).collect(),
        receivers: receivers.into_iter().map(receiver).collect(),
        deliveries: deliveries.into_iter().map(delivery).collect(),
        refused: refused.collect(),
    }))
}

/// What to silence, and how long.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewSilence {
    /// Alarms of this kind; default: all kinds.
    alarm: Option<String>,
    /// Of this job, or of jobs with this prefix if it ends with `*`; default: all jobs, and coordinators.
    job: Option<String>,
    /// Until this time; either this or durationMs is required.
    until: Option<String>,
    /// How long, in milliseconds.
    duration_ms: Option<u64>,
    /// Why.
    #[serde(default)]
    comment: String,
}

#[utoipa::path(put, path = "/api/alarms/silences/{id}", tag = "alarms", params(("id" = String, Path)), request_body = NewSilence, responses((status = 200, body = Silence), (status = 400, body = Problem)))]
/// Silences alarms for a time: they are raised and shown, but nobody is notified. Applies to the coordinator that is
/// asked.
pub(super) async fn put_silence(
    State(rest): Shared,
    who: Who,
    Path(id): Path<String>,
    body: String,
) -> JsonResult<Silence> {
    if body.len() > BODY {
        return Err(Problem::invalid("body", format!("{} bytes are more than {BODY}", body.len())));
    }
    let NewSilence { alarm, job, until, duration_ms, comment } =
        serde_json::from_str(&body).map_err(|error| Problem::invalid("body", error))?;
    let until = until.as_deref().map(Time::parse).transpose();
    let until = until.map_err(|error| Problem::invalid("until", error))?;
    let duration = duration_ms.map(Duration::from_millis);
    let request = SilenceRequest { alarm, job, until, duration, comment };
    Ok(Json(silence(rest.alarms.silence(who.0.as_ref(), id, request).await?)))
}

#[utoipa::path(delete, path = "/api/alarms/silences/{id}", tag = "alarms", params(("id" = String, Path)), responses((status = 200, body = Vec<Silence>, description = "The remaining silences."), (status = 404, body = Problem)))]
/// Removes a silence: receivers are notified of the alarms that are still active.
pub(super) async fn delete_silence(
    State(rest): Shared,
    who: Who,
    Path(id): Path<String>,
) -> JsonResult<Vec<Silence>> {
    rest.alarms.unsilence(who.0.as_ref(), &id).await?;
    Ok(Json(rest.alarms.view().silences.into_iter().map(silence).collect()))
}

/// Which receivers to test.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TestQuery {
    /// Only this receiver; default: all configured receivers.
    receiver: Option<String>,
}

#[utoipa::path(post, path = "/api/alarms/test", tag = "alarms", params(TestQuery), responses((status = 200, body = Vec<Delivery>), (status = 404, body = Problem)))]
/// Sends a test message to each receiver, and returns the results.
pub(super) async fn test_alarms(
    State(rest): Shared,
    who: Who,
    Query(query): Query<TestQuery>,
) -> JsonResult<Vec<Delivery>> {
    let done = rest.alarms.test(who.0.as_ref(), query.receiver.as_deref()).await?;
    Ok(Json(done.into_iter().map(delivery).collect()))
}
