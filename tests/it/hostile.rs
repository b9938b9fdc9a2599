//! A worker with a minimal credential sends every kind of frame, as fast as it can, for a minute: other workers are
//! affected only by their share of the machine.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use rosterd_wire::proto::v1::worker_service_client::WorkerServiceClient;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::harness::*;

/// A disk may stall for a second by itself.
const EVERY_OTHER_SECOND: &str = "0/2 * * * * ?";
const MINUTE: Duration = Duration::from_secs(60);
/// Open streams of the hostile worker, each on its own connection.
const STREAMS: usize = 12;
/// Items of the honest job.
const ITEMS: u32 = 3;

/// Adds its credential to a request.
pub fn shown<T>(message: T, secret: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {secret}").parse().unwrap());
    request
}

/// A stream, whose first frame is a Hello.
pub async fn open(
    channel: Channel,
    secret: &str,
    hello: v1::Hello,
) -> Result<(mpsc::Sender<v1::SessionRequest>, Streaming<v1::SessionResponse>), tonic::Status> {
    let (sender, queue) = mpsc::channel(16);
    let _gone = sender.send(v1::SessionRequest { frame: Some(Frame::Hello(hello)) }).await;
    let mut client = WorkerServiceClient::new(channel);
    let frames = client.session(shown(ReceiverStream::new(queue), secret)).await?.into_inner();
    Ok((sender, frames))
}

pub fn hello(name: &str) -> v1::Hello {
    v1::Hello { stream_number: 1, slots: 64, address: name.into(), client: name.into(), ..Default::default() }
}

// ---- the hostile one

/// Its frames, one after the other: all of them parse, and it has no right to send any.
fn frames(turn: u64) -> Frame {
    let run = |job: String, item: u64, token: u64| v1::RunRef {
        job,
        item: u32::try_from(item % 1000).unwrap_or(0),
        token,
    };
    let long = |n: u64| format!("{}{n}", "x".repeat(100));
    match turn % 12 {
        // Thousands of missing jobs, and jobs of others.
        0 => Frame::Heartbeat(v1::Heartbeat {
            sequence: turn,
            runs_in_flight: (0..8000).map(|n| run(long(turn * 8000 + n), n, 1)).collect(),
            lease: None,
        }),
        1 => Frame::Heartbeat(v1::Heartbeat {
            sequence: turn,
            runs_in_flight: (0..8000).map(|n| run("report".into(), n % 4, n)).collect(),
            lease: None,
        }),
        // The longest that is accepted, with deep nesting.
        2 => Frame::Register(v1::Register {
            job: format!("alpha-{turn}"),
            handler_type: "h".into(),
            config: format!("jobName: alpha-{turn}\nprops: {}", "[{a: ".repeat(30) + &"[1],".repeat(15_000)),
            overwrite: true,
        }),
        3 => Frame::Register(v1::Register {
            job: format!("alpha-{turn}"),
            handler_type: "h".into(),
            config: String::new(),
            overwrite: false,
        }),
        4 => Frame::Register(v1::Register { job: "report".into(), ..Default::default() }),
        5 => Frame::RunCompleted(v1::RunCompleted {
            run: Some(run(
                ["report", "alpha-0"][usize::from(turn.is_multiple_of(2))].into(),
                turn % 4,
                i64::MAX as u64,
            )),
            outcome: v1::RunOutcome::Succeeded.into(),
            output: "x".repeat(64 << 10),
            ..Default::default()
        }),
        6 => Frame::RunProgress(v1::RunProgress {
            run: Some(run("report".into(), turn % 4, turn)),
            percent: 7,
            message: "\u{1b}]0;forged\u{7}\nforged".repeat(40),
            offset: Some(vec![b'x'; 64 << 10].into()),
        }),
        7 => Frame::Unregister(v1::Unregister { job: "report".into() }),
        8 => Frame::RunStarted(v1::RunStarted {
            run: Some(run("report".into(), turn % 4, turn)),
            attempt: u32::MAX,
            ..Default::default()
        }),
        // The shortest possible lease, which should only affect its own runs.
        9 => Frame::Heartbeat(v1::Heartbeat {
            sequence: u64::MAX,
            lease: Some(prost_types::Duration { seconds: 0, nanos: 1 }),
            ..Default::default()
        }),
        // Now and then a frame that ends its stream, or itself.
        10 if turn.is_multiple_of(5) => Frame::Goodbye(v1::Goodbye {}),
        10 if turn.is_multiple_of(3) => Frame::Hello(hello("hostile")),
        10 => Frame::DrainRequest(v1::DrainRequest {}),
        _ => Frame::CallbackDone(v1::CallbackDone {
            callback_id: long(turn),
            error: "x".repeat(8 << 10),
            timed_out: true,
        }),
    }
}

