use std::collections::VecDeque;
use std::sync::Mutex;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use rosterd_session::trace::{SpanId, TraceId};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Response, Status as Refused};

use super::*;

/// A collector that records, and answers as it is told; what it is not told of it takes.
#[derive(Default)]
struct Recorded {
    answers: Mutex<VecDeque<Result<i64, Code>>>,
    requests: Mutex<Vec<(MetadataMap, ExportTraceServiceRequest)>>,
}

struct Collector(Arc<Recorded>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Refused> {
        let (heads, _, body) = request.into_parts();
        self.0.requests.lock().unwrap().push((heads, body));
        match self.0.answers.lock().unwrap().pop_front() {
            Some(Err(code)) => Err(Refused::new(code, "as told")),
            Some(Ok(rejected_spans)) => {
                let partial = ExportTracePartialSuccess { rejected_spans, error_message: "as told".into() };
                Ok(Response::new(ExportTraceServiceResponse { partial_success: Some(partial) }))
            }
            None => Ok(Response::new(ExportTraceServiceResponse::default())),
        }
    }
}

impl Recorded {
    fn names(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let resources = requests.iter().flat_map(|(_, request)| &request.resource_spans);
        resources
            .flat_map(|of| &of.scope_spans)
            .flat_map(|of| &of.spans)
            .map(|span| span.name.clone())
            .collect()
    }
}

async fn collector(answers: impl IntoIterator<Item = Result<i64, Code>>) -> (String, Arc<Recorded>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let recorded =
        Arc::new(Recorded { answers: Mutex::new(answers.into_iter().collect()), ..Recorded::default() });
    let server =
        tonic::transport::Server::builder().add_service(TraceServiceServer::new(Collector(recorded.clone())));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (format!("http://{address}"), recorded)
}

fn settings(endpoint: String) -> Settings {
    Settings {
        endpoint,
        headers: vec![("x-tenant".to_owned(), "ops".to_owned())],
        ca: None,
        timeout: Duration::from_secs(20),
        interval: Duration::from_millis(10),
        queue: 64,
        resource: vec![("service.name", "rosterd".to_owned())],
    }
}

fn span(name: &str) -> Span {
    Span {
        trace: TraceId([1; 16]),
        id: SpanId([2; 8]),
        parent: Some(SpanId([3; 8])),
        name: name.to_owned(),
        goes_on_elsewhere: true,
        from: 1_000,
        to: 2_000,
        attributes: vec![("rosterd.job", "words".into()), ("rosterd.item", 7_u32.into())],
        failure: Some("crashed".to_owned()),
    }
}

struct Running {
    queue: Queue,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn run(settings: Settings) -> Running {
    let (metrics, stop) = (Metrics::new(), CancellationToken::new());
    let (queue, exporter) = Exporter::new(settings, metrics.clone()).unwrap();
    let task = tokio::spawn(exporter.run(stop.clone()));
    Running { queue, metrics, stop, task }
}

impl Running {
    fn dropped(&self, reason: &'static str) -> u64 {
        self.metrics.spans_dropped.get_or_create(&[("reason", reason)]).get()
    }

    async fn until(&self, what: &str, so: impl Fn(&Self) -> bool) {
        let late = Instant::now() + Duration::from_secs(60);
        while !so(self) {
            assert!(Instant::now() < late, "waited in vain for {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn end(self) -> Arc<Metrics> {
        self.stop.cancel();
        self.task.await.unwrap();
        self.metrics
    }
}

#[tokio::test]
async fn a_span_arrives_as_it_is() {
    let (endpoint, recorded) = collector([]).await;
    let running = run(settings(endpoint));
    running.queue.put(span("run words"));
    running.until("the span", |running| running.metrics.spans_exported.get() == 1).await;
    let requests = std::mem::take(&mut *recorded.requests.lock().unwrap());
    let (heads, request) = &requests[0];
    assert_eq!(heads.get("x-tenant").unwrap(), "ops");
    let resource = &request.resource_spans[0];
    assert_eq!(resource.resource.as_ref().unwrap().attributes, [pair("service.name", &"rosterd".into())]);
    let expected = Wire {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        parent_span_id: vec![3; 8],
        flags: 1,
        name: "run words".to_owned(),
        kind: span::SpanKind::Producer.into(),
        start_time_unix_nano: 1_000,
        end_time_unix_nano: 2_000,
        attributes: vec![pair("rosterd.job", &"words".into()), pair("rosterd.item", &Value::Number(7))],
        status: Some(Status { message: "crashed".to_owned(), code: status::StatusCode::Error.into() }),
        ..Wire::default()
    };
    assert_eq!(resource.scope_spans[0].spans, [expected]);
}

#[tokio::test]
async fn a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let again = [Err(Code::Unavailable), Err(Code::ResourceExhausted)];
    let (endpoint, recorded) = collector(again.into_iter().chain([Ok(0), Err(Code::InvalidArgument)])).await;
    let running = run(settings(endpoint));
    running.queue.put(span("a"));
    running.until("the third try", |running| running.metrics.spans_exported.get() == 1).await;
    running.queue.put(span("b"));
    running.until("a refusal", |running| running.dropped("not_taken") == 1).await;
    running.queue.put(span("c"));
    running.until("the next", |running| running.metrics.spans_exported.get() == 2).await;
    assert_eq!(recorded.names(), ["a", "a", "a", "b", "c"]);
}

#[tokio::test]
async fn what_a_collector_rejects_is_counted_apart() {
    let (endpoint, _recorded) = collector([Ok(1)]).await;
    let running = run(settings(endpoint));
    running.queue.put(span("a"));
    running.until("a rejected span", |running| running.dropped("rejected") == 1).await;
    assert_eq!(running.metrics.spans_exported.get(), 0);
}

#[tokio::test]
async fn a_full_queue_drops_at_once_and_counts() {
    // It takes the connection, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let running = run(settings(endpoint));
    // Fewer than a batch are under way at the most; the queue takes 64.
    let put = BATCH + 64 + 100;
    for n in 0..put {
        running.queue.put(span(&n.to_string()));
    }
    assert!(running.dropped("queue_full") >= 100, "{}", running.dropped("queue_full"));
    assert_eq!(running.metrics.spans_exported.get(), 0);
    let full = running.dropped("queue_full");
    let metrics = running.end().await;
    let stopped = metrics.spans_dropped.get_or_create(&[("reason", "stopped")]).get();
    assert_eq!(full + stopped, put as u64, "every span is accounted for");
}

#[tokio::test]
async fn what_was_put_before_the_stop_is_sent() {
    let (endpoint, recorded) = collector([]).await;
    let running = run(Settings { interval: Duration::from_secs(50), ..settings(endpoint) });
    running.queue.put(span("early"));
    running.queue.put(span("late"));
    let metrics = running.end().await;
    assert_eq!((recorded.names(), metrics.spans_exported.get()), (vec!["early".into(), "late".into()], 2));
}

#[tokio::test]
async fn an_endpoint_or_a_header_that_cannot_be_used_is_an_error_at_once() {
    let of = |settings| Exporter::new(settings, Metrics::new()).map(drop).unwrap_err().to_string();
    let endpoint = of(settings("http://a b".to_owned()));
    assert!(endpoint.starts_with("otlp_endpoint http://a b cannot be used"), "{endpoint}");
    let headers = vec![("x y".to_owned(), String::new())];
    let header = of(Settings { headers, ..settings("http://127.0.0.1:1".to_owned()) });
    assert!(header.contains("\"x y\""), "{header}");
}
