//! What happens to streams and calls when a credential is revoked or changes, and to jobs that it does not cover.

use std::sync::Arc;

use rosterd_api::access::jobs::JobScope;
use rosterd_api::access::limits::Limits;
use rosterd_api::access::machines::Machines;
use rosterd_api::access::{Credentials, Grant};
use rosterd_api::layers::methods::Role;
use rosterd_coordinator::handle::Operation;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::{FromWorker, ToWorker};
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use rosterd_wire::proto::v1::backup_service_client::BackupServiceClient;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Out;
use rosterd_wire::proto::v1::worker_service_client::WorkerServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::transport::Channel;

use crate::auth::{grants, secret};
use crate::support::{Served, Worker, config, heartbeat, hello, instance, reason, serve, soon};

async fn guarded(grants: Vec<Grant>) -> (Served, Arc<Credentials>) {
    let mut config = config();
    let credentials = Credentials::new(grants);
    config.credentials = credentials.clone();
    (serve(config).await, credentials)
}

fn with<T>(message: T, number: u8) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert("authorization", format!("Bearer {}", secret(number).text()).parse().unwrap());
    request
}

async fn worker(channel: Channel, number: u8) -> Worker {
    let (sender, queue) = mpsc::channel(64);
    let call = WorkerServiceClient::new(channel);
    let frames =
        soon("the stream", { call }.session(with(ReceiverStream::new(queue), number))).await.unwrap();
    Worker { sender, frames: frames.into_inner() }
}

#[tokio::test]
async fn an_open_stream_ends_when_its_credential_is_revoked() {
    let (mut served, credentials) = guarded(grants()).await;
    let channel = served.channel().await;
    let mut worker = worker(channel.clone(), 1).await;
    worker.send(Frame::Hello(hello())).await;
    let mut seen = served.seen().await;
    assert!(matches!(seen.frame().await, Some(FromWorker::Hello(_))));
    let mut watcher = AdminServiceClient::new(channel.clone());
    let mut watch = watcher.watch(with(v1::WatchRequest::default(), 2)).await.unwrap().into_inner();
    let mut other = watcher.watch(with(v1::WatchRequest::default(), 3)).await.unwrap().into_inner();

    credentials.replace(grants().into_iter().filter(|grant| grant.role > Role::Viewer).collect());
    let status = worker.end().await.unwrap();
    assert_eq!(
        (status.code(), reason(&status)),
        (tonic::Code::Unauthenticated, "CREDENTIAL_REVOKED".to_owned())
    );
    assert!(status.message().contains("get a new one"), "{}", status.message());
    assert!(seen.frame().await.is_none(), "its conversation is over");
    let status = soon("the watch's end", watch.message()).await.unwrap_err();
    assert_eq!(reason(&status), "CREDENTIAL_REVOKED");
    let again = watcher.watch(with(v1::WatchRequest::default(), 2)).await.unwrap_err();
    assert_eq!(reason(&again), "UNAUTHENTICATED");

    // Clients whose credential is unchanged are not disturbed.
    served
        .fake
        .events
        .send(Arc::new(rosterd_coordinator::handle::ClusterEvent::Job {
            job: "j".parse().unwrap(),
            action: rosterd_coordinator::handle::Action::Pause,
            what: "paused".into(),
            by: None,
        }))
        .unwrap();
    assert!(soon("an event", other.message()).await.unwrap().is_some());
}

/// The end of its stream waits behind frames that it does not read: its frames are still not accepted.
#[tokio::test]
async fn a_revoked_worker_that_reads_nothing_is_not_listened_to() {
    let (mut served, credentials) = guarded(grants()).await;
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", served.address)).unwrap();
    let narrow = endpoint.initial_stream_window_size(1 << 12).initial_connection_window_size(1 << 12);
    let worker = worker(narrow.connect().await.unwrap(), 1).await;
    worker.send(Frame::Hello(hello())).await;
    let mut seen = served.seen().await;
    assert!(matches!(seen.frame().await, Some(FromWorker::Hello(_))));
    // Each is more than the connection's window.
    for _ in 0..75 {
        let long = ToWorker::Drain { message: "x".repeat(64 << 10), grace: std::time::Duration::ZERO };
        soon("room", seen.to_worker.send(long)).await.unwrap();
    }
    credentials.replace(Vec::new());
    while seen.frame().await.is_some() {}
    drop(worker);
}

