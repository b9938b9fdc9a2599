//! Operations on a job while workers run it.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::set_enabled_request::Target;
use serde_json::{Value, json};

use crate::harness::*;
use crate::judge::What;
use crate::worker::wall;

async fn set_enabled(cluster: &Cluster, job: &str, target: Option<Target>, enabled: bool) {
    let request = v1::SetEnabledRequest { job: job.into(), target, enabled, cancel: false };
    cluster.admin().set_enabled(request).await.unwrap();
}

fn owned(items: &[v1::ItemSummary]) -> BTreeMap<String, Vec<u32>> {
    let mut owned: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for item in items {
        let owner = item.owner.clone().unwrap_or_default();
        owned.entry(owner.split('@').next().unwrap().to_owned()).or_default().push(item.item);
    }
    owned
}

/// How many more fires of an item are awaited before the test concludes that another does not fire.
const FIRES: usize = 2;

/// Waits for more fires of these items, with scheduled times after now.
async fn fires_again(cluster: &Cluster, job: &str, items: &[u32]) {
    let now = wall();
    let what = format!("items {items:?} of {job} to fire again");
    cluster
        .verdict_when(&what, |verdict| {
            items.iter().all(|item| {
                verdict.of(job).filter(|run| run.item == *item && run.fire > now).count() >= FIRES
            })
        })
        .await;
}

/// No run of something that was just taken away may have a scheduled time after this: its owner's host may have written
/// the next start up to half a second ahead.
fn from_now_on() -> i64 {
    wall() + 500
}

/// Checks that no run of these items has a scheduled time after `from`.
#[track_caller]
fn none_since(cluster: &Cluster, job: &str, items: &[u32], from: i64) {
    let verdict = cluster.verdict();
    let runs: Vec<_> = verdict.of(job).filter(|run| items.contains(&run.item) && run.fire > from).collect();
    assert!(runs.is_empty(), "{runs:?}");
}

/// From the first registration to the goodbye of the last worker.
#[tokio::test]
async fn a_job_comes_with_its_worker_fires_and_is_left_in_order() {
    let mut cluster = Cluster::start(LONG).await;
    let mut does = runs_for("life", 1);
    does.config = Some(job(
        "life",
        3,
        json!({ "cron": EVERY_SECOND, "shardingItemParameters": "0=Beijing,1=Shanghai" }),
    ));
    cluster.worker("a", vec![does]);
    let items = cluster.assigned("life", 1).await;
    assert_eq!(items.iter().map(|item| &*item.parameter).collect::<Vec<_>>(), ["Beijing", "Shanghai", ""]);
    fires_again(&cluster, "life", &[0, 1, 2]).await;
    assert_eq!(cluster.instances("life").await[0].items, 3);
    cluster.process("a").signal(rustix::process::Signal::TERM);
    assert!(cluster.process("a").end().await.success());
    let gone = || async { cluster.instances("life").await.is_empty().then_some(()) };
    wait("the instance to go", gone).await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    // The history agrees with the worker: each run, once, with its outcome.
    let runs = wait("the history of all runs", || async {
        let runs = cluster.runs("life").await;
        (runs.len() == verdict.of("life").count()).then_some(runs)
    })
    .await;
    let told: BTreeSet<_> = runs
        .iter()
        .map(|run| {
            (
                run.run.as_ref().unwrap().item,
                run.run.as_ref().unwrap().token,
                millis(run.fire_time.as_ref().unwrap()),
            )
        })
        .collect();
    let seen: BTreeSet<_> = verdict.of("life").map(|run| (run.item, run.token, run.fire)).collect();
    assert_eq!(told, seen);
    assert!(
        runs.iter().all(|run| (run.outcome(), &*run.state) == (v1::RunOutcome::Succeeded, "TASK_FINISHED"))
    );
    let counters = cluster.counters("life").await;
    assert_eq!((counters.runs, counters.succeeded), (runs.len() as u64, runs.len() as u64));
}

