//! Writes of other tools to a real server, bypassing the coordinators: servers, the configuration, and the nodes of the
//! leader.

use rosterd_wire::proto::v1;
use serde_json::{Value, json};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::fleet::{Fleet, PATIENT, fires, shared};
use crate::harness::*;
use crate::judge::{Clean as _, Line, What};
use crate::worker::{Does, wall};

/// A client that is independent of coordinators.
struct Tool {
    client: Client,
    root: String,
}

impl Tool {
    async fn of(fleet: &Fleet) -> Self {
        let client = Client::connector().connect(&shared().list()).await.unwrap();
        Self { client, root: format!("/{}", fleet.namespace) }
    }

    async fn write(&self, path: &str, data: &[u8]) {
        let path = format!("{}/{path}", self.root);
        // A coordinator may create or remove the node between two requests.
        for _ in 0..1_000 {
            match self.client.set_data(&path, data, None).await {
                Ok(_) => return,
                Err(zookeeper_client::Error::NoNode) => {}
                Err(error) => panic!("{path}: {error}"),
            }
            let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
            match self.client.create(&path, data, &mode).await {
                Ok(_) => return,
                Err(zookeeper_client::Error::NodeExists) => {}
                Err(error) => panic!("{path}: {error}"),
            }
        }
        panic!("{path} comes and goes");
    }

    async fn remove(&self, path: &str) {
        self.client.delete(&format!("{}/{path}", self.root), None).await.unwrap();
    }

    async fn data(&self, path: &str) -> Vec<u8> {
        self.client.get_data(&format!("{}/{path}", self.root)).await.unwrap().0
    }

    async fn has(&self, path: &str) -> bool {
        self.client.check_stat(&format!("{}/{path}", self.root)).await.unwrap().is_some()
    }

    async fn goes(&self, path: &str) {
        wait(format!("{path} to go"), || async { (!self.has(path).await).then_some(()) }).await;
    }

    async fn config(&self, job: &str) -> Value {
        let (data, _) = self.client.get_data(&format!("{}/{job}/config", self.root)).await.unwrap();
        serde_json::from_slice(&data).unwrap()
    }
}

/// Two coordinators with a worker each, which share `tick`, of four items each second.
async fn scene() -> (Fleet, Tool) {
    let mut fleet = Fleet::start(2, &shared().list(), PATIENT).await;
    fleet.apply(job("tick", 4, json!({ "cron": EVERY_SECOND }))).await;
    for (seat, name) in ["a", "b"].into_iter().enumerate() {
        fleet.worker_at(seat, name, vec![runs_for("tick", 1), runs_for("rare", 1)]);
    }
    fleet.assigned("tick", 2).await;
    let tool = Tool::of(&fleet).await;
    (fleet, tool)
}

#[tokio::test]
async fn a_server_that_another_tool_disables_is_given_nothing_until_it_is_enabled() {
    let (fleet, tool) = scene().await;
    let server = "tick/servers/host-a";
    for enabled in [Some("ENABLED"), Some(""), None] {
        tool.write(server, b"DISABLED").await;
        let items = fleet.assigned("tick", 1).await;
        assert!(items.iter().all(|item| item.owner().starts_with("host-b@")), "{items:?}");
        fleet.more_fires(2).await;
        match enabled {
            Some(data) => tool.write(server, data.as_bytes()).await,
            None => tool.remove(server).await,
        }
        fleet.assigned("tick", 2).await;
    }
    fleet.verdict().is_clean();
}

/// Nothing is run for the time before, although the new schedule would have had scheduled times then.
#[tokio::test]
async fn a_configuration_that_another_tool_writes_holds_from_then_on() {
    let (fleet, tool) = scene().await;
    fleet.apply(job("rare", 2, json!({ "cron": "0 0 0 1 1 ? 2099", "jobParameter": "before" }))).await;
    fleet.assigned("rare", 2).await;
    fleet.more_fires(4).await;
    let mut config = tool.config("rare").await;
    config["cron"] = EVERY_SECOND.into();
    config["shardingTotalCount"] = 3.into();
    config["jobParameter"] = "after".into();
    let at = wall();
    tool.write("rare/config", config.to_string().as_bytes()).await;
    let verdict = fleet
        .verdict_when("a run of each of three items", |verdict| {
            (0..3).all(|item| verdict.of("rare").any(|run| run.item == item))
        })
        .await;
    let early: Vec<_> = verdict.of("rare").filter(|run| run.fire <= at).map(|run| run.fire).collect();
    assert!(early.is_empty(), "written at {at}, and run for {early:?}\n{}", verdict.table());
    let spec = fleet.job("rare").await;
    assert!(format!("{spec:?}").contains("after"), "{spec:?}");
    verdict.is_clean();
}

