//! Invalid input is refused: with the right status, a code for programs, and a message that says what to do; and
//! nothing has changed.

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use serde_json::json;
use tonic::{Code, Status};

use crate::harness::*;
use crate::raw::{self, Raw};

/// An expected refusal: gRPC status, code, and words of its message.
type Wanted = (Code, &'static str, &'static [&'static str]);

fn check(case: &str, status: &Status, (grpc, reason, words): Wanted) -> Vec<String> {
    let mut wrong = Vec::new();
    if status.code() != grpc {
        wrong.push(format!("{case}: status {:?}, not {grpc:?}", status.code()));
    }
    if code(status) != reason {
        wrong.push(format!("{case}: code {:?}, not {reason}", code(status)));
    }
    wrong.extend(words_missing(case, status.message(), words));
    wrong
}

fn words_missing(case: &str, message: &str, words: &[&str]) -> Vec<String> {
    let missing = words.iter().filter(|word| !message.contains(**word));
    missing.map(|word| format!("{case}: {word:?} is not in {message:?}")).collect()
}

enum Ask {
    Apply(String),
    Trigger(&'static str, Vec<u32>),
    Pause(&'static str),
    Enable(&'static str, Option<v1::set_enabled_request::Target>),
    Remove(&'static str),
    Cancel(&'static str, u32),
    Drain(&'static str),
    Shutdown(&'static str, &'static str),
    Items(&'static str),
    Dump(&'static str),
}

async fn ask(cluster: &Cluster, ask: Ask) -> Result<(), Status> {
    let mut admin = cluster.admin();
    match ask {
        Ask::Apply(text) => admin.apply_jobs(v1::ApplyJobsRequest { text, dry_run: false }).await.map(drop),
        Ask::Trigger(job, items) => admin
            .trigger_job(v1::TriggerJobRequest { job: job.into(), items, after_current: false })
            .await
            .map(drop),
        Ask::Pause(job) => admin.pause_job(v1::PauseJobRequest { job: job.into() }).await.map(drop),
        Ask::Enable(job, target) => {
            let request = v1::SetEnabledRequest { job: job.into(), target, enabled: false, cancel: false };
            admin.set_enabled(request).await.map(drop)
        }
        Ask::Remove(job) => {
            admin.remove_job(v1::RemoveJobRequest { job: job.into(), cancel: false }).await.map(drop)
        }
        Ask::Cancel(job, item) => {
            admin.cancel_run(v1::CancelRunRequest { job: job.into(), item }).await.map(drop)
        }
        Ask::Drain(instance) => admin
            .drain_instance(v1::DrainInstanceRequest { instance: instance.into(), grace: None })
            .await
            .map(drop),
        Ask::Shutdown(job, instance) => {
            let request = v1::ShutdownInstanceRequest { job: job.into(), instance: instance.into() };
            admin.shutdown_instance(request).await.map(drop)
        }
        Ask::Items(job) => {
            admin.list_items(v1::ListItemsRequest { job: job.into(), ..Default::default() }).await.map(drop)
        }
        Ask::Dump(job) => {
            admin.dump_job(v1::DumpJobRequest { job: job.into(), ..Default::default() }).await.map(drop)
        }
    }
}

/// A job with a run of item 0 in flight, and item 1 disabled.
async fn with_a_run() -> Cluster {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("there", 3, json!({}))).await;
    let does = vec![runs_until("there", cluster.home.path("gate"))];
    cluster.worker("a", does);
    cluster.assigned("there", 1).await;
    let one = v1::TriggerJobRequest { job: "there".into(), items: vec![0], after_current: false };
    cluster.admin().trigger_job(one).await.unwrap();
    cluster.items_when("there", "item 0 runs", |items| items[0].running.is_some()).await;
    let disable = v1::SetEnabledRequest {
        job: "there".into(),
        target: Some(v1::set_enabled_request::Target::Item(1)),
        ..Default::default()
    };
    cluster.admin().set_enabled(disable).await.unwrap();
    cluster.items_when("there", "item 1 is out", |items| items[1].owner.is_none() || items[1].disabled).await;
    cluster
}

#[tokio::test]
async fn what_people_get_wrong_is_refused_and_changes_nothing() {
    use v1::set_enabled_request::Target;
    let cluster = with_a_run().await;
    let invalid = |what: serde_json::Value| Ask::Apply(job("there", 3, what));
    let unknown: Wanted = (Code::NotFound, "JOB_UNKNOWN", &["nowhere", "rosterd jobs list"]);
    let name: Wanted = (Code::InvalidArgument, "NAME_INVALID", &["job", "letters, marks and digits"]);
    let config =
        |words: &'static [&'static str]| -> Wanted { (Code::InvalidArgument, "CONFIG_INVALID", words) };
    let cases: Vec<(&str, Ask, Wanted)> = vec![
        ("trigger unknown", Ask::Trigger("nowhere", vec![]), unknown),
        ("pause unknown", Ask::Pause("nowhere"), unknown),
        ("disable unknown", Ask::Enable("nowhere", None), unknown),
        ("remove unknown", Ask::Remove("nowhere"), unknown),
        ("cancel unknown", Ask::Cancel("nowhere", 0), unknown),
        ("items of unknown", Ask::Items("nowhere"), (Code::NotFound, "JOB_UNKNOWN", &["nowhere"])),
        ("dump of unknown", Ask::Dump("nowhere"), (Code::NotFound, "JOB_UNKNOWN", &["nowhere"])),
        ("two segments", Ask::Trigger("a/b", vec![]), name),
        ("upwards", Ask::Trigger("..", vec![]), (Code::InvalidArgument, "NAME_INVALID", &["job"])),
        ("no name", Ask::Remove(""), (Code::InvalidArgument, "NAME_INVALID", &["job"])),
        ("bad cron", invalid(json!({ "cron": "every day" })), config(&["cron", "every day"])),
        ("cron of another day", invalid(json!({ "cron": "0 0 0 30 2 ?" })), config(&["cron"])),
        (
            "bad zone",
            invalid(json!({ "cron": EVERY_SECOND, "timeZone": "Mars/Base" })),
            config(&["time zone", "Mars/Base", "IANA"]),
        ),
        ("no items", Ask::Apply(job("there", 0, json!({}))), config(&["shardingTotalCount"])),
        (
            "too many items",
            Ask::Apply(job("there", 100_001, json!({}))),
            config(&["shardingTotalCount", "100000"]),
        ),
        (
            "failover unmonitored",
            invalid(json!({ "failover": true, "monitorExecution": false })),
            config(&["monitorExecution"]),
        ),
        (
            "strategy",
            invalid(json!({ "jobShardingStrategyType": "BEST" })),
            config(&["jobShardingStrategyType", "BEST"]),
        ),
        (
            "unknown field",
            invalid(json!({ "shardingTotalCnt": 1 })),
            config(&["shardingTotalCnt", "shardingTotalCount"]),
        ),
        ("a segment too many", Ask::Apply(job("a/b", 1, json!({}))), config(&["jobName", "a/b"])),
        ("no job", Ask::Apply(String::new()), config(&["jobName"])),
        ("no file", Ask::Apply("{".into()), config(&[])),
        (
            "large file",
            Ask::Apply("x".repeat(600 << 10)),
            (Code::InvalidArgument, "REQUEST_INVALID", &["524288", "in parts"]),
        ),
        (
            "other handler",
            invalid(json!({ "rosterd": { "handler": "other" } })),
            (Code::AlreadyExists, "HANDLER_CONFLICT", &["other", "there"]),
        ),
        ("item 3 of 3", Ask::Trigger("there", vec![3]), (Code::NotFound, "ITEM_UNKNOWN", &["3", "there"])),
        (
            "disable item 3",
            Ask::Enable("there", Some(Target::Item(3))),
            (Code::NotFound, "ITEM_UNKNOWN", &["3"]),
        ),
        ("cancel item 3", Ask::Cancel("there", 3), (Code::NotFound, "ITEM_UNKNOWN", &["3"])),
        (
            "disable server",
            Ask::Enable("there", Some(Target::Machine("nobody".into()))),
            (Code::NotFound, "MACHINE_UNKNOWN", &["nobody"]),
        ),
        (
            "disable instance",
            Ask::Enable("there", Some(Target::Instance("x@-@y".into()))),
            (Code::NotFound, "INSTANCE_UNKNOWN", &["x@-@y"]),
        ),
        ("drain nobody", Ask::Drain("x@-@y"), (Code::NotFound, "INSTANCE_UNKNOWN", &["x@-@y"])),
        (
            "shut nobody down",
            Ask::Shutdown("there", "x@-@y"),
            (Code::NotFound, "INSTANCE_UNKNOWN", &["x@-@y"]),
        ),
        ("no instance id", Ask::Drain("x"), (Code::NotFound, "INSTANCE_UNKNOWN", &["instance x"])),
        ("cancel what is idle", Ask::Cancel("there", 2), (Code::NotFound, "RUN_UNKNOWN", &["2"])),
        (
            "trigger what runs",
            Ask::Trigger("there", vec![0]),
            (Code::FailedPrecondition, "RUN_IN_FLIGHT", &["item 0", "--after-current"]),
        ),
        (
            "trigger what is disabled",
            Ask::Trigger("there", vec![1]),
            (Code::FailedPrecondition, "DISABLED", &["item 1", "enable"]),
        ),
        (
            "remove what runs",
            Ask::Remove("there"),
            (Code::FailedPrecondition, "RUN_IN_FLIGHT", &["--cancel"]),
        ),
    ];
    let before = cluster.dump("there").await;
    let mut wrong = Vec::new();
    for (case, question, wanted) in cases {
        match ask(&cluster, question).await {
            Ok(()) => wrong.push(format!("{case}: accepted")),
            Err(status) => wrong.extend(check(case, &status, wanted)),
        }
        let after = cluster.dump("there").await;
        if after != before {
            let changed = after.iter().filter(|(path, node)| before.get(*path) != Some(node));
            wrong.push(format!("{case}: changed {:?}", changed.map(|(path, _)| path).collect::<Vec<_>>()));
        }
    }
    let jobs = cluster.admin().list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner().jobs;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A message above the limit is refused before it is read.
#[tokio::test]
async fn a_message_that_is_too_large_is_refused() {
    let cluster = with_a_run().await;
    let before = cluster.dump("there").await;
    let status = ask(&cluster, Ask::Apply("x".repeat(8 << 20))).await.unwrap_err();
    assert_eq!(
        (status.code(), &*code(&status)),
        (Code::ResourceExhausted, "MESSAGE_TOO_LARGE"),
        "{status:?}"
    );
    let mut raw = Raw::new(cluster.channel());
    let labels = [("l".to_owned(), "x".repeat(8 << 20))].into();
    raw.send(Frame::Hello(v1::Hello { labels, ..raw::hello() })).await;
    let status = raw.end().await;
    assert_eq!(
        (status.code(), &*code(&status)),
        (Code::ResourceExhausted, "MESSAGE_TOO_LARGE"),
        "{status:?}"
    );
    assert_eq!(cluster.dump("there").await, before);
    cluster.healthy().await;
}

#[tokio::test]
async fn a_hello_that_cannot_be_right_is_refused() {
    let cluster = Cluster::start(LONG).await;
    let (first, welcome) = Raw::attached(cluster.channel(), raw::hello()).await;
    let again = v1::Hello {
        worker_id: welcome.worker_id.clone(),
        resume_key: welcome.resume_key.clone(),
        stream_number: 1,
        ..raw::hello()
    };
    let hello = |change: &dyn Fn(&mut v1::Hello)| {
        let mut hello = raw::hello();
        change(&mut hello);
        Frame::Hello(hello)
    };
    let labels = |n: usize| (0..n).map(|n| (n.to_string(), "v".to_owned())).collect();
    let cases: Vec<(&str, Frame, Wanted)> = vec![
        (
            "no hello",
            Frame::Heartbeat(v1::Heartbeat::default()),
            (Code::InvalidArgument, "HELLO_EXPECTED", &["Hello"]),
        ),
        (
            "slots 0",
            hello(&|hello| hello.slots = 0),
            (Code::InvalidArgument, "HELLO_INVALID", &["slots", "1 to"]),
        ),
        (
            "slots 5000",
            hello(&|hello| hello.slots = 5000),
            (Code::InvalidArgument, "HELLO_INVALID", &["slots", "4096"]),
        ),
        (
            "namespace",
            hello(&|hello| hello.namespace = "other".into()),
            (Code::InvalidArgument, "NAMESPACE_MISMATCH", &["other", "default"]),
        ),
        (
            "address",
            hello(&|hello| hello.address = "a/b".into()),
            (Code::InvalidArgument, "HELLO_INVALID", &["address"]),
        ),
        (
            "labels",
            hello(&|hello| hello.labels = labels(40)),
            (Code::InvalidArgument, "HELLO_INVALID", &["labels", "32"]),
        ),
        (
            "stream 0",
            hello(&|hello| hello.stream_number = 0),
            (Code::InvalidArgument, "HELLO_INVALID", &["stream_number"]),
        ),
        (
            "stream not above",
            Frame::Hello(again.clone()),
            (Code::Aborted, "STREAM_SUPERSEDED", &["stream_number 1"]),
        ),
        (
            "resume key",
            Frame::Hello(v1::Hello { resume_key: "guessed".into(), stream_number: 9, ..again.clone() }),
            (Code::PermissionDenied, "RESUME_REFUSED", &["resume_key", "worker_id"]),
        ),
    ];
    let mut wrong = Vec::new();
    for (case, frame, wanted) in cases {
        let mut raw = Raw::new(cluster.channel());
        raw.send(frame).await;
        wrong.extend(check(case, &raw.end().await, wanted));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The first stream is unchanged.
    let mut first = first;
    first.heartbeat(1).await;
    first
        .find(
            "HeartbeatAck",
            |said| if let Said::HeartbeatAck(ack) = said { Some(ack.sequence) } else { None },
        )
        .await;
    // And a later one takes its place.
    let (_second, welcome_again) =
        Raw::attached(cluster.channel(), v1::Hello { stream_number: 2, ..again }).await;
    assert_eq!(welcome_again.worker_id, welcome.worker_id);
    let status = first.end().await;
    assert_eq!((status.code(), code(&status)), (Code::Aborted, "STREAM_SUPERSEDED".to_owned()));
}

#[tokio::test]
async fn a_registration_that_cannot_be_right_is_refused() {
    let cluster = Cluster::start(LONG).await;
    cluster.apply(job("there", 3, json!({ "rosterd": { "handler": "theirs" } }))).await;
    // Its leader creates its records soon after.
    wait("the records", || async { cluster.dump("there").await.contains_key("/sharding/2").then_some(()) })
        .await;
    let (mut raw, _) = Raw::attached(cluster.channel(), raw::hello()).await;
    let with = |job: &str, config: String| v1::Register { config, ..raw::register(job) };
    let cases: Vec<(&str, v1::Register, &str, &[&str])> = vec![
        ("unknown job", raw::register("nowhere"), "JOB_UNKNOWN", &["nowhere", "config"]),
        ("other handler", raw::register("there"), "HANDLER_CONFLICT", &["theirs"]),
        (
            "bad cron",
            with("new", job("new", 1, json!({ "cron": "now and then" }))),
            "CONFIG_INVALID",
            &["cron", "now and then"],
        ),
        ("another job's config", with("new", job("old", 1, json!({}))), "CONFIG_INVALID", &["old", "new"]),
        ("no config", with("new", "[".into()), "CONFIG_INVALID", &[]),
        ("two segments", raw::register("a/b"), "NAME_INVALID", &["letters, marks and digits"]),
    ];
    let before = cluster.dump("there").await;
    let mut wrong = Vec::new();
    for (case, register, wanted, words) in cases {
        raw.send(Frame::Register(register)).await;
        let refused = raw.find(case, |said| match said {
            Said::Refused(refused) => Some(refused),
            Said::Registered(registered) => panic!("{case}: {registered:?}"),
            _ => None,
        });
        let refused = refused.await;
        if refused.code != wanted {
            wrong.push(format!("{case}: {refused:?}"));
        }
        wrong.extend(words_missing(case, &refused.message, words));
    }
    assert_eq!(cluster.dump("there").await, before);
    let jobs = cluster.admin().list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner().jobs;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A token is accepted only while it is that of the item's run, and only from its worker.
#[tokio::test]
async fn a_report_under_another_token_is_refused_and_changes_nothing() {
    let cluster = Cluster::start(LONG).await;
    cluster.apply(job("there", 1, json!({}))).await;
    let (mut raw, _) = Raw::attached(cluster.channel(), raw::hello()).await;
    raw.registered("there").await;
    let (mut other, _) =
        Raw::attached(cluster.channel(), v1::Hello { address: "other".into(), ..raw::hello() }).await;
    cluster.assigned("there", 1).await;
    cluster.trigger("there").await;
    let run = raw.trigger().await.run.unwrap();
    // The mirror of the owner is written in the background.
    let before = wait("the owner's mirror", || async {
        let dump = cluster.dump("there").await;
        dump.contains_key("/sharding/0/instance").then_some(dump)
    })
    .await;
    for token in [run.token - 1, run.token + 1, 0, u64::MAX >> 1] {
        let ack = raw.report(v1::RunRef { token, ..run.clone() }, v1::RunOutcome::Succeeded).await;
        assert!(ack.result() != v1::ReportResult::Accepted, "{ack:?}");
        assert!(!ack.code.is_empty() && !ack.message.is_empty(), "{ack:?}");
        assert_eq!(cluster.dump("there").await, before, "token {token}");
    }
    let ack = other.report(run.clone(), v1::RunOutcome::Succeeded).await;
    assert_eq!((ack.result(), &*ack.code), (v1::ReportResult::Fenced, "REPORT_FENCED"));
    let ack = raw.report(v1::RunRef { item: 7, ..run.clone() }, v1::RunOutcome::Succeeded).await;
    assert!(ack.result() != v1::ReportResult::Accepted, "{ack:?}");
    assert_eq!(cluster.dump("there").await, before);
    // The correct report is accepted, and again when it is repeated.
    for _ in 0..2 {
        let ack = raw.report(run.clone(), v1::RunOutcome::Succeeded).await;
        assert_eq!(ack.result(), v1::ReportResult::Accepted, "{ack:?}");
    }
    let item = cluster.items("there").await.remove(0);
    assert_eq!((item.state(), item.counters.unwrap().succeeded), (v1::ItemState::Idle, 1));
}

/// A worker gets its items once its registration was answered.
#[tokio::test]
async fn an_assignment_follows_the_registration() {
    let cluster = Cluster::start(LONG).await;
    cluster.apply(job("steady", 3, json!({}))).await;
    for _ in 0..5 {
        let (mut raw, _) = Raw::attached(cluster.channel(), raw::hello()).await;
        raw.send(Frame::Register(raw::register("steady"))).await;
        let mut said = Vec::new();
        while said.len() < 2 {
            match raw.next().await.unwrap().expect("the stream goes on") {
                Said::Registered(_) => said.push("Registered"),
                Said::Assignment(_) => said.push("Assignment"),
                _ => {}
            }
        }
        assert_eq!(said[0], "Registered");
    }
}
