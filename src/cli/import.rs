//! `rosterd import`: a file's jobs, or Elastic-Job's own, into a store that nobody serves.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rosterd_domain::id::{JobName, Token};

use super::failure::{Code, Failure, Result};
use super::options::Consent;
use super::output::form::say;
use super::store::StoreArgs;
use crate::app::transfer::{self, Existing, Export, How, ImportReport, TransferError};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 30;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Import {
    #[command(subcommand)]
    from: Option<From>,
    /// A file that `rosterd export` wrote; - reads stdin
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// End the runs that were in flight as crashed; with failover they are then run again
    #[arg(long)]
    crash_running: bool,
    /// Give no token up to N: for a file that is older than the last tokens given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=Export::MOST_TOKENS))]
    tokens_above: Option<u64>,
    #[command(flatten)]
    how: Manner,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Subcommand)]
enum From {
    /// Take over jobs of Elastic-Job 1.x, 2.x or 3.x from its own tree, which is only read
    ElasticJob(Box<ElasticJob>),
}

/// What becomes of jobs that exist, and whether anything is written.
#[derive(Debug, Args)]
struct Manner {
    /// Jobs that exist are removed, and the imported ones take their places
    #[arg(long, conflicts_with = "skip_existing")]
    overwrite: bool,
    /// Jobs that exist stay as they are
    #[arg(long)]
    skip_existing: bool,
    /// Look at everything, write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    consent: Consent,
}

impl Manner {
    fn how(&self, crash_running: bool) -> Result<How> {
        if self.overwrite && !self.dry_run {
            self.consent.ask(
                "Remove the jobs that exist, with all that is known of them, where the file has them too?",
            )?;
        }
        let existing = match (self.overwrite, self.skip_existing) {
            (true, _) => Existing::Overwrite,
            (_, true) => Existing::Skip,
            _ => Existing::Refuse,
        };
        Ok(How { existing, crash_running, dry_run: self.dry_run })
    }
}

#[derive(Debug, Args)]
struct ElasticJob {
    /// Elastic-Job's namespace; one of several parts is written a/b
    #[arg(long = "from-namespace", alias = "from", value_name = "NAMESPACE")]
    from: String,
    /// Only these jobs
    #[arg(long = "job", value_name = "NAME")]
    jobs: Vec<JobName>,
    /// Take over jobs whose processes live as well: until they are stopped, both fire them
    #[arg(long)]
    running: bool,
    /// Write a job file of each into this directory instead, for `rosterd jobs apply`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["overwrite", "skip_existing", "dry_run", "to"])]
    as_files: Option<PathBuf>,
    /// Into an ensemble: its servers; without it into --data-dir, or with --registry zookeeper into that of --zk
    #[arg(long, value_name = "HOST:PORT,…")]
    to: Option<String>,
    #[command(flatten)]
    how: Manner,
    #[command(flatten)]
    store: StoreArgs,
}

fn failed(error: TransferError) -> Failure {
    Failure::failed(Code::Import, error)
}

impl Import {
    pub(crate) async fn run(self) -> Result {
        match (self.from, self.file) {
            (Some(From::ElasticJob(import)), _) => import.run().await,
            (None, Some(file)) => {
                let config = self.store.config()?;
                let mut export = parse(&file)?;
                if let Some(given) = self.tokens_above {
                    export.go_on_above(Token(given));
                }
                let how = self.how.how(self.crash_running)?;
                let origin = file.display().to_string();
                let report = transfer::import(&config, export, how, &origin).await.map_err(failed)?;
                say(&words(&report, how.dry_run))
            }
            (None, None) => Err(Failure::usage("name a file, or say elastic-job")),
        }
    }
}

fn parse(path: &Path) -> Result<Export> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(MAX_FILE + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Failure::usage(format!("{} is larger than {MAX_FILE} bytes", path.display())));
    }
    Export::from_json(&bytes).map_err(|defects| {
        let lines: String = defects.iter().map(|defect| format!("\n  {defect}")).collect();
        let why = format!("{} cannot be imported, nothing was written:{lines}", path.display());
        Failure::failed(Code::ExportInvalid, why)
    })
}

fn words(report: &ImportReport, dry_run: bool) -> String {
    let would = if dry_run { "would be " } else { "" };
    let mut lines = String::new();
    for job in &report.made {
        let word = if report.overwritten.contains(job) { "overwritten" } else { "imported" };
        lines += &format!("{job} {would}{word}\n");
    }
    for job in &report.skipped {
        lines += &format!("{job} skipped: it exists\n");
    }
    for run in &report.crashed {
        lines += &format!("crashed: {run}\n");
    }
    lines
}

impl ElasticJob {
    async fn run(&self) -> Result {
        let Some(servers) = &self.store.zk else {
            return Err(Failure::usage("--zk: name the ZooKeeper servers of Elastic-Job"));
        };
        // What stands above the last part is a root like any other.
        let from = self.from.trim_matches('/');
        let (root, namespace) = from.rsplit_once('/').map_or(("", from), |(root, last)| (root, last));
        let slash = if root.is_empty() { "" } else { "/" };
        let servers = format!("{}{slash}{root}", servers.trim_end_matches('/'));
        let origin = format!("Elastic-Job's {from} at {servers}");
        let source = self.store.source(servers, namespace.to_owned())?;
        let target = match &self.as_files {
            Some(_) => None,
            None => Some(self.store.target(self.to.clone())?),
        };
        let found = transfer::elastic_job(&source, &self.jobs, self.running).await.map_err(failed)?;
        let notes = if target.is_some() { &found.notes } else { &found.file_notes };
        for (name, note) in notes {
            eprintln!("rosterd: {name}: warning: {note}");
        }
        match (&self.as_files, target) {
            (Some(dir), _) => files(dir, &found.files),
            (None, Some(target)) => {
                let how = self.how.how(false)?;
                let report = transfer::import(&target, found.export, how, &origin).await.map_err(failed)?;
                say(&words(&report, how.dry_run))
            }
            (None, None) => Ok(()),
        }
    }
}

fn files(dir: &Path, files: &[(JobName, String)]) -> Result {
    let error = |path: &Path, error: std::io::Error| {
        Failure::failed(Code::Import, format!("{} cannot be written: {error}", path.display()))
    };
    fs::create_dir_all(dir).map_err(|why| error(dir, why))?;
    let mut lines = String::new();
    for (name, text) in files {
        let path = dir.join(format!("{name}.yaml"));
        // Never over a file that somebody may have changed by hand.
        let mut file = fs::File::create_new(&path).map_err(|why| error(&path, why))?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|why| error(&path, why))?;
        lines += &format!("{} written\n", path.display());
    }
    say(&lines)
}
