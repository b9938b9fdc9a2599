//! REST on a real coordinator with a real worker: reads are correct, and requests take effect.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::harness::*;
use crate::http::{self, Answered};

async fn ask_with(cluster: &Cluster, method: &str, path: &str, heads: &str, body: &str) -> Answered {
    let address = SocketAddr::from(([127, 0, 0, 1], cluster.port));
    http::ask(address, method, path, heads, body).await
}

async fn ask(cluster: &Cluster, method: &str, path: &str) -> Value {
    let answer = ask_with(cluster, method, path, "", "").await;
    assert_eq!(answer.code, 200, "{method} {path}: {}", answer.body);
    answer.json()
}

async fn sharding(cluster: &Cluster, what: &str, so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    wait(format!("items: {what}"), || async {
        let items = ask(cluster, "GET", "/api/jobs/shared/sharding").await;
        items.as_array().cloned().filter(|items| so(items))
    })
    .await
}

#[tokio::test]
async fn a_job_is_made_run_and_removed_over_rest() {
    let mut cluster = Cluster::start(SHORT).await;
    let file = job("shared", 2, json!({ "shardingItemParameters": "0=a,1=b", "jobParameter": "all" }));
    let made = ask_with(&cluster, "PUT", "/api/jobs/config", "", &file).await;
    assert_eq!((made.code, made.json()[0]["effect"].as_str()), (200, Some("created")), "{}", made.body);
    let brief = ask(&cluster, "GET", "/api/jobs").await;
    assert_eq!(
        (brief[0]["jobName"].as_str(), brief[0]["status"].as_str()),
        (Some("shared"), Some("CRASHED"))
    );
    let gate = cluster.home.path("gate");
    cluster.worker("w", vec![runs_until("shared", gate)]);
    let items = sharding(&cluster, "owned", |items| items.iter().all(|item| item["instanceId"] != "")).await;
    assert_eq!(
        (items[0]["serverIp"].as_str(), items[0]["status"].as_str()),
        (Some("host-w"), Some("PENDING"))
    );
    assert_eq!(ask(&cluster, "GET", "/api/servers").await[0]["instancesNum"], 1);
    assert_eq!(ask(&cluster, "GET", "/api/servers/host-w/jobs").await[0]["jobName"], "shared");

    let changes = ask(&cluster, "POST", "/api/jobs/shared/trigger").await;
    assert!(changes[0]["triggerId"].is_string(), "{changes}");
    let running = |items: &[Value]| items.iter().all(|item| item["status"] == "RUNNING");
    let items = sharding(&cluster, "running", running).await;
    let task = format!("shared@-@0@-@READY@-@{}", items[0]["instanceId"].as_str().unwrap());
    assert_eq!((items[0]["taskId"].as_str(), items[0]["source"].as_str()), (Some(&*task), Some("MANUAL")));
    cluster.home.open("gate");
    let done = |items: &[Value]| items.iter().all(|item| item["status"] == "COMPLETED");
    sharding(&cluster, "completed", done).await;
    let runs = wait("runs in the history", || async {
        let runs = ask(&cluster, "GET", "/api/runs?job=shared&state=TASK_FINISHED").await;
        runs.as_array().cloned().filter(|runs| runs.len() == 2)
    })
    .await;
    assert_eq!(
        (runs[0]["outcome"].as_str(), runs[0]["taskId"].as_str().is_some()),
        (Some("succeeded"), true)
    );

    ask(&cluster, "POST", "/api/jobs/shared/sharding/1/disable").await;
    sharding(&cluster, "one disabled", |items| items[1]["status"] == "DISABLED").await;
    ask(&cluster, "DELETE", "/api/jobs/shared/sharding/1/disable").await;
    ask(&cluster, "POST", "/api/servers/host-w/disable").await;
    wait("its only machine is disabled", || async {
        (ask(&cluster, "GET", "/api/jobs").await[0]["status"] == "DISABLED").then_some(())
    })
    .await;
    let events = ask(&cluster, "GET", "/api/events?job=shared").await;
    assert!(events.as_array().is_some_and(|events| events.len() >= 4), "{events}");
    assert_eq!(ask(&cluster, "DELETE", "/api/jobs/config/shared").await[0]["effect"], "removed");
    // It counts until its nodes are gone, a moment after the answer.
    wait("no job counts", || async { (ask(&cluster, "GET", "/api/jobs/count").await == 0).then_some(()) })
        .await;
}

