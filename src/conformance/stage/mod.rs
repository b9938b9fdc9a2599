//! Where a script is played: one worker process, its coordinators, and all that came so far, in one order. What was seen stays
//! in the log, so that a script may ask for things in any order.

mod greeting;
mod monitors;
mod runs;
mod setting;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use rosterd_domain::verify::{Line, What, judge};
use rosterd_wire::proto::v1::session_request::Frame as Said;
use rosterd_wire::proto::v1::session_response::Frame;
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Code;

pub(crate) use self::monitors::IN_EVERY_SCRIPT;
use self::monitors::{CREDENTIAL, Monitors};
pub(crate) use self::runs::{at, same};
pub(crate) use self::setting::{Before, CALM, SHORT, Setting};
use crate::broken::{Broken, Played};
use crate::coordinator::{Acknowledging, Coordinator, Out, Stream, deaf, frames, nobody};
use crate::event::{TimedEvent, WorkerEvent, channel, now};
use crate::owned::Tasks;
use crate::witness::Witness;
use crate::worker::Worker;

/// No wait of a script that passes takes as long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// After a worker's end nothing more comes of it but what is still on its way.
const LAST_FRAMES: Duration = Duration::from_secs(1);
/// Within this a worker has read what it was sent.
const IN_THE_SOCKET: Duration = Duration::from_millis(100);
/// How much of what happened is shown.
const SHOWN: usize = 40;
/// And of what the worker logged.
const LOGGED: usize = 12;

/// What all scripts share.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) program: Arc<[OsString]>,
    pub(crate) witness: Witness,
    /// Files of the scripts.
    pub(crate) folder: Arc<std::path::Path>,
    pub(crate) workers: Arc<AtomicUsize>,
}

pub(crate) struct Stage {
    pub(crate) setting: Setting,
    pub(crate) house: House,
    name: String,
    worker: Worker,
    coordinators: Vec<Coordinator>,
    /// Holds a port that never answers.
    _deaf: Option<std::net::TcpListener>,
    acknowledging: Acknowledging,
    incoming: mpsc::Receiver<TimedEvent>,
    log: Vec<TimedEvent>,
    began: Duration,
    monitors: Monitors,
    streams: Vec<Stream>,
    current: Option<usize>,
    exit: Option<ExitStatus>,
    /// Which of the script's rules is judged now.
    rule: usize,
    worker_id: String,
    welcomes: u64,
    tokens: u64,
    items: u32,
    /// Told by the script about the process.
    told: Vec<Line>,
    tasks: Tasks,
}

impl Stage {
    pub(crate) async fn start(house: &House, setting: Setting) -> io::Result<Self> {
        let tasks = Tasks::default();
        let (events, incoming) = channel();
        let (acknowledging, streams) = (Acknowledging::default(), Arc::default());
        let mut coordinators = Vec::new();
        for at in 0..setting.coordinators {
            coordinators.push(Coordinator::start(at, &events, &streams, &acknowledging, &tasks).await?);
        }
        let mut deaf_port = None;
        let mut servers = match setting.before {
            Before::Nothing => Vec::new(),
            Before::Nobody => vec![nobody()?.to_string()],
            Before::Deaf => {
                let listener = deaf()?;
                let address = listener.local_addr()?.to_string();
                deaf_port = Some(listener);
                vec![address]
            }
        };
        servers.extend(coordinators.iter().take(setting.given).map(|one| one.address.to_string()));
        let number = house.workers.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let name = format!("worker-{number}");
        let environment = BTreeMap::from([
            ("ROSTERD_SERVER", servers.join(",")),
            ("ROSTERD_CREDENTIAL", CREDENTIAL.to_owned()),
            ("CONFORMANCE_NAME", name.clone()),
            ("CONFORMANCE_JOBS", setting.jobs.join(",")),
            ("CONFORMANCE_SLOTS", setting.slots.to_string()),
            ("CONFORMANCE_DRAIN_MS", setting.drain.as_millis().to_string()),
            ("CONFORMANCE_ADDRESS", "10.0.0.7".to_owned()),
            ("CONFORMANCE_CONFIG", setting.config.to_owned()),
        ]);
        let worker = Worker::start(&house.program, &environment, &events, &tasks)?;
        Ok(Self {
            setting,
            house: house.clone(),
            name,
            worker,
            coordinators,
            _deaf: deaf_port,
            acknowledging,
            incoming,
            log: Vec::new(),
            began: now(),
            monitors: Monitors::new(setting.slots),
            streams: Vec::new(),
            current: None,
            exit: None,
            rule: 0,
            worker_id: "w1".into(),
            welcomes: 0,
            tokens: 1_000,
            items: 0,
            told: Vec::new(),
            tasks,
        })
    }

