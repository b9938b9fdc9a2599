//! `BackupService`: a backup as a stream of parts, and restoring jobs of one. It parses messages and checks rights; it
//! does not know the format of a backup.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use crate::access::Principal;
use crate::audit::AuditLine;
use crate::backup::{Backups, Part, Restored, Restoring, Way};
use crate::history::History;
use rosterd_session::code::{Code, Refusal};
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::backup_response::Part as Message;
use rosterd_wire::proto::v1::backup_service_server::BackupService;
use rosterd_wire::status::status;

/// Most bytes of one message.
const MESSAGE: usize = 64 << 10;
/// Most bytes of one job.
const MOST_JOB: usize = 256 << 20;
/// How long a job may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// The service.
pub struct BackupGate {
    backups: Arc<dyn Backups>,
    history: Arc<dyn History>,
    stop: CancellationToken,
    /// Most bytes of a part.
    part: usize,
    /// A single job may take a lot of memory, so they are restored one at a time.
    restores: Semaphore,
}

impl BackupGate {
    /// `stop`: cancelled when streams have to end.
    pub fn new(
        backups: Arc<dyn Backups>,
        history: Arc<dyn History>,
        stop: CancellationToken,
        max_send: usize,
    ) -> Self {
        let part = MESSAGE.min(max_send / 2).max(1);
        Self { backups, history, stop, part, restores: Semaphore::new(1) }
    }
}

fn refused(refusal: Refusal) -> Status {
    status(&refusal)
}

/// A backup holds all jobs; a restore is of one.
fn allowed(who: Option<&Principal>, job: Option<&rosterd_domain::id::JobName>) -> Result<(), Refusal> {
    let Some(who) = who.filter(|who| !who.jobs.are_all()) else { return Ok(()) };
    if job.is_some_and(|job| who.jobs.have(job)) {
        return Ok(());
    }
    let wants = job.map_or_else(|| "a backup, which holds all jobs".to_owned(), |job| format!("job {job}"));
    let what = format!(
        "the credential {:?} is not for {wants}, only for {}: use another, or have its jobs widened",
        who.name, who.jobs
    );
    Err(Refusal::new(Code::PermissionDenied, what))
}

#[tonic::async_trait]
impl BackupService for BackupGate {
    type BackupStream = Pin<Box<dyn Stream<Item = Result<v1::BackupResponse, Status>> + Send>>;

    async fn backup(
        &self,
        request: Request<v1::BackupRequest>,
    ) -> Result<Response<Self::BackupStream>, Status> {
        let who = request.extensions().get::<Principal>().cloned();
        let allowed = allowed(who.as_ref(), None);
        AuditLine::new("backup", []).log(who.as_ref(), allowed.as_ref().err());
        allowed.map_err(refused)?;
        let parts = self.backups.backup(who.map(|who| who.name));
        self.history.settle().await;
        let (stop, part) = (self.stop.clone().cancelled_owned(), self.part);
        Ok(Response::new(Box::pin(parts.flat_map(move |found| messages(found, part)).take_until(stop))))
    }

    async fn restore_job(
        &self,
        request: Request<Streaming<v1::RestoreJobRequest>>,
    ) -> Result<Response<v1::RestoreJobResponse>, Status> {
        let who = request.extensions().get::<Principal>().cloned();
        let Ok(_turn) = self.restores.try_acquire() else {
            let what = "another restore is under way on this coordinator: wait until it has ended";
            return Err(refused(Refusal::new(Code::Overloaded, what)));
        };
        let arrives = tokio::time::timeout(PATIENCE, gather(request.into_inner())).await;
        let restoring = arrives.unwrap_or_else(|_| {
            let what = format!("the job did not arrive within {PATIENCE:?}: run the same command again");
            Err(refused(Refusal::new(Code::DeadlineExceeded, what)))
        })?;
        let job = self.backups.job_of(&restoring).map_err(refused)?;
        let (overwrite, dry_run) = (restoring.overwrite, restoring.dry_run);
        let done = match allowed(who.as_ref(), Some(&job)) {
            Ok(()) => self.backups.restore(restoring, who.as_ref().map(|who| who.name.clone())).await,
            Err(refusal) => Err(refusal),
        };
        if done.is_ok() && !dry_run {
            self.history.settle().await;
        }
        let action = if overwrite { "restore_over" } else { "restore" };
        AuditLine::new(action, [&job]).dry(dry_run).log(who.as_ref(), done.as_ref().err());
        done.map(answer).map_err(refused)
    }
}

fn answer(done: Restored) -> Response<v1::RestoreJobResponse> {
    let result = match done.way {
        Way::Created => v1::RestoreResult::Created,
        Way::Overwritten => v1::RestoreResult::Overwritten,
        Way::Already => v1::RestoreResult::AlreadyRestored,
    };
    let Restored { job, crashed, fenced, .. } = done;
    Response::new(v1::RestoreJobResponse { job: job.to_string(), result: result.into(), crashed, fenced })
}

/// A part in messages of a bounded length.
fn messages(
    found: Result<Part, Refusal>,
    most: usize,
) -> impl Stream<Item = Result<v1::BackupResponse, Status>> {
    let of = |part| Ok(v1::BackupResponse { part: Some(part) });
    let messages: Vec<_> = match found {
        Ok(Part::Data(data)) => {
            let mut data = Bytes::from(data);
            let count = data.len().div_ceil(most);
            (0..count).map(|_| of(Message::Data(data.split_to(most.min(data.len()))))).collect()
        }
        Ok(Part::Left { job, why, damaged }) => {
            vec![of(Message::LeftOut(v1::LeftOut { job: job.to_string(), reason: why, damaged }))]
        }
        Err(refusal) => vec![Err(refused(refusal))],
    };
    futures_util::stream::iter(messages)
}

async fn gather(mut messages: Streaming<v1::RestoreJobRequest>) -> Result<Restoring, Status> {
    let Some(first) = messages.message().await? else {
        let what = "no message came: the first one says how to restore";
        return Err(refused(Refusal::new(Code::RequestInvalid, what)));
    };
    let v1::RestoreJobRequest { namespace, tokens, backup, overwrite, dry_run, data } = first;
    let mut restoring = Restoring { namespace, tokens, backup, overwrite, dry_run, data: data.into() };
    while let Some(next) = messages.message().await? {
        if restoring.data.len() + next.data.len() > MOST_JOB {
            let what = format!("data: a job has at most {MOST_JOB} bytes: split it into several");
            return Err(refused(Refusal::new(Code::MessageTooLarge, what)));
        }
        restoring.data.extend_from_slice(&next.data);
    }
    Ok(restoring)
}
