//! The observability of a worker: hooks, and the ids of its runs in every log line.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rosterd_client::embedding::proto::RunOutcome;
use rosterd_client::{Failure, Hooks, How, Job, Run, RunEnd, Worker};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::script::*;

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Hooks for Seen {
    fn run_started(&self, run: &Run) {
        self.note(format!("started {}", run.item()));
        assert_ne!(run.item(), 2, "a hook that panics changes nothing");
    }

    fn run_ended(&self, run: &Run, end: &RunEnd) {
        self.note(format!("ended {} {:?} {}", run.item(), end.how, end.error));
        assert!(end.how != How::Returned || end.duration >= ms(50), "{end:?}");
    }

    fn attached(&self, server: &str, instance_id: &str) {
        self.note(format!("attached {server} {instance_id}"));
    }

    fn detached(&self, server: &str, reason: &str) {
        self.note(format!("detached {server} {reason}"));
    }

    fn lease_renewed(&self, round_trip: Duration) {
        self.note(format!("renewed {}", round_trip < ms(1_000)));
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_hear_of_streams_leases_and_runs() {
    let seen = Seen::default();
    let job = Job::new("j").handler(|run: Run| async move {
        if run.item() == 1 {
            return Err(Failure::new("boom"));
        }
        tokio::time::sleep(ms(50)).await;
        Ok(())
    });
    let mut all = Coordinators::new();
    drive(Worker::connect("a").slots(4).hooks(seen.clone()).add(job), &all.net);
    let mut a = all.attach().await;
    for (item, outcome) in [(0, RunOutcome::Succeeded), (1, RunOutcome::Failed), (2, RunOutcome::Succeeded)] {
        a.trigger(item, 1).await;
        a.completes(item, 1, outcome).await;
    }
    a.live(ms(2_500)).await;
    drop(a);
    all.accept().await;
    let lines = seen.lines();
    let has = |line: &str| assert!(lines.iter().any(|seen| seen.starts_with(line)), "{line}: {lines:?}");
    for line in [
        "attached a here@-@w1",
        "started 0",
        "ended 0 Returned ",
        "ended 1 Failed boom",
        "started 2",
        "ended 2 Returned ",
        "renewed true",
        "detached a ",
    ] {
        has(line);
    }
}

/// Keeps the fields of the span `run`.
#[derive(Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        if span.metadata().name() == "run" {
            let mut fields = Fields(String::new());
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

#[tokio::test(start_paused = true)]
async fn every_line_of_a_handler_is_within_a_span_with_the_ids_of_its_run() {
    let spans = Spans::default();
    let seen = spans.0.clone();
    let _subscriber = tracing::subscriber::set_default(spans);
    let mut all = Coordinators::new();
    drive(Worker::connect("a").job("j", |_| async { Ok(()) }), &all.net);
    let mut a = all.attach().await;
    a.trigger(3, 9).await;
    a.completes(3, 9, RunOutcome::Succeeded).await;
    let wanted = r#"job="j" item=3 token=9 attempt=1 instance="here@-@w1" "#;
    assert_eq!(*seen.lock().unwrap(), [wanted]);
}
