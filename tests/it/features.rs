//! Features of a job: misfire, slots, retries, timeout, offsets, hooks, dataflow, guarantee, programs.

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::watch_response::Event;
use serde_json::{Value, json};

use crate::harness::*;
use crate::judge::{Line, What};
use crate::worker::Does;

fn hooks(lines: &[Line]) -> Vec<String> {
    let mut lines: Vec<&Line> = lines.iter().filter(|line| line.what == What::Hook).collect();
    lines.sort_by_key(|line| line.at);
    lines.into_iter().map(|line| line.detail.clone()).collect()
}

/// Triggers a job once for a worker, and waits until it is idle.
async fn once(cluster: &mut Cluster, policy: Value, does: Does) -> Vec<v1::ItemSummary> {
    let name = does.job.clone();
    cluster.apply(job(&name, 1, json!({ "rosterd": policy }))).await;
    cluster.worker("a", vec![does]);
    cluster.assigned(&name, 1).await;
    cluster.trigger(&name).await;
    cluster.items_when(&name, "the run has ended", |items| items[0].last.is_some()).await
}

/// However many fires are due while an item runs, one run stands for them, with the latest scheduled time.
#[tokio::test]
async fn a_run_that_is_too_long_is_followed_by_one_misfire() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("slow", 1, json!({ "cron": EVERY_SECOND, "misfire": true }))).await;
    cluster.worker("a", vec![runs_until("slow", cluster.home.path("gate"))]);
    cluster.verdict_when("a run", |verdict| verdict.of("slow").count() == 1).await;
    cluster
        .items_when("slow", "three misfires", |items| items[0].counters.as_ref().unwrap().misfired >= 3)
        .await;
    cluster.admin().pause_job(v1::PauseJobRequest { job: "slow".into() }).await.unwrap();
    let marked = cluster.items("slow").await[0].misfire.unwrap();
    cluster.admin().resume_job(v1::ResumeJobRequest { job: "slow".into() }).await.unwrap();
    cluster.home.open("gate");
    let verdict =
        cluster.verdict_when("a misfire", |verdict| !verdict.by_source("slow", "MISFIRE").is_empty()).await;
    verdict.is_clean();
    let misfire = verdict.by_source("slow", "MISFIRE")[0].clone();
    assert!(misfire.fire >= millis(&marked), "{misfire:?} {marked:?}");
    assert_eq!(verdict.runs[1], misfire, "the misfire comes first\n{}", verdict.table());
}

/// A worker's slots are those of all its jobs together; waiting runs start later.
#[tokio::test]
async fn slots_are_never_exceeded_and_nothing_that_waits_is_lost() {
    let mut cluster = Cluster::start(LONG).await;
    for name in ["one", "two"] {
        cluster.apply(job(name, 3, json!({}))).await;
    }
    let mut plan = cluster.plan("a", vec![runs_for("one", 60), runs_for("two", 60)]);
    plan.slots = 2;
    cluster.start_worker(&plan, &[]);
    cluster.assigned("one", 1).await;
    cluster.assigned("two", 1).await;
    cluster.trigger("one").await;
    cluster.trigger("two").await;
    let verdict = cluster
        .verdict_when("six runs", |verdict| verdict.runs.iter().filter(|run| run.ended()).count() == 6)
        .await;
    verdict.is_clean();
    for run in &verdict.runs {
        let at_once = verdict
            .runs
            .iter()
            .filter(|other| other.start <= run.start && other.stop > Some(run.start))
            .count();
        assert!(at_once <= 2, "{at_once} at once\n{}", verdict.table());
    }
}