/// Scheduled fires of a paused job are missed, each counted; the assignment stays; a trigger runs.
#[tokio::test]
async fn a_paused_job_fires_by_hand_only() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("paused", 1, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("a", vec![runs_for("paused", 1)]);
    fires_again(&cluster, "paused", &[0]).await;
    cluster.admin().pause_job(v1::PauseJobRequest { job: "paused".into() }).await.unwrap();
    let from = from_now_on();
    assert_eq!(cluster.job("paused").await.summary.unwrap().status(), v1::JobStatus::Paused);
    until("three scheduled times to pass", || wall() > from + 3000).await;
    cluster.trigger("paused").await;
    let verdict = cluster
        .verdict_when("a manual run", |verdict| !verdict.by_source("paused", "MANUAL").is_empty())
        .await;
    assert!(
        verdict.of("paused").all(|run| run.source == "MANUAL" || run.fire <= from),
        "\n{}",
        verdict.table()
    );
    assert!(cluster.items("paused").await[0].owner.is_some());
    let until = wall();
    cluster.admin().resume_job(v1::ResumeJobRequest { job: "paused".into() }).await.unwrap();
    fires_again(&cluster, "paused", &[0]).await;
    let counters = cluster.counters("paused").await;
    // Each of them: none is merged into a later run, unlike those that a busy machine cannot start in time.
    let due = (until / 1000 - from / 1000).unsigned_abs();
    assert!(due >= 3 && counters.missed["paused"] >= due, "{due} due: {counters:?}");
    let verdict = cluster.verdict();
    verdict.is_clean();
    let merged = verdict.by_source("paused", "MISFIRE");
    assert!(merged.iter().all(|run| run.fire <= from || run.fire > until), "\n{}", verdict.table());
}

#[tokio::test]
async fn a_disabled_item_does_not_fire_and_the_others_do() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("parts", 3, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("a", vec![runs_for("parts", 1)]);
    fires_again(&cluster, "parts", &[0, 1, 2]).await;
    set_enabled(&cluster, "parts", Some(Target::Item(1)), false).await;
    let from = from_now_on();
    assert!(cluster.items("parts").await[1].disabled);
    fires_again(&cluster, "parts", &[0, 2]).await;
    none_since(&cluster, "parts", &[1], from);
    set_enabled(&cluster, "parts", Some(Target::Item(1)), true).await;
    fires_again(&cluster, "parts", &[1]).await;
    assert!(cluster.items("parts").await[1].counters.as_ref().unwrap().missed["disabled"] >= 1);
    cluster.verdict().is_clean();
}

#[tokio::test]
async fn a_disabled_server_or_instance_gives_its_items_away_and_gets_them_back() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("moves", 4, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("a", vec![runs_for("moves", 1)]);
    cluster.worker("b", vec![runs_for("moves", 1)]);
    let items = cluster.assigned("moves", 2).await;
    let instance = items
        .iter()
        .find_map(|item| item.owner.clone().filter(|owner| owner.starts_with("host-a@")))
        .unwrap();
    for target in [Target::Machine("host-a".into()), Target::Instance(instance)] {
        set_enabled(&cluster, "moves", Some(target.clone()), false).await;
        cluster
            .items_when("moves", "b owns all", |items| {
                owned(items).get("host-b").is_some_and(|items| items.len() == 4)
            })
            .await;
        let from = from_now_on();
        fires_again(&cluster, "moves", &[0, 1, 2, 3]).await;
        let verdict = cluster.verdict();
        assert!(
            verdict.of("moves").all(|run| run.worker == "b" || run.fire <= from),
            "\n{}",
            verdict.table()
        );
        set_enabled(&cluster, "moves", Some(target), true).await;
        cluster.assigned("moves", 2).await;
        fires_again(&cluster, "moves", &[0, 1, 2, 3]).await;
    }
    cluster.verdict().is_clean();
    let counters = cluster.counters("moves").await;
    assert_eq!((counters.crashed, counters.failed), (0, 0));
}

