//! The admin service, health and reflection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rosterd_api::edge::EdgeConfig;
use rosterd_coordinator::handle::{
    Action, ClusterEvent, Health, MachineAction, Operation, ServerRow, Target,
};
use rosterd_domain::id::{Item, JobName, ServerAddress};
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use rosterd_wire::proto::v1::watch_response::Event;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::pages::get_with;
use crate::support::{JobScope, Served, config, job, reason, serve, soon};

async fn admin(served: &Served) -> AdminServiceClient<tonic::transport::Channel> {
    AdminServiceClient::new(served.channel().await)
}

#[tokio::test]
async fn jobs_are_listed_by_a_part_of_their_name() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().1 = vec![job("Nightly"), job("hourly")];
    let request = v1::ListJobsRequest { name_contains: "NIGHT".into(), ..Default::default() };
    let jobs = admin(&served).await.list_jobs(request).await.unwrap().into_inner().jobs;
    assert_eq!(jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["Nightly"]);
    assert_eq!(jobs[0].status(), v1::JobStatus::Enabled);
}

/// Whatever the limit, every row comes once and no answer is longer.
#[tokio::test]
async fn long_lists_come_in_pages_that_fit() {
    let names: Vec<String> = (0..200).map(|n| format!("job-{n:03}")).collect();
    for max_send in [2000, 8000, 4 << 20] {
        let served = serve(EdgeConfig { max_send, ..config() }).await;
        served.fake.jobs.lock().unwrap().1 = names.iter().map(|name| job(name)).collect();
        let mut admin = admin(&served).await;
        let (mut request, mut seen, mut pages) = (v1::ListJobsRequest::default(), Vec::new(), 0);
        loop {
            let answer = admin.list_jobs(request.clone()).await.unwrap().into_inner();
            seen.extend(answer.jobs.into_iter().map(|job| job.name));
            pages += 1;
            request.page_token = answer.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
        }
        assert_eq!(seen, names);
        assert_eq!(pages == 1, max_send > 8000, "{pages} pages");
    }
    // Not even one row fits.
    let served = serve(EdgeConfig { max_send: 20, ..config() }).await;
    let status = admin(&served).await.list_jobs(v1::ListJobsRequest::default()).await.unwrap_err();
    assert_eq!((status.code(), reason(&status)), (Code::ResourceExhausted, "MESSAGE_TOO_LARGE".into()));
}

#[tokio::test]
async fn changes_are_carried_to_the_coordinator_in_its_words() {
    let served = serve(config()).await;
    let mut admin = admin(&served).await;
    let trigger = v1::TriggerJobRequest { job: "j".into(), items: vec![1], after_current: true };
    let answer = admin.trigger_job(trigger).await.unwrap().into_inner();
    assert_eq!(
        (answer.trigger_id.as_str(), answer.changes[0].lines.as_slice()),
        ("t-1", &["done".to_owned()][..])
    );
    let target = Some(v1::set_enabled_request::Target::Machine("10.0.0.7".into()));
    let disable = v1::SetEnabledRequest { job: "j".into(), target, enabled: false, cancel: true };
    admin.set_enabled(disable).await.unwrap();
    admin.resume_job(v1::ResumeJobRequest { job: "j".into() }).await.unwrap();
    let job = JobName::new("j").unwrap();
    let server = rosterd_domain::id::ServerAddress::new("10.0.0.7").unwrap();
    let expected = [
        Operation::Trigger { job: job.clone(), items: vec![Item(1)], after_current: true },
        Operation::Enable { job: job.clone(), target: Target::Machine(server), enabled: false, cancel: true },
        Operation::Pause { job, paused: false },
    ];
    assert_eq!(served.fake.operations.lock().unwrap().as_slice(), expected);
}

#[tokio::test]
async fn a_request_that_is_wrong_names_its_field_and_changes_nothing() {
    let served = serve(config()).await;
    let mut admin = admin(&served).await;
    let status = admin.pause_job(v1::PauseJobRequest { job: "a/b".into() }).await.unwrap_err();
    assert_eq!((status.code(), reason(&status)), (Code::InvalidArgument, "NAME_INVALID".into()));
    let status =
        admin.get_job(v1::GetJobRequest { job: "absent".into(), ..Default::default() }).await.unwrap_err();
    assert_eq!((status.code(), reason(&status)), (Code::NotFound, "JOB_UNKNOWN".into()));
    let outcome = v1::RunOutcome::HandedBack.into();
    let status = admin.list_runs(v1::ListRunsRequest { outcome, ..Default::default() }).await.unwrap_err();
    assert_eq!(reason(&status), "REQUEST_INVALID");
    let one = v1::ListRunsRequest { job: "j".into(), token: Some(7), ..Default::default() };
    assert_eq!(reason(&admin.list_runs(one).await.unwrap_err()), "REQUEST_INVALID");
    assert!(served.fake.operations.lock().unwrap().is_empty());
}