/// If two clients change what they have read, the second gets a conflict; also if both requests are in flight.
#[tokio::test]
async fn nobody_overwrites_a_configuration_that_they_have_not_seen() {
    let cluster = Cluster::start(SHORT).await;
    cluster.apply(job("edited", 2, json!({}))).await;
    let read = ask_with(&cluster, "GET", "/api/jobs/config/edited", "", "").await;
    let tag = read.head("etag").unwrap().to_owned();
    let with = |description: &str| {
        let mut file = read.json();
        file["description"] = description.into();
        file.to_string()
    };
    let heads = format!("If-Match: {tag}\r\n");
    let (ann, ben) = (with("by ann"), with("by ben"));
    let put = |file| ask_with(&cluster, "PUT", "/api/jobs/config", &heads, file);
    let (one, other) = tokio::join!(put(&ann), put(&ben));
    let mut codes = [one.code, other.code];
    codes.sort_unstable();
    assert_eq!(codes, [200, 412], "{} {}", one.body, other.body);
    let refused = if one.code == 412 { one } else { other };
    assert_eq!(refused.json()["code"], "CONFIG_CHANGED");
    let now = ask_with(&cluster, "GET", "/api/jobs/config/edited", "", "").await;
    assert_ne!(now.head("etag"), Some(&*tag));
    // The same again, by a client that has read it.
    let heads = format!("If-Match: {}\r\n", now.head("etag").unwrap());
    let again = ask_with(&cluster, "PUT", "/api/jobs/config", &heads, &with("by both")).await;
    assert_eq!((again.code, again.json()[0]["effect"].as_str()), (200, Some("changed")), "{}", again.body);
}

/// Where an item is, why, its former owners, and its runs: queries of the operator of a real cluster.
#[tokio::test]
async fn an_item_that_moves_is_explained() {
    let mut cluster = Cluster::start(SHORT).await;
    let gate = cluster.home.path("gate");
    cluster.worker("one", vec![runs_until("shared", gate.clone())]);
    cluster.apply(job("shared", 1, json!({ "cron": "* * * * * ?" }))).await;
    sharding(&cluster, "owned by one", |items| items[0]["serverIp"] == "host-one").await;
    let path = "/api/jobs/shared/sharding/0/explain";
    let told = |what: &'static str| {
        let cluster = &cluster;
        async move {
            wait(format!("told: {what}"), || async {
                let told = ask(cluster, "GET", path).await;
                let texts: Vec<String> = told["sentences"]
                    .as_array()?
                    .iter()
                    .map(|said| said["text"].as_str().unwrap().to_owned())
                    .collect();
                texts.iter().any(|text| text.contains(what)).then_some(texts)
            })
            .await
        }
    };
    told("It runs: NORMAL_TRIGGER of ").await;
    let texts = told("It has had this owner since ").await;
    assert!(texts[0].contains("@-@") && texts[0].contains(" owns item 0 of shared"), "{texts:#?}");
    assert!(texts.iter().any(|text| text.starts_with("AVG_ALLOCATION, which deals")), "{texts:#?}");
    assert!(texts.last().unwrap().starts_with("It runs next at "), "{texts:#?}");
    let owned = ask(&cluster, "GET", "/api/jobs/shared/ownership").await;
    assert_eq!((&owned[0]["serverIp"], owned[0]["to"].is_null()), (&"host-one".into(), true), "{owned}");
    assert_eq!(owned[0]["reason"], "first assignment", "{owned}");

    ask(&cluster, "POST", "/api/servers/host-one/disable").await;
    cluster.home.open("gate");
    told("gets no items: machine host-one is disabled for shared.").await;
    assert_eq!(ask_with(&cluster, "GET", "/api/jobs/shared/sharding/7/explain", "", "").await.code, 404);
    let shown = ask(&cluster, "GET", "/api/overview").await;
    assert_eq!(
        (&shown["jobs"], &shown["workers"], &shown["coordinators"]),
        (&1.into(), &1.into(), &1.into()),
        "{shown}"
    );
    let fires = ask(&cluster, "GET", "/api/fires?limit=1000").await;
    let run = fires.as_array().unwrap().iter().find(|fire| fire["result"] == "run").expect("one ran").clone();
    let token = run["token"].as_u64().unwrap();
    let shown = ask(&cluster, "GET", &format!("/api/runs/shared/0/{token}")).await;
    assert_eq!(
        (&shown["run"]["fireTime"], &shown["attempts"][0]["token"]),
        (&run["fireTime"], &run["token"]),
        "{shown}"
    );
}