#[tokio::test]
async fn a_disabled_job_does_not_fire_until_it_is_enabled() {
    let mut cluster = Cluster::start(LONG).await;
    for name in ["on", "off"] {
        cluster.apply(job(name, 2, json!({ "cron": EVERY_SECOND }))).await;
    }
    cluster.worker("a", vec![runs_for("on", 1), runs_for("off", 1)]);
    fires_again(&cluster, "off", &[0, 1]).await;
    set_enabled(&cluster, "off", None, false).await;
    let from = from_now_on();
    assert_eq!(cluster.job("off").await.summary.unwrap().status(), v1::JobStatus::Disabled);
    fires_again(&cluster, "on", &[0, 1]).await;
    none_since(&cluster, "off", &[0, 1], from);
    set_enabled(&cluster, "off", None, true).await;
    fires_again(&cluster, "off", &[0, 1]).await;
    // No flood: fires of that time are missed, not run late.
    let counters = cluster.counters("off").await;
    assert!(counters.missed["disabled"] >= 2, "{counters:?}");
    cluster.verdict().is_clean();
}

/// More items, then fewer, while runs are in flight: a surplus run may end, and fires no more.
#[tokio::test]
async fn the_count_changes_while_runs_are_in_flight() {
    let mut cluster = Cluster::start(LONG).await;
    let with = |items| job("count", items, json!({}));
    cluster.apply(with(3)).await;
    let does = vec![runs_until("count", cluster.home.path("gate"))];
    cluster.worker("a", does.clone());
    cluster.worker("b", does);
    cluster.assigned("count", 2).await;
    cluster.trigger("count").await;
    cluster.verdict_when("three runs", |verdict| verdict.of("count").count() == 3).await;
    cluster.apply(with(5)).await;
    cluster
        .items_when("count", "five items are owned", |items| {
            items.len() == 5 && items.iter().all(|item| item.owner.is_some())
        })
        .await;
    let more = v1::TriggerJobRequest { job: "count".into(), items: vec![3, 4], after_current: false };
    cluster.admin().trigger_job(more).await.unwrap();
    cluster.verdict_when("five runs", |verdict| verdict.of("count").count() == 5).await;
    cluster.apply(with(2)).await;
    cluster.home.open("gate");
    cluster
        .verdict_when("five ends", |verdict| verdict.of("count").filter(|run| run.ended()).count() == 5)
        .await;
    cluster.quiet("count").await;
    cluster.trigger("count").await;
    let verdict = cluster
        .verdict_when("two more runs", |verdict| verdict.of("count").filter(|run| run.ended()).count() == 7)
        .await;
    verdict.is_clean();
    assert_eq!(cluster.counters("count").await.crashed, 0);
    let items = cluster.items("count").await;
    assert!(items.iter().all(|item| item.item < 2 || item.owner.is_none()), "{items:?}");
}

/// Waits until the items are owned like this, by workers a, b and c.
async fn spread(cluster: &Cluster, job: &str, expected: [&[u32]; 3]) {
    let what = format!("owners {expected:?}");
    let so = |items: &[v1::ItemSummary]| {
        let owned = owned(items);
        let of = |host: &str| owned.get(host).map_or(&[][..], Vec::as_slice);
        ["host-a", "host-b", "host-c"].map(of) == expected
    };
    cluster.items_when(job, &what, so).await;
}

