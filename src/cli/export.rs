//! `rosterd export`: the jobs of a store as a file.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use rosterd_domain::id::JobName;

use super::failure::{Code, Failure, Result};
use super::output::form::say;
use super::store::StoreArgs;
use crate::app::transfer;
use rosterd_runtime::private;

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The file to write, which must not exist; - writes to stdout
    file: PathBuf,
    /// Only these jobs
    #[arg(long = "job", value_name = "NAME")]
    jobs: Vec<JobName>,
    #[command(flatten)]
    store: StoreArgs,
}

impl Export {
    pub(crate) async fn run(self) -> Result {
        let config = self.store.config()?;
        if self.file.exists() && self.file != Path::new("-") {
            let why = format!("{} exists: name a file that does not, or remove it", self.file.display());
            return Err(Failure::usage(why));
        }
        let taken = transfer::export(&config, &self.jobs).await;
        let taken = taken.map_err(|error| Failure::failed(Code::Export, error))?;
        for left in &taken.left {
            eprintln!("rosterd: {left}");
        }
        let export = taken.export;
        let running = export.in_flight();
        for run in &running {
            eprintln!("rosterd: in flight: {run}");
        }
        if self.file == Path::new("-") {
            return say(&export.to_json());
        }
        write(&self.file, &export.to_json())
            .map_err(|error| Failure::failed(Code::Export, format!("{}: {error}", self.file.display())))?;
        let records: usize = export.jobs.iter().map(|job| job.records.len()).sum();
        say(&format!(
            "{} jobs of {} with {records} records written to {}{}",
            export.jobs.len(),
            export.namespace,
            self.file.display(),
            match running.len() {
                0 => String::new(),
                count => format!("; {count} runs are in flight"),
            }
        ))
    }
}

/// Whole or not at all, on disk, and for its owner alone: parameters may be secrets.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let mut file = private::create_anew(Path::new(&beside))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&beside, path)) {
        // What is left of it is of no use; that it cannot be removed either changes nothing.
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    Ok(())
}
