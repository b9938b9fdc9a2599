//! The disk under a coordinator: if it is full, the coordinator acknowledges nothing that is not stored, and reports
//! it; once there is space, it goes on. Killed at any moment, it has everything that it acknowledged.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use tonic::Code;

use crate::harness::*;

/// A small file system in a mount namespace of its own, which ends with the process that holds it.
fn small_disk(cluster: &mut Cluster, size: &str) -> Option<PathBuf> {
    if !has_root("mounting a small file system") {
        return None;
    }
    let mut command = Command::new("unshare");
    let script = r#"mkdir -p "$1" && mount -t tmpfs -o "size=$0,mode=700" tmpfs "$1" && exec sleep 3600"#;
    command.args(["--mount", "sh", "-c", script, size]).arg(&cluster.data);
    let holder = Proc::spawn("disk", command, &cluster.home.path("disk.log"));
    let inside = PathBuf::from(format!("/proc/{}/root{}", holder.id(), cluster.data.display()));
    cluster.wrapper =
        ["nsenter", &format!("--mount=/proc/{}/ns/mnt", holder.id())].map(str::to_owned).to_vec();
    cluster.others.push(holder);
    Some(inside)
}

#[tokio::test]
async fn a_full_disk_loses_no_acknowledged_word_and_says_what_to_do() {
    let mut cluster = Cluster::prepare(LONG, &[]);
    let Some(inside) = small_disk(&mut cluster, "12m") else { return };
    let mounted = || {
        std::fs::read_to_string("/proc/self/mounts").is_ok()
            && inside.exists()
            && rustix_free(&inside).is_some_and(|all| all <= 12 << 20)
    };
    until("the small disk", mounted).await;
    cluster.serve().await;
    cluster.apply(job("before", 1, json!({}))).await;
    cluster.worker("a", vec![runs_until("before", cluster.home.path("gate"))]);
    cluster.assigned("before", 1).await;
    cluster.trigger("before").await;
    cluster.verdict_when("a run", |verdict| verdict.of("before").count() == 1).await;
    let ballast = inside.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    while file.write_all(&[1; 65_536]).is_ok() {}
    while file.write_all(&[1; 512]).is_ok() {}
    let large = |n: usize| job(&format!("j{n}"), 1, json!({ "jobParameter": "x".repeat(60_000) }));
    let mut kept = 0;
    let refused = loop {
        match cluster.try_apply(large(kept)).await {
            Ok(_) => kept += 1,
            Err(status) => break status,
        }
        assert!(kept < 1000, "the disk is never full");
    };
    println!("after {kept}: {refused:?}");
    assert_eq!((refused.code(), &*code(&refused)), (Code::Unavailable, "STORE_UNAVAILABLE"), "{refused:?}");
    assert!(
        refused.message().contains("full") && refused.message().contains("free"),
        "{}",
        refused.message()
    );
    assert!(cluster.logged().contains("full"), "the log says nothing");
    // Stored jobs are served, refused ones do not exist.
    let jobs = cluster
        .admin()
        .list_jobs(rosterd_wire::proto::v1::ListJobsRequest::default())
        .await
        .unwrap()
        .into_inner()
        .jobs;
    assert_eq!(jobs.len(), kept + 1);
    // An outcome in the meantime waits, and is not lost.
    cluster.home.open("gate");
    cluster.verdict_when("the run ends", |verdict| verdict.done("before", "MANUAL").len() == 1).await;
    drop(file);
    std::fs::remove_file(&ballast).unwrap();
    wait("the store to recover", || async { cluster.try_apply(large(kept)).await.ok() }).await;
    cluster.quiet("before").await;
    assert_eq!(cluster.counters("before").await.succeeded, 1);
    // And all of it outlives the process.
    cluster.kill_coordinator();
    cluster.serve().await;
    let jobs = cluster
        .admin()
        .list_jobs(rosterd_wire::proto::v1::ListJobsRequest::default())
        .await
        .unwrap()
        .into_inner()
        .jobs;
    assert_eq!(jobs.len(), kept + 2);
    assert_eq!(cluster.counters("before").await.succeeded, 1);
    cluster.verdict().is_clean();
}

/// The size of the file system that holds the path, in bytes.
fn rustix_free(path: &std::path::Path) -> Option<u64> {
    let seen = rustix::fs::statvfs(path).ok()?;
    Some(seen.f_blocks * seen.f_frsize)
}

/// Killed while it writes, again and again: everything that it acknowledged is there, and it always starts.
#[tokio::test]
async fn killed_at_any_moment_it_has_what_it_acknowledged() {
    let mut cluster = Cluster::start(LONG).await;
    cluster.apply(job("moving", 1, json!({}))).await;
    let mut acknowledged = 0_u64;
    for round in 0..6_u64 {
        let (admin, home) = (cluster.admin(), cluster.home.path(""));
        let writer = tokio::spawn(async move {
            let mut last = acknowledged;
            loop {
                let text = job("moving", 1, json!({ "jobParameter": (last + 1).to_string() }));
                let request = rosterd_wire::proto::v1::ApplyJobsRequest { text, dry_run: false };
                match admin.clone().apply_jobs(request).await {
                    Ok(_) => last += 1,
                    Err(_) => return last,
                }
                std::fs::write(home.join("progress"), last.to_string()).unwrap();
            }
        });
        let progress = cluster.home.path("progress");
        let goal = acknowledged + 5 + round * 3;
        until("some writes", || {
            std::fs::read_to_string(&progress).is_ok_and(|text| text.parse::<u64>().is_ok_and(|n| n >= goal))
        })
        .await;
        cluster.kill_coordinator();
        let last = writer.await.unwrap();
        cluster.serve().await;
        let spec = cluster.job("moving").await.spec;
        let found = |n: u64| {
            spec.contains(&format!("'{n}'"))
                || spec.contains(&format!("\"{n}\""))
                || spec.contains(&format!("jobParameter: {n}\n"))
        };
        // The one in flight may be there.
        assert!(found(last) || found(last + 1), "{last} was acknowledged\n{spec}");
        acknowledged = last;
    }
}