/// It names the maximum of jobs, requests as many, and has thousands of runs of as many more.
fn laden(turn: u64) -> v1::Hello {
    let names = |what: &str, job: &str| -> Vec<String> {
        (0..1000).map(|n| format!("{job}-{what}-{turn}-{n}")).collect()
    };
    let run = |n: u32| v1::RunRef {
        job: ["report".to_owned(), format!("alpha-runs-{turn}-{n}")][(n % 2) as usize].clone(),
        item: n,
        token: u64::from(n),
    };
    v1::Hello {
        jobs: names("had", "alpha"),
        jobs_asked: names("asked", "alpha"),
        runs_in_flight: (0..5000).map(run).collect(),
        slots: 4096,
        ..hello("hostile")
    }
}

/// Sends as fast as it can; when a stream ends, it reconnects.
async fn flood(url: String, secret: String, on: Arc<AtomicBool>, sent: Arc<AtomicU64>) {
    let mut turn = 0;
    while on.load(Ordering::Relaxed) {
        let channel = tonic::transport::Endpoint::from_shared(url.clone()).unwrap().connect_lazy();
        let first = if turn % 2 == 0 { hello("hostile") } else { laden(turn) };
        let Ok((sender, mut said)) = open(channel, &secret, first).await else {
            turn += 1;
            tokio::task::yield_now().await;
            continue;
        };
        let reads = tokio::spawn(async move { while let Ok(Some(_)) = said.message().await {} });
        while on.load(Ordering::Relaxed) {
            turn += 1;
            let frame = v1::SessionRequest { frame: Some(frames(turn)) };
            let Ok(Ok(())) = tokio::time::timeout(Duration::from_secs(1), sender.send(frame)).await else {
                break;
            };
            sent.fetch_add(1, Ordering::Relaxed);
        }
        reads.abort();
    }
}

// ---- the honest one

/// The observations of an honest worker.
#[derive(Debug, Default)]
struct Served {
    /// The longest time from a heartbeat to its acknowledgement, less the delay of this process itself.
    slowest: Duration,
    acknowledged: u32,
    ran: u64,
}

