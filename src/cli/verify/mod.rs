//! `rosterd verify`: whether the promises were kept, by the history of a coordinator or by the logs of workers. The judge
//! is the one that the tests use; here lines are found for it, and what it says is shown.

mod evidence;
mod logs;
mod server;
mod show;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rosterd_domain::id::{JobName, Namespace};
use rosterd_domain::time::Time;
use rosterd_domain::verify::judge;

use self::evidence::Evidence;
use self::show::Findings;
use super::failure::{Code, Exit, Failure, Result};
use super::options::moment;
use super::output::form::Form;
use super::server::Server;
use crate::app::audit_trace::{self, Due};
use crate::config::value;

/// Shown below `--help`.
const AFTER: &str = "What is asked: was an item run twice for one fire; was it run by two at once;
does any scheduled time have no result, or any run no end; who had it when.
Each violation comes with the lines that prove it.

Exit codes:
  0  clean: no promise was broken
  1  violations were found
  2  wrong usage, or something cannot be read: nothing was judged
  3  no coordinator answers, or not in time
  4  the credential is missing or does not allow it

Runs of a job that was removed with --cancel and of a later one of that name are
judged as runs of one job: a worker that was cut off then may look as if it
overlapped. The guide says more, and tells the form of a log, on its page about
verifying.";

/// How much of a history is judged by default.
const DAY: Duration = Duration::from_secs(86_400);
/// After so long a coordinator has written into its history what it did.
const SETTLING: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct Verify {
    /// Logs that workers wrote, all of one machine
    #[arg(long = "run-log", alias = "log", value_name = "FILE", num_args = 1.., conflicts_with = "data_dir")]
    log: Vec<PathBuf>,
    /// The data directory of a coordinator; of an ensemble's coordinators give all
    #[arg(long, value_name = "DIR")]
    data_dir: Vec<PathBuf>,
    /// The directories are those of all coordinators of an ensemble: judge what was scheduled as well, as --server says it was
    #[arg(long, requires = "data_dir")]
    whole: bool,
    /// The namespace in --data-dir
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: Namespace,
    /// Only this job
    #[arg(long, value_name = "NAME")]
    job: Option<JobName>,
    /// A job without monitorExecution, whose runs may overlap; of a coordinator's jobs this is known
    #[arg(long, value_name = "NAME")]
    unmonitored: Vec<JobName>,
    /// Runs that began, and scheduled times, not before: RFC 3339, or how long ago [default: 1d; of logs, all]
    #[arg(long = "since", alias = "from", value_name = "TIME", value_parser = moment)]
    from: Option<Time>,
    /// And before [default: now; of logs, all]
    #[arg(long = "until", alias = "to", value_name = "TIME", value_parser = moment)]
    to: Option<Time>,
    /// By how much the clocks behind a history may differ
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = value::duration)]
    skew: Duration,
    /// List who had each item from when to when
    #[arg(long)]
    owners: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Verify {
    pub(crate) async fn run(self) -> Result {
        let evidence = self.evidence().await.map_err(no_verdict)?;
        if evidence.is_empty() {
            return Err(self.nothing());
        }
        let mut verdict = judge(&evidence.lines, u64::MAX);
        let not_promised = verdict.leave_out(&self.unmonitored(&evidence));
        let findings = Findings { verdict: &verdict, evidence: &evidence, not_promised, owners: self.owners };
        self.form.show(|| findings.json(), || findings.text())?;
        match verdict.faults.len() {
            0 => Ok(()),
            1 => Err(Failure::failed(Code::Violations, "1 violation was found")),
            count => Err(Failure::failed(Code::Violations, format!("{count} violations were found"))),
        }
    }

    /// Jobs without monitorExecution, as far as somebody says so.
    fn unmonitored(&self, evidence: &Evidence) -> BTreeSet<String> {
        let known = evidence.trace.iter().flat_map(|trace| trace.unmonitored.iter().cloned());
        known.chain(self.unmonitored.iter().map(ToString::to_string)).collect()
    }

    async fn evidence(&self) -> Result<Evidence> {
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            return Err(Failure::usage(format!("--since {from} is not before --until {to}: swap them")));
        }
        if !self.log.is_empty() {
            return logs::read(&self.log, self.job.as_ref(), self.from, self.to);
        }
        let (trace, notes) = match self.data_dir.is_empty() {
            true => {
                let settled = Self::settled();
                server::ask(&self.server, self.job.as_ref(), self.since(), self.to, self.skew, settled)
                    .await?
            }
            false => {
                let due = if self.whole { Some(self.due().await?) } else { None };
                let request = audit_trace::TraceRequest {
                    dirs: self.data_dir.clone(),
                    namespace: self.namespace.clone(),
                    job: self.job.clone(),
                    from: self.since(),
                    to: self.to,
                    skew: self.skew,
                    due,
                };
                audit_trace::trace(&request).await.map_err(Failure::usage)?
            }
        };
        Ok(Evidence::of_history(trace, notes, self.since()))
    }

    /// What was due, by the coordinators of an ensemble, all of whose histories were given. Not up to now: what one
    /// history has not written yet would be missed as soon as another one has written what came later.
    async fn due(&self) -> Result<Due> {
        let settled = Self::settled();
        let to = self.to.map_or(settled, |to| to.min(settled));
        server::due(&self.server, self.job.as_ref(), self.since(), to, self.data_dir.len()).await
    }

    /// Up to when all coordinators have surely written what they did.
    #[allow(clippy::disallowed_methods, reason = "it counts from now")]
    fn settled() -> Time {
        Time::from(jiff::Timestamp::now()).minus(SETTLING)
    }

    /// From when on a history is judged.
    #[allow(clippy::disallowed_methods, reason = "a person's `ago` counts from now")]
    fn since(&self) -> Time {
        let end = || self.to.unwrap_or_else(|| jiff::Timestamp::now().into());
        self.from.unwrap_or_else(|| end().minus(DAY))
    }

    fn nothing(&self) -> Failure {
        let of = self.job.as_ref().map_or_else(String::new, |job| format!(" of job {job}"));
        Failure::usage(format!(
            "nothing{of} was run or scheduled in that time: there is nothing to judge; correct --job, --since or --until"
        ))
    }
}

/// What keeps a verdict from being given must not look like one.
fn no_verdict(failure: Failure) -> Failure {
    failure.or_instead(Exit::Failed, Exit::Usage)
}
