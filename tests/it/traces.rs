//! Traces of real processes at a recording collector: the coordinator's spans of a fire, and the spans of workers in
//! Rust and in Python, are one trace.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::harness::*;
use crate::{http, python};

/// The spans that a collector received, each with its service.
type Spans = Arc<Mutex<Vec<(String, Span)>>>;

struct Collector(Spans);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for of in request.into_inner().resource_spans {
            let attributes = of.resource.map(|resource| resource.attributes).unwrap_or_default();
            let service = attributes.into_iter().find(|pair| pair.key == "service.name");
            let service = match service.and_then(|pair| pair.value?.value) {
                Some(any_value::Value::StringValue(name)) => name,
                _ => "worker".to_owned(),
            };
            let spans = of.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans.map(|span| (service.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

async fn collector() -> (String, Spans) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, spans) = (listener.local_addr().unwrap(), Spans::default());
    let service = TraceServiceServer::new(Collector(spans.clone()));
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (format!("http://{address}"), spans)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number among the attributes.
fn number(span: &Span, name: &str) -> i64 {
    let value = span.attributes.iter().find(|pair| pair.key == name).and_then(|pair| pair.value.clone());
    match value.and_then(|value| value.value) {
        Some(any_value::Value::IntValue(number)) => number,
        other => panic!("{name} is {other:?} in {span:?}"),
    }
}

fn in_python(cluster: &mut Cluster, job: &str) {
    let file = cluster.home.path("python.traces");
    let plan = json!({ "server": cluster.url(), "job": job, "file": file });
    let mut command = Command::new(python::interpreter());
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/traced.py"))
        .env("PLAN", plan.to_string());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let proc = Proc::spawn("python", command, &cluster.home.path("python.log"));
    cluster.workers.push(WorkerProc { name: "python".into(), proc });
}

/// The runs, as REST shows them.
async fn runs(cluster: &Cluster) -> Vec<Value> {
    let address = SocketAddr::from(([127, 0, 0, 1], cluster.port));
    let answer = http::ask(address, "GET", "/api/runs?job=traced&state=TASK_FINISHED", "", "").await;
    answer.json().as_array().cloned().unwrap()
}

#[tokio::test]
async fn a_fire_and_the_code_of_its_workers_are_one_trace() {
    let (endpoint, spans) = collector().await;
    let told = [
        format!("otlp_endpoint={endpoint}"),
        "otlp_interval=50ms".into(),
        "trace_url=http://jaeger/trace/{trace_id}".into(),
    ];
    let mut cluster = Cluster::with(LONG, &told.each_ref().map(String::as_str)).await;
    cluster.apply(job("traced", 2, json!({}))).await;
    let mut does = runs_for("traced", 50);
    does.traces = Some(endpoint);
    cluster.worker("rust", vec![does]);
    in_python(&mut cluster, "traced");
    cluster.assigned("traced", 2).await;
    cluster.trigger("traced").await;

    let named = |service: &str, name: &str| -> Vec<Span> {
        let spans = spans.lock().unwrap();
        let found = spans.iter().filter(|(of, span)| of == service && span.name == name);
        found.map(|(_, span)| span.clone()).collect()
    };
    until("the spans of two runs", || {
        let parts = ["run traced", "dispatch", "report"].map(|name| named("rosterd", name).len());
        parts == [2, 2, 2]
            && !named("rosterd", "fire traced").is_empty()
            && named("worker", "run traced").len() == 1
    })
    .await;
    let all: Vec<_> = spans.lock().unwrap().iter().map(|(_, span)| span.clone()).collect();
    let traces: BTreeSet<_> = all.iter().map(|span| hex(&span.trace_id)).collect();
    assert_eq!(traces.len(), 1, "all of it is one trace: {all:#?}");
    let trace = traces.into_iter().next().unwrap();
    assert!(all.iter().all(|span| span.start_time_unix_nano <= span.end_time_unix_nano), "{all:#?}");

    // The parents of the spans.
    let fires = named("rosterd", "fire traced");
    let in_runs = named("rosterd", "run traced");
    let of_item = |item: i64| in_runs.iter().find(|run| number(run, "rosterd.item") == item).unwrap();
    assert!(fires.iter().all(|fire| fire.parent_span_id.is_empty()));
    for run in &in_runs {
        assert!(fires.iter().any(|fire| fire.span_id == run.parent_span_id), "{run:?} is in no fire");
    }
    for part in named("rosterd", "dispatch").iter().chain(&named("rosterd", "report")) {
        assert_eq!(part.parent_span_id, of_item(number(part, "rosterd.item")).span_id, "{part:?}");
    }
    for commit in named("rosterd", "commit") {
        assert!(fires.iter().any(|fire| fire.span_id == commit.parent_span_id), "{commit:?}");
    }
    // User code continues the trace, in any language.
    let in_rust = &named("worker", "run traced")[0];
    assert_eq!(in_rust.parent_span_id, of_item(number(in_rust, "rosterd.item")).span_id);
    let lines = std::fs::read_to_string(cluster.home.path("python.traces")).unwrap();
    let in_python: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let above = of_item(in_python["item"].as_i64().unwrap());
    assert_eq!(
        (in_python["trace"].as_str(), in_python["span"].as_str()),
        (Some(&*trace), Some(&*hex(&above.span_id)))
    );
    assert_ne!(in_python["item"], number(in_rust, "rosterd.item"));

    // People find it from the run.
    let shown =
        wait("two runs", || async { Some(runs(&cluster).await).filter(|runs| runs.len() == 2) }).await;
    for run in shown {
        assert_eq!(run["traceId"], *trace);
        assert_eq!(run["traceUrl"], format!("http://jaeger/trace/{trace}"));
    }
    assert!(cluster.runs("traced").await.iter().all(|run| run.trace_id == trace));
    let listed =
        Command::new(binary(false)).args(["runs", "--json", "--server", &cluster.url()]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["trace_id"], *trace, "{listed}");
    assert!(cluster.counted("rosterd_spans_exported_total").await >= 8.0);
}

#[tokio::test]
async fn a_collector_that_is_gone_holds_no_fire_up_and_what_is_lost_is_counted() {
    // Nothing listens there now.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let told = [format!("otlp_endpoint=http://{gone}"), "otlp_interval=20ms".into()];
    let mut cluster = Cluster::with(SHORT, &told.each_ref().map(String::as_str)).await;
    cluster.apply(job("untraced", 2, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("w", vec![runs_for("untraced", 10)]);
    wait("spans to be lost", || async {
        (cluster.counted("rosterd_spans_dropped_total{reason=\"not_taken\"}").await > 0.0).then_some(())
    })
    .await;
    cluster.verdict_when("runs", |verdict| verdict.of("untraced").count() >= 8).await;
    let log = cluster.logged();
    assert_eq!(log.matches("spans are not taken").count(), 1, "once for all that fails in a row");
    let coordinator = cluster.coordinator.as_mut().unwrap();
    coordinator.signal(rustix::process::Signal::TERM);
    assert!(coordinator.end().await.success());
}
