//! Each field of Elastic-Job that is used, changed alone: a worker or an operator sees the difference.

use std::collections::BTreeSet;

use rosterd_wire::proto::v1;
use serde_json::{Value, json};

use crate::harness::*;
use crate::judge::{Verdict, What};
use crate::worker::{Does, wall};

/// What each item of a job received, in the order of items.
pub async fn told(cluster: &Cluster, name: &str, items: usize) -> Vec<String> {
    cluster.trigger(name).await;
    cluster.verdict_when("the runs", |verdict| verdict.of(name).count() == items).await;
    let mut starts: Vec<_> =
        cluster.lines().into_iter().filter(|line| line.what == What::Start && line.job == name).collect();
    starts.sort_by_key(|line| line.item);
    starts.into_iter().map(|line| line.detail).collect()
}

#[tokio::test]
async fn what_a_run_is_told() {
    let mut cluster = Cluster::start(LONG).await;
    let jobs = [
        ("base", 2, json!({})),
        ("count", 3, json!({})),
        ("items", 2, json!({ "shardingItemParameters": "0=Beijing,1=Shanghai" })),
        ("all", 2, json!({ "jobParameter": "for all" })),
    ];
    for (name, items, more) in &jobs {
        cluster.apply(job(name, *items, more.clone())).await;
    }
    cluster.worker("a", jobs.iter().map(|(name, _, _)| runs_for(name, 1)).collect());
    for (name, _, _) in &jobs {
        cluster.assigned(name, 1).await;
    }
    assert_eq!(told(&cluster, "base", 2).await, ["||2|{}|", "||2|{}|"]);
    assert_eq!(told(&cluster, "count", 3).await, ["||3|{}|", "||3|{}|", "||3|{}|"]);
    assert_eq!(told(&cluster, "items", 2).await, ["Beijing||2|{}|", "Shanghai||2|{}|"]);
    assert_eq!(told(&cluster, "all", 2).await, ["|for all|2|{}|", "|for all|2|{}|"]);
}