    // ---- which rule

    /// From here on the script is about the next of its rules.
    pub(crate) fn next_rule(&mut self) {
        self.rule += 1;
    }

    pub(crate) fn first_rule(&mut self) {
        self.rule = 0;
    }

    pub(crate) fn rule(&self) -> usize {
        self.rule
    }

    // ---- waiting

    /// Where the log ends now, with all that has come.
    pub(crate) fn here(&mut self) -> usize {
        self.catch_up();
        self.log.len()
    }

    /// The first thing since `from` that `pick` takes.
    pub(crate) async fn find_within<T>(
        &mut self,
        patience: Duration,
        from: usize,
        what: &str,
        mut pick: impl FnMut(&TimedEvent) -> Option<T>,
    ) -> Played<T> {
        let until = now() + patience;
        let mut at = from;
        loop {
            while let Some(entry) = self.log.get(at) {
                if let Some(found) = pick(entry) {
                    return Ok(found);
                }
                at += 1;
            }
            let left = if self.exit.is_some() { LAST_FRAMES } else { until.saturating_sub(now()) };
            match timeout(left, self.incoming.recv()).await {
                Ok(Some(entry)) => self.take(entry),
                Ok(None) | Err(_) => {
                    return Err(Broken(match self.exit {
                        Some(status) => format!("{what}: the worker has ended ({status})"),
                        None => format!("{what}: does not come within {patience:?}"),
                    }));
                }
            }
        }
    }

    pub(crate) async fn find<T>(
        &mut self,
        from: usize,
        what: &str,
        pick: impl FnMut(&TimedEvent) -> Option<T>,
    ) -> Played<T> {
        self.find_within(PATIENCE, from, what, pick).await
    }

    /// All since `from` that `pick` takes, of what has come.
    pub(crate) fn all<T>(&mut self, from: usize, pick: impl FnMut(&TimedEvent) -> Option<T>) -> Vec<T> {
        self.catch_up();
        self.log[from.min(self.log.len())..].iter().filter_map(pick).collect()
    }

    pub(crate) fn catch_up(&mut self) {
        while let Ok(entry) = self.incoming.try_recv() {
            self.take(entry);
        }
    }

    fn take(&mut self, entry: TimedEvent) {
        self.monitors.observe(&entry);
        match &entry.event {
            WorkerEvent::Opened(stream) => self.streams.push(stream.clone()),
            WorkerEvent::Exited(status) => self.exit = Some(*status),
            _ => {}
        }
        self.log.push(entry);
    }

