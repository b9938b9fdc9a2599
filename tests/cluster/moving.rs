//! Jobs move between a directory and an ensemble, and from Elastic-Job's own trees, with real coordinators and
//! workers before and after.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rosterd_wire::proto::v1;
use rustix::process::Signal;
use serde_json::{Value, json};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::fleet::{Fleet, PATIENT, QUICK, shared};
use crate::harness::*;

pub fn rosterd(args: &[&str]) -> Output {
    let mut command = Command::new(binary(false));
    clean(&mut command);
    command.env_remove("RUST_BACKTRACE");
    command.args(args).output().unwrap()
}

#[track_caller]
fn done(args: &[&str]) -> String {
    let ran = rosterd(args);
    let (out, err) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    assert!(ran.status.success(), "{args:?}: {out}{err}");
    out
}

#[track_caller]
fn refused(args: &[&str], words: &[&str]) {
    let ran = rosterd(args);
    let err = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{args:?}: {err}");
    for word in words {
        assert!(err.contains(word), "{word:?} is not in: {err}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn jobs_of(file: &Path) -> Value {
    let mut file: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    file["jobs"].take()
}

/// The log of the programs: the tokens of each item, in order.
fn tokens(file: &Path) -> BTreeMap<u32, Vec<u64>> {
    let mut found: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        let words: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        if let [item, token] = words[..] {
            found.entry(u32::try_from(item).unwrap()).or_default().push(token);
        }
    }
    found
}

/// Runs a job with a program until each item has run twice; then the worker leaves. Returns the tokens.
async fn work(
    cluster: &mut Cluster,
    namespace: &str,
    job: &str,
    items: usize,
    name: &str,
) -> BTreeMap<u32, Vec<u64>> {
    let file = cluster.home.path(&format!("{name}.tokens"));
    let program = format!("echo \"$ROSTERD_ITEM $ROSTERD_TOKEN\" >> {}", file.display());
    cluster.exec(name, &["--job", job, "--namespace", namespace], &["sh", "-c", &program]);
    until(format!("two runs of {items} items"), || {
        let found = tokens(&file);
        found.len() == items && found.values().all(|tokens| tokens.len() >= 2)
    })
    .await;
    leave(cluster, name).await;
    tokens(&file)
}

async fn leave(cluster: &mut Cluster, name: &str) {
    cluster.process(name).signal(Signal::TERM);
    let status = cluster.process(name).end().await;
    assert!(status.success(), "{name}: {status}");
}

async fn stop(proc: &mut Option<Proc>) {
    let mut proc = proc.take().unwrap();
    proc.signal(Signal::TERM);
    let status = proc.end().await;
    assert!(status.success(), "{status}");
}

fn highest(all: &BTreeMap<u32, Vec<u64>>) -> u64 {
    all.values().flatten().copied().max().unwrap_or(0)
}

/// Every token is above all earlier ones of its item; for a new item, above all that were issued before its coordinator
/// started.
#[track_caller]
fn rise(all: &mut BTreeMap<u32, Vec<u64>>, began: u64, now: BTreeMap<u32, Vec<u64>>) {
    for (item, tokens) in now {
        let before = all.get(&item).map_or(began, |tokens| tokens[tokens.len() - 1]);
        let given = all.entry(item).or_default();
        assert!(tokens[0] > before, "item {item}: {} after {before}", tokens[0]);
        assert!(tokens.is_sorted_by(|a, b| a < b), "item {item}: {tokens:?}");
        given.extend(tokens);
    }
}

fn count(items: u32) -> String {
    job("count", items, json!({ "cron": EVERY_SECOND }))
}

/// A directory, an ensemble, and a directory again.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_move_there_and_back_and_tokens_go_on_rising() {
    let zk = shared().list();
    let mut embedded = Cluster::prepare(QUICK, &[]);
    embedded.serve().await;
    embedded.apply(count(3)).await;
    embedded.apply(job("held", 4, json!({ "description": "is not to fire" }))).await;
    let mut all = work(&mut embedded, "default", "count", 3, "first").await;
    let url = embedded.url();
    done(&["jobs", "pause", "held", "--server", &url]);
    done(&["jobs", "disable", "held", "--item", "2", "--server", &url]);
    stop(&mut embedded.coordinator).await;

    let mut fleet = Fleet::prepare(1, &zk, QUICK);
    let namespace = fleet.namespace.clone();
    let place = |name: &str| -> PathBuf { embedded.home.path(name) };
    let (a, b, c) = (place("a.json"), place("b.json"), place("c.json"));
    let data = embedded.data.clone();
    let on_zk = ["--zk", zk.as_str(), "--namespace", namespace.as_str()];
    done(&["export", "--data-dir", text(&data), text(&a)]);
    done(&[&["import", text(&a)], &on_zk[..]].concat());
    done(&[&["export", text(&b)], &on_zk[..]].concat());
    done(&["import", "--data-dir", text(&place("second")), text(&b)]);
    done(&["export", "--data-dir", text(&place("second")), text(&c)]);
    let jobs = jobs_of(&a);
    assert_eq!((jobs[0]["name"].as_str(), jobs[1]["paused"].as_bool()), (Some("count"), Some(true)));
    assert_eq!(jobs[1]["rights"]["disabled_items"], json!([2]));
    assert!(jobs[0]["records"]["0"]["counters"]["succeeded"].as_u64() >= Some(2));
    assert_eq!(jobs, jobs_of(&b));
    assert_eq!(jobs, jobs_of(&c));

    fleet.launch(0);
    fleet.serving(0).await;
    refused(
        &[&["import", text(&a), "--overwrite"], &on_zk[..]].concat(),
        &["coordinators serve this namespace"],
    );
    let began = highest(&all);
    rise(&mut all, began, work(&mut fleet.cluster, &namespace, "count", 3, "second").await);
    fleet.apply(count(4)).await;
    rise(&mut all, began, work(&mut fleet.cluster, &namespace, "count", 4, "third").await);
    stop(&mut fleet.seats[0].proc).await;

    let (d, third) = (place("d.json"), place("third"));
    done(&[&["export", text(&d)], &on_zk[..]].concat());
    done(&["import", "--data-dir", text(&third), text(&d)]);
    embedded.data = third;
    embedded.serve().await;
    let began = highest(&all);
    rise(&mut all, began, work(&mut embedded, "default", "count", 4, "fourth").await);
    embedded.apply(count(5)).await;
    rise(&mut all, began, work(&mut embedded, "default", "count", 5, "fifth").await);
    done(&["jobs", "remove", "count", "--server", &embedded.url()]);
    wait("the job to be made again", || async { embedded.try_apply(count(5)).await.ok() }).await;
    let began = highest(&all);
    rise(&mut all, began, work(&mut embedded, "default", "count", 5, "sixth").await);
}

