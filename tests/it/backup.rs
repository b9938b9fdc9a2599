//! `rosterd backup` and `rosterd restore` while workers are alive: the system goes on by itself, and no token is issued
//! twice.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rosterd_wire::proto::v1;
use serde_json::json;

use crate::harness::*;
use crate::judge::What;
use crate::python;
use crate::worker::Does;

const ITEMS: u32 = 4;

fn config() -> String {
    job("steady", ITEMS, json!({"cron": EVERY_SECOND}))
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(binary(false));
    clean(&mut command);
    command.env_remove("RUST_BACKTRACE");
    command.args(args);
    command
}

fn ran(args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[track_caller]
fn done(args: &[&str]) -> String {
    let (code, out, err) = ran(args);
    assert_eq!(code, Some(0), "{args:?}: {out}{err}");
    out
}

#[track_caller]
fn refused(args: &[&str], words: &[&str]) {
    let (code, out, err) = ran(args);
    assert_eq!(code, Some(1), "{args:?}: {out}{err}");
    for word in words {
        assert!(err.contains(word), "{word:?} is not in: {err}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A job that fires each second, with a worker in Rust and one in Python.
async fn at_work() -> Cluster {
    let mut cluster = Cluster::start(SHORT).await;
    cluster.apply(config()).await;
    cluster.home.open("gate");
    cluster.worker("rust", vec![Does { config: Some(config()), ..runs_for("steady", 1) }]);
    python::start(&mut cluster, "python", "steady");
    cluster.assigned("steady", 2).await;
    cluster
}

/// The tokens of runs that started in user code, by item, in the order of their starts.
fn tokens(cluster: &Cluster) -> BTreeMap<u32, Vec<u64>> {
    let mut tokens: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let mut lines = cluster.lines();
    lines.sort_by_key(|line| line.wall);
    for line in lines.iter().filter(|line| line.what == What::Start) {
        tokens.entry(line.item).or_default().push(line.token);
    }
    tokens
}

/// Waits until each item has run this many times more.
async fn runs_again(cluster: &Cluster, more: usize) {
    let before = tokens(cluster);
    until("each item to run again", || {
        let now = tokens(cluster);
        let count = |of: &BTreeMap<u32, Vec<u64>>, item| of.get(&item).map_or(0, Vec::len);
        (0..ITEMS).all(|item| count(&now, item) >= count(&before, item) + more)
    })
    .await;
}

fn never_fell(cluster: &Cluster) {
    for (item, tokens) in tokens(cluster) {
        assert!(tokens.is_sorted_by(|before, after| before < after), "item {item}: {tokens:?}");
    }
}

#[tokio::test]
async fn an_older_state_that_is_restored_under_live_workers_goes_on_by_itself() {
    let cluster = at_work().await;
    runs_again(&cluster, 2).await;
    let (file, url) = (cluster.home.path("old.backup"), cluster.url());
    let said = done(&["backup", "--server", &url, "--out", text(&file)]);
    assert!(said.starts_with("1 jobs of default with 4 records written to "), "{said}");
    // The records go back, and so do the settings that people changed since.
    let succeeded = cluster.counters("steady").await.succeeded;
    cluster.apply(job("steady", ITEMS, json!({"cron": EVERY_SECOND, "description": "later"}))).await;
    runs_again(&cluster, 6).await;
    let restore = ["restore", "--server", &url, text(&file)];
    refused(&restore, &["nothing was changed", "JOB_EXISTS", "job steady exists: --overwrite puts it back"]);
    let restore = [&restore[..], &["--overwrite"]].concat();
    let dry = done(&[&restore[..], &["--dry-run"]].concat());
    assert!(dry.starts_with("steady would be restored over what was there\n"), "{dry}");
    assert_eq!(cluster.job("steady").await.summary.unwrap().description, "later");
    let said = done(&restore);
    assert!(said.starts_with("steady restored over what was there\n"), "{said}");
    let summary = cluster.job("steady").await.summary.unwrap();
    assert_eq!(summary.description, "");
    let now = summary.counters.unwrap().succeeded;
    assert!(now < succeeded + 4 * 6, "{now} of {succeeded}: the records did not go back");
    runs_again(&cluster, 4).await;
    cluster.assigned("steady", 2).await;
    never_fell(&cluster);
    let events = v1::ListEventsRequest { kind: v1::EventKind::Job.into(), ..Default::default() };
    let events = cluster.admin().list_events(events).await.unwrap().into_inner().events;
    assert!(events.iter().any(|event| event.what.starts_with("restored from the backup ")), "{events:?}");
}

/// The older state does not know the started run: it is told to stop, and the item goes on under a higher token.
#[tokio::test]
async fn a_run_in_flight_is_fenced_by_a_restore_and_the_item_goes_on() {
    let mut cluster = Cluster::start(SHORT).await;
    cluster.apply(job("held", 1, json!({}))).await;
    let gate = cluster.home.path("gate");
    cluster.worker("one", vec![runs_until("held", gate)]);
    cluster.assigned("held", 1).await;
    cluster.trigger("held").await;
    cluster.items_when("held", "it runs", |items| items[0].running.is_some()).await;
    // By the backup it crashed: it was in flight.
    let (file, url) = (cluster.home.path("held.backup"), cluster.url());
    done(&["backup", "--server", &url, "--out", text(&file)]);
    let before = cluster.items("held").await[0].token;
    let said = done(&["restore", "--server", &url, text(&file), "--overwrite"]);
    assert!(said.contains("crashed: held/0") && said.contains("fenced: held/0, token "), "{said}");
    until("the worker to stop it", || {
        cluster.lines().iter().any(|line| line.what == What::Drop || line.what == What::Cancel)
    })
    .await;
    cluster.home.open("gate");
    wait("the item to be free", || async {
        let asked = v1::TriggerJobRequest { job: "held".into(), ..Default::default() };
        cluster.admin().trigger_job(asked).await.ok()
    })
    .await;
    cluster.items_when("held", "it ran", |items| items[0].counters.as_ref().unwrap().succeeded == 1).await;
    assert!(cluster.items("held").await[0].token > before);
    let mut tokens: Vec<u64> =
        cluster.lines().iter().filter(|line| line.what == What::Start).map(|line| line.token).collect();
    tokens.dedup();
    assert_eq!(tokens.len(), 2, "{tokens:?}");
    assert!(tokens[1] > tokens[0], "{tokens:?}");
}

#[tokio::test]
async fn what_a_lost_disk_held_is_restored_while_its_workers_live() {
    let mut cluster = at_work().await;
    cluster.apply(job("still", 2, json!({"description": "has no worker"}))).await;
    runs_again(&cluster, 2).await;
    let file = cluster.home.path("all.backup");
    let before = cluster.counters("steady").await.succeeded;
    done(&["backup", "--server", &cluster.url(), "--out", text(&file)]);
    runs_again(&cluster, 2).await;
    cluster.kill_coordinator();
    std::fs::remove_dir_all(&cluster.data).unwrap();
    cluster.serve().await;
    // Its worker offers the configuration, so the job exists again, without its records.
    wait("the job to be made again", || async { cluster.try_items("steady").await.ok() }).await;
    let said = done(&["restore", "--server", &cluster.url(), text(&file), "--overwrite"]);
    assert!(said.contains("still restored\n"), "{said}");
    assert!(cluster.counters("steady").await.succeeded >= before);
    assert_eq!(cluster.job("still").await.summary.unwrap().description, "has no worker");
    runs_again(&cluster, 4).await;
    never_fell(&cluster);
}

/// Without a coordinator: out of one directory and into another, which then serves the same worker.
#[tokio::test]
async fn a_directory_is_backed_up_and_restored_without_a_coordinator() {
    let mut cluster = at_work().await;
    runs_again(&cluster, 2).await;
    let (file, new) = (cluster.home.path("off.backup"), cluster.home.path("new"));
    let old = cluster.data.clone();
    let backup = ["backup", "--data-dir", text(&old), "--out", text(&file)];
    refused(&backup, &["is in use by another rosterd process"]);
    cluster.kill_coordinator();
    done(&backup);
    let (code, _, err) = ran(&backup);
    assert_eq!(
        (code, err.contains("exists: name a file that does not, or give --force")),
        (Some(2), true),
        "{err}"
    );
    let restore = ["restore", "--data-dir", text(&new), text(&file)];
    let dry = done(&[&restore[..], &["--dry-run"]].concat());
    assert!(dry.contains("steady would be restored\n") && !new.exists(), "{dry}");
    done(&restore);
    assert!(done(&restore).starts_with("steady stays: it was restored from this backup before\n"));
    cluster.data = new;
    cluster.serve().await;
    runs_again(&cluster, 4).await;
    never_fell(&cluster);
}

/// Jobs without workers, so that they stay as they were written.
const JOBS: usize = 4;

async fn several() -> (Cluster, std::path::PathBuf) {
    let cluster = Cluster::start(LONG).await;
    for number in 0..JOBS {
        cluster.apply(job(&format!("job-{number}"), 2, json!({"description": "old"}))).await;
    }
    let file = cluster.home.path("several.backup");
    done(&["backup", "--server", &cluster.url(), "--out", text(&file)]);
    (cluster, file)
}

async fn descriptions(cluster: &Cluster) -> Vec<String> {
    let jobs = cluster.admin().list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner().jobs;
    jobs.into_iter().map(|job| job.description).collect()
}

/// The state differs each time; the restore is interrupted after each possible number of acknowledged jobs.
#[tokio::test]
async fn a_restore_that_is_killed_behind_any_job_is_completed_by_the_same_command() {
    let (mut cluster, file) = several().await;
    let url = cluster.url();
    for coordinator in [false, true] {
        for acknowledged in 0..JOBS {
            for number in 0..JOBS {
                let name = format!("job-{number}");
                cluster.apply(job(&name, 2, json!({"description": "new"}))).await;
            }
            let restore = ["restore", "--server", &url, text(&file), "--overwrite"];
            let mut command = command(&restore);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let heard =
                lines.take(acknowledged).filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty()));
            assert_eq!(heard.count(), acknowledged);
            if coordinator {
                cluster.kill_coordinator();
                child.wait().unwrap();
                cluster.serve().await;
            } else {
                child.kill().unwrap();
                child.wait().unwrap();
                // The coordinator may still be busy with the next job, and reports so.
                wait("the coordinator to end what it was at", || async {
                    ran(&restore).0.filter(|code| *code == 0)
                })
                .await;
            }
            let now = descriptions(&cluster).await;
            assert_eq!(now.len(), JOBS, "no job is ever lost: {now:?}");
            done(&restore);
            assert_eq!(descriptions(&cluster).await, ["old"; JOBS], "killed after {acknowledged}");
        }
    }
}

/// Killed at a different moment each time. The next one replaces its leftover file, and if there is a symbolic link
/// instead, nothing is written through it.
#[tokio::test]
async fn a_backup_that_is_killed_leaves_the_one_before_it_whole() {
    let (cluster, file) = several().await;
    let (url, part) = (cluster.url(), file.with_extension("backup.part"));
    let backup = ["backup", "--server", &url, "--out", text(&file), "--force"];
    let restore = ["restore", "--server", &url, text(&file), "--overwrite", "--dry-run"];
    let mut killed = 0;
    for bytes in (0..4000).step_by(400) {
        let mut child = command(&backup).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let written = || std::fs::metadata(&part).map_or(0, |part| part.len());
        until("so much to be written, or all of it", || {
            written() >= bytes || child.try_wait().unwrap().is_some()
        })
        .await;
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
        assert_eq!(done(&restore).lines().filter(|line| line.contains("would be restored")).count(), JOBS);
    }
    assert!(killed > 0, "each of them was too quick");
    let victim = cluster.home.path("victim");
    std::fs::write(&victim, "of somebody else").unwrap();
    let _left = std::fs::remove_file(&part);
    std::os::unix::fs::symlink(&victim, &part).unwrap();
    done(&backup);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "of somebody else");
    let mode = |path: &Path| {
        std::os::unix::fs::PermissionsExt::mode(&path.symlink_metadata().unwrap().permissions())
    };
    assert_eq!(mode(&file) & 0o7777, 0o600);
    assert!(!part.exists());
}

/// Into an empty store: restored jobs stay, also without --overwrite.
#[tokio::test]
async fn a_restore_into_an_empty_store_goes_on_where_it_was_killed() {
    let (mut cluster, file) = several().await;
    for acknowledged in 0..JOBS {
        cluster.kill_coordinator();
        std::fs::remove_dir_all(&cluster.data).unwrap();
        cluster.serve().await;
        let url = cluster.url();
        let restore = ["restore", "--server", &url, text(&file)];
        let mut child = command(&restore).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.take(acknowledged).count(), acknowledged);
        cluster.kill_coordinator();
        child.wait().unwrap();
        cluster.serve().await;
        let said = done(&restore);
        let stay = said
            .lines()
            .filter(|line| line.contains(" stays: it was restored from this backup before"))
            .count();
        assert!(stay >= acknowledged, "{stay} of {acknowledged}: {said}");
        assert_eq!(descriptions(&cluster).await, ["old"; JOBS]);
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_whole_backup_of_this_namespace_changes_nothing() {
    let (cluster, file) = several().await;
    let url = cluster.url();
    let whole = std::fs::read_to_string(&file).unwrap();
    let bad = cluster.home.path("bad.backup");
    let gives = |text_of: String, words: &[&str]| {
        std::fs::write(&bad, text_of).unwrap();
        let words: Vec<&str> = words.iter().copied().chain(["nothing was changed"]).collect();
        refused(&["restore", "--server", &url, text(&bad), "--overwrite"], &words);
    };
    gives(whole[..whole.len() / 2].to_owned(), &["BACKUP_INVALID", "cut off", "take a whole copy of it"]);
    gives(
        whole.replacen("\"old\"", "\"odd\"", 1).replacen("old", "odd", 1),
        &["digest: the file is not what was written"],
    );
    gives(whole.replacen("\"version\":1", "\"version\":2", 1), &["version = 2: this rosterd reads up to 1"]);
    gives("{\"format\":\"rosterd-export\"}\n".to_owned(), &["read it with `rosterd import`"]);
    gives(String::new(), &["format = nothing", "give a file that `rosterd backup` wrote"]);
    let mut other = Cluster::prepare(LONG, &["namespace=other"]);
    other.serve().await;
    refused(
        &["restore", "--server", &other.url(), text(&file)],
        &["NAMESPACE_MISMATCH", "of namespace \"default\"", "serves other"],
    );
    assert_eq!(descriptions(&cluster).await, ["old"; JOBS]);
    assert!(descriptions(&other).await.is_empty());
}