#[tokio::test]
async fn attempts_of_a_run_share_its_token_and_the_last_decides() {
    let mut cluster = Cluster::start(LONG).await;
    let does = Does { fail_attempts: 2, hooks: true, ..runs_for("retry", 1) };
    let items = once(&mut cluster, json!({ "retries": { "max_attempts": 3, "backoff_ms": 50 } }), does).await;
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert_eq!(verdict.of("retry").count(), 1);
    assert_eq!(verdict.runs[0].attempts, 3, "\n{}", verdict.table());
    assert_eq!(items[0].last.as_ref().unwrap().outcome(), v1::RunOutcome::Succeeded);
    let run = wait("the history", || async {
        cluster.runs("retry").await.pop().filter(|run| run.ended_at.is_some())
    })
    .await;
    assert_eq!(run.attempt, 3);
    let failed = ["before", "error attempt N is to fail", "after Failed"];
    let wanted: Vec<String> = (1..=2)
        .flat_map(|n: u32| failed.map(|text| text.replace('N', &n.to_string())))
        .chain(["before".to_owned(), "after Succeeded".to_owned()])
        .collect();
    assert_eq!(hooks(&cluster.lines()), wanted);
}

#[tokio::test]
async fn attempts_end_and_a_panic_is_a_failure_of_the_run_alone() {
    let mut cluster = Cluster::start(LONG).await;
    let does = Does { fail_attempts: 9, ..runs_for("fails", 1) };
    let items = once(&mut cluster, json!({ "retries": { "max_attempts": 2, "backoff_ms": 10 } }), does).await;
    assert_eq!(items[0].last.as_ref().unwrap().outcome(), v1::RunOutcome::Failed);
    let run = wait("the history", || async {
        cluster.runs("fails").await.pop().filter(|run| run.ended_at.is_some())
    })
    .await;
    assert_eq!((run.attempt, &*run.error), (2, "attempt 2 is to fail"));
    cluster.apply(job("panics", 1, json!({}))).await;
    cluster.worker("b", vec![Does { panics: true, ..runs_for("panics", 1) }]);
    cluster.assigned("panics", 1).await;
    for n in 1..=2 {
        cluster.trigger("panics").await;
        cluster
            .items_when("panics", "it has failed", move |items| {
                items[0].counters.as_ref().unwrap().failed == n
            })
            .await;
    }
    let run = wait("the history", || async {
        cluster.runs("panics").await.pop().filter(|run| run.ended_at.is_some())
    })
    .await;
    assert!(run.error.contains("panicked: injected panic"), "{run:?}");
    cluster.verdict().is_clean();
}

/// The pauses between the attempts of a run, in milliseconds, of a job that ends with its third.
async fn pauses(cluster: &Cluster, job: &str) -> [u64; 2] {
    cluster.items_when(job, "it has run", |items| items[0].last.is_some()).await;
    let lines = cluster.lines();
    let at = |what: What, attempt: u32| {
        lines.iter().find(|line| line.job == job && line.what == what && line.attempt == attempt).unwrap().at
    };
    [1, 2].map(|attempt| (at(What::Start, attempt + 1) - at(What::End, attempt)) / 1_000_000)
}