/// An honest worker, until it is told to end: each run ends at once.
async fn honest(url: String, secret: String, name: &str, until: Arc<AtomicBool>) -> Served {
    let channel = tonic::transport::Endpoint::from_shared(url).unwrap().connect_lazy();
    let (sender, mut said) = open(channel, &secret, hello(name)).await.unwrap();
    let send = |frame| sender.send(v1::SessionRequest { frame: Some(frame) });
    // A heartbeat before the Welcome is early, and not acknowledged.
    let (mut served, mut sequence, mut sent_at, mut welcome) = (Served::default(), 0, None, false);
    let mut beat = tokio::time::interval(Duration::from_millis(500));
    while !until.load(Ordering::Relaxed) {
        tokio::select! {
            at = beat.tick(), if welcome => {
                let late = at.elapsed();
                if let Some((since, _)) = sent_at {
                    let since: Instant = since;
                    served.slowest = served.slowest.max(since.elapsed().saturating_sub(late));
                } else {
                    sequence += 1;
                    sent_at = Some((Instant::now(), late));
                    send(Frame::Heartbeat(v1::Heartbeat { sequence, ..Default::default() })).await.unwrap();
                }
            }
            frame = said.message() => match frame.unwrap().expect("the stream goes on").frame.unwrap() {
                Said::Welcome(_) => {
                    welcome = true;
                    let register = v1::Register { job: "report".into(), ..Default::default() };
                    send(Frame::Register(register)).await.unwrap();
                }
                Said::HeartbeatAck(ack) if ack.sequence == sequence => {
                    let (since, late) = sent_at.take().expect("it was sent");
                    served.slowest = served.slowest.max(since.elapsed().saturating_sub(late));
                    served.acknowledged += 1;
                }
                Said::Trigger(trigger) => {
                    served.ran += 1;
                    let outcome = v1::RunOutcome::Succeeded.into();
                    let report = v1::RunCompleted { run: trigger.run, outcome, attempt: 1, ..Default::default() };
                    send(Frame::RunCompleted(report)).await.unwrap();
                }
                Said::ReportAck(ack) => assert_eq!(ack.result(), v1::ReportResult::Accepted, "{ack:?}"),
                Said::Cancel(cancel) => panic!("nobody may stop its runs: {cancel:?}"),
                Said::Shutdown(shutdown) => panic!("nobody may shut it down: {shutdown:?}"),
                _ => {}
            },
        }
    }
    served
}

/// New workers attach one after the other, until the end: the longest time from a Hello to its Welcome.
async fn comers(url: String, secret: String, until: Arc<AtomicBool>) -> Duration {
    let mut slowest = Duration::ZERO;
    while !until.load(Ordering::Relaxed) {
        let channel = tonic::transport::Endpoint::from_shared(url.clone()).unwrap().connect_lazy();
        let since = Instant::now();
        let (sender, mut said) = open(channel, &secret, hello("comer")).await.expect("it is let in");
        let frame = said.message().await.expect("it is welcome").expect("the stream goes on").frame.unwrap();
        assert!(matches!(frame, Said::Welcome(_)), "{frame:?}");
        slowest = slowest.max(since.elapsed());
        sender.send(v1::SessionRequest { frame: Some(Frame::Goodbye(v1::Goodbye {})) }).await.unwrap();
        while let Ok(Some(_)) = said.message().await {}
        tokio::time::sleep(LOOK * 20).await;
    }
    slowest
}