/// The coordinator and the worker are dead, and the record says that two items run.
#[tokio::test(flavor = "multi_thread")]
async fn runs_in_flight_are_run_again_in_the_new_store() {
    let zk = shared().list();
    let mut fleet = Fleet::start(1, &zk, PATIENT).await;
    fleet.apply(job("pair", 2, json!({ "failover": true }))).await;
    let gate = fleet.home.path("gate");
    fleet.worker_at(0, "a", vec![runs_until("pair", gate)]);
    fleet.assigned("pair", 1).await;
    fleet.trigger("pair").await;
    fleet.verdict_when("two runs", |verdict| verdict.of("pair").count() == 2).await;
    let namespace = fleet.namespace.clone();
    let on_zk = ["--zk", zk.as_str(), "--namespace", namespace.as_str()];
    let (while_served, file) = (fleet.home.path("served.json"), fleet.home.path("file.json"));
    let said = done(&[&["export", text(&while_served)], &on_zk[..]].concat());
    assert!(said.contains("2 runs are in flight"), "{said}");
    fleet.seats[0].proc.take().unwrap().kill();
    fleet.cluster.kill("a");
    done(&[&["export", text(&file)], &on_zk[..]].concat());
    assert_eq!(jobs_of(&file), jobs_of(&while_served));
    let data = fleet.home.path("data-here");
    let import = ["import", "--data-dir", text(&data), text(&file)];
    refused(&import, &["pair/0", "pair/1", "was in flight", "--crash-running"]);
    done(&[&import[..], &["--crash-running"]].concat());
    fleet.cluster.data = data;
    fleet.cluster.port = 0;
    fleet.cluster.serve().await;
    fleet.cluster.worker("b", vec![runs_for("pair", 1)]);
    fleet
        .cluster
        .items_when("pair", "both ran again", |items| {
            items.iter().all(|item| item.counters.as_ref().is_some_and(|counters| counters.succeeded == 1))
        })
        .await;
    let counters = fleet.cluster.counters("pair").await;
    assert_eq!((counters.runs, counters.crashed, counters.succeeded), (4, 2, 2), "{counters:?}");
    let verdict = fleet.cluster.verdict();
    assert_eq!(verdict.by_source("pair", "FAILOVER").len(), 2, "\n{}", verdict.table());
}

