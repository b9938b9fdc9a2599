//! Workers' frames, one by one, and whole conversations with a coordinator.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use rosterd_coordinator::driver::{NoHistory, coordinator};
use rosterd_coordinator::handle::{Handle, Operation, Peer, WorkerStream};
use rosterd_coordinator::settings::Settings;
use rosterd_domain::id::{CoordinatorId, JobName, Namespace};
use rosterd_domain::time::Time;
use rosterd_registry::memory::{MemoryStore, SessionOptions};
use rosterd_runtime::clock::Simulated;
use rosterd_session::frame::{RunRef, ToWorker};
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::{convert, status};

pub fn frames(input: &[u8]) -> String {
    let frame = match v1::SessionRequest::decode(input) {
        Ok(frame) => frame,
        Err(_) => return "no message".into(),
    };
    match convert::from_worker(frame) {
        Ok(None) => "unknown".into(),
        Ok(Some(frame)) => {
            let text = format!("{frame:?}");
            text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
        }
        Err(defect) => {
            let text = status::malformed(&defect.malformed).to_string();
            assert!(text.len() <= 64 << 10, "a refusal of {} bytes", text.len());
            text.chars().filter(char::is_ascii_lowercase).take(60).collect()
        }
    }
}

/// Bytes as choices.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    /// Mostly small, sometimes at an edge.
    fn number(&mut self) -> u64 {
        match self.byte() {
            byte @ 0..=200 => u64::from(byte % 8),
            201..=220 => u64::from(u32::MAX),
            221..=240 => u64::MAX,
            _ => i64::MAX.unsigned_abs(),
        }
    }
}

/// The state of a worker on a stream of its own.
#[derive(Default)]
struct Side {
    stream: Option<WorkerStream>,
    identity: (String, String),
    number: u64,
    triggers: Vec<RunRef>,
    callbacks: Vec<String>,
    heard: u64,
}

const JOBS: [&str; 4] = ["words", "by-hand", "no such", "b@d"];
/// Longest conversation, in frames.
const MOST: usize = 400;

/// Frames of two workers, and their times; the coordinator must survive them, and serve the next worker.
pub fn conversation(input: &[u8]) -> String {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (handle, driver) = start(&MemoryStore::new(&Namespace::new("default").unwrap()));
        let driver = tokio::spawn(driver.run());
        apply(&handle).await;
        let mut sides = [Side::default(), Side::default()];
        let mut choices = Choices(input);
        let mut said = 0;
        while !choices.0.is_empty() && said < MOST {
            said += 1;
            step(&handle, &mut sides, &mut choices).await;
            assert!(!driver.is_finished(), "the coordinator has ended");
        }
        drop(sides);
        let kind = serves(&handle).await;
        assert!(!driver.is_finished(), "the coordinator has ended");
        handle.stop();
        driver.await.unwrap();
        kind
    })
}

/// Two jobs: one with a schedule, and one with manual triggers whose runs are announced.
pub async fn apply(handle: &Handle) {
    let applied = "jobName: words\ncron: 0/5 * * * * ?\nshardingTotalCount: 3\nfailover: true\n---\n\
                   jobName: by-hand\nshardingTotalCount: 2\nrosterd:\n  guarantee:\n    started: true\n    completed: true\n";
    let apply = Operation::apply(applied, false).unwrap();
    handle.operate_as(apply, None).await.unwrap();
}

/// A coordinator on a store.
pub fn start(store: &MemoryStore) -> (Handle, rosterd_coordinator::driver::Driver) {
    let namespace = Namespace::new("default").unwrap();
    let registry = Arc::new(store.open("fuzz", SessionOptions::default()));
    let mut settings = Settings::new(namespace, CoordinatorId::new("10.0.0.1@-@c").unwrap());
    settings.lease = Duration::from_secs(3);
    let clock = Arc::new(Simulated::new(Time::from_seconds(1_795_219_200)));
    let mut last = 0;
    let ids = Box::new(move || {
        last += 1;
        format!("id-{last}")
    });
    coordinator(settings, registry, clock, ids, Box::new(NoHistory), Box::new(NoHistory))
}

