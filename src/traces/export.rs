//! Spans to a collector, by OTLP over gRPC. Nobody waits for it: the queue before it is bounded, what finds no room is dropped and
//! counted, and so is what the collector does not take.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Wire, Status, span, status};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request};

use super::{Span, Value};
use rosterd_runtime::telemetry::Metrics;

/// Spans of one request; a collector takes 4 MiB, and these are a tenth of it.
const BATCH: usize = 1024;
/// How often a batch is tried, and how long the first pause is; each is twice the one before.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// How long what is left may take when the process stops.
const LAST: Duration = Duration::from_secs(3);

/// Where spans go, and how.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `http://host:port`, or https.
    pub endpoint: String,
    /// Headers of each request, in lower case.
    pub headers: Vec<(String, String)>,
    /// PEM certificates that the collector's is believed by; none: the system's.
    pub ca: Option<Vec<u8>>,
    /// How long one request may take.
    pub timeout: Duration,
    /// How long a span waits for others at the most.
    pub interval: Duration,
    /// Spans that may wait.
    pub queue: usize,
    /// What is the same for all spans: `service.name` and so on.
    pub resource: Vec<(&'static str, String)>,
}

/// Why spans cannot be sent anywhere.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// No URL, or TLS cannot be set up.
    #[error("otlp_endpoint {0} cannot be used: {1}")]
    Endpoint(String, tonic::transport::Error),
    /// No header of HTTP.
    #[error("the header {0:?} for the collector is none of HTTP: write name=value with ASCII characters")]
    Header(String),
}

/// Takes spans, at once. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Queue {
    spans: mpsc::Sender<Span>,
    metrics: Arc<Metrics>,
}

impl Queue {
    pub(crate) fn of(spans: usize, metrics: Arc<Metrics>) -> (Self, mpsc::Receiver<Span>) {
        let (put, taken) = mpsc::channel(spans);
        (Self { spans: put, metrics }, taken)
    }

    /// Queues a span, or drops and counts it.
    pub fn put(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            dropped(&self.metrics, "queue_full", 1);
        }
    }
}

fn dropped(metrics: &Metrics, reason: &'static str, count: usize) {
    metrics.spans_dropped.get_or_create(&[("reason", reason)]).inc_by(count as u64);
}

/// Every series is there from the start, also without any traces: a series that appears with its first event has no rate at it.
pub fn prepare(metrics: &Metrics) {
    for reason in ["queue_full", "not_taken", "rejected", "stopped"] {
        dropped(metrics, reason, 0);
    }
}

/// Sends what is queued.
pub struct Exporter {
    spans: mpsc::Receiver<Span>,
    client: TraceServiceClient<Channel>,
    headers: MetadataMap,
    settings: Settings,
    metrics: Arc<Metrics>,
    failing: bool,
}

/// What became of a request.
enum Sent {
    Taken,
    /// It may be taken later.
    Later(tonic::Status),
    Never(tonic::Status),
}

impl Exporter {
    /// Connects when there is something to send: a collector may come later. Call it within a runtime.
    pub fn new(settings: Settings, metrics: Arc<Metrics>) -> Result<(Queue, Self), ExportError> {
        let refused = |error| ExportError::Endpoint(settings.endpoint.clone(), error);
        let mut endpoint = Endpoint::from_shared(settings.endpoint.clone())
            .map_err(refused)?
            .connect_timeout(settings.timeout)
            .timeout(settings.timeout)
            .user_agent(concat!("rosterd/", env!("CARGO_PKG_VERSION")))
            .map_err(refused)?;
        if settings.endpoint.starts_with("https:") {
            let tls = match &settings.ca {
                Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
                None => ClientTlsConfig::new().with_native_roots(),
            };
            endpoint = endpoint.tls_config(tls).map_err(refused)?;
        }
        let mut headers = MetadataMap::new();
        for (name, value) in &settings.headers {
            let wrong = || ExportError::Header(name.clone());
            let key = AsciiMetadataKey::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
            headers.append(key, value.parse::<AsciiMetadataValue>().map_err(|_| wrong())?);
        }
        let (queue, spans) = Queue::of(settings.queue, metrics.clone());
        let client = TraceServiceClient::new(endpoint.connect_lazy());
        Ok((queue, Self { spans, client, headers, settings, metrics, failing: false }))
    }

