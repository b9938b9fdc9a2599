//! `AlarmService`: alarms for the command line and other programs. It parses messages; rights, limits and the audit are
//! those of REST.

use std::sync::Arc;

use rosterd_alarms::desk::{self, View};
use rosterd_alarms::kind::AlarmKind;
use rosterd_alarms::{letter, silence};
use rosterd_session::code::{Code, Refusal};
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::alarm_service_server::AlarmService;
use rosterd_wire::scalar::{timestamp, to_duration, to_time};
use rosterd_wire::status::status;
use tonic::{Request, Response, Status};

use crate::access::Principal;
use crate::alarms::{Alarms, SilenceRequest};

/// The service.
pub(crate) struct AlarmDesk(pub(crate) Arc<Alarms>);

fn alarm(alarm: letter::Alarm, silenced: bool, told: Vec<String>) -> v1::Alarm {
    v1::Alarm {
        key: alarm.key,
        alarm: alarm.alarm.as_str().into(),
        rule: alarm.rule,
        severity: alarm.severity.as_str().into(),
        job: alarm.job_name.map(|job| job.to_string()).unwrap_or_default(),
        text: alarm.text,
        since: Some(timestamp(alarm.since)),
        raised_at: Some(timestamp(alarm.raised_at)),
        resolved_at: alarm.resolved_at.map(timestamp),
        silenced,
        told,
    }
}

fn silence(silence: silence::Silence) -> v1::Silence {
    v1::Silence {
        id: silence.id,
        alarm: silence.alarm.map(AlarmKind::as_str).unwrap_or_default().into(),
        job: silence.job.unwrap_or_default(),
        until: Some(timestamp(silence.until)),
        comment: silence.comment,
        by: silence.by,
    }
}

fn receiver(receiver: desk::ReceiverView) -> v1::AlarmReceiver {
    v1::AlarmReceiver {
        name: receiver.name,
        form: receiver.form.into(),
        failures: receiver.post.failures,
        error: receiver.post.error.unwrap_or_default(),
        next_attempt_at: receiver.post.not_before.map(timestamp),
    }
}

fn delivery(delivery: desk::Delivery) -> v1::AlarmDelivery {
    v1::AlarmDelivery {
        at: Some(timestamp(delivery.at)),
        receiver: delivery.receiver,
        form: delivery.form.into(),
        title: delivery.title,
        keys: delivery.keys,
        attempt: delivery.attempt,
        test: delivery.test,
        error: delivery.error.unwrap_or_default(),
    }
}

fn who<T>(request: &Request<T>) -> Option<Principal> {
    request.extensions().get::<Principal>().cloned()
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

#[tonic::async_trait]
impl AlarmService for AlarmDesk {
    async fn list_alarms(
        &self,
        _request: Request<v1::ListAlarmsRequest>,
    ) -> Result<Response<v1::ListAlarmsResponse>, Status> {
        let View { active, resolved, silences, receivers, deliveries, refused } = self.0.view();
        let refused = refused.into_iter().map(|(job, why)| v1::RefusedHandler { job: job.to_string(), why });
        Ok(Response::new(v1::ListAlarmsResponse {
            active: active.into_iter().map(|of| alarm(of.alarm, of.silenced, of.notified)).collect(),
            resolved: resolved.into_iter().map(|of| alarm(of, false, Vec::new())).collect(),
            silences: silences.into_iter().map(silence).collect(),
            receivers: receivers.into_iter().map(receiver).collect(),
            deliveries: deliveries.into_iter().map(delivery).collect(),
            refused: refused.collect(),
        }))
    }

    async fn put_silence(
        &self,
        request: Request<v1::PutSilenceRequest>,
    ) -> Result<Response<v1::PutSilenceResponse>, Status> {
        let who = who(&request);
        let v1::PutSilenceRequest { silence: wanted, duration } = request.into_inner();
        let v1::Silence { id, alarm, job, until, comment, by: _ } = wanted.unwrap_or_default();
        let invalid = |field: &str| {
            status(&Refusal::new(Code::RequestInvalid, format!("{field}: it is out of range: set another")))
        };
        let until = until.map(|until| to_time(until).ok_or_else(|| invalid("until"))).transpose()?;
        let duration =
            duration.map(|span| to_duration(span).ok_or_else(|| invalid("duration"))).transpose()?;
        let wanted =
            SilenceRequest { alarm: non_empty(alarm), job: non_empty(job), until, duration, comment };
        let made = self.0.silence(who.as_ref(), id, wanted).await.map_err(|refusal| status(&refusal))?;
        Ok(Response::new(v1::PutSilenceResponse { silence: Some(silence(made)) }))
    }

    async fn delete_silence(
        &self,
        request: Request<v1::DeleteSilenceRequest>,
    ) -> Result<Response<v1::DeleteSilenceResponse>, Status> {
        let who = who(&request);
        let id = request.into_inner().id;
        self.0.unsilence(who.as_ref(), &id).await.map_err(|refusal| status(&refusal))?;
        Ok(Response::new(v1::DeleteSilenceResponse {}))
    }

    async fn test_alarms(
        &self,
        request: Request<v1::TestAlarmsRequest>,
    ) -> Result<Response<v1::TestAlarmsResponse>, Status> {
        let who = who(&request);
        let receiver = non_empty(request.into_inner().receiver);
        let done =
            self.0.test(who.as_ref(), receiver.as_deref()).await.map_err(|refusal| status(&refusal))?;
        Ok(Response::new(v1::TestAlarmsResponse { deliveries: done.into_iter().map(delivery).collect() }))
    }
}