/// Elastic-Job lists instances from the last id to the first, and gives the remainder of even shares to the first of
/// the list.
#[tokio::test]
async fn schedule_and_strategy_change_while_workers_work() {
    let mut cluster = Cluster::start(LONG).await;
    let with = |more: Value| job("change", 7, more);
    let all: Vec<u32> = (0..7).collect();
    cluster.apply(with(json!({}))).await;
    for name in ["a", "b", "c"] {
        cluster.worker(name, vec![runs_for("change", 1)]);
    }
    cluster.assigned("change", 3).await;
    none_since(&cluster, "change", &all, 0);
    cluster.apply(with(json!({ "cron": EVERY_SECOND }))).await;
    fires_again(&cluster, "change", &all).await;
    cluster.apply(with(json!({ "cron": "0 0 0 1 1 ?" }))).await;
    let from = from_now_on();
    spread(&cluster, "change", [&[4, 5], &[2, 3], &[0, 1, 6]]).await;
    let by = |strategy: &str| with(json!({ "cron": "0 0 0 1 1 ?", "jobShardingStrategyType": strategy }));
    // The hash of "change", -1361636432, is even: from the first id to the last.
    cluster.apply(by("ODEVITY")).await;
    spread(&cluster, "change", [&[0, 1, 6], &[2, 3], &[4, 5]]).await;
    // Its absolute value leaves 2 when divided by 3: the list begins with its third, a, then c and b.
    cluster.apply(by("ROUND_ROBIN")).await;
    spread(&cluster, "change", [&[0, 1, 6], &[4, 5], &[2, 3]]).await;
    cluster.apply(by("AVG_ALLOCATION")).await;
    spread(&cluster, "change", [&[4, 5], &[2, 3], &[0, 1, 6]]).await;
    // No strategy of Elastic-Job.
    sticks(&cluster, &with(json!({ "cron": "0 0 0 1 1 ?", "rosterd": { "strategy": "STICKY" } }))).await;
    none_since(&cluster, "change", &all, from);
    cluster.verdict().is_clean();
}

/// Only items without an owner, and surplus items, move: average allocation would assign all again.
async fn sticks(cluster: &Cluster, file: &str) {
    cluster.apply(file).await;
    let c = Some(Target::Machine("host-c".into()));
    set_enabled(cluster, "change", c.clone(), false).await;
    spread(cluster, "change", [&[4, 5, 6], &[0, 1, 2, 3], &[]]).await;
    set_enabled(cluster, "change", c, true).await;
    spread(cluster, "change", [&[4, 5], &[0, 1, 2], &[3, 6]]).await;
}

/// A removed job is gone with its runs; created again, its tokens go on rising.
#[tokio::test]
async fn a_removed_job_is_gone_and_made_again_its_tokens_rise() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("again", 2, json!({}))).await;
    let mut does = runs_until("again", cluster.home.path("gate"));
    does.config = Some(job("again", 2, json!({})));
    cluster.worker("a", vec![does.clone(), runs_for("other", 1)]);
    cluster.assigned("again", 1).await;
    cluster.trigger("again").await;
    let verdict = cluster.verdict_when("two runs", |verdict| verdict.of("again").count() == 2).await;
    let highest = verdict.of("again").map(|run| run.token).max().unwrap();
    let remove = v1::RemoveJobRequest { job: "again".into(), cancel: true };
    cluster.admin().remove_job(remove).await.unwrap();
    cluster
        .verdict_when("both are stopped", |verdict| verdict.of("again").all(|run| run.stopped_by_order()))
        .await;
    wait("the job to be gone", || async { cluster.dump("again").await.is_empty().then_some(()) }).await;
    let jobs = cluster.admin().list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner().jobs;
    assert!(jobs.is_empty(), "{jobs:?}");
    wait("the ends of both in the history", || async {
        let runs = cluster.runs("again").await;
        (runs.len() == 2 && runs.iter().all(|run| run.outcome() == v1::RunOutcome::Cancelled)).then_some(())
    })
    .await;
    cluster.worker("b", vec![does]);
    cluster.assigned("again", 1).await;
    cluster.trigger("again").await;
    cluster.home.open("gate");
    let verdict =
        cluster.verdict_when("two new runs", |verdict| verdict.done("again", "MANUAL").len() == 2).await;
    verdict.is_clean();
    assert!(
        verdict.of("again").filter(|run| run.worker == "b").all(|run| run.token > highest),
        "\n{}",
        verdict.table()
    );
}