async fn step(handle: &Handle, sides: &mut [Side; 2], choices: &mut Choices<'_>) {
    let side = &mut sides[usize::from(choices.below(2))];
    match choices.below(20) {
        0 => side.stream = handle.open(Peer { address: "there".into(), ..Peer::default() }).ok(),
        1 => side.stream = None,
        2..=4 => tokio::time::sleep(Duration::from_millis(1 << choices.below(13))).await,
        5 => {
            let job = JobName::new(JOBS[usize::from(choices.below(2))]).unwrap();
            let items = Vec::new();
            let asked = Operation::Trigger { job, items, after_current: choices.below(2) == 0 };
            let _ = handle.operate_as(asked, None).await;
        }
        6 => {
            let job = JobName::new(JOBS[usize::from(choices.below(2))]).unwrap();
            let asked = Operation::Pause { job, paused: choices.below(2) == 0 };
            let _ = handle.operate_as(asked, None).await;
        }
        _ => {
            let frame = said(side, choices);
            say(side, frame, choices);
        }
    }
    // Lets the coordinator handle it.
    tokio::time::sleep(Duration::from_millis(1)).await;
    hear(side);
}

/// Sends a frame over the wire: as bytes, of which one may be wrong.
fn say(side: &Side, frame: Frame, choices: &mut Choices<'_>) {
    let mut bytes = v1::SessionRequest { frame: Some(frame) }.encode_to_vec();
    if choices.byte() == 0xff && !bytes.is_empty() {
        let at = usize::from(choices.byte()) % bytes.len();
        bytes[at] ^= choices.byte();
    }
    let Ok(frame) = v1::SessionRequest::decode(&bytes[..]) else { return };
    if let (Ok(Some(frame)), Some(stream)) = (convert::from_worker(frame), &side.stream)
        && let Some(room) = stream.inbox.try_room(bytes.len())
    {
        let _ = stream.inbox.put(frame, room);
    }
}

fn said(side: &mut Side, choices: &mut Choices<'_>) -> Frame {
    match choices.below(12) {
        0 | 1 => Frame::Hello(hello(side, choices)),
        2 => Frame::Register(v1::Register {
            job: JOBS[usize::from(choices.below(4))].into(),
            handler_type: if choices.below(4) == 0 { "other".into() } else { String::new() },
            config: match choices.below(4) {
                0 => "jobName: words\nshardingTotalCount: 5\ncron: 0/2 * * * * ?".into(),
                1 => "nonsense: [".into(),
                _ => String::new(),
            },
            overwrite: choices.below(3) == 0,
        }),
        3 => Frame::Unregister(v1::Unregister { job: JOBS[usize::from(choices.below(4))].into() }),
        4..=6 => Frame::Heartbeat(v1::Heartbeat {
            sequence: choices.number(),
            runs_in_flight: (0..choices.below(4)).map(|_| reference(side, choices)).collect(),
            lease: Some(prost_types::Duration { seconds: i64::from(choices.below(10)), nanos: 0 }),
        }),
        7 => Frame::RunStarted(v1::RunStarted {
            run: Some(reference(side, choices)),
            started_at: None,
            attempt: u32::from(choices.byte()),
        }),
        8 => Frame::RunCompleted(completed(side, choices)),
        9 => Frame::CallbackDone(v1::CallbackDone {
            callback_id: side.callbacks.pop().unwrap_or_else(|| "none".into()),
            error: if choices.below(2) == 0 { "it failed".into() } else { String::new() },
            timed_out: choices.below(4) == 0,
        }),
        10 => Frame::DrainRequest(v1::DrainRequest {}),
        _ => Frame::Goodbye(v1::Goodbye {}),
    }
}