/// In Rust, in Python and in a program; a change reaches workers that are running already, also after a restart.
#[tokio::test]
async fn props_reach_workers_of_every_kind_and_so_does_their_change() {
    let mut cluster = Cluster::start(LONG).await;
    let with = |name: &str, colour: &str| job(name, 1, json!({ "props": { "colour": colour, "a|b": "\"" } }));
    let seen = |colour: &str| format!(r#"{{"a|b":"\"","colour":"{colour}"}}"#);
    for name in ["rust", "snake", "shell"] {
        cluster.apply(with(name, "green")).await;
    }
    cluster.home.open("gate");
    cluster.worker("r", vec![runs_for("rust", 1)]);
    crate::python::start(&mut cluster, "p", "snake");
    cluster.exec("e", &["--job", "shell"], &["sh", "-c", r#"printf "%s" "$ROSTERD_PROPS""#]);
    for (n, colour) in [(1, "green"), (2, "blue"), (3, "red")] {
        for name in ["rust", "snake", "shell"] {
            cluster.assigned(name, 1).await;
            if n > 1 {
                cluster.apply(with(name, colour)).await;
            }
            cluster.trigger(name).await;
            cluster
                .items_when(name, "it has run", move |items| {
                    items[0].counters.as_ref().unwrap().succeeded == n
                })
                .await;
        }
        for name in ["rust", "snake"] {
            let starts =
                cluster.lines().into_iter().filter(|line| line.what == What::Start && line.job == name);
            let latest = starts.max_by_key(|line| line.at).unwrap();
            assert!(latest.detail.starts_with(&format!("||1|{}|", seen(colour))), "{latest:?}");
        }
        wait("the program's output", || async {
            let runs = cluster.runs("shell").await;
            (runs.len() as u64 == n).then_some(())?;
            runs.iter().any(|run| run.output == seen(colour)).then_some(())
        })
        .await;
        if n == 2 {
            cluster.kill_coordinator();
            cluster.serve().await;
        }
    }
}

/// A daily schedule that is due in Shanghai in a few seconds is due in UTC hours away.
#[tokio::test]
async fn a_schedule_and_its_zone_decide_when_workers_run() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.worker("a", vec![Does { config: Some(job("first", 1, json!({}))), ..runs_for("first", 1) }]);
    cluster.assigned("first", 1).await;
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(8);
    let at = at.in_tz("Asia/Shanghai").unwrap();
    let daily = format!("{} {} {} * * ?", at.second(), at.minute(), at.hour());
    let jobs = [
        ("never", json!({})),
        ("utc", json!({ "cron": daily })),
        ("shanghai", json!({ "cron": daily, "timeZone": "Asia/Shanghai" })),
        ("gmt8", json!({ "cron": daily, "timeZone": "GMT+8:00" })),
    ];
    for (name, more) in &jobs {
        cluster.apply(job(name, 1, more.clone())).await;
    }
    cluster.worker("b", jobs.iter().map(|(name, _)| runs_for(name, 1)).collect());
    let verdict = cluster
        .verdict_when("the fires of Shanghai", |verdict| {
            ["shanghai", "gmt8"].iter().all(|name| !verdict.by_source(name, "NORMAL_TRIGGER").is_empty())
        })
        .await;
    verdict.is_clean();
    assert!(
        verdict.of("shanghai").all(|run| run.fire == at.timestamp().as_second() * 1000),
        "\n{}",
        verdict.table()
    );
    assert_eq!(verdict.of("utc").count() + verdict.of("never").count(), 0, "\n{}", verdict.table());
    let next = |detail: v1::GetJobResponse| detail.summary.unwrap().next_fire.map(|at| at.seconds);
    let (utc, shanghai, never) = (
        next(cluster.job("utc").await),
        next(cluster.job("shanghai").await),
        next(cluster.job("never").await),
    );
    assert_eq!((shanghai.unwrap() - utc.unwrap()).rem_euclid(86_400), 16 * 3600);
    assert_eq!(never, None);
}

/// The last Sunday of March has no half past two in Berlin, in any year.
#[tokio::test]
async fn a_time_that_daylight_saving_leaves_out_is_due_at_its_end_or_never() {
    let mut cluster = Cluster::start(LONG).await;
    let jobs =
        [("plain", json!({})), ("end", json!({ "gap": "fire_at_end" })), ("skip", json!({ "gap": "skip" }))];
    for (name, policy) in &jobs {
        let fields = json!({ "cron": "0 30 2 ? 3 1L", "timeZone": "Europe/Berlin", "rosterd": policy });
        cluster.apply(job(name, 1, fields)).await;
    }
    cluster.worker("a", jobs.iter().map(|(name, _)| runs_for(name, 1)).collect());
    let mut next = std::collections::BTreeMap::new();
    for (name, _) in &jobs {
        cluster.assigned(name, 1).await;
        next.insert(*name, cluster.job(name).await.summary.unwrap().next_fire.map(|at| at.seconds));
    }
    let end = jiff::Timestamp::from_second(next["end"].unwrap()).unwrap().in_tz("Europe/Berlin").unwrap();
    assert_eq!((end.month(), end.hour(), end.minute()), (3, 3, 0), "{end}");
    assert_eq!(end.weekday(), jiff::civil::Weekday::Sunday, "{end}");
    assert_eq!((next["plain"], next["skip"]), (next["end"], None));
}

#[tokio::test]
async fn misfire_decides_whether_a_run_stands_for_those_that_were_due() {
    let mut cluster = Cluster::start(LONG).await;
    for (name, misfire) in [("with", true), ("without", false)] {
        cluster.apply(job(name, 1, json!({ "cron": EVERY_SECOND, "misfire": misfire }))).await;
    }
    let gate = cluster.home.path("gate");
    cluster.worker("a", vec![runs_until("with", gate.clone()), runs_until("without", gate)]);
    cluster.items_when("with", "merged", |items| items[0].counters.as_ref().unwrap().misfired >= 2).await;
    cluster.items_when("without", "skipped", |items| items[0].counters.as_ref().unwrap().skipped >= 2).await;
    cluster.home.open("gate");
    for name in ["with", "without"] {
        cluster
            .verdict_when("runs in time again", |verdict| verdict.by_source(name, "NORMAL_TRIGGER").len() > 2)
            .await;
    }
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.of("with").nth(1).unwrap().source, "MISFIRE", "\n{}", verdict.table());
    assert!(verdict.by_source("without", "MISFIRE").is_empty(), "\n{}", verdict.table());
    assert_eq!(cluster.counters("without").await.misfired, 0);
}

#[tokio::test]
async fn without_monitoring_no_run_is_recorded_and_none_is_merged() {
    let mut cluster = Cluster::start(LONG).await;
    for (name, monitor) in [("with", true), ("without", false)] {
        cluster.apply(job(name, 1, json!({ "cron": EVERY_SECOND, "monitorExecution": monitor }))).await;
    }
    let gate = cluster.home.path("gate");
    cluster.worker("a", vec![runs_until("with", gate.clone()), runs_until("without", gate)]);
    for name in ["with", "without"] {
        cluster.verdict_when("a run", |verdict| verdict.of(name).count() == 1).await;
    }
    cluster.items_when("with", "merged", |items| items[0].counters.as_ref().unwrap().misfired >= 2).await;
    let running = "/sharding/0/running";
    assert!(cluster.dump("with").await.contains_key(running));
    assert!(!cluster.dump("without").await.contains_key(running));
    for (name, unmonitored) in [("with", false), ("without", true)] {
        assert_eq!(cluster.job(name).await.summary.unwrap().unmonitored, unmonitored, "{name}");
    }
    assert_eq!(cluster.counters("without").await.misfired, 0);
    cluster.home.open("gate");
    for name in ["with", "without"] {
        cluster
            .verdict_when("runs in time again", |verdict| verdict.by_source(name, "NORMAL_TRIGGER").len() > 2)
            .await;
    }
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert!(verdict.by_source("without", "MISFIRE").is_empty(), "\n{}", verdict.table());
}

/// The coordinator's calendar jumps by less than rosterd's limit: only jobs with a lower limit do not fire until it is
/// right again.
#[tokio::test]
async fn a_job_may_ask_for_a_better_clock() {
    let mut cluster = Cluster::with_mutants(LONG, &[]).await;
    let jobs = [
        ("usual", json!({ "maxTimeDiffSeconds": -1 })),
        ("strict", json!({ "maxTimeDiffSeconds": 1 })),
        ("own", json!({ "rosterd": { "max_clock_diff_ms": 1000 } })),
    ];
    for (name, more) in &jobs {
        let mut fields = more.clone();
        fields["cron"] = EVERY_SECOND.into();
        cluster.apply(job(name, 1, fields)).await;
    }
    cluster.worker("a", jobs.iter().map(|(name, _)| runs_for(name, 1)).collect());
    let fired = |verdict: &Verdict, name: &str| verdict.by_source(name, "NORMAL_TRIGGER").len();
    let strict = |verdict: &Verdict| ["strict", "own"].map(|name| fired(verdict, name));
    let all = |verdict: &Verdict| fired(verdict, "usual") > 1 && strict(verdict).iter().all(|n| *n > 1);
    cluster.verdict_when("all fire", all).await;
    cluster.mutant("clock-ahead-ms", "1500");
    // By then the coordinator has certainly checked its calendar.
    let since = fired(&cluster.verdict(), "usual");
    let before =
        cluster.verdict_when("the jump is seen", |verdict| fired(verdict, "usual") > since + 2).await;
    let after = cluster
        .verdict_when("more fires", |verdict| fired(verdict, "usual") > fired(&before, "usual") + 2)
        .await;
    assert_eq!(strict(&before), strict(&after), "\n{}", after.table());
    cluster.mutant("clock-ahead-ms", "0");
    let again =
        |verdict: &Verdict| strict(verdict).iter().zip(strict(&after)).all(|(now, then)| *now > then + 2);
    cluster.verdict_when("they fire again", again).await.is_clean();
}

/// A worker dies, and no coordinator is notified of the change of the tree: its items move to another one if the leader
/// reconciles by itself.
#[tokio::test]
async fn what_nothing_told_of_is_found_by_looking_again() {
    let mut cluster = Cluster::with_mutants(SHORT, &[("minute-ms", "500")]).await;
    let with = |name: &str, minutes: i32| job(name, 2, json!({ "reconcileIntervalMinutes": minutes }));
    let does = vec![runs_for("never", 1), runs_for("often", 1)];
    for name in ["never", "often"] {
        cluster.apply(with(name, 0)).await;
    }
    cluster.worker("a", does.clone());
    cluster.worker("b", does);
    for name in ["never", "often"] {
        cluster.assigned(name, 2).await;
    }
    cluster.apply(with("often", 1)).await;
    cluster.mutant("deaf", "");
    cluster.kill("b");
    for name in ["never", "often"] {
        wait("it has gone", || async { (cluster.instances(name).await.len() == 1).then_some(()) }).await;
    }
    cluster.assigned("often", 1).await;
    cluster.trigger("often").await;
    cluster
        .verdict_when("both items run", |verdict| verdict.done("often", "MANUAL").len() == 2)
        .await
        .is_clean();
    // The dead one's item is still assigned to it: no live worker owns it.
    let owners: BTreeSet<_> = cluster.items("never").await.into_iter().map(|item| item.owner).collect();
    assert!(owners.len() == 2 && owners.contains(&None), "{owners:?}");
}

/// Switched off while runs are in flight: their mirrors are removed at once, the runs end as usual.
#[tokio::test]
async fn monitoring_that_is_switched_off_leaves_no_mirror_behind() {
    let mut cluster = Cluster::start(LONG).await;
    let with = |monitor: bool| {
        job("seen", 2, json!({ "monitorExecution": monitor, "misfire": false, "failover": false }))
    };
    cluster.apply(with(true)).await;
    cluster.worker("a", vec![runs_until("seen", cluster.home.path("gate"))]);
    cluster.assigned("seen", 1).await;
    cluster.trigger("seen").await;
    cluster.verdict_when("two runs", |verdict| verdict.of("seen").count() == 2).await;
    let mirrors = |dump: std::collections::BTreeMap<String, v1::DumpNode>| {
        dump.into_keys().filter(|path| path.ends_with("/running")).count()
    };
    assert_eq!(mirrors(cluster.dump("seen").await), 2);
    cluster.apply(with(false)).await;
    assert_eq!(mirrors(cluster.dump("seen").await), 0);
    // Nor do they come back with their worker.
    cluster.kill_coordinator();
    cluster.serve().await;
    wait("it is back", || async { (!cluster.instances("seen").await.is_empty()).then_some(()) }).await;
    assert_eq!(mirrors(cluster.dump("seen").await), 0);
    cluster.home.open("gate");
    let ended = |items: &[v1::ItemSummary]| items.iter().all(|item| item.last.is_some());
    cluster.items_when("seen", "both have ended", ended).await;
    cluster.trigger("seen").await;
    cluster
        .verdict_when("they run again", |verdict| verdict.of("seen").filter(|run| run.ended()).count() == 4)
        .await
        .is_clean();
}

/// A crashed run that waits for an instance is given up at once; one that was taken over ends as usual.
#[tokio::test]
async fn failover_that_is_switched_off_leaves_no_node_behind() {
    let mut cluster = Cluster::start(SHORT).await;
    let with = |name: &str, failover: bool| job(name, 1, json!({ "failover": failover }));
    for name in ["waits", "taken"] {
        cluster.apply(with(name, true)).await;
    }
    let gate = cluster.home.path("gate");
    cluster.worker("a", vec![runs_until("waits", gate.clone()), runs_until("taken", gate.clone())]);
    for name in ["waits", "taken"] {
        cluster.assigned(name, 1).await;
        cluster.trigger(name).await;
        cluster.verdict_when("a run", |verdict| verdict.of(name).count() == 1).await;
    }
    cluster.worker("b", vec![runs_until("taken", gate)]);
    cluster.kill("a");
    cluster.verdict_when("a failover", |verdict| verdict.by_source("taken", "FAILOVER").len() == 1).await;
    let (waits, taken) = ("/leader/failover/items/0", "/sharding/0/failover");
    wait("the nodes", || async {
        let both = cluster.dump("waits").await.contains_key(waits)
            && cluster.dump("taken").await.contains_key(taken);
        both.then_some(())
    })
    .await;
    for name in ["waits", "taken"] {
        cluster.apply(with(name, false)).await;
    }
    assert!(!cluster.dump("waits").await.contains_key(waits));
    assert!(!cluster.dump("taken").await.contains_key(taken));
    cluster.items_when("waits", "it is given up", |items| items[0].state() == v1::ItemState::Idle).await;
    cluster.home.open("gate");
    cluster
        .items_when("taken", "it has ended", |items| items[0].counters.as_ref().unwrap().succeeded == 1)
        .await;
    cluster.verdict().is_clean();
}

#[tokio::test]
async fn failover_decides_whether_a_crashed_run_runs_again() {
    let mut cluster = Cluster::start(SHORT).await;
    for (name, failover) in [("with", true), ("without", false)] {
        cluster.apply(job(name, 2, json!({ "failover": failover }))).await;
    }
    let gate = cluster.home.path("gate");
    let does = vec![runs_until("with", gate.clone()), runs_until("without", gate)];
    cluster.worker("a", does.clone());
    cluster.worker("b", does);
    for name in ["with", "without"] {
        cluster.assigned(name, 2).await;
        cluster.trigger(name).await;
        cluster.verdict_when("two runs", |verdict| verdict.of(name).count() == 2).await;
    }
    cluster.kill("a");
    cluster.verdict_when("a failover", |verdict| !verdict.by_source("with", "FAILOVER").is_empty()).await;
    cluster
        .items_when("without", "a crash", |items| {
            items.iter().any(|item| item.counters.as_ref().unwrap().crashed == 1)
        })
        .await;
    cluster.home.open("gate");
    cluster.quiet("with").await;
    cluster.quiet("without").await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert!(verdict.by_source("without", "FAILOVER").is_empty());
    assert_eq!(
        (cluster.counters("with").await.succeeded, cluster.counters("without").await.succeeded),
        (2, 1)
    );
}

#[tokio::test]
async fn the_strategy_decides_who_owns_what() {
    let mut cluster = Cluster::start(LONG).await;
    // Three items on two workers: if the strategy uses the name, it determines which worker has two of them; of two
    // names that differ by one, one has an odd hash.
    let strategies = [
        ("avg", json!({})),
        ("odd", json!({ "jobShardingStrategyType": "ODEVITY" })),
        (
            "class",
            json!({ "jobShardingStrategyClass": "com.dangdang.ddframe.job.lite.api.strategy.impl.OdevitySortByNameJobShardingStrategy" }),
        ),
        ("round", json!({ "jobShardingStrategyType": "ROUND_ROBIN" })),
    ];
    let names: Vec<(String, &Value)> = strategies
        .iter()
        .flat_map(|(name, more)| ["a", "b"].map(|end| (format!("{name}-{end}"), more)))
        .collect();
    for (name, more) in &names {
        cluster.apply(job(name, 3, (*more).clone())).await;
    }
    let does: Vec<Does> = names.iter().map(|(name, _)| runs_for(name, 1)).collect();
    cluster.worker("a", does.clone());
    cluster.worker("b", does);
    let mut first = std::collections::BTreeMap::new();
    for (name, _) in &names {
        let items = cluster.assigned(name, 2).await;
        let owners: Vec<String> = items
            .iter()
            .map(|item| item.owner.clone().unwrap().split('@').next().unwrap().to_owned())
            .collect();
        first.insert(name.as_str(), owners);
    }
    assert_eq!(first["avg-a"], first["avg-b"], "average allocation does not look at the name");
    for strategy in ["odd", "class", "round"] {
        assert_ne!(first[&*format!("{strategy}-a")], first[&*format!("{strategy}-b")], "{first:?}");
    }
}

#[tokio::test]
async fn what_people_are_shown_and_workers_are_not_told() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("plain", 1, json!({}))).await;
    let shown = [("description", "counts words"), ("label", "nightly")];
    for (field, text) in shown {
        cluster.apply(job(field, 1, json!({ field: text }))).await;
    }
    cluster.worker("a", ["plain", "description", "label"].map(|name| runs_for(name, 1)).to_vec());
    cluster.assigned("plain", 1).await;
    let plain = cluster.job("plain").await;
    for (field, text) in shown {
        let detail = cluster.job(field).await;
        assert!(detail.spec.contains(text) && !plain.spec.contains(text), "{field}: {}", detail.spec);
        if field == "description" {
            assert_eq!(detail.summary.unwrap().description, text);
        }
        cluster.assigned(field, 1).await;
        assert_eq!(told(&cluster, field, 1).await, ["||1|{}|"], "a worker is told nothing of it");
    }
    assert_eq!(told(&cluster, "plain", 1).await, ["||1|{}|"]);
}