/// None is shorter.
#[tokio::test]
async fn attempts_are_as_far_apart_as_the_job_says() {
    let mut cluster = Cluster::start(LONG).await;
    let jobs = [
        ("soon", json!({ "backoff_ms": 50 }), [50, 100]),
        ("later", json!({ "backoff_ms": 500 }), [500, 1000]),
        ("steeper", json!({ "backoff_ms": 50, "backoff_multiplier": 30 }), [50, 1500]),
        ("bounded", json!({ "backoff_ms": 50, "backoff_multiplier": 30, "backoff_max_ms": 400 }), [50, 400]),
    ];
    for (name, retries, _) in &jobs {
        let mut retries = retries.clone();
        retries["max_attempts"] = 3.into();
        cluster.apply(job(name, 1, json!({ "rosterd": { "retries": retries } }))).await;
    }
    let does = |name: &str| Does { fail_attempts: 2, ..runs_for(name, 1) };
    cluster.worker("a", jobs.each_ref().map(|(name, ..)| does(name)).to_vec());
    for (name, ..) in &jobs {
        cluster.assigned(name, 1).await;
        cluster.trigger(name).await;
    }
    for (name, _, told) in jobs {
        let found = pauses(&cluster, name).await;
        assert!(found[0] >= told[0] && found[1] >= told[1], "{name}: {found:?}, told to be {told:?}");
    }
    cluster.verdict().is_clean();
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_stopped_and_has_timed_out() {
    let mut cluster = Cluster::start(LONG).await;
    let gate = cluster.home.path("gate");
    let items = once(&mut cluster, json!({ "run_timeout_ms": 300 }), runs_until("long", gate)).await;
    assert_eq!(items[0].last.as_ref().unwrap().outcome(), v1::RunOutcome::TimedOut);
    assert_eq!(items[0].counters.as_ref().unwrap().timed_out, 1);
    let verdict = cluster.verdict();
    verdict.is_clean();
    assert!(verdict.runs[0].stopped_by_order(), "\n{}", verdict.table());
}

/// Watchers get progress and other events.
#[tokio::test]
async fn a_watcher_sees_start_progress_and_end() {
    let mut cluster = Cluster::start(LONG).await;
    let mut watch =
        cluster.admin().watch(v1::WatchRequest { job: "seen".into() }).await.unwrap().into_inner();
    let gate = cluster.home.path("gate");
    let does = Does { progress: true, output: "made".into(), ..runs_until("seen", gate) };
    cluster.apply(job("seen", 1, json!({}))).await;
    cluster.worker("a", vec![does]);
    cluster.assigned("seen", 1).await;
    cluster.trigger("seen").await;
    let mut seen = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, watch.message()).await;
        let event = next.unwrap_or_else(|_| panic!("only {seen:?}")).unwrap().unwrap().event;
        match event.unwrap() {
            Event::RunStarted(_) => seen.push("started".to_owned()),
            Event::RunProgress(progress) => {
                seen.push(format!("{} {}", progress.percent, progress.message));
                if !cluster.home.path("gate").exists() {
                    cluster.home.open("gate");
                }
            }
            Event::RunEnded(ended) => {
                seen.push(format!("{:?} {}", ended.outcome(), ended.output));
                break;
            }
            _ => {}
        }
    }
    seen.dedup();
    assert_eq!(seen, ["started", "40 on the way", "Succeeded made"]);
}

/// The next run gets the offset that a run has left, whichever worker runs it and whatever died meanwhile.
#[tokio::test]
async fn an_offset_is_handed_back() {
    let mut cluster = Cluster::start(SHORT).await;
    cluster.apply(job("offset", 1, json!({}))).await;
    let does = vec![Does { offset: true, ..runs_for("offset", 1) }];
    cluster.worker("a", does.clone());
    for n in 1..=4 {
        cluster.assigned("offset", 1).await;
        cluster.trigger("offset").await;
        cluster
            .items_when("offset", "it has run", move |items| {
                items[0].counters.as_ref().unwrap().succeeded == n
            })
            .await;
        match n {
            2 => {
                cluster.kill("a");
                cluster.worker("b", does.clone());
                cluster
                    .items_when("offset", "b owns it", |items| {
                        items[0].owner.as_ref().is_some_and(|owner| owner.starts_with("host-b"))
                    })
                    .await;
            }
            3 => {
                cluster.kill_coordinator();
                cluster.serve().await;
                wait("b is back", || async { (!cluster.instances("offset").await.is_empty()).then_some(()) })
                    .await;
            }
            _ => {}
        }
    }
    let mut starts: Vec<Line> = cluster.lines().into_iter().filter(|line| line.what == What::Start).collect();
    starts.sort_by_key(|line| line.at);
    let found: Vec<&str> = starts.iter().map(|line| line.detail.rsplit('|').next().unwrap()).collect();
    assert_eq!(found, ["", "x", "xx", "xxx"]);
}

