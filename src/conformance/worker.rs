//! The worker under trial: a process of its own, whose lines are read and who is killed with its group.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rosterd_domain::verify::Line;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;

use crate::event::{Events, WorkerEvent};
use crate::owned::Tasks;

/// How many lines of its log are kept.
const LOG_LINES: usize = 500;
/// The longest of them.
const LOG_LINE: usize = 1_000;

pub(crate) struct Worker {
    pid: Pid,
    exited: Arc<AtomicBool>,
    log: Arc<Mutex<VecDeque<String>>>,
}

impl Worker {
    pub(crate) fn start(
        program: &[OsString],
        environment: &BTreeMap<&'static str, String>,
        events: &Events,
        tasks: &Tasks,
    ) -> io::Result<Self> {
        let [first, arguments @ ..] = program else { return Err(io::ErrorKind::InvalidInput.into()) };
        let mut child = Command::new(first)
            .args(arguments)
            .env_remove("ROSTERD_CA")
            .env_remove("ROSTERD_CERT")
            .env_remove("ROSTERD_KEY")
            .env_remove("ROSTERD_INSECURE_CREDENTIAL")
            .env_remove("CONFORMANCE_LOG")
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).unwrap_or_default()));
        let pid = pid.ok_or(io::ErrorKind::NotFound)?;
        let exited = Arc::new(AtomicBool::new(false));
        let log = Arc::new(Mutex::new(VecDeque::new()));
        let (out, err) = (child.stdout.take(), child.stderr.take());
        if let Some(err) = err {
            let log = log.clone();
            tasks.spawn(lines(err, move |line| {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                if log.len() == LOG_LINES {
                    log.pop_front();
                }
                log.push_back(line.chars().take(LOG_LINE).collect());
                std::future::ready(())
            }));
        }
        let (told, over) = (events.clone(), exited.clone());
        tasks.spawn(async move {
            if let Some(out) = out {
                // Its lines come before its end.
                lines(out, |line| {
                    let told = told.clone();
                    async move { told.tell(parse(&line)).await }
                })
                .await;
            }
            if let Ok(status) = child.wait().await {
                over.store(true, Ordering::SeqCst);
                told.tell(WorkerEvent::Exited(status)).await;
            }
        });
        Ok(Self { pid, exited, log })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if !self.exited.load(Ordering::SeqCst) {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// With all that it has started.
    pub(crate) fn signal_all(&self, signal: Signal) {
        if !self.exited.load(Ordering::SeqCst) {
            let _ = kill_process_group(self.pid, signal);
        }
    }

    /// Whether all its threads stand still; none: this system does not say.
    pub(crate) fn stands_still(&self) -> Option<bool> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid.as_raw_nonzero())).ok()?;
        // The state follows the name, which stands in brackets and may have any in it.
        let is_stopped =
            |stat: String| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'));
        let mut stats =
            threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
        Some(stats.all(is_stopped))
    }

    /// How much memory it has in use, in bytes; none: this system does not say.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kilobytes * 1024)
    }

    /// The last that it said on standard error.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.signal_all(Signal::KILL);
    }
}

async fn lines<R: AsyncRead + Unpin, F: Future<Output = ()>>(from: R, mut each: impl FnMut(String) -> F) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while let Ok(1..) = from.read_until(b'\n', &mut line).await {
        each(String::from_utf8_lossy(&line).trim_end().to_owned()).await;
        line.clear();
    }
}

fn parse(line: &str) -> WorkerEvent {
    match serde_json::from_str::<Line>(line) {
        Ok(line) => WorkerEvent::Line(line),
        Err(error) => {
            WorkerEvent::Garbage(format!("{error}: {}", line.chars().take(LOG_LINE).collect::<String>()))
        }
    }
}