const TWO: &str = r#"{"jobName":"two","jobClass":"com.example.Two","jobType":"SIMPLE","cron":"* * * * * ?",
"shardingTotalCount":2,"shardingItemParameters":"0=a,1=b,2=c","jobParameter":"p","failover":true,"misfire":true,
"description":"second","jobProperties":{"job_exception_handler":"com.example.Handler"},"monitorExecution":true,
"maxTimeDiffSeconds":-1,"monitorPort":9888,
"jobShardingStrategyClass":"com.dangdang.ddframe.job.lite.api.strategy.impl.OdevitySortByNameJobShardingStrategy",
"reconcileIntervalMinutes":10,"disabled":false,"overwrite":true}"#;

const THREE: &str = "cron: '* * * * * ?'\ndescription: ''\ndisabled: false\nfailover: false\njobListenerTypes: []\n\
    jobName: three\njobParameter: ''\njobShardingStrategyType: ROUND_ROBIN\nmaxTimeDiffSeconds: -1\nmisfire: true\n\
    monitorExecution: true\noverwrite: false\nreconcileIntervalMinutes: 10\n\
    shardingItemParameters: 0=Beijing,1=Shanghai\nshardingTotalCount: 2\nstaticSharding: false\n";

/// Nodes of the three generations, below `/{root}`.
const TREE: &[(&str, &str)] = &[
    ("one/config/jobClass", "com.example.One"),
    ("one/config/jobType", "SIMPLE"),
    ("one/config/cron", "* * * * * ?"),
    ("one/config/shardingTotalCount", "2"),
    ("one/config/shardingItemParameters", "0=x,1=y"),
    ("one/config/jobParameter", ""),
    ("one/config/monitorExecution", "true"),
    ("one/config/failover", "false"),
    ("one/config/misfire", "true"),
    ("one/config/fetchDataCount", "1"),
    ("one/config/maxTimeDiffSeconds", "-1"),
    ("one/config/monitorPort", "-1"),
    ("one/config/description", "first"),
    ("one/config/jobShardingStrategyClass", ""),
    ("one/servers/10.0.0.8/hostName", "old"),
    ("one/servers/10.0.0.8/disabled", ""),
    ("one/servers/10.0.0.9/hostName", "new"),
    ("one/execution/0/completed", ""),
    ("one/offset/0", "line 17"),
    ("two/config", TWO),
    ("two/servers/10.0.0.8", "DISABLED"),
    ("two/servers/10.0.0.9", ""),
    ("two/sharding/0/instance", "10.0.0.9@-@17"),
    ("two/sharding/1/disabled", ""),
    ("two/sharding/1/misfire", ""),
    ("two/leader/failover/items/0", ""),
    ("three", "com.example.Three"),
    ("three/config", THREE),
    ("three/servers/10.0.0.9", "ENABLED"),
    ("three/sharding/0/instance", "10.0.0.9@-@17"),
    ("three/systemTime/current", ""),
];