/// The resident memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Adds a credential to the file, and returns its secret.
pub fn credential(file: &Path, name: &str, more: &[&str]) -> String {
    let mut command = std::process::Command::new(binary(false));
    clean(&mut command);
    command.args(["credentials", "add", name, "--file"]).arg(file).args(more);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// A separate suite: for a minute it leaves nothing of the machine for other tests.
#[test]
#[ignore = "takes a minute and the whole machine: cargo xtask test --only hostile"]
#[allow(clippy::print_stdout, reason = "the figures are of interest")]
fn for_a_minute_a_hostile_worker_keeps_no_other_from_its_work() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut cluster, secrets) = runtime.block_on(async {
        let mut cluster = Cluster::prepare(LONG, &[]);
        let file = cluster.home.path("credentials.toml");
        let worker = |name: &str, jobs: &str| credential(&file, name, &["--role", "worker", "--jobs", jobs]);
        let secrets = [
            credential(&file, "boss", &["--role", "admin"]),
            worker("hostile", "alpha-*"),
            worker("honest", "report"),
        ];
        cluster.settings.push(format!("credentials={}", file.display()));
        cluster.launch();
        cluster.listening().await;
        (cluster, secrets)
    });
    let [boss, hostile, honest_secret] = secrets;
    let mut admin = {
        let _on = runtime.enter();
        cluster.admin()
    };
    let text = job("report", ITEMS, json!({"cron": EVERY_OTHER_SECOND, "misfire": true}));
    let applied = v1::ApplyJobsRequest { text, dry_run: false };
    runtime.block_on(admin.apply_jobs(shown(applied, &boss))).unwrap();

    // Separate threads: the flood's load on this process must not affect the measurement.
    let over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = ["honest-1", "honest-2"]
        .into_iter()
        .map(|name| {
            let (url, secret, over) = (cluster.url(), honest_secret.clone(), over.clone());
            std::thread::spawn(move || {
                let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                own.block_on(honest(url, secret, name, over))
            })
        })
        .collect();
    let (url, secret, ends) = (cluster.url(), honest_secret.clone(), over.clone());
    let comers = std::thread::spawn(move || {
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        own.block_on(comers(url, secret, ends))
    });
    let counters = |admin: &mut AdminServiceClient<Channel>| {
        let asked = shown(v1::GetJobRequest { job: "report".into(), ..Default::default() }, &boss);
        let answer = runtime.block_on(admin.get_job(asked)).unwrap().into_inner();
        answer.summary.unwrap().counters.unwrap()
    };
    let deadline = Instant::now() + PATIENCE;
    while counters(&mut admin).runs < u64::from(ITEMS) * 3 {
        assert!(Instant::now() < deadline, "the job does not fire");
        std::thread::sleep(LOOK);
    }

    let before = (counters(&mut admin), resident(cluster.coordinator.as_ref().unwrap().id()));
    let (on, sent) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let floods: Vec<_> = (0..STREAMS)
        .map(|_| runtime.spawn(flood(cluster.url(), hostile.clone(), on.clone(), sent.clone())))
        .collect();
    let most_in = || {
        let (ends, mut most) = (Instant::now() + MINUTE / 2, 0);
        while Instant::now() < ends {
            most = most.max(resident(cluster.coordinator.as_ref().unwrap().id()));
            std::thread::sleep(Duration::from_millis(100));
        }
        most
    };
    let (first, most) = (most_in(), most_in());
    let during = counters(&mut admin);
    on.store(false, Ordering::Relaxed);
    for flood in floods {
        runtime.block_on(flood).unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let served: Vec<Served> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    let welcome = comers.join().unwrap();
    let sent = sent.load(Ordering::Relaxed);
    println!("{sent} frames sent; {served:?}; slowest Welcome {welcome:?}");
    println!("{} KiB before, {} and {} KiB at most in the halves", before.1 >> 10, first >> 10, most >> 10);

    // A fire every other second, give or take the one in flight at either end.
    let fired = during.runs - before.0.runs;
    assert!(fired >= (MINUTE.as_secs() / 2 - 2) * u64::from(ITEMS), "fired {fired}: {during:?}");
    assert_eq!(during.missed, before.0.missed, "no fire is missed");
    assert_eq!((during.misfired, during.crashed, during.failed), (0, 0, 0), "{during:?}");
    assert!(sent > 1000, "it sends at full rate: {sent}");
    for served in &served {
        assert!(served.acknowledged >= 50, "{served:?}");
        assert!(
            served.slowest < Duration::from_secs(1),
            "each heartbeat is acknowledged in time: {served:?}"
        );
    }
    // Clients wait this long for their Welcome.
    assert!(welcome < Duration::from_secs(3), "who comes is welcomed in time: {welcome:?}");
    assert!(first.max(most) < 300 << 20, "{first} and {most} bytes of memory");
    // The allocator keeps memory for reuse: the coordinator keeps nothing of the frames.
    assert!(most < first + (24 << 20), "it grows: {first} bytes in the first half, {most} in the second");
    let back = || resident(cluster.coordinator.as_ref().unwrap().id()) < before.1 + (48 << 20);
    runtime.block_on(until("its memory to be back to what it was", back));
    cluster.kill_coordinator();
}