/// Regression: the answer to a mistyped name was an empty list.
#[tokio::test]
async fn the_history_of_an_unknown_job_or_item_is_an_error() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().1 = vec![job("j")];
    let mut admin = admin(&served).await;
    let runs = |job: &str| v1::ListRunsRequest { job: job.into(), ..Default::default() };
    let events = |job: &str| v1::ListEventsRequest { job: job.into(), ..Default::default() };
    let unknown = (Code::NotFound, "JOB_UNKNOWN".to_owned());
    let status = admin.list_runs(runs("nobody")).await.unwrap_err();
    assert_eq!((status.code(), reason(&status)), unknown);
    assert!(status.message().contains("rosterd jobs list"), "{}", status.message());
    let status = admin.list_events(events("nobody")).await.unwrap_err();
    assert_eq!((status.code(), reason(&status)), unknown);
    // Outcomes of runs are a separate kind.
    let crashes = v1::ListEventsRequest { kind: v1::EventKind::Run.into(), ..Default::default() };
    let told = admin.list_events(crashes).await.unwrap().into_inner().events;
    assert_eq!(told[0].kind(), v1::EventKind::Run);
    assert_eq!(get_with(served.address, "/api/events?kind=run", "").await.0, 200);
    // Removed, and remembered.
    admin.list_runs(runs("removed")).await.unwrap();
    admin.list_events(events("removed")).await.unwrap();
    let fires = |item| v1::ListFiresRequest { job: "j".into(), item: Some(item), ..Default::default() };
    let status = admin.list_fires(fires(99)).await.unwrap_err();
    assert_eq!((status.code(), reason(&status)), (Code::NotFound, "ITEM_UNKNOWN".into()));
    // One that the job had once.
    admin.list_fires(fires(98)).await.unwrap();
    for path in ["/api/runs?job=nobody", "/api/events?job=nobody", "/api/jobs/j/fires?item=99"] {
        assert_eq!(get_with(served.address, path, "").await.0, 404, "{path}");
    }
    assert_eq!(get_with(served.address, "/api/jobs/j/fires?item=98", "").await.0, 200);
    assert_eq!(get_with(served.address, "/api/runs?job=j&token=7", "").await.0, 400);
}

