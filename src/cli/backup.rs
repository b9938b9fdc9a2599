//! `rosterd backup`: all jobs of a namespace that is served, or of a data directory that is not, as one file.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use futures_util::StreamExt as _;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

use super::failure::{Code, Failure, Result};
use super::output::form::say;
use super::server::{Bearer, Server, refused};
use super::store::directory;
use crate::app::backup::{Directory, Part, Summary, Use, check};
use crate::config::value;
use rosterd_runtime::private;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::backup_response::Part as Message;
use rosterd_wire::proto::v1::backup_service_client::BackupServiceClient;

#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The file to write; it appears once it is whole
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    /// Read the embedded store in this directory, which no coordinator serves, instead of asking one
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// The namespace of that directory [default: default]
    #[arg(long, value_name = "NAME", requires = "data_dir")]
    namespace: Option<String>,
    #[command(flatten)]
    server: Server,
}

/// The generated client, with the credential.
pub(super) type Client = BackupServiceClient<InterceptedService<Channel, Bearer>>;

/// Jobs that should be in the file and are not.
type Damaged = Vec<String>;

impl Backup {
    pub(crate) async fn run(self) -> Result {
        if self.out.exists() && !self.force {
            let why = format!("{} exists: name a file that does not, or give --force", self.out.display());
            return Err(Failure::usage(why));
        }
        let mut beside = self.out.clone().into_os_string();
        beside.push(".part");
        let beside = PathBuf::from(beside);
        let written = self.write(&beside).await;
        let (summary, damaged) = written.inspect_err(|_| {
            // What is left of it is of no use; that it cannot be removed either changes nothing.
            let _ = fs::remove_file(&beside);
        })?;
        let Summary { namespace, jobs, records, mark, .. } = summary;
        let (count, file) = (jobs.len(), self.out.display());
        say(&format!(
            "{count} jobs of {namespace} with {records} records written to {file} (backup {mark})"
        ))?;
        if damaged.is_empty() {
            return Ok(());
        }
        let why =
            format!("{file} is whole but for {}: mend or remove them, and back up again", damaged.join(", "));
        Err(Failure::failed(Code::BackupIncomplete, why))
    }

    /// Writes beside, looks at what was written as a restore would, and only then gives it its name.
    async fn write(&self, beside: &Path) -> Result<(Summary, Damaged)> {
        let failed = |path: &Path, error: std::io::Error| {
            Failure::failed(Code::Backup, format!("{} cannot be written: {error}", path.display()))
        };
        // For its owner alone: parameters may be secrets.
        let made = private::create_anew(beside).map_err(|error| failed(beside, error))?;
        let mut file = BufWriter::new(made);
        let take = |data: &[u8]| file.write_all(data).map_err(|error| failed(beside, error));
        let damaged = match &self.data_dir {
            Some(data_dir) => self.of_directory(data_dir, take).await?,
            None => self.of_coordinator(take).await?,
        };
        let file = file.into_inner().map_err(|error| failed(beside, error.into_error()))?;
        file.sync_all().map_err(|error| failed(beside, error))?;
        let written = File::open(beside).map_err(|error| failed(beside, error))?;
        let summary = check(BufReader::new(written)).map_err(|defects| {
            let why =
                format!("what came is not whole, nothing was written: {}: try again", defects.join("; "));
            Failure::failed(Code::Backup, why)
        })?;
        fs::rename(beside, &self.out).map_err(|error| failed(&self.out, error))?;
        let parent = self.out.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = File::open(parent.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        folder.map_err(|error| failed(&self.out, error))?;
        Ok((summary, damaged))
    }

    async fn of_coordinator(&self, mut take: impl FnMut(&[u8]) -> Result) -> Result<Damaged> {
        let to = self.server.resolve()?;
        let mut client = client(&self.server).await?;
        let refused = |status| refused(&to.access, &to.names(), status);
        let late = |_| {
            let waited = value::show(self.server.timeout);
            Failure::unavailable(format!("nothing came for {waited}; --timeout waits longer"))
        };
        let asked = tokio::time::timeout(self.server.timeout, client.backup(v1::BackupRequest {})).await;
        let mut parts = asked.map_err(late)?.map_err(refused)?.into_inner();
        let mut damaged = Vec::new();
        loop {
            let next = tokio::time::timeout(self.server.timeout, parts.message()).await;
            let Some(part) = next.map_err(late)?.map_err(refused)? else { return Ok(damaged) };
            match part.part {
                Some(Message::Data(data)) => take(&data)?,
                Some(Message::LeftOut(left)) => leave(&left.job, &left.reason, left.damaged, &mut damaged),
                None => {}
            }
        }
    }

    async fn of_directory(&self, data_dir: &str, mut take: impl FnMut(&[u8]) -> Result) -> Result<Damaged> {
        let failed = |error: &dyn std::fmt::Display| Failure::failed(Code::Backup, error);
        let config = directory(data_dir, self.namespace.clone())?;
        let opened = Directory::open(&config, Use::Read).await.map_err(|error| failed(&error))?;
        let (mut parts, mut damaged) = (opened.backup(), Vec::new());
        while let Some(part) = parts.next().await {
            match part.map_err(|error| failed(&error))? {
                Part::Data(data) => take(&data)?,
                Part::Left { job, why, damaged: is } => leave(job.as_str(), &why, is, &mut damaged),
            }
        }
        drop(parts);
        opened.close().await;
        Ok(damaged)
    }
}

fn leave(job: &str, why: &str, is_damaged: bool, damaged: &mut Damaged) {
    eprintln!("rosterd: {job} is left out: {why}");
    if is_damaged {
        damaged.push(job.to_owned());
    }
}

/// The service of a coordinator that answers.
pub(super) async fn client(server: &Server) -> Result<Client> {
    let to = server.resolve()?;
    let channel = server.channel(&to).await?;
    Ok(BackupServiceClient::with_interceptor(channel, Bearer::new(&to.access)?))
}
