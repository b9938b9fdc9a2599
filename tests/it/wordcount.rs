//! The example on real input: the words of a directory of text files, counted by items on several processes, are
//! those that one process counts; also when a worker is killed in the middle.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::*;
use crate::judge::Verdict;

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/wordcount/wordcount")
}

fn wordcount(arguments: &[&str]) -> String {
    let done = Command::new(program()).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

async fn counted(kill: bool) {
    let mut cluster = Cluster::start(SHORT).await;
    let path = |name: &str| cluster.home.path(name).display().to_string();
    let (corpus, results, count) = (path("corpus"), path("results"), program().display().to_string());
    wordcount(&["corpus", &corpus]);
    for name in ["one", "two", "three"] {
        let flags = ["--job", "wordcount", "--items", "6", "--failover", "--slots", "6"];
        // Who is to die is still at its first file then.
        let pause = if kill && name == "two" { "WORDCOUNT_PAUSE=3600" } else { "WORDCOUNT_PAUSE=0" };
        let log = format!("WORDCOUNT_LOG={}", cluster.home.path(&format!("{name}.jsonl")).display());
        cluster.exec(name, &flags, &["env", pause, &log, &count, "count", &corpus, &results]);
    }
    cluster.assigned("wordcount", 3).await;
    cluster.trigger("wordcount").await;
    if kill {
        let begun =
            |verdict: &Verdict| verdict.of("wordcount").filter(|run| run.worker == "two").count() == 2;
        cluster.verdict_when("both runs of who is to die", begun).await;
        cluster.kill("two");
    }
    cluster
        .items_when("wordcount", "all have succeeded", |items| {
            items.iter().all(|item| item.running.is_none() && item.counters.as_ref().unwrap().succeeded == 1)
        })
        .await;
    assert_eq!(wordcount(&["total", &results]), wordcount(&["plain", &corpus]));
    let verdict = cluster.verdict();
    verdict.is_clean();
    let done = |source: &str| verdict.done("wordcount", source).len();
    assert_eq!(
        (done("MANUAL"), done("FAILOVER")),
        if kill { (4, 2) } else { (6, 0) },
        "\n{}",
        verdict.table()
    );
    let counters = cluster.counters("wordcount").await;
    assert_eq!((counters.succeeded, counters.crashed), (6, if kill { 2 } else { 0 }));
}

#[tokio::test]
async fn the_words_are_those_that_one_process_counts() {
    counted(false).await;
}

#[tokio::test]
async fn the_words_are_the_same_when_a_worker_is_killed() {
    counted(true).await;
}
