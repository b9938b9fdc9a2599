//! Programs that `exec` runs: whatever happens to its parent process, a program stops before its item runs elsewhere.

use std::collections::BTreeMap;
use std::path::Path;

use crate::forms::{Form, Loss, in_each_form};
use crate::harness::*;

/// Each program writes when it was last alive, in nanoseconds.
const SCRIPT: &str = r#"f="$1/$ROSTERD_ITEM.$ROSTERD_TOKEN.$ROSTERD_SOURCE.alive"; date +%s%N > "$f.first"
    while [ ! -e "$1/gate" ]; do date +%s%N >> "$f"; sleep 0.02; done"#;

/// The last time in each file with this end, by item and source of its run.
fn times(home: &Path, end: &str) -> BTreeMap<(String, String), u128> {
    let files = std::fs::read_dir(home).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let entry = |name: String| {
        let mut words = name.split('.').map(str::to_owned);
        let (item, _, source) = (words.next()?, words.next()?, words.next()?);
        let text = std::fs::read_to_string(home.join(&name)).ok()?;
        let last = text.lines().filter_map(|line| line.parse().ok()).next_back()?;
        Some(((item, source), last))
    };
    files.filter(|name| name.ends_with(end)).filter_map(entry).collect()
}

in_each_form!(a_program_whose_worker_is_lost_stops_before_it_runs_elsewhere, super::lost);

/// Its `exec` is killed, frozen while the program is not, or cut off. The guard between them ends the program before
/// another worker may run the item, and so does `exec` if it is alive.
async fn lost(form: Form) {
    let Some((loss, mut cluster)) = Loss::on(SHORT, form).await else { return };
    let home = cluster.home.path("");
    let dir = home.display().to_string();
    let flags = ["--job", "prog", "--items", "4", "--failover"];
    let program = ["sh", "-c", SCRIPT, "sh", &dir];
    cluster.exec_below(&loss.wrapper(), "e", &flags, &program);
    // On a busy machine it may be starved, and its programs must not be killed for that.
    let patient = [&flags[..], &["--guard-silence", "30s"]].concat();
    cluster.exec("f", &patient, &program);
    cluster.assigned("prog", 2).await;
    cluster.trigger("prog").await;
    until("four programs that have said twice that they live", || times(&home, ".alive").len() == 4).await;
    loss.strike(&mut cluster, "e");
    let failovers = || {
        let all = times(&home, ".first").into_iter();
        all.filter(|((_, source), _)| source == "FAILOVER").collect::<Vec<_>>()
    };
    until("two failovers", || failovers().len() == 2).await;
    cluster.home.open("gate");
    let succeeded = |times: u64| {
        move |items: &[rosterd_wire::proto::v1::ItemSummary]| {
            items.iter().all(|item| item.counters.as_ref().unwrap().succeeded == times)
        }
    };
    cluster.items_when("prog", "all have succeeded", succeeded(1)).await;
    for ((item, _), began) in failovers() {
        let last = times(&home, ".alive")[&(item.clone(), "MANUAL".to_owned())];
        assert!(
            last < began,
            "item {item}: still alive {} ms after the new run began",
            (last - began) / 1_000_000
        );
    }
    let crashed = |items: &[rosterd_wire::proto::v1::ItemSummary]| {
        items.iter().map(|item| item.counters.as_ref().unwrap().crashed).sum::<u64>()
    };
    assert_eq!(crashed(&cluster.quiet("prog").await), 2);
    if !loss.comes_back() {
        return;
    }
    // When it resumes, its outdated state changes nothing, and it works again.
    loss.relent(&mut cluster, "e");
    let runs = std::cell::Cell::new(1);
    wait("it works again", || async {
        runs.set(runs.get() + 1);
        cluster.trigger("prog").await;
        let items = cluster.items_when("prog", "all have succeeded again", succeeded(runs.get())).await;
        let by_e = |item: &rosterd_wire::proto::v1::ItemSummary| {
            item.last.as_ref().is_some_and(|last| last.instance.starts_with("host-e@"))
        };
        items.iter().any(by_e).then_some(())
    })
    .await;
}

/// Each gets the same trace, and a parent of its own in it.
#[tokio::test]
async fn the_programs_of_a_fire_share_its_trace() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.exec("a", &["--job", "traced", "--items", "2"], &["sh", "-c", "echo $TRACEPARENT"]);
    cluster.assigned("traced", 1).await;
    cluster.trigger("traced").await;
    let runs = wait("both runs in the history", || async {
        let runs = cluster.runs("traced").await;
        (runs.len() == 2 && runs.iter().all(|run| run.ended_at.is_some())).then_some(runs)
    })
    .await;
    let parts: Vec<Vec<&str>> = runs.iter().map(|run| run.output.trim().split('-').collect()).collect();
    assert!(parts.iter().all(|parts| parts.len() == 4 && parts[1].len() == 32), "{parts:?}");
    assert_eq!(parts[0][1], parts[1][1], "the trace");
    assert_ne!(parts[0][2], parts[1][2], "the parent");
}