#[tokio::test]
async fn a_configuration_that_another_tool_spoils_stops_its_job_alone_until_it_is_mended() {
    let (fleet, tool) = scene().await;
    fleet.apply(job("rare", 2, json!({ "cron": EVERY_SECOND }))).await;
    fleet.assigned("rare", 2).await;
    let good = tool.config("rare").await.to_string();
    for bad in ["{", "", r#"{"cron":"never","shardingTotalCount":2}"#] {
        tool.write("rare/config", bad.as_bytes()).await;
        wait("both coordinators to say so", || async {
            for seat in 0..2 {
                let request = v1::GetJobRequest { job: "rare".into(), upcoming: 0, intervals: Vec::new() };
                let said = fleet.admin_of(seat).get_job(request).await.err()?;
                assert_eq!(code(&said), "CONFIG_DAMAGED", "{said:?}");
            }
            Some(())
        })
        .await;
        // Runs that had started when they noticed it are written with the next fire of the other job.
        fleet.more_fires(1).await;
        let before = fleet.verdict().of("rare").count();
        fleet.more_fires(2).await;
        assert_eq!(fleet.verdict().of("rare").count(), before, "nothing begins");
        tool.write("rare/config", good.as_bytes()).await;
        fleet.verdict_when("it goes on", |verdict| verdict.of("rare").count() >= before + 2).await;
    }
    fleet.verdict().is_clean();
}