async fn plant(client: &Client, root: &str) {
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for (path, data) in TREE {
        let path = format!("{root}/{path}");
        let (above, _) = path.rsplit_once('/').unwrap();
        client.mkdir(above, &options).await.unwrap();
        if client.create(&path, data.as_bytes(), &options).await.is_err() {
            client.set_data(&path, data.as_bytes(), None).await.unwrap();
        }
    }
}

/// Every node from `root` down with its data and numbers.
async fn look(client: &Client, root: &str) -> Vec<(String, Vec<u8>, i64, i64)> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = folders.pop() {
        let (data, stat) = client.get_data(&path).await.unwrap();
        folders
            .extend(client.list_children(&path).await.unwrap().iter().map(|name| format!("{path}/{name}")));
        found.push((path, data, stat.mzxid, stat.pzxid));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_elastic_job_are_taken_over_and_fire() {
    let zk = shared().list();
    let mut fleet = Fleet::prepare(1, &zk, QUICK);
    let (namespace, old) = (fleet.namespace.clone(), format!("apps-{}/old", fleet.namespace));
    let client = Client::connect(&zk).await.unwrap();
    let root = format!("/{old}");
    plant(&client, &root).await;
    let live = format!("{root}/three/instances/10.0.0.9@-@17");
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.mkdir(&format!("{root}/three/instances"), &options).await.unwrap();
    client.create(&live, b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
    client.create(&format!("{root}/one/servers/10.0.0.9/status"), b"READY", &options).await.unwrap();
    let before = look(&client, &root).await;

    let from = ["import", "elastic-job", "--zk", zk.as_str(), "--from", old.as_str()];
    let into = ["--registry", "zookeeper", "--namespace", namespace.as_str()];
    let import = [&from[..], &into[..]].concat();
    refused(
        &import,
        &["three: 10.0.0.9@-@17 live and fire it", "one: 10.0.0.9 live and fire it", "--running"],
    );
    refused(&[&import[..], &["--job", "four", "--running"]].concat(), &["four is not there"]);
    client.delete(&live, None).await.unwrap();
    client.delete(&format!("{root}/one/servers/10.0.0.9/status"), None).await.unwrap();
    let still = look(&client, &root).await;
    assert_eq!(still.len(), before.len() - 2);

    let files = fleet.home.path("files");
    let ran = rosterd(&[&from[..], &["--as-files", text(&files)]].concat());
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.success(), "{said}");
    for words in [
        "two: warning: correct in the file: job \"two\": shardingItemParameters: it has a parameter for item 2",
        "two: warning: a job file has no place for disabled servers: 10.0.0.8",
        "two: warning: a job file has no place for disabled items: 1",
        "one: warning: a job file has no place for the offsets of 1 items",
    ] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    for name in ["one", "two", "three"] {
        let file = std::fs::read_to_string(files.join(format!("{name}.yaml"))).unwrap().replace(",2=c", "");
        let file = file.into_bytes();
        let specs = rosterd_domain::job::parse_file(&file).unwrap();
        assert_eq!((specs.len(), specs[0].config().job_name.as_str()), (1, name));
    }
    assert_eq!(done(&[&import[..], &["--dry-run"]].concat()).lines().count(), 3);
    let ran = rosterd(&import);
    let (out, said) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap());
    assert_eq!(out, "one imported\nthree imported\ntwo imported\n", "{said}");
    for words in [
        "two: warning: `monitorPort` is kept and has no effect",
        "one: warning: `fetchDataCount` is kept and has no effect",
        "two: warning: misfires that wait of items 1 stay behind",
        "two: warning: crashed runs that wait for a taker of items 0 stay behind",
    ] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    assert_eq!(look(&client, &root).await, still, "the old tree is only read");

    fleet.launch(0);
    fleet.serving(0).await;
    for (name, items) in [("one", 2), ("two", 1), ("three", 2)] {
        let log = fleet.home.path(&format!("{name}.runs"));
        let program = format!("echo \"$ROSTERD_ITEM $ROSTERD_TOKEN\" >> {}", log.display());
        let handler = format!("com.example.{}{}", name[..1].to_uppercase(), &name[1..]);
        let words = ["--job", name, "--handler", &handler, "--namespace", &namespace];
        fleet.cluster.exec(name, &words, &["sh", "-c", &program]);
        until(format!("runs of {name}"), || {
            let found = tokens(&log);
            found.len() == items && found.values().all(|tokens| tokens.len() >= 2)
        })
        .await;
        leave(&mut fleet.cluster, name).await;
    }
    let dump = fleet.dump("one").await;
    assert_eq!(dump["/offset/0"].data.to_vec(), b"line 17");
    let servers = |dump: &BTreeMap<String, rosterd_wire::proto::v1::DumpNode>| {
        ["10.0.0.8", "10.0.0.9"].map(|server| dump[&format!("/servers/{server}")].data.to_vec())
    };
    for name in ["one", "two"] {
        assert_eq!(servers(&fleet.dump(name).await), [b"DISABLED".to_vec(), b"ENABLED".to_vec()], "{name}");
    }
    assert!(fleet.items("two").await[1].disabled);
    assert_eq!(look(&client, &root).await, still, "the old tree is left alone");
}