    /// Lets time pass, in which what comes is taken in.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let until = now() + time;
        loop {
            let left = until.saturating_sub(now());
            if left.is_zero() {
                return;
            }
            match timeout(left, self.incoming.recv()).await {
                Ok(Some(entry)) => self.take(entry),
                Ok(None) => tokio::time::sleep(left).await,
                Err(_) => {}
            }
        }
    }

    // ---- the stream of now

    pub(crate) fn stream(&self) -> Played<&Stream> {
        let current =
            self.current.and_then(|number| self.streams.iter().find(|stream| stream.number == number));
        current.ok_or_else(|| Broken("there is no stream".into()))
    }

    pub(crate) async fn say(&mut self, frame: Frame) -> Played {
        let stream = self.stream()?.clone();
        self.monitors.says(stream.number, &frame);
        self.did(format!("> {}", frames::show(&frame)));
        stream.send(Out::Frame(frames::encode(frame))).await;
        Ok(())
    }

    /// Bytes as they are: what no version knows.
    pub(crate) async fn say_bytes(&mut self, what: &str, bytes: Vec<u8>) -> Played {
        let stream = self.stream()?.clone();
        self.did(format!("> {what}"));
        stream.send(Out::Frame(bytes.into())).await;
        Ok(())
    }

    /// Ends the stream: with a status, or without an error.
    pub(crate) async fn end(&mut self, code: Option<Code>) -> Played {
        let stream = self.stream()?.clone();
        self.did(format!("ends the stream: {code:?}"));
        stream.send(Out::End(code)).await;
        Ok(())
    }

    /// The coordinator dies.
    pub(crate) fn cut(&mut self) -> Played {
        let stream = self.stream()?.clone();
        self.did("cuts the connection".into());
        stream.cut();
        Ok(())
    }

    pub(crate) fn acknowledge_heartbeats(&mut self, on: bool) {
        self.did(if on { "acknowledges heartbeats" } else { "acknowledges no heartbeat" }.into());
        self.acknowledging.set(on);
    }

    pub(crate) fn did(&mut self, what: String) {
        self.log.push(TimedEvent { at: now(), event: WorkerEvent::Did(what) });
    }

    /// A frame on the stream of now since `from`.
    pub(crate) async fn frame<T>(
        &mut self,
        from: usize,
        what: &str,
        mut pick: impl FnMut(&Said) -> Option<T>,
    ) -> Played<T> {
        let current = self.current;
        self.find(from, what, |entry| match &entry.event {
            WorkerEvent::Frame(number, Some(frame)) if Some(*number) == current => pick(frame),
            _ => None,
        })
        .await
    }

    /// The frames on the stream of now, with when they came.
    pub(crate) fn frames<T>(
        &mut self,
        from: usize,
        mut pick: impl FnMut(&Said) -> Option<T>,
    ) -> Vec<(Duration, T)> {
        let current = self.current;
        self.all(from, |entry| match &entry.event {
            WorkerEvent::Frame(number, Some(frame)) if Some(*number) == current => {
                Some((entry.at, pick(frame)?))
            }
            _ => None,
        })
    }

    // ---- the process

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.did(format!("signal {signal:?}"));
        self.worker.signal(signal);
    }

    /// It stands still, and what it has started too. What it was sent before has been read by then.
    pub(crate) async fn freeze(&mut self) -> Played {
        self.pass(IN_THE_SOCKET).await;
        self.worker.signal_all(Signal::STOP);
        let until = now() + PATIENCE;
        // One thread after the other stops.
        while self.worker.stands_still() == Some(false) {
            if now() > until {
                return Err(Broken("the process does not stop by SIGSTOP".into()));
            }
            self.pass(Duration::from_millis(1)).await;
        }
        self.tell_judge(What::Frozen);
        self.did("the process stands still".into());
        Ok(())
    }

    pub(crate) fn thaw(&mut self) {
        self.tell_judge(What::Thawed);
        self.did("lets the process go on".into());
        self.worker.signal_all(Signal::CONT);
    }

    fn tell_judge(&mut self, what: What) {
        let at = u64::try_from(now().as_nanos()).unwrap_or(u64::MAX);
        let text = format!(r#"{{"at":{at},"worker":"{}","what":"{}"}}"#, self.name, what.as_str());
        self.told.extend(serde_json::from_str::<Line>(&text));
    }

    pub(crate) fn memory(&self) -> Option<u64> {
        self.worker.memory()
    }

    /// Its end, and the exit code.
    pub(crate) async fn exits(&mut self, patience: Duration) -> Played<Option<i32>> {
        let from = 0;
        let status = self.find_within(patience, from, "the worker's end", |entry| match &entry.event {
            WorkerEvent::Exited(status) => Some(*status),
            _ => None,
        });
        Ok(status.await?.code())
    }

    /// What it said on standard error with this in it.
    pub(crate) fn stderr(&self, text: &str) -> Vec<String> {
        self.worker.log().into_iter().filter(|line| line.contains(text)).collect()
    }

    /// It says so, sooner or later.
    pub(crate) async fn says_on_stderr(&mut self, text: &str) -> Played {
        let until = now() + PATIENCE;
        while self.stderr(text).is_empty() {
            if now() > until {
                return Err(Broken(format!("nothing on standard error has {text:?} in it")));
            }
            self.pass(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.catch_up();
        self.exit.is_some()
    }

    // ---- what is forgiven

    /// How long this machine has kept anybody waiting since then, and a little.
    pub(crate) fn slack(&self, since: Duration) -> Duration {
        Duration::from_millis(150) + self.house.witness.worst(since) * 3
    }

    // ---- the end

    /// What was seen apart from what the script asked: rules, and why they are broken, if they are.
    pub(crate) fn close(&mut self) -> Vec<(&'static str, Option<String>)> {
        self.catch_up();
        self.monitors.close(now());
        let mut found: Vec<(&'static str, Option<String>)> = IN_EVERY_SCRIPT
            .iter()
            .filter(|rule| self.monitors.seen.contains(*rule))
            .map(|rule| {
                let of = |(broken, why): &(&'static str, String)| (broken == rule).then(|| why.clone());
                (*rule, self.monitors.breaches.iter().find_map(of))
            })
            .collect();
        let mut lines: Vec<Line> = self.all(0, |entry| match &entry.event {
            WorkerEvent::Line(line) => Some(line.clone()),
            _ => None,
        });
        if lines.iter().any(|line| line.what == What::Start) {
            lines.append(&mut self.told);
            let faults = judge(&lines, u64::MAX).faults;
            found.push(("RUN-32", faults.first().map(|fault| format!("{}: {}", fault.rule, fault.text))));
        }
        found
    }

    /// What happened last, for people.
    pub(crate) fn transcript(&self) -> Vec<String> {
        let mut entries: Vec<&TimedEvent> = self.log.iter().collect();
        // What the script did stands before what had come and was not taken in yet.
        entries.sort_by_key(|entry| entry.at);
        let shown = entries.into_iter().map(|entry| {
            let what = match &entry.event {
                WorkerEvent::Opened(stream) => {
                    format!("< stream {} at coordinator {}", stream.number, stream.at)
                }
                WorkerEvent::Frame(number, Some(frame)) => {
                    format!("< [{number}] {}", frames::show_said(frame))
                }
                WorkerEvent::Frame(number, None) => format!("< [{number}] an unknown frame"),
                WorkerEvent::Closed(number, how) => format!("< [{number}] closed: {how}"),
                WorkerEvent::Line(line) => {
                    let Line { job, item, token, attempt, detail, .. } = line;
                    format!(
                        "  {} {job}/{item}#{token} attempt {attempt} {}",
                        line.what.as_str(),
                        frames::brief(detail)
                    )
                }
                WorkerEvent::Garbage(text) => format!("  not a line of a log: {text}"),
                WorkerEvent::Exited(status) => format!("  the worker has ended: {status}"),
                WorkerEvent::Did(what) => what.clone(),
            };
            format!("{:8.3} {what}", entry.at.saturating_sub(self.began).as_secs_f64())
        });
        let all: Vec<String> = shown.collect();
        let mut last = all[all.len().saturating_sub(SHOWN)..].to_vec();
        let log = self.worker.log();
        last.extend(log[log.len().saturating_sub(LOGGED)..].iter().map(|line| format!("    stderr: {line}")));
        last
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.tasks.abort();
    }
}