/// A trigger of a running item waits until the run has ended, and there is at most one.
#[tokio::test]
async fn a_trigger_may_wait_for_the_run_in_flight() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("wait", 1, json!({}))).await;
    cluster.worker("a", vec![runs_until("wait", cluster.home.path("gate"))]);
    cluster.assigned("wait", 1).await;
    cluster.trigger("wait").await;
    cluster.verdict_when("a run", |verdict| verdict.of("wait").count() == 1).await;
    let after = v1::TriggerJobRequest { job: "wait".into(), items: vec![], after_current: true };
    cluster.admin().trigger_job(after.clone()).await.unwrap();
    let second = cluster.admin().trigger_job(after).await.unwrap_err();
    assert_eq!(code(&second), "TRIGGER_WAITING");
    cluster.home.open("gate");
    let verdict = cluster
        .verdict_when("one more run", |verdict| verdict.of("wait").filter(|run| run.ended()).count() == 2)
        .await;
    cluster.quiet("wait").await;
    verdict.is_clean();
    assert_eq!(cluster.verdict().of("wait").count(), 2);
}

#[tokio::test]
async fn a_cancelled_run_stops_and_is_recorded_as_cancelled() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("stop", 2, json!({ "failover": true }))).await;
    cluster.worker("a", vec![runs_until("stop", cluster.home.path("gate"))]);
    cluster.assigned("stop", 1).await;
    cluster.trigger("stop").await;
    cluster.verdict_when("two runs", |verdict| verdict.of("stop").count() == 2).await;
    cluster.admin().cancel_run(v1::CancelRunRequest { job: "stop".into(), item: 1 }).await.unwrap();
    cluster
        .items_when("stop", "item 1 is cancelled", |items| items[1].counters.as_ref().unwrap().cancelled == 1)
        .await;
    cluster.home.open("gate");
    let items = cluster.quiet("stop").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(items[1].last.as_ref().unwrap().outcome(), v1::RunOutcome::Cancelled);
    assert_eq!(verdict.of("stop").count(), 2, "cancelled by hand: nobody runs it again\n{}", verdict.table());
    assert_eq!(
        verdict.of("stop").filter(|run| run.stopped_by_order()).map(|run| run.item).collect::<Vec<_>>(),
        [1]
    );
}

/// An operator asks one process to leave, and shuts another down for one of its jobs.
#[tokio::test]
async fn instances_are_drained_and_shut_down_by_hand() {
    let mut cluster = Cluster::start(LONG).await;
    for name in ["one", "two"] {
        cluster.apply(job(name, 2, json!({}))).await;
    }
    for name in ["a", "b"] {
        cluster.worker(name, vec![runs_for("one", 1), runs_for("two", 1)]);
    }
    let items = cluster.assigned("one", 2).await;
    cluster.assigned("two", 2).await;
    let of = |host: &str| {
        items.iter().find_map(|item| item.owner.clone().filter(|owner| owner.starts_with(host))).unwrap()
    };
    let (a, b) = (of("host-a@"), of("host-b@"));
    cluster.admin().drain_instance(v1::DrainInstanceRequest { instance: a, grace: None }).await.unwrap();
    assert!(cluster.process("a").end().await.success());
    cluster.assigned("one", 1).await;
    cluster.assigned("two", 1).await;
    let shutdown = v1::ShutdownInstanceRequest { job: "one".into(), instance: b };
    cluster.admin().shutdown_instance(shutdown).await.unwrap();
    wait("nobody works for job one", || async { cluster.instances("one").await.is_empty().then_some(()) })
        .await;
    cluster.trigger("two").await;
    cluster.verdict_when("job two runs", |verdict| verdict.done("two", "MANUAL").len() == 2).await;
    assert!(cluster.process("b").ended().is_none());
    cluster.verdict().is_clean();
    assert!(
        cluster
            .lines()
            .iter()
            .any(|line| line.what == What::Exit && line.worker == "a" && line.detail == "left")
    );
}

