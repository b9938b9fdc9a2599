//! Operations on a machine over all its jobs, and the displayed states.

use rosterd_wire::proto::v1;
use serde_json::json;

use crate::harness::*;
use crate::hostile::{credential, shown};

const JOBS: [&str; 2] = ["one", "two"];

async fn over_all(cluster: &Cluster) -> Vec<(String, u32, u32, u32)> {
    let request = v1::ListMachinesRequest { over_all_jobs: true, ..Default::default() };
    let rows = cluster.admin().list_machines(request).await.unwrap().into_inner().machines;
    rows.into_iter().map(|row| (row.machine, row.jobs, row.disabled_jobs, row.instances)).collect()
}

fn effects(changes: &[v1::JobChange]) -> Vec<(&str, v1::JobEffect, &str)> {
    changes.iter().map(|change| (&*change.job, change.effect(), &*change.code)).collect()
}

async fn owned_by(cluster: &Cluster, job: &str, address: &str) {
    let what = format!("all items belong to {address}");
    let is = |item: &v1::ItemSummary| item.owner().starts_with(&format!("{address}@"));
    cluster.items_when(job, &what, |items| items.iter().all(is)).await;
}

/// Disabled, enabled, shut down and removed: each in all jobs that know the machine, with an answer for each.
#[tokio::test]
async fn a_machine_is_operated_on_over_all_its_jobs() {
    let mut cluster = Cluster::start(LONG).await;
    for name in ["one", "three", "two"] {
        cluster.apply(job(name, 2, json!({}))).await;
    }
    cluster.worker("a", vec![runs_for("one", 1), runs_for("two", 1)]);
    cluster.worker("b", vec![runs_for("one", 1), runs_for("two", 1), runs_for("three", 1)]);
    for name in JOBS {
        cluster.assigned(name, 2).await;
    }
    cluster.assigned("three", 1).await;
    let (a, b) = (("host-a".into(), 2, 0, 1), ("host-b".into(), 3, 0, 1));
    assert_eq!(over_all(&cluster).await, [a, b.clone()]);

    let mut admin = cluster.admin();
    let disable = |enabled| v1::SetMachineEnabledRequest { machine: "host-a".into(), enabled, cancel: false };
    let changes = admin.set_machine_enabled(disable(false)).await.unwrap().into_inner().changes;
    let changed = JOBS.map(|job| (job, v1::JobEffect::Changed, ""));
    assert_eq!(effects(&changes), changed);
    for name in JOBS {
        owned_by(&cluster, name, "host-b").await;
    }
    assert_eq!(over_all(&cluster).await, [("host-a".into(), 2, 2, 1), b]);
    admin.set_machine_enabled(disable(true)).await.unwrap();
    for name in JOBS {
        cluster.assigned(name, 2).await;
    }

    // It is in use: nothing is removed, and each job's answer has the reason.
    let remove = v1::RemoveMachineRequest { machine: "host-a".into() };
    let changes = admin.remove_machine(remove.clone()).await.unwrap().into_inner().changes;
    assert_eq!(effects(&changes), JOBS.map(|job| (job, v1::JobEffect::Refused, "MACHINE_IN_USE")));
    assert!(changes[0].lines[0].contains("rosterd machines shutdown host-a"), "{changes:?}");

    let shutdown = v1::ShutdownMachineRequest { machine: "host-a".into() };
    let changes = admin.shutdown_machine(shutdown).await.unwrap().into_inner().changes;
    assert_eq!(effects(&changes), JOBS.map(|job| (job, v1::JobEffect::Requested, "")));
    for name in JOBS {
        owned_by(&cluster, name, "host-b").await;
    }
    // A worker whose last job is gone leaves.
    assert!(cluster.process("a").end().await.success());
    let changes = admin.remove_machine(remove.clone()).await.unwrap().into_inner().changes;
    assert_eq!(effects(&changes), changed);
    assert_eq!(over_all(&cluster).await, [("host-b".into(), 3, 0, 1)]);
    let unknown = admin.remove_machine(remove).await.unwrap_err();
    assert_eq!(code(&unknown), "MACHINE_UNKNOWN");
    cluster.verdict().is_clean();
}