/// A failover run continues at the offset of the killed run, not at that of the last ended one.
#[tokio::test]
async fn a_taker_goes_on_from_the_offset_of_the_killed_run() {
    let mut cluster = Cluster::start(SHORT).await;
    cluster.apply(job("far", 1, json!({ "failover": true }))).await;
    let does = vec![Does { offset_first: true, ..runs_until("far", cluster.home.path("gate")) }];
    cluster.worker("a", does.clone());
    cluster.assigned("far", 1).await;
    cluster.trigger("far").await;
    let written = || async {
        cluster.dump("far").await.remove("/offset/0").filter(|node| !node.data.is_empty()).map(|_| ())
    };
    wait("what the run had said is written", written).await;
    cluster.worker("b", does);
    wait("b is there", || async { (cluster.instances("far").await.len() == 2).then_some(()) }).await;
    cluster.kill("a");
    cluster.verdict_when("a failover", |verdict| verdict.by_source("far", "FAILOVER").len() == 1).await;
    cluster.home.open("gate");
    cluster.verdict_when("its end", |verdict| verdict.done("far", "FAILOVER").len() == 1).await;
    let mut starts: Vec<Line> = cluster.lines().into_iter().filter(|line| line.what == What::Start).collect();
    starts.sort_by_key(|line| line.at);
    let found: Vec<&str> = starts.iter().map(|line| line.detail.rsplit('|').next().unwrap()).collect();
    assert_eq!(found, ["", "x"]);
}

#[tokio::test]
async fn a_dataflow_fetches_until_there_is_nothing_where_it_streams() {
    let mut cluster = Cluster::start(LONG).await;
    let flow = |name: &str| Does { batches: Some(3), ..runs_for(name, 1) };
    once(&mut cluster, json!({ "kind": "dataflow", "streaming": true }), flow("streams")).await;
    let rounds = (0..3).flat_map(|n: u32| [format!("fetch {n}"), format!("process [{n}, {n}, {n}]")]);
    // The offset that a run set is what it sees.
    let wanted: Vec<String> = rounds.chain(["fetch 3".to_owned()]).collect();
    assert_eq!(hooks(&cluster.lines()), wanted);
    let run = wait("the history", || async {
        cluster.runs("streams").await.pop().filter(|run| run.ended_at.is_some())
    })
    .await;
    assert_eq!((run.processed, run.failed), (9, 0));
    let mut cluster = Cluster::start(LONG).await;
    once(&mut cluster, json!({ "kind": "dataflow" }), flow("once")).await;
    assert_eq!(hooks(&cluster.lines()), ["fetch 0", "process [0, 0, 0]"]);
}

/// Any program is a worker: its environment describes the run, and its exit code is the outcome.
#[tokio::test]
async fn a_program_is_told_its_part_and_its_exit_code_counts() {
    let mut cluster = Cluster::start(LONG).await;
    let script = r#"echo "$ROSTERD_JOB $ROSTERD_ITEM $ROSTERD_ITEM_PARAMETER $ROSTERD_TOTAL $ROSTERD_JOB_PARAMETER $ROSTERD_SOURCE $ROSTERD_ATTEMPT"; echo "$ROSTERD_TOKEN $ROSTERD_INSTANCE $ROSTERD_FIRE_TIME" >&2; exit $((ROSTERD_ITEM * 3))"#;
    let flags =
        ["--job", "shell", "--items", "2", "--parameters", "0=Beijing,1=Shanghai", "--job-parameter", "all"];
    cluster.exec("e", &flags, &["sh", "-c", script]);
    cluster.assigned("shell", 1).await;
    cluster.trigger("shell").await;
    let items = cluster
        .items_when("shell", "both have ended", |items| items.iter().all(|item| item.last.is_some()))
        .await;
    let outcomes: Vec<_> = items.iter().map(|item| item.last.as_ref().unwrap().outcome()).collect();
    assert_eq!(outcomes, [v1::RunOutcome::Succeeded, v1::RunOutcome::Failed]);
    let mut runs = wait("the history", || async {
        let runs = cluster.runs("shell").await;
        (runs.iter().filter(|run| run.ended_at.is_some()).count() == 2).then_some(runs)
    })
    .await;
    runs.sort_by_key(|run| run.run.as_ref().unwrap().item);
    for (run, (item, city)) in runs.iter().zip([(0, "Beijing"), (1, "Shanghai")]) {
        assert!(run.output.contains(&format!("shell {item} {city} 2 all MANUAL 1")), "{run:?}");
        let id = run.run.as_ref().unwrap();
        assert!(run.output.contains(&format!("{} {} 20", id.token, run.instance)), "{run:?}");
    }
    assert!(runs[1].error.starts_with("exit status 3"), "{:?}", runs[1]);
}