#[tokio::test]
async fn a_worker_registers_the_jobs_of_its_credential_and_no_others() {
    let jobs = JobScope::parse(["a-*"]).unwrap();
    let narrow = Grant { jobs, ..Grant::by_secret("fleet", Role::Worker, &secret(1)) };
    let (mut served, _credentials) = guarded(vec![narrow]).await;
    let channel = served.channel().await;
    let mut attached = worker(channel, 1).await;
    attached.send(Frame::Hello(hello())).await;
    let mut seen = served.seen().await;
    assert!(matches!(seen.frame().await, Some(FromWorker::Hello(_))));
    for job in ["b-1", "a-1"] {
        attached.send(Frame::Register(v1::Register { job: job.into(), ..Default::default() })).await;
    }
    let Some(Out::Refused(refused)) = attached.next().await.unwrap().unwrap().frame else { panic!() };
    assert_eq!((refused.job.as_str(), refused.code.as_str()), ("b-1", "PERMISSION_DENIED"));
    assert!(refused.message.contains("only for a-*"), "{}", refused.message);
    let registered = seen.frame().await.unwrap();
    assert!(
        matches!(&registered, FromWorker::Register { job, .. } if job.as_str() == "a-1"),
        "{registered:?}"
    );
    attached.send(heartbeat(1)).await;
    assert!(matches!(seen.frame().await, Some(FromWorker::Heartbeat { .. })), "the stream goes on");
}

#[tokio::test]
async fn a_worker_that_reads_none_of_its_refusals_is_told_so_in_the_end() {
    let jobs = JobScope::parse(["a-*"]).unwrap();
    let narrow = Grant { jobs, ..Grant::by_secret("fleet", Role::Worker, &secret(1)) };
    let (mut served, _credentials) = guarded(vec![narrow]).await;
    let mut worker = worker(served.channel().await, 1).await;
    worker.send(Frame::Hello(hello())).await;
    let mut seen = served.seen().await;
    assert!(matches!(seen.frame().await, Some(FromWorker::Hello(_))));
    let job = format!("b-{}", "x".repeat(50));
    for _ in 0..20_000 {
        let frame = Frame::Register(v1::Register { job: job.clone(), ..Default::default() });
        let sent = worker.sender.send(v1::SessionRequest { frame: Some(frame) });
        if soon("room", sent).await.is_err() {
            break;
        }
    }
    assert_eq!(reason(&worker.end().await.unwrap()), "TOO_MANY_FRAMES");
}

/// Regression: it was refused as a whole. The coordinator knows which of its jobs it has lost; for these it may only
/// report how its runs ended.
#[tokio::test]
async fn a_worker_that_lost_a_job_goes_on_with_the_others() {
    let jobs = JobScope::parse(["a-*"]).unwrap();
    let narrow = Grant { jobs: jobs.clone(), ..Grant::by_secret("fleet", Role::Worker, &secret(1)) };
    let (mut served, _credentials) = guarded(vec![narrow]).await;
    let mut resuming = worker(served.channel().await, 1).await;
    resuming.send(Frame::Hello(v1::Hello { jobs: vec!["a-1".into(), "b-1".into()], ..hello() })).await;
    let mut seen = served.seen().await;
    assert_eq!(seen.peer.jobs, jobs);
    let Some(FromWorker::Hello(said)) = seen.frame().await else { panic!("a Hello") };
    assert_eq!(said.jobs.len(), 2);
    let refusal = Refusal::new(Code::PermissionDenied, "not for b-1");
    seen.to_worker.send(ToWorker::Refused { job: "b-1".into(), refusal }).await.unwrap();
    let Some(Out::Refused(refused)) = resuming.next().await.unwrap().unwrap().frame else { panic!("told") };
    assert_eq!((refused.job.as_str(), refused.code.as_str()), ("b-1", "PERMISSION_DENIED"));

    let report = |job: &str| v1::RunCompleted {
        run: Some(v1::RunRef { job: job.into(), item: 0, token: 7 }),
        outcome: v1::RunOutcome::Aborted.into(),
        ..v1::RunCompleted::default()
    };
    resuming.send(Frame::RunCompleted(report("b-1"))).await;
    assert!(matches!(seen.frame().await, Some(FromWorker::RunCompleted(it)) if it.run.job.as_str() == "b-1"));
    resuming.send(Frame::RunCompleted(report("b-2"))).await;
    let Some(Out::ReportAck(ack)) = resuming.next().await.unwrap().unwrap().frame else {
        panic!("an answer")
    };
    assert_eq!(ack.code, "PERMISSION_DENIED");
    resuming.send(Frame::Register(v1::Register { job: "b-1".into(), ..Default::default() })).await;
    assert!(matches!(resuming.next().await.unwrap().unwrap().frame, Some(Out::Refused(_))));
}

