//! Job files: applying them, and saying what that would change. The coordinator reads them, so both give the
//! same answer.

use std::path::PathBuf;

use clap::Args;

use super::report;
use crate::cli::failure::{Code, Exit, Failure, Result};
use crate::cli::options::read_text;
use crate::cli::output::form::Form;
use crate::cli::server::Server;
use rosterd_wire::proto::v1;

#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// A job file, YAML or JSON; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Change nothing, say what would be changed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A job file, YAML or JSON; - reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Exit with 1 if something would change, with 0 if nothing would, and with 2 if the file is refused
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    server: Server,
}

impl Apply {
    pub(crate) async fn run(self) -> Result {
        let question = v1::ApplyJobsRequest { text: read_text(&self.file)?, dry_run: self.dry_run };
        let answer = self.server.ask(question, |mut c, q| async move { c.apply_jobs(q).await }).await?;
        report(self.form, &answer.changes)
    }
}

impl Diff {
    pub(crate) async fn run(self) -> Result {
        let question = v1::ApplyJobsRequest { text: read_text(&self.file)?, dry_run: true };
        let answer = self.server.ask(question, |mut c, q| async move { c.apply_jobs(q).await }).await;
        // 1 says that something differs.
        let other = if self.exit_code { Exit::Usage } else { Exit::Failed };
        let answer = answer.map_err(|refusal| refusal.or_instead(Exit::Failed, other))?;
        report(self.form, &answer.changes)?;
        let differs = |change: &v1::JobChange| change.effect() != v1::JobEffect::Unchanged;
        if self.exit_code && answer.changes.iter().any(differs) {
            return Err(Failure::failed(Code::Different, "the file and the stored jobs differ"));
        }
        Ok(())
    }
}
