//! The program itself on an ensemble: it starts, runs a job, and leaves nothing behind when it is stopped.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rosterd_registry::Registry;

use super::{connect, eventually, on_single};
use crate::words::*;
use crate::zookeeper_server::{Ensemble, TICK};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rosterd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rosterd"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Starts a coordinator. Returns it with its address.
fn serve_with(servers: &str, set: &[&str], dir: &std::path::Path) -> (Running, Result<String, String>) {
    let mut command = rosterd();
    command.args(["serve", "--registry", "zookeeper", "--zk", servers, "--namespace", "ns"]);
    command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(dir);
    for set in set {
        command.args(["--set", set]);
    }
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (sender, address) = std::sync::mpsc::channel();
    let mut said = String::new();
    // Drained, so that it can always write.
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            said.push_str(&line);
            let address = line.split_whitespace().find_map(|word| word.strip_prefix("address="));
            if line.contains("serving")
                && let Some(address) = address
            {
                let _ = sender.send(Ok(address.to_owned()));
            }
        }
        let _ = sender.send(Err(said));
    });
    let running = Running(child);
    (running, address.recv_timeout(Duration::from_secs(60)).expect("it neither serves nor ends"))
}

#[tokio::test]
async fn a_coordinator_serves_from_an_ensemble_and_leaves_nothing_behind() {
    let options = on_single().await;
    let dir = crate::words::dir();
    let (mut coordinator, address) =
        serve_with(&options.servers, &["session=20s", "lease=8s", "heartbeat=300ms"], dir.path());
    let address = address.unwrap();
    let look = connect(&options).await;
    let mut exec = rosterd();
    let done = dir.path().join("done");
    exec.args(["exec", "--server", &address, "--namespace", "ns", "--job", "job"]);
    exec.args(["--cron", "0/1 * * * * ?", "--items", "2", "--"]);
    exec.args(["sh", "-c", "echo $ROSTERD_ITEM >> \"$0\""]).arg(&done);
    let worker = Running(exec.spawn().unwrap());
    eventually("both items have run", async || {
        let lines = std::fs::read_to_string(&done).unwrap_or_default();
        lines.contains("0\n") && lines.contains("1\n")
    })
    .await;
    let nodes = look.job(&j()).await.unwrap().unwrap();
    assert_eq!((nodes.instances.len(), nodes.leader.is_some()), (1, true));
    assert_eq!(look.coordinators().await.unwrap().len(), 1);
    drop(worker);
    let stopped = Command::new("kill").args(["-TERM", &coordinator.0.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    let status = tokio::task::spawn_blocking(move || coordinator.0.wait().unwrap()).await.unwrap();
    assert!(status.success(), "{status}");
    assert!(look.coordinators().await.unwrap().is_empty(), "its node went before it ended");
    assert_eq!(look.job(&j()).await.unwrap().unwrap().leader, None);
}

/// The servers decide about the session, and the leases depend on it.
#[tokio::test]
async fn a_session_that_is_too_short_for_the_leases_is_refused() {
    let server = tokio::task::spawn_blocking(|| Ensemble::start(1, &[])).await.unwrap();
    let dir = crate::words::dir();
    assert_eq!(TICK * 20, Duration::from_secs(4), "what the server agrees to at most");
    let (_coordinator, address) = serve_with(&server.list(), &["session=10s", "lease=3s"], dir.path());
    let said = address.unwrap_err();
    assert!(said.contains("agree to one of 4s") && said.contains("raise maxSessionTimeout"), "{said}");
}