/// Parts of any frame about jobs that the credential does not cover are dropped at the edge, with an answer if the
/// frame has one.
#[tokio::test]
async fn a_frame_says_nothing_of_jobs_that_are_not_its_credentials() {
    let jobs = JobScope::parse(["a-*"]).unwrap();
    let (mut served, _credentials) =
        guarded(vec![Grant { jobs, ..Grant::by_secret("w", Role::Worker, &secret(1)) }]).await;
    let run = |job: &str| v1::RunRef { job: job.into(), item: 0, token: 7 };
    let mut attached = worker(served.channel().await, 1).await;
    let in_flight = vec![run("a-1"), run("b-1")];
    attached.send(Frame::Hello(v1::Hello { runs_in_flight: in_flight.clone(), ..hello() })).await;
    let mut seen = served.seen().await;
    let Some(FromWorker::Hello(said)) = seen.frame().await else { panic!("a Hello") };
    assert_eq!(said.in_flight.iter().map(|run| run.job.as_str()).collect::<Vec<_>>(), ["a-1"]);

    attached.send(Frame::Unregister(v1::Unregister { job: "b-1".into() })).await;
    let Some(Out::Refused(refused)) = attached.next().await.unwrap().unwrap().frame else {
        panic!("refused")
    };
    assert_eq!((refused.job.as_str(), refused.code.as_str()), ("b-1", "PERMISSION_DENIED"));
    let report = |job: &str| v1::RunCompleted {
        run: Some(run(job)),
        outcome: v1::RunOutcome::Succeeded.into(),
        ..v1::RunCompleted::default()
    };
    attached.send(Frame::RunCompleted(report("b-1"))).await;
    let Some(Out::ReportAck(ack)) = attached.next().await.unwrap().unwrap().frame else {
        panic!("an answer")
    };
    assert_eq!((ack.result(), ack.code.as_str()), (v1::ReportResult::Invalid, "PERMISSION_DENIED"));
    let progress =
        |job: &str| v1::RunProgress { run: Some(run(job)), percent: 1, message: "m".into(), offset: None };
    attached.send(Frame::RunProgress(progress("b-1"))).await;
    let beat = v1::Heartbeat { sequence: 1, runs_in_flight: in_flight, lease: None };
    attached.send(Frame::Heartbeat(beat)).await;
    let Some(FromWorker::Heartbeat { in_flight, .. }) = seen.frame().await else {
        panic!("nothing of b-1 before it")
    };
    assert_eq!(in_flight.iter().map(|run| run.job.as_str()).collect::<Vec<_>>(), ["a-1"]);

    attached.send(Frame::RunCompleted(report("a-1"))).await;
    assert!(matches!(seen.frame().await, Some(FromWorker::RunCompleted(_))));
    attached.send(Frame::RunProgress(progress("a-1"))).await;
    assert!(matches!(seen.frame().await, Some(FromWorker::RunProgress { .. })));
}

/// Regression: the worker of a disabled machine was restarted with another address, and was assigned items.
#[tokio::test]
async fn a_worker_is_on_the_machines_of_its_credential_and_on_no_others() {
    let machines = Machines::parse(["10.0.7.*"]).unwrap();
    let narrow = Grant { machines, ..Grant::by_secret("fleet", Role::Worker, &secret(1)) };
    let (mut served, _credentials) = guarded(vec![narrow]).await;
    let channel = served.channel().await;
    let on = |address: &str| Frame::Hello(v1::Hello { address: address.into(), ..hello() });
    let here = worker(channel.clone(), 1).await;
    here.send(on("10.0.7.3")).await;
    assert!(matches!(served.seen().await.frame().await, Some(FromWorker::Hello(_))));
    let mut elsewhere = worker(channel, 1).await;
    elsewhere.send(on("10.0.8.3")).await;
    let refused = soon("a refusal", elsewhere.frames.message()).await.unwrap_err();
    assert_eq!(reason(&refused), "PERMISSION_DENIED");
    assert!(refused.message().contains("not for workers on 10.0.8.3, only on 10.0.7.*"), "{refused:?}");
}

