//! `rosterd restore`: the jobs of a backup back into a namespace that is served, or into a data directory that is not. The
//! file is read to its end before anything is asked, and every job is asked about before any is changed.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use clap::Args;
use futures_util::stream;

use super::backup::{Client, client};
use super::failure::{Code, Failure, Result};
use super::options::Consent;
use super::output::form::say;
use super::output::text::count;
use super::server::{Server, refused};
use super::store::directory;
use crate::app::backup::{Directory, Summary, Use, check, each_job};
use crate::config::value;
use rosterd_wire::proto::v1;

/// Most bytes of one message: less than the least that a coordinator takes.
const MESSAGE: usize = 64 << 10;

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// A file that `rosterd backup` wrote
    file: PathBuf,
    /// Put jobs that exist back to their state in the file; their workers stay, runs in flight are fenced
    #[arg(long)]
    overwrite: bool,
    /// Look at everything, change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
    /// Restore into the embedded store in this directory, which no coordinator serves; made if there is none
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    #[command(flatten)]
    server: Server,
}

/// What is restored into.
enum Target {
    Served(Box<Client>),
    Directory(Directory),
}

impl Restore {
    pub(crate) async fn run(self) -> Result {
        let summary = check(self.open()?).map_err(|defects| self.invalid(&defects))?;
        if self.overwrite && !self.dry_run {
            self.consent.ask(&format!(
                "Put {} back to their state of {}?",
                count(summary.jobs.len(), "job"),
                summary.taken_at
            ))?;
        }
        let mut target = match &self.data_dir {
            None => Target::Served(Box::new(client(&self.server).await?)),
            Some(data_dir) => {
                let config = directory(data_dir, Some(summary.namespace.to_string()))?;
                let how = if self.dry_run { Use::Look } else { Use::Write };
                let opened = Directory::open(&config, how).await;
                Target::Directory(opened.map_err(|error| Failure::failed(Code::Restore, error))?)
            }
        };
        let done = self.restore(&mut target, &summary).await;
        if let Target::Directory(directory) = target {
            directory.close().await;
        }
        done
    }

    async fn restore(&self, target: &mut Target, summary: &Summary) -> Result {
        let mut why = Vec::new();
        for line in each_job(self.open()?, summary.jobs.len()) {
            let line = line.map_err(|defects| self.invalid(&defects))?;
            match self.one(target, summary, line, true).await {
                Ok(answer) if self.dry_run => say(&words(&answer, true))?,
                Ok(_) => {}
                Err(refusal) if refusal.is_refusal() => why.push(refusal.to_string()),
                Err(failure) => return Err(failure),
            }
        }
        if !why.is_empty() {
            let why = why.join("\n  ");
            return Err(Failure::failed(Code::Restore, format!("nothing was changed:\n  {why}")));
        }
        if self.dry_run {
            return Ok(());
        }
        let all = summary.jobs.len();
        for (done, line) in each_job(self.open()?, all).enumerate() {
            let line = line.map_err(|defects| self.invalid(&defects))?;
            let answer = self.one(target, summary, line, false).await.inspect_err(|_| {
                eprintln!(
                    "rosterd: {done} of {all} jobs are restored: run the same command again to complete it"
                );
            })?;
            say(&words(&answer, false))?;
        }
        let (namespace, at, mark) = (&summary.namespace, summary.taken_at, &summary.mark);
        say(&format!("{all} jobs of {namespace} are as the backup {mark} of {at} has them"))
    }

    fn open(&self) -> Result<BufReader<File>> {
        let why = |error| Failure::usage(format!("{} cannot be read: {error}", self.file.display()));
        File::open(&self.file).map(BufReader::new).map_err(why)
    }

    fn invalid(&self, defects: &[String]) -> Failure {
        let lines: String = defects.iter().map(|defect| format!("\n  {defect}")).collect();
        let why = format!("{} cannot be restored, nothing was changed:{lines}", self.file.display());
        Failure::failed(Code::BackupInvalid, why)
    }

    async fn one(
        &self,
        target: &mut Target,
        summary: &Summary,
        line: Vec<u8>,
        dry_run: bool,
    ) -> Result<v1::RestoreJobResponse> {
        let client = match target {
            Target::Served(client) => client,
            Target::Directory(directory) => {
                let done = directory.restore(&line, summary, self.overwrite, dry_run).await;
                return done.map(answer).map_err(|why| Failure::failed(Code::Restore, why));
            }
        };
        let mut parts = line.chunks(MESSAGE).map(<[u8]>::to_vec);
        let first = v1::RestoreJobRequest {
            namespace: summary.namespace.to_string(),
            tokens: summary.tokens.0,
            backup: summary.mark.clone(),
            overwrite: self.overwrite,
            dry_run,
            data: parts.next().unwrap_or_default().into(),
        };
        let further = parts.map(|data| v1::RestoreJobRequest { data: data.into(), ..Default::default() });
        let messages: Vec<_> = std::iter::once(first).chain(further).collect();
        let timeout = self.server.timeout;
        let answer = tokio::time::timeout(timeout, client.restore_job(stream::iter(messages))).await;
        let answer = answer.map_err(|_| {
            Failure::unavailable(format!("no answer within {}; --timeout waits longer", value::show(timeout)))
        })?;
        let to = self.server.resolve()?;
        Ok(answer.map_err(|status| refused(&to.access, &to.names(), status))?.into_inner())
    }
}

fn answer(done: crate::app::backup::JobRestored) -> v1::RestoreJobResponse {
    use crate::app::backup::JobWay;
    let result = match done.way {
        JobWay::Created => v1::RestoreResult::Created,
        JobWay::Overwritten => v1::RestoreResult::Overwritten,
        JobWay::Already => v1::RestoreResult::AlreadyRestored,
    };
    let (crashed, fenced) = (done.crashed, done.fenced);
    v1::RestoreJobResponse { job: done.job.to_string(), result: result.into(), crashed, fenced }
}

fn words(answer: &v1::RestoreJobResponse, dry_run: bool) -> String {
    let would = if dry_run { "would be " } else { "" };
    let job = &answer.job;
    let mut lines = match answer.result() {
        v1::RestoreResult::AlreadyRestored => {
            format!("{job} stays: it was restored from this backup before\n")
        }
        v1::RestoreResult::Overwritten => format!("{job} {would}restored over what was there\n"),
        _ => format!("{job} {would}restored\n"),
    };
    for run in &answer.crashed {
        lines += &format!("  crashed: {run}\n");
    }
    for run in &answer.fenced {
        lines += &format!("  fenced: {run}\n");
    }
    lines
}
