//! A process that a test started, and ends by its own pid.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::harness::wait;

/// A process of ours.
#[derive(Debug)]
pub struct Proc {
    pub name: String,
    child: Child,
}

impl Proc {
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Self {
        let out = File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        let child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { name: name.to_owned(), child }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Ends it at once; when this returns it is gone.
    pub fn kill(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }

    /// Stops it; when this returns it is stopped.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let seen = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap();
        assert!(seen.is_some_and(|(_, status)| status.stopped()), "{} does not stop", self.name);
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its own end.
    pub async fn end(&mut self) -> ExitStatus {
        let name = self.name.clone();
        wait(format!("the end of {name}"), || std::future::ready(self.ended())).await
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        self.kill();
    }
}