/// The jobs that know a machine are found, and changed in one operation.
#[tokio::test]
async fn what_is_asked_of_a_machine_is_asked_of_the_jobs_that_know_it() {
    let served = serve(config()).await;
    let address = |text: &str| ServerAddress::new(text).unwrap();
    let row = |job: &str, server: &str| ServerRow {
        server: address(server),
        job: JobName::new(job).unwrap(),
        enabled: true,
        instances: 1,
    };
    *served.fake.servers.lock().unwrap() = vec![row("a", "m"), row("b", "other"), row("c", "m")];
    let mut admin = admin(&served).await;
    let disable = v1::SetMachineEnabledRequest { machine: "m".into(), enabled: false, cancel: true };
    admin.set_machine_enabled(disable.clone()).await.unwrap();
    admin.shutdown_machine(v1::ShutdownMachineRequest { machine: "m".into() }).await.unwrap();
    admin.remove_machine(v1::RemoveMachineRequest { machine: "m".into() }).await.unwrap();
    let jobs = vec![JobName::new("a").unwrap(), JobName::new("c").unwrap()];
    let of = |action| Operation::Machine { machine: address("m"), jobs: jobs.clone(), action };
    let expected = [
        of(MachineAction::Enable { enabled: false, cancel: true }),
        of(MachineAction::Shutdown),
        of(MachineAction::Remove),
    ];
    assert_eq!(served.fake.operations.lock().unwrap().as_slice(), expected);
    let both = v1::SetMachineEnabledRequest { enabled: true, ..disable };
    let status = admin.set_machine_enabled(both).await.unwrap_err();
    assert_eq!((reason(&status), status.message().contains("cancel")), ("REQUEST_INVALID".into(), true));
    assert_eq!(served.fake.operations.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn runs_are_counted_for_each_interval() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().1 = vec![job("j")];
    let mut admin = admin(&served).await;
    let span = |seconds| prost_types::Duration { seconds, nanos: 0 };
    let mut ask = v1::GetJobRequest { job: "j".into(), intervals: vec![span(3600), span(60)], upcoming: 0 };
    let stats = admin.get_job(ask.clone()).await.unwrap().into_inner().stats;
    assert_eq!(stats.iter().map(|stats| stats.interval.unwrap().seconds).collect::<Vec<_>>(), [3600, 60]);
    // The history counts from the beginning of each.
    assert!(stats[1].runs - stats[0].runs >= 3_540_000 - 10_000, "{stats:?}");
    assert_eq!((stats[0].succeeded, stats[0].failed, stats[0].records_processed), (stats[0].runs, 0, 7));
    for bad in [vec![span(0)], vec![span(-1)], vec![span(7 * 86_400 + 1)], vec![span(1); 9]] {
        ask.intervals = bad;
        let status = admin.get_job(ask.clone()).await.unwrap_err();
        assert_eq!((status.code(), reason(&status)), (Code::InvalidArgument, "REQUEST_INVALID".into()));
        assert!(status.message().contains("intervals"), "{status:?}");
    }
}

/// The filter reaches the history, and its answer comes back.
#[tokio::test]
async fn events_are_listed() {
    let served = serve(config()).await;
    let mut admin = admin(&served).await;
    let at = prost_types::Timestamp { seconds: 7, nanos: 0 };
    for (kind, found) in [
        (v1::EventKind::Unspecified, v1::EventKind::Job),
        (v1::EventKind::Operation, v1::EventKind::Operation),
        (v1::EventKind::Worker, v1::EventKind::Worker),
        (v1::EventKind::Assigned, v1::EventKind::Assigned),
    ] {
        let request = v1::ListEventsRequest {
            job: "j".into(),
            kind: kind.into(),
            principal: "ann".into(),
            start_time: Some(at),
            page_size: 9,
            page_token: "next".into(),
            ..Default::default()
        };
        let answer = admin.list_events(request).await.unwrap().into_inner();
        let (job, what, principal) = ("j".to_owned(), "9 rows".to_owned(), "ann".to_owned());
        let event = v1::EventRecord { at: Some(at), job, kind: found.into(), what, principal };
        assert_eq!((answer.events, &*answer.next_page_token), (vec![event], "next"));
    }
}

#[tokio::test]
async fn fires_come_in_pages() {
    let served = serve(config()).await;
    let mut admin = admin(&served).await;
    let mut request = v1::ListFiresRequest {
        job: "j".into(),
        start_time: Some(prost_types::Timestamp { seconds: 0, nanos: 0 }),
        end_time: Some(prost_types::Timestamp { seconds: 300, nanos: 0 }),
        page_size: 3,
        ..Default::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = admin.list_fires(request.clone()).await.unwrap().into_inner();
        seen.extend(page.fires.iter().map(|fire| (fire.fire_time.unwrap().seconds / 60, fire.item)));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    // The latest first.
    let all: Vec<_> = (0..5).rev().flat_map(|minute| [(minute, 0), (minute, 1)]).collect();
    assert_eq!(seen, all);
}

#[tokio::test]
async fn a_call_ends_at_its_clients_deadline() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().0 = JobScope::Never;
    // Raw: a client library would give up by itself.
    let io = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let (mut client, connection) = h2::client::handshake(io).await.unwrap();
    let _connection = tokio::spawn(connection);
    let request = http::Request::post("http://a/rosterd.v1.AdminService/ListJobs")
        .header("content-type", "application/grpc")
        .header("grpc-timeout", "50m")
        .body(())
        .unwrap();
    let (answer, mut body) = client.send_request(request, false).unwrap();
    body.send_data(vec![0; 5].into(), true).unwrap();
    let answer = soon("an answer", answer).await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], (Code::DeadlineExceeded as i32).to_string().as_str());
    let mut config = crate::support::config();
    config.call_deadline = Duration::from_millis(50);
    let served = serve(config).await;
    served.fake.jobs.lock().unwrap().0 = JobScope::Never;
    let call = admin(&served).await.list_jobs(v1::ListJobsRequest::default()).await;
    assert_eq!(reason(&call.unwrap_err()), "DEADLINE_EXCEEDED");
}

