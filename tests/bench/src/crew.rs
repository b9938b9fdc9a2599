//! Worker processes, and their output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::Result;
use crate::machine::Used;
use crate::server::end;
use crate::worker::{MODE, Seen, Spec};

/// How long due runs may still take to reach user code.
const ON_ITS_WAY: Duration = Duration::from_millis(1500);

/// Worker processes of one run, ended with it.
pub(crate) struct Crew {
    members: Vec<Member>,
    heard: Receiver<(usize, String)>,
    tell: Sender<(usize, String)>,
}

struct Member {
    child: Child,
    orders: Option<ChildStdin>,
}

impl Crew {
    pub(crate) fn new() -> Self {
        let (tell, heard) = channel();
        Self { members: Vec::new(), heard, tell }
    }

    /// Starts a worker process. Returns its number.
    pub(crate) fn start(&mut self, spec: &Spec) -> Result<usize> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(MODE).arg(serde_json::to_string(spec)?);
        self.start_program(command)
    }

    /// Starts another program with the input and output of workers. Returns its number.
    pub(crate) fn start_program(&mut self, mut command: Command) -> Result<usize> {
        let number = self.members.len();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (orders, says) = (child.stdin.take(), child.stdout.take());
        self.members.push(Member { child, orders });
        let tell = self.tell.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(says.ok_or("no pipe")?).lines() {
                tell.send((number, line?))?;
            }
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        });
        Ok(number)
    }

    /// The next line of any of them, if one comes before `until`.
    pub(crate) fn hear(&mut self, until: Instant) -> Result<Option<(usize, String)>> {
        match self.heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("nobody is there to be heard".into()),
        }
    }

    /// Reads lines until `enough` accepts one.
    pub(crate) fn hear_until(
        &mut self,
        what: &str,
        patience: Duration,
        mut enough: impl FnMut(usize, &str) -> bool,
    ) -> Result {
        let until = Instant::now() + patience;
        while let Some((who, line)) = self.hear(until)? {
            if enough(who, &line) {
                return Ok(());
            }
        }
        Err(format!("waited in vain for {what} for {patience:?}").into())
    }

    /// Waits until this many processes have reported that all their jobs are registered.
    pub(crate) fn wait_until_all_came(&mut self, patience: Duration) -> Result {
        let (mut came, all) = (0, self.members.len());
        self.hear_until("all workers to come", patience, |_, line| {
            came += usize::from(line == "came");
            came == all
        })
    }

    /// Asks one to leave.
    pub(crate) fn ask_to_leave(&mut self, number: usize) -> Result {
        let orders = self.members.get_mut(number).and_then(|member| member.orders.as_mut());
        Ok(orders.ok_or("no such worker")?.write_all(b"leave\n")?)
    }

    /// Kills one at once.
    pub(crate) fn kill(&mut self, number: usize) -> Result {
        let member = self.members.get_mut(number).ok_or("no such worker")?;
        member.child.kill()?;
        member.child.wait()?;
        Ok(())
    }

    /// The resource usage of all together.
    pub(crate) fn used(&self) -> Used {
        self.members
            .iter()
            .map(|member| Used::of(member.child.id()))
            .fold(Used::default(), |sum, used| sum.and(used))
    }

    /// Waits for due runs, asks all to leave, and reads what they recorded.
    pub(crate) fn leave_and_tell(&mut self, outs: &[String]) -> Result<Vec<Seen>> {
        std::thread::sleep(ON_ITS_WAY);
        self.leave()?;
        let mut seen = Vec::new();
        for out in outs {
            seen.extend(Seen::read(out)?);
        }
        Ok(seen)
    }

    /// Asks all to leave and waits until they have.
    pub(crate) fn leave(&mut self) -> Result {
        for number in 0..self.members.len() {
            // One that has gone cannot be asked.
            let _gone = self.ask_to_leave(number);
        }
        let until = Instant::now() + Duration::from_secs(60);
        for (number, member) in self.members.iter_mut().enumerate() {
            let status = loop {
                if let Some(status) = member.child.try_wait()? {
                    break status;
                }
                if Instant::now() > until {
                    return Err(format!("worker {number} does not leave").into());
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            if !status.success() {
                return Err(format!("worker {number} ended with {status}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            drop(member.orders.take());
            end(&mut member.child);
        }
    }
}