#[tokio::test]
async fn a_job_may_start_disabled() {
    let mut cluster = Cluster::start(LONG).await;
    for (name, disabled) in [("on", false), ("off", true)] {
        cluster.apply(job(name, 1, json!({ "cron": EVERY_SECOND, "disabled": disabled }))).await;
    }
    cluster.worker("a", vec![runs_for("on", 1), runs_for("off", 1)]);
    cluster.verdict_when("three runs", |verdict| verdict.of("on").count() >= 3).await;
    assert_eq!(cluster.verdict().of("off").count(), 0);
    let enable = v1::SetEnabledRequest { job: "off".into(), enabled: true, ..Default::default() };
    cluster.admin().set_enabled(enable).await.unwrap();
    let from = wall();
    let verdict = cluster.verdict_when("it runs", |verdict| verdict.of("off").count() >= 2).await;
    verdict.is_clean();
    assert!(verdict.of("off").all(|run| run.fire > from - 1500), "\n{}", verdict.table());
}

/// Even if the worker does not set it: Elastic-Job has it in its configuration.
#[tokio::test]
async fn a_job_file_may_say_that_it_overwrites() {
    let mut cluster = Cluster::start(LONG).await;
    for (name, overwrite) in [("kept", false), ("replaced", true)] {
        cluster.apply(job(name, 1, json!({ "jobParameter": "old" }))).await;
        let config = Some(job(name, 2, json!({ "jobParameter": "new", "overwrite": overwrite })));
        cluster.worker(name, vec![Does { config, ..runs_for(name, 1) }]);
        cluster.assigned(name, 1).await;
    }
    assert_eq!(told(&cluster, "kept", 1).await, ["|old|1|{}|"]);
    assert_eq!(told(&cluster, "replaced", 2).await, ["|new|2|{}|", "|new|2|{}|"]);
}
