//! A job's handler and kind, each field changed alone: which worker may run it, how often that fetches, and what it
//! receives.

use serde_json::{Value, json};

use crate::fields::told;
use crate::harness::*;
use crate::judge::What;
use crate::worker::Does;

/// The name that a command has for workers, as in Elastic-Job.
const SCRIPT: &str = "SCRIPT";

/// A worker with the handler's name is accepted, one with the job's name is refused.
#[tokio::test]
async fn a_handler_by_its_class_or_kind_is_the_one_that_workers_must_name() {
    let mut cluster = Cluster::start(LONG).await;
    let class = "org.example.Count";
    let jobs = [
        ("jobClass", json!({ "jobClass": class }), class),
        ("elasticJobClass", json!({ "elasticJobClass": class }), class),
        ("elasticJobType", json!({ "elasticJobType": class }), class),
        ("handler", json!({ "rosterd": { "handler": class } }), class),
        ("type-script", json!({ "jobType": SCRIPT }), SCRIPT),
        ("element-script", json!({ "elasticJobType": SCRIPT }), SCRIPT),
        ("kind", json!({ "rosterd": { "kind": "command" } }), SCRIPT),
    ];
    for (name, more, handler) in &jobs {
        cluster.apply(job(name, 1, more.clone())).await;
        assert_eq!(cluster.job(name).await.summary.unwrap().handler_type, *handler);
        let named = Does { handler: Some((*handler).into()), ..runs_for(name, 1) };
        cluster.worker(&format!("{name}-right"), vec![named]);
        cluster.worker(&format!("{name}-wrong"), vec![runs_for(name, 1)]);
        assert!(!cluster.process(&format!("{name}-wrong")).end().await.success());
        cluster.assigned(name, 1).await;
    }
    let said = cluster.lines().into_iter();
    let refused = said.filter(|line| line.what == What::Exit && line.detail.contains("HANDLER_CONFLICT"));
    assert_eq!(refused.count(), jobs.len());
}

#[tokio::test]
async fn a_command_line_is_a_property_that_its_worker_is_told() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("line", 1, json!({ "scriptCommandLine": "count-words --all" }))).await;
    cluster.worker("a", vec![Does { handler: Some(SCRIPT.into()), ..runs_for("line", 1) }]);
    cluster.assigned("line", 1).await;
    assert_eq!(told(&cluster, "line", 1).await, [r#"||1|{"script.command.line":"count-words --all"}|"#]);
}

/// The log of a worker, once it contains this text.
async fn log_with(cluster: &Cluster, name: &str, text: &str) -> String {
    let path = cluster.home.path(&format!("{name}.log"));
    wait(text, || async {
        std::fs::read_to_string(&path).ok().filter(|log| log.contains(text) && log.ends_with('\n'))
    })
    .await
}

/// People look up the code of the service, not that of gRPC.
#[tokio::test]
async fn a_worker_of_another_namespace_hears_the_coordinators_own_code() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.exec("stranger", &["--namespace", "other", "--job", "any"], &["true"]);
    let said = log_with(&cluster, "stranger", "rosterd: ").await;
    assert!(said.contains("rosterd: NAMESPACE_MISMATCH: namespace other is not served here"), "{said}");
}

/// The worker that creates the job logs nothing, nor does one that agrees; one with a different value does.
#[tokio::test]
async fn a_registration_that_changes_nothing_says_where_it_differs_from_the_job() {
    let mut cluster = Cluster::start(LONG).await;
    let flags = |cron, parameter| {
        ["--job", "shared", "--items", "2", "--cron", cron, "--job-parameter", parameter, "--log", "info"]
    };
    let (night, day) = ("0 0 2 1 1 ?", "0 0 14 1 1 ?");
    for name in ["first", "second"] {
        cluster.exec(name, &flags(night, "s3cret"), &["true"]);
        let said = log_with(&cluster, name, "job shared: 2 items, next fire in ").await;
        assert!(!said.contains("is ignored"), "{said}");
    }
    cluster.exec("third", &flags(day, "another"), &["true"]);
    let said = log_with(&cluster, "third", "is ignored").await;
    for part in [
        "the config of job shared is ignored, since the job exists",
        r#"cron is "0 0 2 1 1 ?" in the store and "0 0 14 1 1 ?" here"#,
        "jobParameter is (hidden, 8 bytes) in the store and (hidden, 9 bytes) here",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("shardingTotalCount"), "{said}");
    assert!(!said.contains("s3cret") && !said.contains("another"), "{said}");
}

/// How often each of these jobs fetches, whose worker has two batches for it.
async fn fetches<const N: usize>(jobs: [(&str, String); N]) -> [usize; N] {
    let mut cluster = Cluster::start(LONG).await;
    for (name, file) in &jobs {
        cluster.apply(file.clone()).await;
        cluster.worker(name, vec![Does { batches: Some(2), ..runs_for(name, 1) }]);
        cluster.assigned(name, 1).await;
        cluster.trigger(name).await;
        cluster.items_when(name, "it has run", |items| items[0].last.is_some()).await;
    }
    let lines = cluster.lines();
    jobs.map(|(name, _)| {
        lines.iter().filter(|line| line.job == name && line.detail.starts_with("fetch")).count()
    })
}

#[tokio::test]
async fn a_dataflow_of_elastic_job_streams_where_it_says_so() {
    let flow = |name: &'static str, streaming: bool| {
        let fields = json!({ "jobType": "DATAFLOW", "streamingProcess": streaming });
        (name, job(name, 1, fields))
    };
    assert_eq!(fetches([flow("once", false), flow("streams", true)]).await, [1, 3]);
}

/// All have the property for streaming; it only applies to a dataflow.
#[tokio::test]
async fn the_kind_alone_decides_whether_a_job_can_stream() {
    let of = |name: &'static str, field: &str, kind: &str| {
        (name, job(name, 1, json!({ field: kind, "props": { "streaming.process": "true" } })))
    };
    let jobs = [
        of("type-simple", "jobType", "SIMPLE"),
        of("type-flow", "jobType", "DATAFLOW"),
        of("element-simple", "elasticJobType", "SIMPLE"),
        of("element-flow", "elasticJobType", "DATAFLOW"),
    ];
    assert_eq!(fetches(jobs).await, [1, 3, 1, 3]);
}

/// The objects of 2.x, each alone and both: their fields count as if they were outside.
#[tokio::test]
async fn the_nesting_of_elastic_job_2_hides_nothing() {
    let kind = json!({ "jobType": "DATAFLOW", "streamingProcess": true });
    let mut nested = kind.clone();
    nested["coreConfig"] = json!({ "jobName": "both", "shardingTotalCount": 1 });
    let mut core = kind.clone();
    core["coreConfig"] = json!({ "jobName": "core", "shardingTotalCount": 1 });
    let jobs: [(&str, String); 4] = [
        ("flat", job("flat", 1, json!({}))),
        ("type", job("type", 1, json!({ "typeConfig": kind }))),
        ("core", core.to_string()),
        ("both", json!({ "typeConfig": nested }).to_string()),
    ];
    assert_eq!(fetches(jobs).await, [1, 3, 3, 3]);
    let mut cluster = Cluster::start(LONG).await;
    let three: Value = json!({ "coreConfig": { "jobName": "three", "shardingTotalCount": 3 } });
    cluster.apply(three.to_string()).await;
    cluster.worker("a", vec![runs_for("three", 1)]);
    cluster.assigned("three", 1).await;
    assert_eq!(told(&cluster, "three", 3).await, ["||3|{}|"; 3]);
}
