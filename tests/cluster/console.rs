//! Elastic-Job's released console API (3.0.4) on a coordinator's tree: each operation has its documented effect within
//! two seconds.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rosterd_wire::proto::v1;
use serde_json::{Value, json};

use crate::fleet::*;
use crate::harness::*;

/// A console's operation takes effect within this time.
const SOON: Duration = Duration::from_secs(2);

/// A console, in a separate JVM.
struct Console {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

fn built() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target"), PathBuf::from);
    let built = target.join("console");
    assert!(
        built.join("classes/rosterd/console/Console.class").is_file(),
        "{} has no console: run `cargo xtask setup` (it needs Java and Maven: apt-get install \
         default-jdk-headless maven)",
        built.display()
    );
    built
}

impl Console {
    fn start(servers: &str, namespace: &str) -> Self {
        let built = built();
        let classes = format!("{0}/classes:{0}/dependency/*", built.display());
        let mut command = Command::new("java");
        command.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &classes]);
        command.args(["rosterd.console.Console", servers, namespace]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut console = Self { process, commands, answers };
        // Its classes are loaded, and it is connected.
        console.call(&["jobs"]);
        console
    }

    fn call(&mut self, words: &[&str]) -> Value {
        writeln!(self.commands, "{}", words.join("\t")).unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|e| panic!("{words:?}: {line:?}: {e}"));
        answer.get("ok").unwrap_or_else(|| panic!("{words:?}: {answer}")).clone()
    }

    /// Polls until the condition holds.
    async fn says(&mut self, words: &[&str], so: impl Fn(&Value) -> bool) {
        let until = Instant::now() + SOON;
        loop {
            let answer = self.call(words);
            if so(&answer) {
                return;
            }
            assert!(Instant::now() < until, "{words:?}: {answer:#}");
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits as long as a console's operation may take.
async fn soon<Fut: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> Fut) {
    let until = Instant::now() + SOON;
    while !so().await {
        assert!(Instant::now() < until, "not within {SOON:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// `tick` fires each second, `rare` never, on two workers; and a console.
async fn scene() -> (Fleet, Console) {
    let servers = shared().list();
    let mut fleet = Fleet::start(1, &servers, PATIENT).await;
    fleet.apply(job("tick", 2, json!({ "cron": EVERY_SECOND, "description": "each second" }))).await;
    fleet.apply(job("rare", 2, json!({ "cron": "0 0 0 1 1 ? 2099", "jobParameter": "before" }))).await;
    for name in ["a", "b"] {
        fleet.worker(name, vec![runs_for("tick", 1), runs_for("rare", 1)]);
    }
    fleet.assigned("tick", 2).await;
    fleet.assigned("rare", 2).await;
    let console = Console::start(&servers, &fleet.namespace);
    (fleet, console)
}

async fn fired(fleet: &Fleet, job: &str, item: u32) -> u64 {
    fleet.items(job).await[item as usize].counters.clone().unwrap().runs
}

async fn runs_on(fleet: &Fleet, job: &str) -> BTreeSet<String> {
    fleet.items(job).await.into_iter().filter_map(|item| item.owner).collect()
}

async fn only_on(fleet: &Fleet, job: &str, address: &str) {
    let what = format!("all of {job} is on {address}");
    soon(&what, || async {
        let on = runs_on(fleet, job).await;
        on.len() == 1 && on.iter().all(|id| id.starts_with(&format!("{address}@")))
    })
    .await;
}

async fn on_both(fleet: &Fleet, job: &str) {
    soon("both have items", || async { runs_on(fleet, job).await.len() == 2 }).await;
}

/// Each item of a job that fires each second fires again.
async fn fires_again(fleet: &Fleet, job: &str, item: u32) {
    let before = fired(fleet, job, item).await;
    soon("it fires again", || async { fired(fleet, job, item).await > before }).await;
}

/// Checks that no run starts except those in flight at the call, while three scheduled times pass.
async fn is_silent(fleet: &Fleet, job: &str, item: u32, beside: (&str, u32)) {
    let before = fired(fleet, job, item).await;
    let others = fired(fleet, beside.0, beside.1).await;
    wait("three fires beside it", || async {
        (fired(fleet, beside.0, beside.1).await >= others + 3).then_some(())
    })
    .await;
    assert_eq!(fired(fleet, job, item).await, before, "item {item} of {job} has fired");
}

#[tokio::test]
async fn statistics_of_jobs_servers_and_items() {
    let (fleet, mut console) = scene().await;
    console.says(&["jobs.count"], |count| *count == 2).await;
    console
        .says(&["job", "tick"], |job| {
            job["status"] == "OK"
                && job["instanceCount"] == 2
                && job["shardingTotalCount"] == 2
                && job["cron"] == EVERY_SECOND
                && job["description"] == "each second"
        })
        .await;
    let names = |jobs: &Value| -> BTreeSet<String> {
        jobs.as_array().unwrap().iter().map(|job| job["jobName"].as_str().unwrap().to_owned()).collect()
    };
    console.says(&["jobs"], |jobs| names(jobs) == ["rare", "tick"].map(str::to_owned).into()).await;
    console.says(&["jobs.of", "host-a"], |jobs| names(jobs).len() == 2).await;
    console.says(&["servers.count"], |count| *count == 2).await;
    console
        .says(&["servers"], |servers| {
            let of = |server: &Value| {
                (server["serverIp"].clone(), server["instancesNum"].clone(), server["jobsNum"].clone())
            };
            let found: Vec<_> = servers.as_array().unwrap().iter().map(of).collect();
            ["host-a", "host-b"].iter().all(|host| found.contains(&(json!(host), json!(1), json!(2))))
        })
        .await;
    let owners = runs_on(&fleet, "rare").await;
    console
        .says(&["items", "rare"], |items| {
            let items = items.as_array().unwrap();
            let on: BTreeSet<String> =
                items.iter().filter_map(|item| Some(item["instanceId"].as_str()?.to_owned())).collect();
            items.len() == 2 && on == owners && items.iter().all(|item| item["status"] == "PENDING")
        })
        .await;
}

#[tokio::test]
async fn a_configuration_is_read_updated_and_removed() {
    let (fleet, mut console) = scene().await;
    console
        .says(&["config", "rare"], |config| {
            config["jobParameter"] == "before" && config["shardingTotalCount"] == 2
        })
        .await;
    console.call(&["config.update", "rare", "jobParameter", "after"]);
    console.call(&["config.update", "rare", "shardingTotalCount", "3"]);
    soon("it has three items", || async { fleet.items("rare").await.len() == 3 }).await;
    console.says(&["config", "rare"], |config| config["jobParameter"] == "after").await;
    console.call(&["config.update", "rare", "cron", EVERY_SECOND]);
    for item in 0..3 {
        fires_again(&fleet, "rare", item).await;
    }
    console.call(&["config.remove", "rare"]);
    soon("it has gone", || async {
        let request = v1::GetJobRequest { job: "rare".into(), upcoming: 0, ..Default::default() };
        fleet.admin().get_job(request).await.is_err_and(|status| code(&status) == "JOB_UNKNOWN")
    })
    .await;
    console.says(&["jobs.count"], |count| *count == 1).await;
}

#[tokio::test]
async fn a_job_is_triggered() {
    let (fleet, mut console) = scene().await;
    console.call(&["trigger", "rare"]);
    for item in 0..2 {
        soon("each item runs", || async { fired(&fleet, "rare", item).await == 1 }).await;
    }
}

#[tokio::test]
async fn a_job_is_disabled_and_enabled_by_name_by_server_and_by_both() {
    let (fleet, mut console) = scene().await;
    // By both: the server of the job.
    console.call(&["disable", "tick", "host-a"]);
    only_on(&fleet, "tick", "host-b").await;
    assert_eq!(runs_on(&fleet, "rare").await.len(), 2, "of another job it is enabled");
    console.call(&["enable", "tick", "host-a"]);
    on_both(&fleet, "tick").await;
    // By server: of all jobs.
    console.call(&["disable", "-", "host-b"]);
    only_on(&fleet, "tick", "host-a").await;
    only_on(&fleet, "rare", "host-a").await;
    console.call(&["enable", "-", "host-b"]);
    on_both(&fleet, "tick").await;
    on_both(&fleet, "rare").await;
    // By name: on all servers.
    console.call(&["disable", "tick", "-"]);
    console.says(&["job", "tick"], |job| job["status"] == "DISABLED").await;
    soon("nobody works for it", || async {
        fleet.job("tick").await.summary.unwrap().status() == v1::JobStatus::NoWorker
    })
    .await;
    fleet.apply(job("rare", 2, json!({ "cron": EVERY_SECOND }))).await;
    is_silent(&fleet, "tick", 0, ("rare", 0)).await;
    console.call(&["enable", "tick", "-"]);
    on_both(&fleet, "tick").await;
    for item in 0..2 {
        fires_again(&fleet, "tick", item).await;
    }
}

#[tokio::test]
async fn an_instance_is_shut_down_by_both_by_server_and_by_name() {
    let (fleet, mut console) = scene().await;
    console.call(&["shutdown", "tick", "host-a"]);
    only_on(&fleet, "tick", "host-b").await;
    assert_eq!(runs_on(&fleet, "rare").await.len(), 2, "of another job it goes on");
    console.call(&["shutdown", "-", "host-a"]);
    only_on(&fleet, "rare", "host-b").await;
    console.call(&["shutdown", "tick", "-"]);
    soon("nobody is left", || async { fleet.instances("tick").await.is_empty() }).await;
    console.says(&["job", "tick"], |job| job["status"] == "CRASHED" && job["instanceCount"] == 0).await;
    only_on(&fleet, "rare", "host-b").await;
}

#[tokio::test]
async fn a_server_is_removed_by_both_by_server_and_by_name() {
    let (fleet, mut console) = scene().await;
    // A console removes only machines that have left.
    for job in ["tick", "rare"] {
        console.call(&["shutdown", job, "-"]);
        soon("nobody is left", || async { fleet.instances(job).await.is_empty() }).await;
    }
    let servers = |jobs: &Value| -> BTreeSet<String> {
        jobs.as_array().unwrap().iter().map(|it| format!("{}{}", it["serverIp"], it["jobsNum"])).collect()
    };
    let now = |of: &[&str]| -> BTreeSet<String> { of.iter().map(|it| (*it).to_owned()).collect() };
    console.says(&["servers"], |said| servers(said) == now(&["\"host-a\"2", "\"host-b\"2"])).await;
    console.call(&["remove", "tick", "host-a"]);
    console.says(&["servers"], |said| servers(said) == now(&["\"host-a\"1", "\"host-b\"2"])).await;
    console.call(&["remove", "-", "host-a"]);
    console.says(&["servers"], |said| servers(said) == now(&["\"host-b\"2"])).await;
    console.call(&["remove", "tick", "-"]);
    console.says(&["servers"], |said| servers(said) == now(&["\"host-b\"1"])).await;
}

#[tokio::test]
async fn an_item_is_disabled_and_enabled() {
    let (fleet, mut console) = scene().await;
    let is = async |disabled: bool| {
        soon("it is so", || async { fleet.items("tick").await[1].disabled == disabled }).await;
    };
    console.call(&["item.disable", "tick", "1"]);
    is(true).await;
    console.says(&["items", "tick"], |items| items[1]["status"] == "DISABLED").await;
    is_silent(&fleet, "tick", 1, ("tick", 0)).await;
    console.call(&["item.enable", "tick", "1"]);
    is(false).await;
    fires_again(&fleet, "tick", 1).await;
}