/// The principal is recorded with each operation: in the log, in the events of watchers, and in the history.
#[tokio::test]
async fn a_change_names_the_credential_that_asked_for_it() {
    let mut cluster = Cluster::prepare(LONG, &[]);
    let file = cluster.home.path("credentials.toml");
    let mut add = std::process::Command::new(binary(false));
    add.args(["credentials", "add", "ops", "--role", "admin", "--file"]).arg(&file);
    let added = add.output().unwrap();
    assert!(added.status.success(), "{added:?}");
    let secret = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    cluster.settings.push(format!("credentials={}", file.display()));
    cluster.launch();
    cluster.listening().await;
    let bearer: tonic::metadata::MetadataValue<_> = format!("Bearer {secret}").parse().unwrap();
    let with = move |mut request: tonic::Request<()>| {
        request.metadata_mut().insert("authorization", bearer.clone());
        Ok(request)
    };
    let mut admin = v1::admin_service_client::AdminServiceClient::with_interceptor(cluster.channel(), with);
    wait("it serves", || {
        let mut admin = admin.clone();
        async move {
            let info = admin.get_server_info(v1::GetServerInfoRequest {}).await.ok()?.into_inner();
            (info.health() == v1::ServerHealth::Serving).then_some(())
        }
    })
    .await;
    let mut watch = admin.watch(v1::WatchRequest { job: "owned".into() }).await.unwrap().into_inner();
    let text = job("owned", 1, json!({}));
    admin.apply_jobs(v1::ApplyJobsRequest { text, dry_run: false }).await.unwrap();
    let told = loop {
        let next = tokio::time::timeout(PATIENCE, watch.message()).await.unwrap().unwrap().unwrap();
        if let Some(v1::watch_response::Event::Job(event)) = next.event {
            break event;
        }
    };
    assert_eq!((&*told.what, &*told.principal), ("created", "ops"));
    until("the line of the audit", || {
        cluster.logged().lines().any(|line| line.contains("rosterd::audit") && line.contains("\"ops\""))
    })
    .await;
    let kept = wait("the history", || {
        let (mut admin, principal) = (admin.clone(), "ops".to_owned());
        async move {
            let request = v1::ListEventsRequest { principal, ..Default::default() };
            admin.list_events(request).await.unwrap().into_inner().events.pop()
        }
    })
    .await;
    assert_eq!((&*kept.what, &*kept.job, &*kept.principal), ("created", "owned", "ops"));
}