fn hello(side: &mut Side, choices: &mut Choices<'_>) -> v1::Hello {
    side.number += u64::from(choices.below(3));
    let (worker_id, resume_key) = match choices.below(4) {
        0 => (String::new(), String::new()),
        1 => (side.identity.0.clone(), "another key".to_owned()),
        _ => side.identity.clone(),
    };
    v1::Hello {
        worker_id,
        resume_key,
        stream_number: if choices.below(8) == 0 { choices.number() } else { side.number.max(1) },
        address: "10.0.0.7".into(),
        slots: 1 + u32::from(choices.below(8)),
        runs_in_flight: (0..choices.below(3)).map(|_| reference(side, choices)).collect(),
        jobs: (0..choices.below(3)).map(|n| JOBS[usize::from(n)].to_owned()).collect(),
        ..v1::Hello::default()
    }
}

/// A run that it was sent, or another one.
fn reference(side: &Side, choices: &mut Choices<'_>) -> v1::RunRef {
    let which = usize::from(choices.byte());
    match side.triggers.get(which % (side.triggers.len() + 1)) {
        Some(run) => v1::RunRef { job: run.job.to_string(), item: run.item.0, token: run.token.0 },
        None => v1::RunRef {
            job: JOBS[usize::from(choices.below(4))].into(),
            item: u32::try_from(choices.number()).unwrap_or(u32::MAX),
            token: choices.number(),
        },
    }
}

fn completed(side: &Side, choices: &mut Choices<'_>) -> v1::RunCompleted {
    v1::RunCompleted {
        run: Some(reference(side, choices)),
        outcome: i32::from(choices.below(9)),
        error: "why".into(),
        processed: choices.number(),
        failed: choices.number(),
        offset: (choices.below(3) == 0).then(|| vec![choices.byte(); 10].into()),
        attempt: u32::from(choices.byte()),
        ..v1::RunCompleted::default()
    }
}

/// Keeps the frames of the coordinator, and checks that they can be encoded.
fn hear(side: &mut Side) {
    let Some(stream) = &mut side.stream else { return };
    while let Some(frame) = stream.outbox.try_recv() {
        side.heard += 1;
        match &frame {
            ToWorker::Welcome(welcome) => {
                side.identity = (welcome.worker.to_string(), welcome.resume_key.clone());
            }
            ToWorker::Trigger(trigger) => side.triggers.push(trigger.run.clone()),
            ToWorker::Callback { id, .. } => side.callbacks.push(id.clone()),
            _ => {}
        }
        // Refusals end a stream; all else is a frame.
        let _ = convert::to_worker(frame);
    }
    let old = side.triggers.len().saturating_sub(50);
    side.triggers.drain(..old);
}

/// A new worker must be welcomed, and answered.
pub async fn serves(handle: &Handle) -> String {
    let mut stream = handle.open(Peer::default()).unwrap();
    let tell = |stream: &WorkerStream, frame: Frame| {
        let frame = convert::from_worker(v1::SessionRequest { frame: Some(frame) });
        let room = stream.inbox.try_room(1).unwrap();
        stream.inbox.put(frame.unwrap().unwrap(), room).unwrap();
    };
    let hello = v1::Hello { stream_number: 1, address: "10.0.0.9".into(), slots: 64, ..v1::Hello::default() };
    tell(&stream, Frame::Hello(hello));
    let mut welcome = false;
    for sequence in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if welcome && sequence % 10 == 0 {
            tell(&stream, Frame::Heartbeat(v1::Heartbeat { sequence, ..v1::Heartbeat::default() }));
        }
        while let Some(frame) = stream.outbox.try_recv() {
            match frame {
                // Frames before this are early, and not answered.
                ToWorker::Welcome(_) => {
                    welcome = true;
                    let register = v1::Register { job: "words".into(), ..v1::Register::default() };
                    tell(&stream, Frame::Register(register));
                }
                ToWorker::Registered { .. } => return "registered".into(),
                ToWorker::Refused { refusal, .. } => return format!("{:?}", refusal.code),
                _ => {}
            }
        }
    }
    panic!("whoever comes after is not served; it is welcome: {welcome}");
}
