//! The output of the command line for a running coordinator.

use rosterd_wire::proto::v1;
use serde_json::{Value, json};

use crate::harness::*;

/// The result of a command: exit code, stdout, stderr.
type Said = (Option<i32>, String, String);

fn rosterd(cluster: &Cluster, args: &[&str]) -> Said {
    let mut command = std::process::Command::new(binary(false));
    let out = command.args(args).args(["--server", &cluster.url()]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// The same, without blocking the threads that the test's own calls need.
async fn said(cluster: &Cluster, args: &[&str]) -> Said {
    tokio::task::block_in_place(|| rosterd(cluster, args))
}

fn file(cluster: &Cluster, name: &str, text: &str) -> String {
    let path = cluster.home.path(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_says_old_and_new_and_its_exit_code_whether_anything_differs() {
    let cluster = Cluster::start(LONG).await;
    let stored = job("beat", 2, json!({ "cron": "0 0 2 * * ?", "props": { "key": "canary" } }));
    let other = job(
        "beat",
        3,
        json!({ "cron": "0 0 3 * * ?", "description": "new", "props": { "key": "canary two" } }),
    );
    let (stored, other) = (file(&cluster, "stored.json", &stored), file(&cluster, "other.json", &other));
    let diff = async |path: &str, more: &[&str]| {
        said(&cluster, &[&["jobs", "diff", "-f", path, "--exit-code"], more].concat()).await
    };

    let (code, out, _) = diff(&stored, &[]).await;
    assert_eq!((code, out.as_str()), (Some(1), "beat: would be created\n"));
    let (code, out, err) = said(&cluster, &["jobs", "apply", "-f", &stored]).await;
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "beat: created\n", ""));

    let (code, out, err) = diff(&stored, &[]).await;
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "beat: unchanged\n", ""));

    let (code, out, err) = diff(&other, &[]).await;
    let expected = "\
beat: cron: \"0 0 2 * * ?\" -> \"0 0 3 * * ?\"
beat: description: \"\" -> \"new\"
beat: props.key: (hidden, 8 bytes) -> (hidden, 12 bytes)
beat: shardingTotalCount: 2 -> 3
";
    assert_eq!((code, out.as_str()), (Some(1), expected));
    assert_eq!(err, "rosterd: DIFFERENT: the file and the stored jobs differ\n");
    let (_, out, _) = diff(&other, &["--json"]).await;
    let told: Value = serde_json::from_str(&out).unwrap();
    let change = &told["changes"][0];
    assert_eq!(change["effect"], "would_change");
    assert_eq!(
        change["fields"][3],
        json!({ "field": "shardingTotalCount", "old": 2, "new": 3, "hidden": false })
    );
    // Nothing was changed so far.
    assert_eq!(diff(&stored, &[]).await.0, Some(0));

    let refused = file(&cluster, "refused.json", &job("beat", 0, json!({})));
    let (code, _, err) = diff(&refused, &[]).await;
    assert_eq!(code, Some(2), "{err}");
    assert!(err.starts_with("rosterd: CONFIG_INVALID: "), "{err}");

    let (code, out, _) = said(&cluster, &["jobs", "apply", "-f", &other]).await;
    assert_eq!((code, out.as_str()), (Some(0), expected));
    assert_eq!(diff(&other, &[]).await.0, Some(0));
}