#[tokio::test]
async fn the_flag_of_a_plan_that_another_tool_raises_or_takes_away_is_obeyed_or_not_missed() {
    let (mut fleet, tool) = scene().await;
    let flag = "tick/leader/sharding/necessary";
    tool.write(flag, b"").await;
    tool.goes(flag).await;
    fleet.worker_at(0, "c", vec![runs_for("tick", 1)]);
    // It exists only for a moment, if it is seen at all.
    let takes = async {
        loop {
            let _gone = tool.client.delete(&format!("{}/{flag}", tool.root), None).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        items = fleet.assigned("tick", 3) => drop(items),
        () = takes => {}
    }
    fleet.more_fires(2).await;
    fleet.verdict().is_clean();
}

#[tokio::test]
async fn nodes_of_crashed_items_that_another_tool_makes_or_removes_decide_nothing() {
    let (mut fleet, tool) = scene().await;
    let node = "again/leader/failover/items/0";
    fleet.apply(job("again", 1, json!({ "failover": true }))).await;
    let gate = fleet.home.path("gate");
    fleet.worker_at(0, "c", vec![runs_until("again", gate.clone())]);
    fleet.assigned("again", 1).await;
    tool.write(node, b"").await;
    tool.goes(node).await;
    assert_eq!(fleet.counters("again").await.runs, 0, "nothing is run for it");
    fleet.trigger("again").await;
    fleet.verdict_when("it runs", |verdict| verdict.of("again").count() == 1).await;
    fleet.kill("c");
    wait("its run to wait for a worker", || async { tool.has(node).await.then_some(()) }).await;
    tool.remove(node).await;
    fleet.worker_at(1, "d", vec![runs_until("again", gate)]);
    fleet.verdict_when("it is run again", |verdict| verdict.of("again").count() == 2).await;
    fleet.home.open("gate");
    fleet.quiet("again").await;
    assert_eq!(fleet.verdict().done("again", "FAILOVER").len(), 1);
    fleet.verdict().is_clean();
}

#[tokio::test]
async fn a_leader_that_another_tool_removes_is_elected_again_and_no_run_is_doubled() {
    let (fleet, tool) = scene().await;
    let leader = "tick/leader/election/instance";
    for _ in 0..3 {
        tool.remove(leader).await;
        wait("another election", || async { tool.has(leader).await.then_some(()) }).await;
        fleet.more_fires_at_all(2).await;
    }
    assert!(!fires(&fleet.verdict()).is_empty());
    fleet.verdict().is_clean();
}

#[tokio::test]
async fn a_running_node_that_another_tool_removes_frees_nothing() {
    let (mut fleet, tool) = scene().await;
    fleet.apply(job("long", 1, json!({ "cron": EVERY_SECOND, "failover": true }))).await;
    let gate = fleet.home.path("gate");
    fleet.worker_at(0, "c", vec![runs_until("long", gate)]);
    fleet.verdict_when("it runs", |verdict| verdict.of("long").count() == 1).await;
    tool.remove("long/sharding/0/running").await;
    fleet.more_fires(4).await;
    assert_eq!(fleet.verdict().of("long").count(), 1, "no run begins beside it");
    fleet.home.open("gate");
    fleet.verdict_when("the next runs", |verdict| verdict.of("long").count() >= 2).await;
    fleet.verdict().is_clean();
}

/// An older console fires a job by the data of an instance. Its items run once for it, if they may run at all.
#[tokio::test]
async fn a_trigger_that_an_older_console_writes_into_an_instance_runs_its_items_once() {
    let (fleet, tool) = scene().await;
    fleet.apply(job("rare", 4, json!({ "cron": "0 0 0 1 1 ? 2099" }))).await;
    let items = fleet.assigned("rare", 2).await;
    let owner = items[0].owner().to_owned();
    let path = format!("rare/instances/{owner}");
    let theirs = items.iter().filter(|item| item.owner() == owner).count() as u64;
    let before = tool.data(&path).await;
    let cleared = || async { (tool.data(&path).await == before).then_some(()) };
    for times in 1..=2 {
        tool.write(&path, b"TRIGGER").await;
        fleet
            .items_when("rare", "each of its items to run", |items| {
                // To the end: the next command skips an item that is still running.
                let ran =
                    |item: &v1::ItemSummary| item.counters.as_ref().is_some_and(|it| it.succeeded == times);
                items.iter().filter(|item| item.owner() == owner).all(ran)
            })
            .await;
        wait("the command to be cleared", cleared).await;
    }
    let target = v1::SetEnabledRequest { job: "rare".into(), ..Default::default() };
    fleet.admin().set_enabled(target).await.unwrap();
    tool.write(&path, b"TRIGGER").await;
    wait("the command to be cleared", cleared).await;
    fleet.more_fires(3).await;
    let counters = fleet.counters("rare").await;
    assert_eq!((counters.runs, counters.succeeded), (2 * theirs, 2 * theirs), "not while it is disabled");
    let verdict = fleet.verdict();
    assert!(verdict.of("rare").all(|run| run.source == "MANUAL"), "\n{}", verdict.table());
    verdict.is_clean();
}

/// They mark an item as running, owned and failed over elsewhere, and as skipped, and a plan as in progress.
#[tokio::test]
async fn mirrors_that_another_tool_writes_decide_nothing() {
    let (mut fleet, tool) = scene().await;
    fleet.more_fires(1).await;
    for mirror in ["running", "failover", "misfire", "instance"] {
        tool.write(&format!("tick/sharding/0/{mirror}"), b"10.9.9.9@-@nobody").await;
    }
    tool.write("tick/leader/sharding/processing", b"").await;
    fleet.more_fires(3).await;
    fleet.worker_at(0, "c", vec![runs_for("tick", 1)]);
    fleet.assigned("tick", 3).await;
    fleet.more_fires_at_all(2).await;
    let verdict = fleet.verdict();
    assert!(verdict.of("tick").all(|run| run.source == "NORMAL_TRIGGER"), "\n{}", verdict.table());
    assert_eq!(fleet.counters("tick").await.misfired, 0);
    verdict.is_clean();
}

/// They mark the items of a held fire as not started and as completed.
#[tokio::test]
async fn marks_of_a_held_fire_that_another_tool_makes_or_removes_release_nothing() {
    let (mut fleet, tool) = scene().await;
    let guarantee = json!({ "guarantee": { "started": true, "timeout_ms": 60_000 } });
    fleet.apply(job("held", 2, json!({ "rosterd": guarantee }))).await;
    let hold = Some(fleet.home.path("answer"));
    fleet.worker_at(0, "c", vec![Does { hooks: true, hold, ..runs_for("held", 1) }]);
    fleet.assigned("held", 1).await;
    fleet.apply(job("held", 2, json!({ "cron": once_soon(), "rosterd": guarantee }))).await;
    let asked = |line: &Line| line.what == What::Hook && line.detail.starts_with("all_started");
    until("somebody to be asked", || fleet.lines().iter().any(asked)).await;
    for item in 0..2 {
        tool.remove(&format!("held/guarantee/started/{item}")).await;
        tool.write(&format!("held/guarantee/completed/{item}"), b"").await;
    }
    fleet.more_fires(3).await;
    assert_eq!(fleet.verdict().of("held").count(), 0, "nobody has answered");
    fleet.home.open("answer");
    fleet.verdict_when("both run", |verdict| verdict.of("held").count() == 2).await;
    fleet.quiet("held").await;
    assert_eq!(fleet.lines().iter().filter(|line| asked(line)).count(), 1, "nobody is asked again");
    fleet.verdict().is_clean();
}