/// A credential at its limit opens no further stream; when one has ended, there is room again. Others have their own
/// limit.
#[tokio::test]
async fn a_credential_opens_so_many_streams_and_no_more() {
    let limits = Limits { streams: 2, ..Limits::default() };
    let few = Grant { limits, ..Grant::by_secret("few", Role::Worker, &secret(1)) };
    let other = Grant::by_secret("other", Role::Worker, &secret(2));
    let (mut served, _credentials) = guarded(vec![few, other]).await;
    let channel = served.channel().await;
    let greets = async |number| {
        let worker = worker(channel.clone(), number).await;
        worker.send(Frame::Hello(hello())).await;
        worker
    };
    let _first = greets(1).await;
    let mut seen = vec![served.seen().await];
    let second = greets(1).await;
    seen.push(served.seen().await);
    assert_eq!(seen[0].peer.limits, Some(limits), "the coordinator knows them as well");

    let (_sender, queue) = mpsc::channel(64);
    let mut client = WorkerServiceClient::new(channel.clone());
    let refused = client.session(with(ReceiverStream::new(queue), 1)).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (tonic::Code::ResourceExhausted, "QUOTA_EXCEEDED")
    );
    for part in
        ["2 worker streams of few are open", "max_streams of the credential is 2", "have max_streams raised"]
    {
        assert!(refused.message().contains(part), "{}", refused.message());
    }
    let _other = greets(2).await;
    seen.push(served.seen().await);

    drop(second);
    while seen[1].frame().await.is_some() {}
    let again = async {
        loop {
            let (_sender, queue) = mpsc::channel(64);
            if client.session(with(ReceiverStream::new(queue), 1)).await.is_ok() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("the place of the one that has ended", again).await;
}

#[tokio::test]
async fn people_change_the_jobs_of_their_credential_and_no_others() {
    let jobs = JobScope::parse(["j*"]).unwrap();
    let narrow = Grant { jobs, ..Grant::by_secret("boss", Role::Admin, &secret(4)) };
    let (served, _credentials) = guarded(vec![narrow]).await;
    let mut client = AdminServiceClient::new(served.channel().await);
    let job = |name: &str| v1::TriggerJobRequest { job: name.into(), ..Default::default() };
    client.trigger_job(with(job("j1"), 4)).await.unwrap();
    let status = client.trigger_job(with(job("k1"), 4)).await.unwrap_err();
    assert_eq!(reason(&status), "PERMISSION_DENIED");
    let file = |name: &str| v1::ApplyJobsRequest {
        text: format!("jobName: {name}\nshardingTotalCount: 1\n---\njobName: j2\nshardingTotalCount: 1\n"),
        dry_run: false,
    };
    client.apply_jobs(with(file("j1"), 4)).await.unwrap();
    assert_eq!(reason(&client.apply_jobs(with(file("k1"), 4)).await.unwrap_err()), "PERMISSION_DENIED");
    // A worker that leaves, leaves all its jobs.
    let (ours, mut theirs) = (instance("c"), instance("c"));
    theirs.job = "k1".parse().unwrap();
    let drain = || v1::DrainInstanceRequest { instance: ours.instance.to_string(), grace: None };
    *served.fake.instances.lock().unwrap() = vec![ours.clone(), theirs];
    assert_eq!(reason(&client.drain_instance(with(drain(), 4)).await.unwrap_err()), "PERMISSION_DENIED");
    *served.fake.instances.lock().unwrap() = vec![ours.clone()];
    client.drain_instance(with(drain(), 4)).await.unwrap();
    let done = served.fake.operations.lock().unwrap().clone();
    assert!(matches!(
        done.as_slice(),
        [Operation::Trigger { .. }, Operation::Apply { .. }, Operation::Drain { .. }]
    ));
}

#[tokio::test]
async fn a_backup_takes_all_jobs_and_a_restore_the_one_that_it_is_of() {
    let jobs = JobScope::parse(["j*"]).unwrap();
    let narrow = Grant { jobs, ..Grant::by_secret("boss", Role::Admin, &secret(4)) };
    let (served, credentials) = guarded(vec![narrow]).await;
    let mut client = BackupServiceClient::new(served.channel().await);
    let line = |data: Vec<u8>| v1::RestoreJobRequest { data: data.into(), ..Default::default() };
    let one = |name: &str| with(tokio_stream::iter([line(name.into())]), 4);
    assert_eq!(client.restore_job(one("j1")).await.unwrap().into_inner().job, "j1");
    assert_eq!(reason(&client.restore_job(one("k1")).await.unwrap_err()), "PERMISSION_DENIED");
    let refused = client.backup(with(v1::BackupRequest {}, 4)).await.unwrap_err();
    assert_eq!(reason(&refused), "PERMISSION_DENIED");
    assert!(refused.message().contains("a backup, which holds all jobs"), "{refused:?}");
    // Without a restriction: in parts of a bounded length, which add up to the whole.
    credentials.replace(grants());
    let mut parts = client.backup(with(v1::BackupRequest {}, 4)).await.unwrap().into_inner();
    let (mut lengths, mut left) = (Vec::new(), Vec::new());
    while let Some(part) = parts.message().await.unwrap() {
        match part.part.unwrap() {
            v1::backup_response::Part::Data(data) => lengths.push(data.len()),
            v1::backup_response::Part::LeftOut(job) => left.push((job.job, job.damaged)),
        }
    }
    assert!(lengths.len() > 1 && lengths.iter().sum::<usize>() == 600_000, "{lengths:?}");
    assert_eq!(left, [("torn".to_owned(), true)]);
    let parts = tokio_stream::iter(vec![line(vec![b'y'; 60_000]); 5]);
    let said = client.restore_job(with(parts, 4)).await.unwrap().into_inner();
    assert_eq!(said.crashed, ["300000 bytes of  by Some(\"boss\")"]);
}