#[tokio::test]
async fn each_change_says_in_words_of_its_own_what_it_did() {
    let cluster = Cluster::start(LONG).await;
    let mut admin = cluster.admin();
    let names: Vec<String> = (0..40).rev().map(|n| format!("beat-{n}")).collect();
    let text = |items| {
        let jobs: Vec<Value> =
            names.iter().map(|name| serde_json::from_str(&job(name, items, json!({}))).unwrap()).collect();
        Value::from(jobs).to_string()
    };
    let effects = |changes: &[v1::JobChange]| -> Vec<(String, v1::JobEffect)> {
        changes.iter().map(|change| (change.job.clone(), change.effect())).collect()
    };
    let all = |effect| -> Vec<_> { names.iter().map(|name| (name.clone(), effect)).collect() };
    // In the order of the file, whichever finishes first.
    let created = cluster.try_apply(text(1)).await.unwrap();
    assert_eq!(effects(&created), all(v1::JobEffect::Created));
    let unchanged = cluster.try_apply(text(1)).await.unwrap();
    assert_eq!(effects(&unchanged), all(v1::JobEffect::Unchanged));
    let changed = cluster.try_apply(text(2)).await.unwrap();
    assert_eq!(effects(&changed), all(v1::JobEffect::Changed));

    let job = String::from("beat-7");
    let pause = v1::PauseJobRequest { job: job.clone() };
    let paused = admin.pause_job(pause.clone()).await.unwrap().into_inner().changes;
    assert_eq!(effects(&paused), [(job.clone(), v1::JobEffect::Changed)]);
    let paused = admin.pause_job(pause).await.unwrap().into_inner().changes;
    assert_eq!(effects(&paused), [(job.clone(), v1::JobEffect::Unchanged)]);
    let trigger = v1::TriggerJobRequest { job: job.clone(), ..Default::default() };
    let triggered = admin.trigger_job(trigger).await.unwrap().into_inner();
    assert_eq!(effects(&triggered.changes), [(job.clone(), v1::JobEffect::Requested)]);
    let line = format!("triggered 2 items as {}", triggered.trigger_id);
    assert_eq!(triggered.changes[0].lines, [line]);
    let remove = v1::RemoveJobRequest { job: job.clone(), cancel: true };
    let removed = admin.remove_job(remove).await.unwrap().into_inner().changes;
    assert_eq!(effects(&removed), [(job, v1::JobEffect::Removed)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_the_newest_and_say_that_more_is_there() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("often", 2, json!({ "cron": EVERY_SECOND }))).await;
    cluster.worker("a", vec![runs_for("often", 1)]);
    let enough = wait("some runs in the history", || async {
        let runs = cluster.runs("often").await;
        (runs.len() > 8).then_some(runs)
    })
    .await;
    // A list's times, with another column.
    let list = async |args: &[&str], column: &str| -> (Vec<String>, String) {
        let (_, out, _) = said(&cluster, &[args, &["--json"]].concat()).await;
        let rows: Value = serde_json::from_str(&out).unwrap();
        let times = rows.as_array().unwrap().iter().map(|row| row[column].as_str().unwrap().to_owned());
        (times.collect(), said(&cluster, args).await.2)
    };
    // In the past, so that both queries cover the same rows.
    let until = jiff::Timestamp::from_second(enough[0].fire_time.unwrap().seconds).unwrap().to_string();
    let job = ["--job", "often"];
    for (command, column) in [("fires", "fire_time"), ("runs", "started_at"), ("events", "at")] {
        let args = [&[command], &job[..], &["--until", &until]].concat();
        let (all, beside) = list(&[&args[..], &["--limit", "1000"]].concat(), column).await;
        assert!(all.is_sorted_by(|a, b| a >= b) && all.len() > 1, "{command}: {all:?}");
        assert_eq!(beside, "", "{command}");
        let (newest, beside) = list(&[&args[..], &["--limit", "1"]].concat(), column).await;
        assert_eq!(newest, all[..1], "{command}");
        assert!(beside.contains("only the newest 1 are shown"), "{command}: {beside}");
        let exact = all.len().to_string();
        assert_eq!(list(&[&args[..], &["--limit", &exact]].concat(), column).await, (all, String::new()));
    }
    for command in ["fires", "runs", "events"] {
        let help = std::process::Command::new(binary(false)).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(help.contains("[default: 50]"), "{help}");
    }
}

/// The table of `kept`, and the text on stderr.
async fn items(cluster: &Cluster, more: &[&str]) -> (String, String) {
    let (code, out, err) = said(cluster, &[&["items", "--job", "kept"], more].concat()).await;
    assert_eq!(code, Some(0), "{err}");
    (out, err)
}

/// Where they run, their owners, and the remains of items beyond the count.
#[tokio::test(flavor = "multi_thread")]
async fn items_name_live_owners_and_hide_what_the_count_has_no_more() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("kept", 3, json!({ "cron": "0 0 0 1 1 ? 2099" }))).await;
    cluster.worker("a", vec![runs_for("kept", 1)]);
    cluster.assigned("kept", 1).await;
    // Nothing has fired so far, although everything is accounted for.
    let (out, err) = items(&cluster, &[]).await;
    let row = |out: &str, item: usize| -> Vec<String> {
        out.lines().nth(item + 1).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let owner = row(&out, 2)[3].clone();
    assert!(owner.starts_with("host-a@"), "{out}");
    assert_eq!(row(&out, 2)[4..], ["-", "-"], "{out}");
    assert_eq!(err, "");

    cluster.trigger("kept").await;
    wait("three runs", || async {
        let items = cluster.items("kept").await;
        items.iter().all(|item| item.last.is_some()).then_some(())
    })
    .await;
    let (out, _) = items(&cluster, &[]).await;
    assert_ne!(row(&out, 2)[4], "-", "{out}");

    cluster.apply(job("kept", 1, json!({ "cron": "0 0 0 1 1 ? 2099" }))).await;
    let (out, err) = items(&cluster, &[]).await;
    assert_eq!((out.lines().count(), row(&out, 1)), (2, vec![]), "{out}");
    assert!(err.contains("2 items beyond the job's count are not shown, their records are kept"), "{err}");
    let (out, err) = items(&cluster, &["--all"]).await;
    assert_eq!((out.lines().count(), row(&out, 2)[2].as_str(), err.as_str()), (4, "surplus", ""), "{out}");

    cluster.kill("a");
    wait("no instance", || async { cluster.instances("kept").await.is_empty().then_some(()) }).await;
    let (out, _) = items(&cluster, &[]).await;
    assert_eq!(row(&out, 0)[3], "-", "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_without_effect_are_named_when_a_file_is_applied_or_compared() {
    let cluster = Cluster::start(LONG).await;
    let kept = json!({ "jobErrorHandlerType": "THROW", "jobListenerTypes": ["a"], "monitorPort": 9888 });
    let path = file(&cluster, "kept.json", &job("kept", 1, kept));
    let expected = "\
rosterd: kept: warning: `jobErrorHandlerType` is kept and has no effect: EMAIL, DINGTALK and WECHAT tell whom the properties name, by the coordinator's alarms; another chooses Java code: the outcome of each run is recorded with its error
rosterd: kept: warning: `jobListenerTypes` is kept and has no effect: chooses Java listeners; to wait for all items use `rosterd.guarantee`
rosterd: kept: warning: `monitorPort` is kept and has no effect: port of the dump service in each JVM; ask the coordinator instead
";
    for (args, said_of_it) in [
        (["jobs", "diff", "-f", &path], "kept: would be created\n"),
        (["jobs", "apply", "-f", &path], "kept: created\n"),
        (["jobs", "apply", "-f", &path], "kept: unchanged\n"),
        (["jobs", "diff", "-f", &path], "kept: unchanged\n"),
    ] {
        let (code, out, err) = said(&cluster, &args).await;
        assert_eq!((code, out.as_str(), err.as_str()), (Some(0), said_of_it, expected), "{args:?}");
    }
}