    /// Sends until it is asked to stop, then what is left, for a moment.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        while unless(&stop, self.gather(&mut batch)).await == Some(true) {
            if unless(&stop, self.deliver(&mut batch)).await.is_none() {
                break;
            }
        }
        let _over = tokio::time::timeout(LAST, self.last(&mut batch)).await;
        while self.spans.try_recv().is_ok() {
            dropped(&self.metrics, "stopped", 1);
        }
        dropped(&self.metrics, "stopped", batch.len());
    }

    /// Waits for spans, and a moment for more of them; false: nobody puts spans in now.
    async fn gather(&mut self, batch: &mut Vec<Span>) -> bool {
        if batch.is_empty() && self.spans.recv_many(batch, BATCH).await == 0 {
            return false;
        }
        let more = async {
            while batch.len() < BATCH && self.spans.recv_many(batch, BATCH - batch.len()).await > 0 {}
        };
        let _in_time = tokio::time::timeout(self.settings.interval, more).await;
        true
    }

    /// Sends a batch, again where that may help, and empties it. Dropped on the way it leaves the batch as it is.
    async fn deliver(&mut self, batch: &mut Vec<Span>) {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=TRIES {
            match self.send(batch).await {
                Sent::Taken => {
                    if std::mem::take(&mut self.failing) {
                        tracing::info!("the collector of traces takes spans again");
                    }
                    break;
                }
                Sent::Later(why) if attempt < TRIES => {
                    self.note(&why);
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Sent::Later(why) | Sent::Never(why) => {
                    self.note(&why);
                    dropped(&self.metrics, "not_taken", batch.len());
                    break;
                }
            }
        }
        batch.clear();
    }

    /// What was put before the stop, each batch once.
    async fn last(&mut self, batch: &mut Vec<Span>) {
        loop {
            while batch.len() < BATCH {
                match self.spans.try_recv() {
                    Ok(span) => batch.push(span),
                    Err(_) => break,
                }
            }
            if batch.is_empty() {
                return;
            }
            if let Sent::Later(why) | Sent::Never(why) = self.send(batch).await {
                self.note(&why);
                return;
            }
            batch.clear();
        }
    }

    /// Once for all that fails in a row.
    fn note(&mut self, why: &tonic::Status) {
        if !std::mem::replace(&mut self.failing, true) {
            let (endpoint, code) = (&self.settings.endpoint, why.code());
            let why = why.message();
            tracing::warn!(%endpoint, ?code, "spans are not taken: {why}; they wait in a bounded queue, and are dropped and counted beyond it");
        }
    }

    async fn send(&mut self, batch: &[Span]) -> Sent {
        let mut request = Request::new(self.request(batch));
        *request.metadata_mut() = self.headers.clone();
        match self.client.export(request).await {
            Ok(answer) => {
                let rejected =
                    answer.into_inner().partial_success.map_or(0, |partial| partial.rejected_spans);
                let rejected = usize::try_from(rejected).unwrap_or(0).min(batch.len());
                dropped(&self.metrics, "rejected", rejected);
                self.metrics.spans_exported.inc_by((batch.len() - rejected) as u64);
                Sent::Taken
            }
            Err(why) if may_help(why.code()) => Sent::Later(why),
            Err(why) => Sent::Never(why),
        }
    }

    fn request(&self, batch: &[Span]) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: "rosterd".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let attributes =
            self.settings.resource.iter().map(|(key, value)| pair(key, &value.as_str().into())).collect();
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource { attributes, ..Resource::default() }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope),
                    spans: batch.iter().map(wire).collect(),
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        }
    }
}

/// What a future gives, unless it is time to stop.
async fn unless<T>(stop: &CancellationToken, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        found = future => Some(found),
    }
}

/// The codes after which OTLP says that a request may be sent again.
fn may_help(code: Code) -> bool {
    matches!(
        code,
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss
    )
}

fn wire(span: &Span) -> Wire {
    let kind = if span.goes_on_elsewhere { span::SpanKind::Producer } else { span::SpanKind::Internal };
    let status = span
        .failure
        .as_ref()
        .map(|failure| Status { message: failure.clone(), code: status::StatusCode::Error.into() });
    Wire {
        trace_id: span.trace.0.to_vec(),
        span_id: span.id.0.to_vec(),
        parent_span_id: span.parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        // Sampled.
        flags: 1,
        name: span.name.clone(),
        kind: kind.into(),
        start_time_unix_nano: span.from,
        end_time_unix_nano: span.to,
        attributes: span.attributes.iter().map(|(key, value)| pair(key, value)).collect(),
        status,
        ..Wire::default()
    }
}

fn pair(key: &str, value: &Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => any_value::Value::StringValue(text.clone()),
        Value::Number(number) => any_value::Value::IntValue(*number),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