/// A tree of Elastic-Job's own in the served namespace is not swept, created again or exported.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_tree_in_the_served_namespace_is_left_alone() {
    let zk = shared().list();
    let fleet = Fleet::start(1, &zk, QUICK).await;
    let namespace = fleet.namespace.clone();
    let client = Client::connect(&zk).await.unwrap();
    let root = format!("/{namespace}");
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.mkdir(&format!("{root}/two/servers/10.0.0.9"), &options).await.unwrap();
    client.create(&format!("{root}/two/config"), TWO.as_bytes(), &options).await.unwrap();
    let foreign = look(&client, &format!("{root}/two")).await;
    let refusal = wait("an answer", || async {
        let answer = fleet.try_apply(job("two", 1, json!({}))).await.unwrap_err();
        (code(&answer) == "CONFIG_DAMAGED").then_some(answer)
    })
    .await;
    assert!(refusal.message().contains("`rosterd import elastic-job` takes it over"), "{refusal}");
    fleet.apply(count(1)).await;
    let file = fleet.home.path("file.json");
    let ran = rosterd(&["export", "--zk", &zk, "--namespace", &namespace, text(&file)]);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.contains("two is left out: it is a job of Elastic-Job's own"), "{said}");
    assert_eq!(jobs_of(&file).as_array().unwrap().len(), 1);
    assert_eq!(look(&client, &format!("{root}/two")).await, foreign);
}

/// Another tool has written an invalid configuration: the job does nothing until it is applied again, or removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_another_tool_has_spoilt_is_applied_again_or_removed() {
    let zk = shared().list();
    let mut fleet = Fleet::start(1, &zk, QUICK).await;
    fleet.apply(count(1)).await;
    fleet.worker_at(0, "a", vec![runs_for("count", 1)]);
    fleet.assigned("count", 1).await;
    let client = Client::connect(&zk).await.unwrap();
    let config = format!("/{}/count/config", fleet.namespace);
    let spoil = async || {
        client.set_data(&config, b"{", None).await.unwrap();
        wait("it is told of", || async {
            let refusal = fleet
                .admin()
                .get_job(v1::GetJobRequest { job: "count".into(), upcoming: 1, ..Default::default() })
                .await
                .err()?;
            (code(&refusal) == "CONFIG_DAMAGED").then_some(())
        })
        .await;
    };
    let remove = async |cancel| {
        fleet.admin().remove_job(v1::RemoveJobRequest { job: "count".into(), cancel }).await.map(drop)
    };
    spoil().await;
    let refusal = remove(false).await.unwrap_err();
    assert!(code(&refusal) == "CONFIG_DAMAGED" && refusal.message().contains("--cancel"), "{refusal}");
    fleet.apply(count(1)).await;
    fleet.assigned("count", 1).await;
    let before = fleet.verdict().of("count").count();
    fleet.verdict_when("it runs on", |verdict| verdict.of("count").count() > before + 1).await;
    spoil().await;
    remove(true).await.unwrap();
    wait("it has gone", || async { client.check_stat(&config).await.unwrap().is_none().then_some(()) }).await;
}
