//! A panic in any part: the process ends and reports it, or only the work of that part ends, and the log and the
//! metrics show it. Nothing dies silently, and no run is lost or duplicated.

use rosterd_wire::proto::v1;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::*;

const PANICS: &str = "rosterd_panics_total";

/// A worker with a job of two items that has run once, and a coordinator that panics when told to.
async fn working() -> Cluster {
    let mut cluster = Cluster::with_mutants(LONG, &[]).await;
    cluster.apply(job("steady", 2, serde_json::json!({}))).await;
    cluster.worker("a", vec![runs_for("steady", 1)]);
    cluster.assigned("steady", 1).await;
    runs_again(&cluster, 1).await;
    assert_eq!(cluster.counted(PANICS).await, 0.0);
    cluster
}

/// Triggers once more, and waits until this many fires of both items have succeeded.
async fn runs_again(cluster: &Cluster, fires: u64) {
    cluster.trigger("steady").await;
    cluster
        .items_when("steady", "they have run", move |items| {
            items.iter().all(|item| item.counters.as_ref().unwrap().succeeded == fires)
        })
        .await;
}

/// The process ends by itself, with a message and a code; acknowledged changes are there when it is restarted.
async fn ends_and_comes_back(place: &str, task: &str, says: &[&str]) {
    let mut cluster = working().await;
    cluster.mutant(place, "");
    // A request gives every part something to do.
    let _gone = cluster.admin().list_jobs(rosterd_wire::proto::v1::ListJobsRequest::default()).await;
    let status = cluster.coordinator.as_mut().unwrap().end().await;
    assert_eq!(status.code(), Some(1), "{status}");
    let log = cluster.logged();
    assert!(log.contains(&format!("injected panic: {place}")), "{log}");
    for text in says {
        assert!(log.contains(text), "{text:?} is missing in\n{log}");
    }
    let last = log.lines().last().unwrap();
    assert!(last.starts_with(&format!("rosterd: SERVE: the task {task} ended")), "{last}");
    cluster.serve().await;
    cluster.assigned("steady", 1).await;
    runs_again(&cluster, 2).await;
    cluster.verdict().is_clean();
}

#[tokio::test]
async fn a_panic_of_the_coordinator_ends_the_process() {
    let says = ["an essential task ended: the process stops"];
    ends_and_comes_back("panic-coordinator", "coordinator", &says).await;
}

#[tokio::test]
async fn a_panic_of_the_registry_ends_the_process() {
    let says = ["the store's thread has broken down", "the coordinator has lost its store"];
    ends_and_comes_back("panic-registry", "coordinator", &says).await;
}

/// A process that cannot be reached is useless: it ends, and its supervisor restarts it.
#[tokio::test]
async fn a_panic_of_the_listener_ends_the_process() {
    let says = ["an essential task ended: the process stops"];
    ends_and_comes_back("panic-edge", "edge", &says).await;
}

/// The health service answers with the last known state meanwhile; then it is current again.
#[tokio::test]
async fn a_panic_of_the_health_service_costs_a_moment_and_it_begins_again() {
    // At its start, before it has reported that the coordinator serves.
    let cluster = Cluster::with_mutants(LONG, &[("panic-health", "")]).await;
    until("the panic", || cluster.logged().contains("injected panic: panic-health")).await;
    assert_eq!(cluster.counted(PANICS).await, 1.0);
    for service in ["", "rosterd.v1.WorkerService", "rosterd.v1.AdminService"] {
        wait(format!("{service:?} to be called healthy"), || async {
            let request = HealthCheckRequest { service: service.into() };
            let told = HealthClient::new(cluster.channel()).check(request).await.ok()?.into_inner();
            (told.status() == ServingStatus::Serving).then_some(())
        })
        .await;
    }
    assert_eq!(cluster.counted(PANICS).await, 1.0);
}