#[tokio::test]
async fn a_panic_in_a_call_is_an_answer() {
    let served = serve(config()).await;
    served.fake.jobs.lock().unwrap().0 = JobScope::Panics;
    let mut admin = admin(&served).await;
    let status = admin.list_jobs(v1::ListJobsRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(
        admin.get_server_info(v1::GetServerInfoRequest {}).await.unwrap().into_inner().namespace,
        "test"
    );
}

/// The coordinator that is asked reports its own state; the state of others is only what they wrote.
#[tokio::test]
async fn a_suspended_coordinator_does_not_look_well() {
    let served = serve(config()).await;
    let mut admin = admin(&served).await;
    for (health, state) in [
        (Health::Starting, v1::ServerHealth::Starting),
        (Health::Serving, v1::ServerHealth::Serving),
        (Health::ClockOff, v1::ServerHealth::ClockOff),
        (Health::Suspended, v1::ServerHealth::Suspended),
        (Health::Draining, v1::ServerHealth::Draining),
    ] {
        served.fake.health.send_replace(health);
        let rows = admin.list_coordinators(v1::ListCoordinatorsRequest {}).await.unwrap().into_inner();
        let [asked, other] = &rows.coordinators[..] else { panic!("{rows:?}") };
        assert_eq!((asked.state(), other.state()), (state, v1::ServerHealth::Draining));
        let ago = asked.proved_ago.as_ref().map(|ago| (ago.seconds, ago.nanos));
        assert_eq!((ago, &other.proved_ago), (Some((1, 500_000_000)), &None));
    }
    served.fake.unread.store(true, Ordering::Relaxed);
    served.fake.health.send_replace(Health::Suspended);
    let refused = admin.list_coordinators(v1::ListCoordinatorsRequest {}).await.unwrap_err();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    assert_eq!(refused.message(), "the coordinator that was asked is suspended: no answer");
}

fn happened(job: &str, what: String) -> Arc<ClusterEvent> {
    Arc::new(ClusterEvent::Job { job: JobName::new(job).unwrap(), action: Action::Change, what, by: None })
}

#[tokio::test]
async fn a_watcher_is_told_of_its_job_and_of_what_it_lost() {
    let served = serve(config()).await;
    let request = v1::WatchRequest { job: "j".into() };
    let mut watch = admin(&served).await.watch(request).await.unwrap().into_inner();
    served.fake.events.send(happened("other", "made".into())).unwrap();
    served.fake.events.send(happened("j", "changed".into())).unwrap();
    let told = soon("an event", watch.message()).await.unwrap().unwrap();
    let Some(Event::Job(event)) = told.event else { panic!("{told:?}") };
    assert_eq!(
        (event.job.as_str(), event.action(), event.what.as_str()),
        ("j", v1::JobAction::Change, "changed")
    );
    let fake = served.fake.clone();
    let long = "x".repeat(100_000);
    let flood = async {
        loop {
            fake.events.send(happened("j", long.clone())).unwrap();
            tokio::task::yield_now().await;
            if fake.events.len() >= 16 {
                return;
            }
        }
    };
    soon("a watcher that lags", flood).await;
    for _ in 0..17 {
        served.fake.events.send(happened("j", long.clone())).unwrap();
    }
    let lost = async {
        loop {
            if let Some(Event::EventsLost(lost)) = watch.message().await.unwrap().unwrap().event {
                return lost.count;
            }
        }
    };
    assert!(soon("the count of what was lost", lost).await > 0);
}

#[tokio::test]
async fn health_follows_the_coordinator() {
    let served = serve(config()).await;
    let mut client = HealthClient::new(served.channel().await);
    for service in ["", "rosterd.v1.WorkerService", "rosterd.v1.AdminService"] {
        let request = HealthCheckRequest { service: service.into() };
        let mut watch = client.watch(request.clone()).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        for health in [Health::Suspended, Health::Serving] {
            served.fake.health.send_replace(health);
            let told = soon("the change", watch.message()).await.unwrap().unwrap().status();
            assert_eq!(told == ServingStatus::Serving, health == Health::Serving, "{service:?}");
        }
        assert_eq!(client.check(request).await.unwrap().into_inner().status(), ServingStatus::Serving);
    }
    let request = HealthCheckRequest { service: "no.such".into() };
    assert_eq!(client.check(request).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let served = serve(config()).await;
    let mut client = ServerReflectionClient::new(served.channel().await);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answer = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let answer = soon("the services", answer.into_inner().message()).await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!() };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["rosterd.v1.WorkerService", "rosterd.v1.AdminService", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{names:?}");
    }
}
