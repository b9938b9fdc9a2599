//! The example on real input: the words of a directory of text files, counted by items on several processes, are those
//! that one process counts, even if a worker is lost in the middle.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::forms::{Form, Loss, in_each_form, replaced_after_its_stop};
use crate::harness::*;
use crate::judge::{AuditedRun, Verdict};

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/wordcount/wordcount")
}

fn wordcount(arguments: &[&str]) -> String {
    let done = Command::new(program()).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The programs log their starts and stops; if a worker will be lost, `exec` does, and its guard if `exec` cannot.
async fn counted(mut cluster: Cluster, loss: Option<Loss>) {
    let path = |name: &str| cluster.home.path(name).display().to_string();
    let (corpus, results, count) = (path("corpus"), path("results"), program().display().to_string());
    wordcount(&["corpus", &corpus]);
    for name in ["one", "two", "three"] {
        let log = cluster.home.path(&format!("{name}.jsonl")).display().to_string();
        let mut flags = vec!["--job", "wordcount", "--items", "6", "--failover", "--slots", "6"];
        let mut own_log = "WORDCOUNT_LOG=".to_owned();
        match loss {
            Some(_) => flags.extend(["--run-log", &log]),
            None => own_log.push_str(&log),
        }
        // The worker that will be lost is still at its first file then.
        let lost = loss.as_ref().filter(|_| name == "two");
        let pause = if lost.is_some() { "WORDCOUNT_PAUSE=3600" } else { "WORDCOUNT_PAUSE=0" };
        let wrapper = lost.map(Loss::wrapper).unwrap_or_default();
        let words = ["env", pause, &own_log, &count, "count", &corpus, &results];
        cluster.exec_below(&wrapper, name, &flags, &words);
    }
    cluster.assigned("wordcount", 3).await;
    cluster.trigger("wordcount").await;
    let mut old = Vec::new();
    if let Some(loss) = &loss {
        let begun = |verdict: &Verdict| of_two(verdict).len() == 2;
        old = of_two(&cluster.verdict_when("both runs of who is to be lost", begun).await);
        // `exec` logs that a run starts before it starts the program.
        wait("both programs of who is to be lost", || async { (paused(&results) == 2).then_some(()) }).await;
        loss.strike(&mut cluster, "two");
    }
    cluster
        .items_when("wordcount", "all have succeeded", |items| {
            items.iter().all(|item| item.running.is_none() && item.counters.as_ref().unwrap().succeeded == 1)
        })
        .await;
    assert_eq!(wordcount(&["total", &results]), wordcount(&["plain", &corpus]));
    if let Some(loss) = loss.as_ref().filter(|loss| loss.comes_back()) {
        loss.relent(&mut cluster, "two");
        cluster.assigned("wordcount", 3).await;
        assert_eq!(wordcount(&["total", &results]), wordcount(&["plain", &corpus]), "it comes back");
    }
    let verdict = cluster.verdict();
    verdict.is_clean();
    // The programs are not frozen: even if `exec` is, they have stopped before.
    replaced_after_its_stop(false, &verdict, "wordcount", &old);
    let done = |source: &str| verdict.done("wordcount", source).len();
    assert_eq!((done("MANUAL"), done("FAILOVER")), (6 - old.len(), old.len()), "\n{}", verdict.table());
    let counters = cluster.counters("wordcount").await;
    assert_eq!((counters.succeeded, counters.crashed), (6, old.len() as u64));
}

/// How many programs wait at their first file.
fn paused(results: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let read = |process: &Path, name| std::fs::read(process.join(name)).unwrap_or_default();
    let has = |of: &[u8], word: &str| of.split(|byte| *byte == 0).any(|part| part == word.as_bytes());
    processes
        .filter(|process| {
            let process = process.path();
            has(&read(&process, "environ"), "WORDCOUNT_PAUSE=3600")
                && has(&read(&process, "cmdline"), results)
        })
        .count()
}

/// The runs of the second worker.
fn of_two(verdict: &Verdict) -> Vec<AuditedRun> {
    verdict.of("wordcount").filter(|run| run.worker.starts_with("host-two.")).cloned().collect()
}

#[tokio::test]
async fn the_words_are_those_that_one_process_counts() {
    counted(Cluster::start(LONG).await, None).await;
}

in_each_form!(the_words_are_the_same_when_a_worker_is_lost, super::lost);

async fn lost(form: Form) {
    let Some((loss, cluster)) = Loss::on(SHORT, form).await else { return };
    counted(cluster, Some(loss)).await;
}