/// A credential for some of the machine's jobs changes none of them.
#[tokio::test]
async fn a_machine_is_operated_on_by_a_credential_for_all_its_jobs() {
    let mut cluster = Cluster::prepare(LONG, &[]);
    let file = cluster.home.path("credentials.toml");
    let boss = credential(&file, "boss", &["--role", "admin"]);
    let some = credential(&file, "some", &["--role", "operator", "--jobs", "one"]);
    let worker = credential(&file, "worker", &["--role", "worker"]);
    cluster.settings.push(format!("credentials={}", file.display()));
    cluster.launch();
    cluster.listening().await;
    for name in JOBS {
        let asked = v1::ApplyJobsRequest { text: job(name, 1, json!({})), dry_run: false };
        cluster.admin().apply_jobs(shown(asked, &boss)).await.unwrap();
    }
    let hello = crate::hostile::hello("a");
    let (sender, mut frames) = crate::hostile::open(cluster.channel(), &worker, hello).await.unwrap();
    let welcome = tokio::time::timeout(PATIENCE, frames.message()).await.expect("a frame comes").unwrap();
    assert!(matches!(welcome.and_then(|said| said.frame), Some(v1::session_response::Frame::Welcome(_))));
    for name in JOBS {
        let register = v1::Register { job: name.into(), handler_type: name.into(), ..Default::default() };
        let frame = Some(v1::session_request::Frame::Register(register));
        sender.send(v1::SessionRequest { frame }).await.unwrap();
    }
    let known = || async {
        let asked = shown(v1::ListMachinesRequest::default(), &boss);
        let rows = cluster.admin().list_machines(asked).await.unwrap().into_inner().machines;
        (rows.len() == 2).then_some(rows)
    };
    let rows = wait("both jobs to know the machine", known).await;
    let machine = rows[0].machine.clone();
    let disable = v1::SetMachineEnabledRequest { machine, enabled: false, cancel: false };
    let refused = cluster.admin().set_machine_enabled(shown(disable.clone(), &some)).await.unwrap_err();
    assert_eq!(code(&refused), "PERMISSION_DENIED");
    assert!(refused.message().contains("two"), "{refused:?}");
    assert!(known().await.unwrap().iter().all(|row| row.enabled));
    cluster.admin().set_machine_enabled(shown(disable, &boss)).await.unwrap();
    assert!(known().await.unwrap().iter().all(|row| !row.enabled));
}

/// Each state of an item, an instance and a job, as it occurs.
#[tokio::test]
async fn statuses_say_what_is_up() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("up", 2, json!({}))).await;
    let statuses = |items: &[v1::ItemSummary]| items.iter().map(v1::ItemSummary::status).collect::<Vec<_>>();
    use v1::ItemStatus::{Completed, Disabled, Pending, Running, Surplus, Unassigned};
    cluster.items_when("up", "without a worker", |items| statuses(items) == [Unassigned; 2]).await;
    assert_eq!(cluster.job("up").await.summary.unwrap().status(), v1::JobStatus::NoWorker);
    cluster.worker("a", vec![runs_for("up", 2000)]);
    cluster.items_when("up", "none has run", |items| statuses(items) == [Pending; 2]).await;
    let enabled = || async {
        let status = cluster.job("up").await.summary.unwrap().status();
        (status == v1::JobStatus::Enabled).then_some(())
    };
    wait("the reshard flag to go", enabled).await;
    assert_eq!(cluster.instances("up").await[0].state(), v1::InstanceState::Ready);
    cluster.trigger("up").await;
    cluster.items_when("up", "both run", |items| statuses(items) == [Running; 2]).await;
    let instance = cluster.instances("up").await.remove(0);
    assert_eq!((instance.state(), instance.running), (v1::InstanceState::Running, 2));
    // No schedule: nothing waits for it.
    cluster.items_when("up", "both have run", |items| statuses(items) == [Completed; 2]).await;
    let item = Some(v1::set_enabled_request::Target::Item(0));
    let disable = v1::SetEnabledRequest { job: "up".into(), target: item, ..Default::default() };
    cluster.admin().set_enabled(disable).await.unwrap();
    cluster.items_when("up", "one is disabled", |items| statuses(items) == [Disabled, Completed]).await;
    cluster.apply(job("up", 1, json!({ "cron": "0 0 0 1 1 ?" }))).await;
    cluster.items_when("up", "one is surplus", |items| statuses(items) == [Disabled, Surplus]).await;
    let counted = v1::GetJobRequest {
        job: "up".into(),
        intervals: vec![prost_types::Duration { seconds: 3600, nanos: 0 }],
        ..Default::default()
    };
    let stats = || async {
        let answer = cluster.admin().get_job(counted.clone()).await.unwrap().into_inner();
        answer.stats.first().filter(|stats| (stats.runs, stats.succeeded) == (2, 2)).cloned()
    };
    wait("both runs to be counted", stats).await;
}
