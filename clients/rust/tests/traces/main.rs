//! With the feature `opentelemetry` a handler runs within its fire's trace, whatever kind of handler it is, and every
//! line of it has the ids. A program has one tracer, so this is a separate test program.

#[path = "../it/script.rs"]
#[allow(dead_code, clippy::disallowed_methods, reason = "more of it is for the other tests, which measure")]
mod script;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use opentelemetry::trace::{
    Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, global};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use rosterd_client::embedding::proto::{RunOutcome, Trigger};
use rosterd_client::testing::TestRun;
use rosterd_client::{Failure, Job, Run, Worker};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use rosterd_client::embedding::proto::session_response::Frame as Response;
use script::{Coordinators, drive, trigger};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Keeps the spans that have ended.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

impl Kept {
    fn take(&self) -> BTreeMap<String, SpanData> {
        let ended = std::mem::take(&mut *self.0.lock().unwrap());
        ended.into_iter().map(|span| (span.name.to_string(), span)).collect()
    }
}

/// The work of user code: a span of its own, below the current one.
fn works() -> String {
    let current = Context::current();
    global::tracer("user").start_with_context("of the user", &current).end();
    current.span().span_context().trace_id().to_string()
}

/// The fields of each span `run` of tracing.
#[derive(Default)]
struct Lines(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        if span.metadata().name() == "run" {
            let mut fields = Fields(BTreeMap::new());
            span.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn joins(spans: &BTreeMap<String, SpanData>, job: &str) -> SpanData {
    let (run, user) = (&spans[&format!("run {job}")], &spans["of the user"]);
    assert_eq!(run.span_context.trace_id().to_string(), TRACE);
    assert_eq!((run.parent_span_id.to_string(), run.parent_span_is_remote), (PARENT.to_owned(), true));
    assert_eq!(user.parent_span_id, run.span_context.span_id(), "the user's span is below the run's");
    assert_eq!(
        (run.span_kind.clone(), run.span_context.trace_state().header()),
        (SpanKind::Consumer, "a=b".to_owned())
    );
    run.clone()
}

#[tokio::test]
async fn a_handler_runs_within_the_trace_of_its_run() {
    let run = || {
        TestRun::new()
            .trace_context("traceparent", format!("00-{TRACE}-{PARENT}-01"))
            .trace_context("tracestate", "a=b")
    };
    // Without a tracer the context is there all the same.
    let current = Job::new("j").handler(|_: Run| async move { Ok(works()) });
    assert_eq!(run().call(&current).await.output, TRACE);

    let kept = Kept::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    // It also records by itself.
    provider.tracer("here").start("before").end();
    assert!(kept.take().contains_key("before"));
    global::set_tracer_provider(provider);

    let job = Job::new("async").handler(|_: Run| async move {
        tokio::task::yield_now().await;
        works();
        Err::<(), _>(Failure::new("boom"))
    });
    run().call(&job).await;
    let ended = joins(&kept.take(), "async");
    assert!(
        matches!(ended.status, Status::Error { ref description } if description == "boom"),
        "{:?}",
        ended.status
    );

    let job = Job::new("blocks").blocking(|_: Run| {
        works();
        Ok(())
    });
    run().call(&job).await;
    assert_eq!(joins(&kept.take(), "blocks").status, Status::Unset);

    // And within a worker, where lines of the log have the ids.
    let lines = Lines::default();
    let seen = lines.0.clone();
    let _subscriber = tracing::subscriber::set_default(lines);
    let mut all = Coordinators::new();
    let handler = |_: Run| async { Ok(works()) };
    drive(Worker::connect("a").job("j", handler), &all.net);
    let mut a = all.attach().await;
    let carried = [("traceparent", format!("00-{TRACE}-{PARENT}-01")), ("tracestate", "a=b".to_owned())];
    let trace_context = carried.map(|(name, value)| (name.to_owned(), value)).into();
    a.say(Response::Trigger(Trigger { trace_context, ..trigger(3, 9) })).await;
    a.completes(3, 9, RunOutcome::Succeeded).await;
    let ended = joins(&kept.take(), "j");
    let fields = seen.lock().unwrap()[0].clone();
    assert_eq!((fields["trace_id"].as_str(), fields["token"].as_str()), (TRACE, "9"));
    assert_eq!(fields["span_id"], ended.span_context.span_id().to_string());
}