/// All operator requests can be listed later: those that were written, and those that were only sent to workers.
#[tokio::test]
async fn every_action_leaves_a_line() {
    use v1::JobAction::{Cancel, Create, Disable, Drain, Enable, Pause, Remove, Resume, Shutdown, Trigger};
    let mut cluster = Cluster::start(LONG).await;
    let watch = cluster.admin().watch(v1::WatchRequest::default()).await;
    cluster.apply(job("acts", 2, json!({}))).await;
    for name in ["a", "b"] {
        cluster.worker(name, vec![runs_until("acts", cluster.home.path("gate"))]);
    }
    cluster.assigned("acts", 2).await;
    cluster.trigger("acts").await;
    cluster.verdict_when("two runs", |verdict| verdict.of("acts").count() == 2).await;
    let (job, mut admin) = (String::from("acts"), cluster.admin());
    admin.cancel_run(v1::CancelRunRequest { job: job.clone(), item: 0 }).await.unwrap();
    let target = Some(Target::Item(1));
    let disable = v1::SetEnabledRequest { job: job.clone(), target, enabled: false, cancel: true };
    admin.set_enabled(disable).await.unwrap();
    cluster
        .verdict_when("both are stopped", |verdict| verdict.of("acts").all(|run| run.stopped_by_order()))
        .await;
    set_enabled(&cluster, "acts", Some(Target::Item(1)), true).await;
    admin.pause_job(v1::PauseJobRequest { job: job.clone() }).await.unwrap();
    admin.resume_job(v1::ResumeJobRequest { job: job.clone() }).await.unwrap();
    let both: Vec<String> = cluster.instances("acts").await.into_iter().map(|row| row.instance).collect();
    let [shut, drained] = [both[0].clone(), both[1].clone()];
    let shutdown = v1::ShutdownInstanceRequest { job: job.clone(), instance: shut.clone() };
    admin.shutdown_instance(shutdown).await.unwrap();
    let drain = v1::DrainInstanceRequest { instance: drained.clone(), ..Default::default() };
    admin.drain_instance(drain).await.unwrap();
    for name in ["a", "b"] {
        assert!(cluster.process(name).end().await.success());
    }
    admin.remove_job(v1::RemoveJobRequest { job, cancel: false }).await.unwrap();
    let expected = [
        "created".to_owned(),
        "triggered 2 items as ".into(),
        "item 0: run ".into(),
        "item 1 disabled".into(),
        "1 runs are asked to stop".into(),
        "item 1 enabled".into(),
        "paused".into(),
        "resumed".into(),
        format!("{shut} is shut down for this job"),
        format!("{drained} is asked to leave"),
        "removed".into(),
    ];
    wait(format!("lines of {expected:#?}"), || async {
        let mut lines = Vec::new();
        for kind in [v1::EventKind::Job, v1::EventKind::Operation] {
            let request = v1::ListEventsRequest { kind: kind.into(), ..Default::default() };
            lines.extend(cluster.admin().list_events(request).await.unwrap().into_inner().events);
        }
        let is = |begin: &String| lines.iter().filter(|line| line.what.starts_with(begin)).count() == 1;
        expected.iter().all(is).then_some(())
    })
    .await;
    // A watcher got the same as values.
    let mut watch = watch.unwrap().into_inner();
    let mut actions = Vec::new();
    while actions.last() != Some(&v1::JobAction::Remove) {
        let told = tokio::time::timeout(PATIENCE, watch.message()).await;
        let told = told.unwrap_or_else(|_| panic!("only {actions:?}")).unwrap().expect("the watch goes on");
        if let Some(v1::watch_response::Event::Job(event)) = told.event {
            actions.push(event.action());
        }
    }
    let asked = [Create, Trigger, Cancel, Disable, Cancel, Enable, Pause, Resume, Shutdown, Drain, Remove];
    assert_eq!(actions, asked);
}

/// A schedule was changed: earlier scheduled times are listed by the schedule in force then.
#[tokio::test]
async fn fires_are_listed_by_the_schedule_of_their_time() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("moved", 1, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("a", vec![runs_for("moved", 1)]);
    cluster
        .verdict_when("three runs", |verdict| {
            verdict.done("moved", "NORMAL_TRIGGER").len() == 1 && verdict.of("moved").count() > 2
        })
        .await;
    // From now on only at the end of time.
    cluster.apply(job("moved", 1, json!({ "cron": "0 0 0 1 1 ? 2099" }))).await;
    let ran = cluster.quiet("moved").await[0].counters.clone().unwrap().runs;
    assert!(ran > 2);
    let listed = wait("all in the history", || async {
        let request = v1::ListFiresRequest { job: "moved".into(), ..Default::default() };
        let fires = cluster.admin().list_fires(request).await.unwrap().into_inner().fires;
        let run = |fire: &&v1::FireRecord| fire.result() == v1::FireResult::Run;
        (fires.iter().filter(run).count() as u64 >= ran).then_some(fires)
    })
    .await;
    assert!(listed.len() as u64 >= ran, "{listed:?}");
}