/// A right that was revoked while the file was not read is lost.
#[tokio::test]
async fn a_panic_of_what_reads_credentials_overlooks_no_revocation() {
    let mut cluster = Cluster::prepare(LONG, &[]);
    let file = cluster.home.path("credentials.toml");
    let credentials = |word: &str, name: &str, more: &[&str]| {
        let mut command = std::process::Command::new(binary(false));
        command.args(["credentials", word, name]).args(more).arg("--file").arg(&file);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    let [kept, revoked] = ["kept", "revoked"].map(|name| credentials("add", name, &["--role", "admin"]));
    std::fs::create_dir(cluster.home.path(MUTANTS)).unwrap();
    cluster.settings.push(format!("credentials={}", file.display()));
    cluster.launch();
    cluster.listening().await;
    let asked = async |secret: &str| {
        let bearer: tonic::metadata::MetadataValue<_> = format!("Bearer {secret}").parse().unwrap();
        let mut request = tonic::Request::new(v1::GetServerInfoRequest {});
        request.metadata_mut().insert("authorization", bearer);
        cluster.admin().get_server_info(request).await
    };
    for secret in [&kept, &revoked] {
        wait("both to be let in", || async { asked(secret).await.ok().map(drop) }).await;
    }
    // In either order, the change must be noticed.
    cluster.mutant("panic-access", "");
    credentials("revoke", "revoked", &[]);
    until("the panic", || cluster.logged().contains("injected panic: panic-access")).await;
    wait("the revocation", || async {
        (asked(&revoked).await.err()?.code() == tonic::Code::Unauthenticated).then_some(())
    })
    .await;
    assert!(asked(&kept).await.is_ok());
    assert!(cluster.coordinator.as_mut().unwrap().ended().is_none());
}

/// Events in between are lost, counted and reported; runs go on.
#[tokio::test]
async fn a_panic_of_the_history_costs_its_rows_and_it_begins_again() {
    let cluster = working().await;
    wait("the first runs in the history", || async {
        (cluster.runs("steady").await.len() == 2).then_some(())
    })
    .await;
    cluster.mutant("panic-history", "");
    runs_again(&cluster, 2).await;
    until("the panic", || cluster.logged().contains("the history's writer panicked and begins again")).await;
    wait("the count of what was lost", || async {
        (cluster.counted("rosterd_history_dropped_total").await > 0.0).then_some(())
    })
    .await;
    assert_eq!(cluster.counted(PANICS).await, 1.0);
    runs_again(&cluster, 3).await;
    let latest = cluster.items("steady").await.iter().map(|item| item.token).max().unwrap();
    wait("later runs in the history", || async {
        let runs = cluster.runs("steady").await;
        runs.iter()
            .any(|run| run.run.as_ref().unwrap().token == latest && run.ended_at.is_some())
            .then_some(())
    })
    .await;
    cluster.verdict().is_clean();
}

/// Its worker attaches again; the others notice nothing.
#[tokio::test]
async fn a_panic_of_a_stream_ends_that_stream_alone() {
    let mut cluster = working().await;
    cluster.worker("b", vec![runs_for("steady", 1)]);
    cluster.assigned("steady", 2).await;
    let before = cluster.items("steady").await;
    cluster.mutant("panic-stream", "");
    wait("the panic", || async { (cluster.counted(PANICS).await == 1.0).then_some(()) }).await;
    wait("both streams", || async { (cluster.counted("rosterd_streams").await == 2.0).then_some(()) }).await;
    // It is counted where it is caught, and logged right after.
    until("the panic in the log", || {
        let log = cluster.logged();
        log.contains("worker stream") && log.contains("injected panic: panic-stream")
    })
    .await;
    runs_again(&cluster, 2).await;
    let owners = |items: &[rosterd_wire::proto::v1::ItemSummary]| -> Vec<_> {
        items.iter().map(|item| item.owner.clone()).collect()
    };
    assert_eq!(owners(&before), owners(&cluster.items("steady").await), "nobody was called dead");
    cluster.verdict().is_clean();
}

#[tokio::test]
async fn a_panic_of_a_request_is_answered_as_one() {
    let cluster = working().await;
    cluster.mutant("panic-request", "");
    let request = rosterd_wire::proto::v1::ListJobsRequest::default();
    let status = cluster.admin().list_jobs(request.clone()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Internal);
    assert!(status.message().contains("a defect"), "{status}");
    assert_eq!(cluster.counted("rosterd_handler_panics_total").await, 1.0);
    assert_eq!(cluster.counted(PANICS).await, 1.0);
    assert!(cluster.logged().contains("injected panic: panic-request"));
    assert_eq!(cluster.admin().list_jobs(request).await.unwrap().into_inner().jobs.len(), 1);
    runs_again(&cluster, 2).await;
}
