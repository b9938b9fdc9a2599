//! A backup of an ensemble's namespace that two coordinators serve, and its restore under their workers.

use std::collections::BTreeMap;
use std::process::Command;

use crate::fleet::{Fleet, QUICK, shared};
use crate::harness::*;
use crate::judge::What;

#[track_caller]
fn done(args: &[&str]) -> String {
    let mut command = Command::new(binary(false));
    clean(&mut command);
    let ran = command.args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(ran.stdout), text(ran.stderr));
    assert!(ran.status.success(), "{args:?}: {out}{err}");
    out
}

/// Runs in flight of workers at both coordinators are fenced, and run again by failover under higher tokens; the job
/// that fires each second goes on at both.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_by_one_coordinator_reaches_the_workers_of_all() {
    let mut fleet = Fleet::start(2, &shared().list(), QUICK).await;
    fleet.busy(&["a", "b"]).await;
    fleet.more_fires_at_all(2).await;
    let file = fleet.home.path("all.backup");
    let file = file.to_str().unwrap();
    let said = done(&["backup", "--server", &fleet.url_of(0), "--out", file]);
    assert!(said.starts_with("2 jobs of ") && said.contains("with 12 records"), "{said}");
    fleet.more_fires_at_all(3).await;
    let said = done(&["restore", "--server", &fleet.url_of(1), file, "--overwrite"]);
    assert_eq!(said.matches("  fenced: nine/").count(), 9, "{said}");
    fleet.home.open("gate");
    fleet
        .items_when("nine", "all ran again", |items| {
            items.iter().all(|item| item.counters.as_ref().is_some_and(|counters| counters.succeeded == 1))
        })
        .await;
    fleet.more_fires_at_all(3).await;
    let mut lines = fleet.lines();
    lines.sort_by_key(|line| line.wall);
    let mut tokens: BTreeMap<(String, u32), Vec<u64>> = BTreeMap::new();
    for line in lines.into_iter().filter(|line| line.what == What::Start) {
        tokens.entry((line.job, line.item)).or_default().push(line.token);
    }
    for (of, tokens) in tokens {
        assert!(tokens.is_sorted_by(|before, after| before < after), "{of:?}: {tokens:?}");
    }
}