/// The program does not outlive a killed worker: its item runs elsewhere.
#[tokio::test]
async fn a_program_dies_with_its_worker_and_runs_again_elsewhere() {
    let mut cluster = Cluster::start(SHORT).await;
    let script = r#"echo $$ > "$1/$ROSTERD_ITEM.$ROSTERD_TOKEN.pid"; while [ ! -e "$1/gate" ]; do sleep 0.05; done; echo done"#;
    let dir = cluster.home.path("").display().to_string();
    // Not by their silence: on a busy machine a starved guard would kill the program as well.
    let flags = ["--job", "prog", "--items", "4", "--failover", "--guard-silence", "30s"];
    for name in ["e", "f"] {
        cluster.exec(name, &flags, &["sh", "-c", script, "sh", &dir]);
    }
    cluster.assigned("prog", 2).await;
    cluster.trigger("prog").await;
    let pids = || -> Vec<String> {
        let files = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
        files
            .filter(|path| path.extension().is_some_and(|is| is == "pid"))
            .map(|path| std::fs::read_to_string(path).unwrap().trim().to_owned())
            .collect()
    };
    until("four programs", || pids().iter().filter(|pid| !pid.is_empty()).count() == 4).await;
    let first = pids();
    cluster.kill("e");
    until("six programs", || pids().iter().filter(|pid| !pid.is_empty()).count() == 6).await;
    let alive = first.iter().filter(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()).count();
    assert_eq!(alive, 2, "the killed worker's programs are gone");
    cluster.home.open("gate");
    let items = cluster.quiet("prog").await;
    assert!(items.iter().all(|item| item.last.as_ref().unwrap().outcome() == v1::RunOutcome::Succeeded));
    let counters = cluster.counters("prog").await;
    assert_eq!((counters.crashed, counters.succeeded), (2, 4));
}

/// Its name is used everywhere: in paths of the store, by a worker and a program, in history and lists.
#[tokio::test]
async fn a_job_whose_name_is_in_no_ascii_runs_as_any_other() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("清算-été", 1, json!({}))).await;
    cluster.worker("a", vec![runs_for("清算-été", 1)]);
    cluster.assigned("清算-été", 1).await;
    cluster.trigger("清算-été").await;
    cluster.items_when("清算-été", "the run has ended", |items| items[0].last.is_some()).await;
    cluster.exec(
        "b",
        &["--job", "отчёт", "--cron", EVERY_SECOND, "--items", "1"],
        &["sh", "-c", "echo ran $ROSTERD_TASK_ID"],
    );
    wait("its runs in the history", || async {
        let runs = cluster.runs("отчёт").await;
        runs.iter().any(|run| run.output.contains(&format!("ran {}\n", run.task_id))).then_some(())
    })
    .await;
    let runs = cluster.runs("清算-été").await;
    let (id, instance) = (&runs[0].task_id, &runs[0].instance);
    assert_eq!((runs.len(), id), (1, &format!("清算-été@-@0@-@READY@-@{instance}")));
    let refused = cluster.try_apply(job("e\u{301}te\u{301}", 1, json!({}))).await.unwrap_err();
    assert_eq!(code(&refused), "CONFIG_INVALID");
    assert!(refused.message().contains("write it as \"été\""), "{}", refused.message());
}
