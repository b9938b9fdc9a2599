//! Workers in every language, and programs that `rosterd exec` runs, share one job on three coordinators. Each of them
//! is killed in turn, and so is each coordinator: no run is duplicated or lost, and each item's offset equals its
//! counted runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::fleet::{Fleet, PATIENT, shared};
use crate::harness::*;
use crate::judge::Verdict;

/// The variable with the path of a file that lists the commands of each language's conformance worker: a JSON object of
/// word lists by language. `cargo xtask test` writes it.
const CLIENTS: &str = "ROSTERD_CLIENTS";

const JOB: &str = "shared";
const ITEMS: u32 = 12;
/// The worker that runs programs. It does not support offsets.
const PROGRAMS: &str = "exec";

fn clients() -> BTreeMap<String, Vec<String>> {
    let path: PathBuf = std::env::var_os(CLIENTS)
        .unwrap_or_else(|| panic!("{CLIENTS} is not set: run this by `cargo xtask test --only cluster`"))
        .into();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// The name of a worker process: its language, and how often one of this language has been started.
fn name_of(language: &str, life: usize) -> String {
    format!("{language}-{life}")
}

impl Fleet {
    fn servers(&self, first: usize) -> String {
        let urls: Vec<String> =
            (0..self.seats.len()).map(|n| self.url_of((first + n) % self.seats.len())).collect();
        urls.join(",")
    }

    /// Starts a worker of this language, which tries this coordinator first.
    fn worker_in(&mut self, language: &str, words: &[String], life: usize, first: usize) {
        let name = name_of(language, life);
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(root);
        clean(&mut command);
        command
            .env("ROSTERD_SERVER", self.servers(first))
            .env("CONFORMANCE_JOBS", JOB)
            .env("CONFORMANCE_SLOTS", "16")
            .env("CONFORMANCE_NAME", &name)
            .env("CONFORMANCE_ADDRESS", self.address_of(&name))
            .env("CONFORMANCE_LOG", self.home.path(&format!("{name}.jsonl")));
        let proc = Proc::spawn(&name, command, &self.home.path(&format!("{name}.log")));
        self.cluster.workers.push(WorkerProc { name, proc });
    }

    fn programs(&mut self, life: usize, first: usize) {
        let name = name_of(PROGRAMS, life);
        let mut command = Command::new(binary(false));
        clean(&mut command);
        command.arg("exec").env("ROSTERD_SERVER", self.servers(first));
        command.args([
            "--namespace",
            &self.namespace,
            "--job",
            JOB,
            "--handler",
            "conformance",
            "--slots",
            "16",
        ]);
        command.args(["--address", &self.address_of(&name), "--run-log"]);
        command.arg(self.home.path(&format!("{name}.jsonl"))).args(["--", "sleep", "0.2"]);
        let proc = Proc::spawn(&name, command, &self.home.path(&format!("{name}.log")));
        self.cluster.workers.push(WorkerProc { name, proc });
    }

    async fn start_one(
        &mut self,
        clients: &BTreeMap<String, Vec<String>>,
        language: &str,
        life: usize,
        first: usize,
    ) {
        match clients.get(language) {
            Some(words) => self.worker_in(language, words, life, first),
            None => self.programs(life, first),
        }
    }

    /// Waits until this many workers own items, each of these names one of them.
    async fn shared_by(&self, names: &[String]) {
        let addresses: Vec<String> = names.iter().map(|name| self.address_of(name)).collect();
        self.items_when(JOB, &format!("items of each of {names:?}"), |items| {
            let owns = |address: &String| {
                let of =
                    |owner: &String| owner.split_once("@-@").is_some_and(|(machine, _)| machine == address);
                items.iter().any(|item| item.owner.as_ref().is_some_and(of))
            };
            addresses.iter().all(owns)
        })
        .await;
    }
}

/// How many runs of an item succeeded by its workers' logs, which of them a worker counted in the offset, and which
/// were about to be counted when their worker was killed.
fn written(verdict: &Verdict, item: u32) -> (u64, u64) {
    let runs = || verdict.of(JOB).filter(move |run| run.item == item && run.ended());
    let programs = runs().filter(|run| run.worker.contains(PROGRAMS)).count() as u64;
    (runs().count() as u64, programs)
}

#[tokio::test]
#[ignore = "a suite of its own: it needs every client, built"]
async fn workers_of_all_languages_share_a_job_and_each_of_them_dies() {
    let clients = clients();
    assert!(clients.len() >= 5, "{CLIENTS} names {:?}: five languages share the job", clients.keys());
    let mut fleet = Fleet::start(3, &shared().list(), PATIENT).await;
    let does: Vec<String> = (0..ITEMS).map(|item| format!("{item}=sleep 200;append x")).collect();
    // A misfire mark would wait while the job is paused at the end.
    let file = json!({
        "cron": EVERY_SECOND,
        "failover": true,
        "misfire": false,
        "shardingItemParameters": does.join(","),
        "rosterd": { "handler": "conformance" },
    });
    fleet.apply(job(JOB, ITEMS, file)).await;
    let languages: Vec<String> = clients.keys().cloned().chain([PROGRAMS.to_owned()]).collect();
    let mut names = Vec::new();
    for (seat, language) in languages.iter().enumerate() {
        fleet.start_one(&clients, language, 0, seat % 3).await;
        names.push(name_of(language, 0));
    }
    fleet.shared_by(&names).await;
    let before = fleet.accounts_so_far(JOB).await;
    for (turn, language) in languages.iter().enumerate() {
        let after = fleet.verdict().of(JOB).count();
        // In the middle of its work, and a coordinator with every second of them.
        fleet
            .verdict_when("runs of all", |verdict| verdict.of(JOB).count() >= after + 2 * ITEMS as usize)
            .await;
        fleet.kill(&names[turn]);
        fleet.start_one(&clients, language, 1, turn % 3).await;
        names[turn] = name_of(language, 1);
        if turn % 2 == 1 {
            let seat = turn / 2;
            fleet.crash(seat);
            fleet.launch(seat);
            fleet.serving(seat).await;
        }
        fleet.shared_by(&names).await;
    }
    fleet.paused(JOB).await;
    fleet.nothing_left().await;
    let verdict = fleet.verdict();
    verdict.is_clean();
    fleet.balanced(JOB, &before).await;
    let nodes = fleet.dump(JOB).await;
    for item in fleet.items(JOB).await {
        let offset = nodes.get(&format!("/offset/{}", item.item)).map_or(0, |node| node.data.len() as u64);
        let succeeded = item.counters.unwrap().succeeded;
        let (ended, programs) = written(&verdict, item.item);
        // A run that ended right before the kill of its worker may have been reported, or not; each worker was killed once.
        assert!(
            succeeded <= ended,
            "item {}: {succeeded} counted, {ended} written\n{}",
            item.item,
            verdict.table()
        );
        let by_offset = offset + programs;
        assert!(
            (succeeded..=succeeded + 1).contains(&by_offset),
            "item {}: {succeeded} counted, {offset} in the offset and {programs} by programs\n{}",
            item.item,
            verdict.table()
        );
    }
    // They all leave cleanly.
    for name in &names {
        fleet.process(name).signal(rustix::process::Signal::TERM);
    }
    for name in &names {
        let status = fleet.process(name).end().await;
        assert!(status.success(), "{name}: {status}");
    }
}
