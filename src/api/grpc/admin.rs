//! `AdminService`: passes people's queries and changes to the coordinator and the history. It parses and formats; it
//! decides nothing. Every change is logged with its caller.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use prost::Message as _;
use rosterd_domain::id::{InstanceId, Item, JobName, NameError, ServerAddress, Token};
use rosterd_domain::time::Time;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::paging::{PART, page};
use super::rows;
use super::{stats, watching};
use crate::access::Principal;
use crate::backend::Backend;
use crate::explain;
use crate::fires;
use crate::history::History;
use crate::known;
use crate::operator::Operator;
use crate::traces::Traces;
use rosterd_coordinator::handle::{Done, Health, InstanceRow, MachineAction, Operation, ServerRow, Target};
use rosterd_history::{EventFilter, OwnerFilter, Page, RunFilter, RunRow, RunState};
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::mutants;
use rosterd_runtime::version::version;
use rosterd_session::code::{Code, Refusal};
use rosterd_wire::convert;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_server::AdminService;
use rosterd_wire::scalar::{self, timestamp};
use rosterd_wire::status::{Malformed, malformed, status};

/// This coordinator.
#[derive(Debug, Clone)]
pub struct Info {
    /// `embedded` or `zookeeper`.
    pub registry: &'static str,
    /// When it was started.
    pub started: Time,
}

/// The service.
pub struct Admin {
    /// The coordinator.
    pub backend: Arc<dyn Backend>,
    /// The history.
    pub history: Arc<dyn History>,
    /// Executes changes.
    pub operator: Arc<Operator>,
    /// The clock.
    pub clock: SharedClock,
    /// This coordinator.
    pub info: Info,
    /// Cancelled when watchers have to end.
    pub stop: CancellationToken,
    /// The longest answer, in bytes.
    pub max_send: usize,
}

/// The longest grace of a drain.
const MAX_GRACE: Duration = Duration::from_secs(366 * 86_400);

type RpcResult<T> = Result<Response<T>, Status>;

fn refused(refusal: Refusal) -> Status {
    status(&refusal)
}

fn invalid(field: &str, what: impl std::fmt::Display) -> Status {
    malformed(&Malformed::new(Code::RequestInvalid, field, what))
}

fn named<T>(field: &str, parsed: Result<T, NameError>) -> Result<T, Status> {
    parsed.map_err(|error| malformed(&Malformed::new(Code::NameInvalid, field, error)))
}

fn job(text: String) -> Result<JobName, Status> {
    named("job", JobName::new(text))
}

fn any_job(text: String) -> Result<Option<JobName>, Status> {
    (!text.is_empty()).then(|| job(text)).transpose()
}

impl Admin {
    async fn operate(&self, who: Option<Principal>, operation: Operation) -> Result<Done, Status> {
        self.operator.operate(who, operation).await.map_err(refused)
    }
}

impl Admin {
    /// Changes a machine for all jobs that know it.
    async fn on_machine(
        &self,
        who: Option<Principal>,
        machine: String,
        action: MachineAction,
    ) -> Result<Done, Status> {
        let machine = named("machine", ServerAddress::new(machine))?;
        self.operator.on_machine(who, machine, action).await.map_err(refused)
    }

    /// Checks that the job exists or existed, if nothing was found for it.
    async fn is_known(&self, job: Option<&JobName>, found: bool) -> Result<(), Status> {
        known::job(job, found, &*self.backend, &*self.history).await.map_err(refused)
    }

    /// How many bytes of rows go into one answer.
    fn room(&self) -> usize {
        self.max_send / 4 * 3
    }

    /// The answer, unless it exceeds the size limit: then `remedy` says how to get it in parts.
    fn answer<T: prost::Message>(&self, answer: T, remedy: &str) -> RpcResult<T> {
        let (size, most) = (answer.encoded_len(), self.max_send);
        if size <= most {
            return Ok(Response::new(answer));
        }
        let what = format!("the answer has {size} bytes, more than max_send_bytes ({most}): {remedy}");
        Err(refused(Refusal::new(Code::MessageTooLarge, what)))
    }
}

/// An operation that enables cancels nothing.
const CANCEL_GOES: &str = "it goes with enabled = false only: leave it out";

/// How many jobs of a list are read together.
const JOBS_TOGETHER: usize = 500;

/// The remedy if not even one row fits.
const ONE_ROW: &str = "raise that limit on the coordinator";

fn values<T>(page: Vec<(String, T)>) -> Vec<T> {
    page.into_iter().map(|(_, row)| row).collect()
}

fn who<T>(request: &Request<T>) -> Option<Principal> {
    request.extensions().get::<Principal>().cloned()
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn list_jobs(&self, request: Request<v1::ListJobsRequest>) -> RpcResult<v1::ListJobsResponse> {
        mutants::panic_if_injected("panic-request");
        let v1::ListJobsRequest { name_contains, page_token } = request.into_inner();
        let part = name_contains.to_ascii_lowercase();
        let names = self.backend.names().await.map_err(refused)?.into_iter();
        let past = |name: &JobName| page_token.is_empty() || name.as_str() > page_token.as_str();
        let names = names.filter(|name| name.as_str().to_ascii_lowercase().contains(&part) && past(name));
        let names: Vec<JobName> = names.collect();
        let (mut found, mut size) = (Vec::new(), 0);
        // Reads only what is returned, and one part beyond that.
        for some in names.chunks(JOBS_TOGETHER) {
            let rows = self.backend.some_jobs(some).await.map_err(refused)?.into_iter();
            let keyed = rows.map(|row| (row.name.to_string(), rows::job(row)));
            found.extend(keyed.inspect(|(_, row)| size += row.encoded_len()));
            if size > self.room() {
                break;
            }
        }
        let (jobs, next_page_token) = page(found.into_iter(), &page_token, self.room());
        self.answer(v1::ListJobsResponse { jobs: values(jobs), next_page_token }, ONE_ROW)
    }

    async fn get_job(&self, request: Request<v1::GetJobRequest>) -> RpcResult<v1::GetJobResponse> {
        let v1::GetJobRequest { job: name, upcoming, intervals } = request.into_inner();
        if upcoming > 1000 {
            return Err(invalid("upcoming", format!("{upcoming} is more than 1000")));
        }
        let name = job(name)?;
        let intervals = stats::intervals(intervals)?;
        let detail = self.backend.job(&name, upcoming as usize).await.map_err(refused)?;
        let now = self.clock.wall();
        let mut answer = rows::detail(detail);
        for interval in intervals {
            let counted = self.history.recent(&name, now.minus(interval)).await.map_err(refused)?;
            answer.stats.push(stats::row(interval, counted));
        }
        self.answer(answer, "ask for fewer scheduled times")
    }

    async fn apply_jobs(&self, request: Request<v1::ApplyJobsRequest>) -> RpcResult<v1::ApplyJobsResponse> {
        let (who, v1::ApplyJobsRequest { text, dry_run }) = (who(&request), request.into_inner());
        if text.len() > convert::MAX_CONFIG {
            let what = format!("{} bytes are more than {}", text.len(), convert::MAX_CONFIG);
            return Err(invalid("text", what + ": apply the jobs in parts"));
        }
        let operation = Operation::apply(&text, dry_run).map_err(refused)?;
        let done = self.operate(who, operation).await?;
        Ok(Response::new(v1::ApplyJobsResponse { changes: rows::changes(done) }))
    }

    async fn trigger_job(
        &self,
        request: Request<v1::TriggerJobRequest>,
    ) -> RpcResult<v1::TriggerJobResponse> {
        let (who, request) = (who(&request), request.into_inner());
        let operation = Operation::Trigger {
            job: job(request.job)?,
            items: request.items.into_iter().map(Item).collect(),
            after_current: request.after_current,
        };
        let done = self.operate(who, operation).await?;
        let trigger = done.changes.iter().find_map(|(_, change)| change.trigger.as_ref());
        let trigger_id = trigger.map(ToString::to_string).unwrap_or_default();
        Ok(Response::new(v1::TriggerJobResponse { trigger_id, changes: rows::changes(done) }))
    }

    async fn pause_job(&self, request: Request<v1::PauseJobRequest>) -> RpcResult<v1::PauseJobResponse> {
        let (who, request) = (who(&request), request.into_inner());
        let done = self.operate(who, Operation::Pause { job: job(request.job)?, paused: true }).await?;
        Ok(Response::new(v1::PauseJobResponse { changes: rows::changes(done) }))
    }

    async fn resume_job(&self, request: Request<v1::ResumeJobRequest>) -> RpcResult<v1::ResumeJobResponse> {
        let (who, request) = (who(&request), request.into_inner());
        let done = self.operate(who, Operation::Pause { job: job(request.job)?, paused: false }).await?;
        Ok(Response::new(v1::ResumeJobResponse { changes: rows::changes(done) }))
    }

    async fn set_enabled(
        &self,
        request: Request<v1::SetEnabledRequest>,
    ) -> RpcResult<v1::SetEnabledResponse> {
        use v1::set_enabled_request::Target as Of;
        let (who, request) = (who(&request), request.into_inner());
        let target = match request.target {
            None => Target::Job,
            Some(Of::Item(item)) => Target::Item(Item(item)),
            Some(Of::Machine(machine)) => Target::Machine(named("machine", ServerAddress::new(machine))?),
            Some(Of::Instance(instance)) => Target::Instance(named("instance", InstanceId::new(instance))?),
        };
        let (enabled, cancel) = (request.enabled, request.cancel);
        if enabled && cancel {
            return Err(invalid("cancel", CANCEL_GOES));
        }
        let operation = Operation::Enable { job: job(request.job)?, target, enabled, cancel };
        let done = self.operate(who, operation).await?;
        Ok(Response::new(v1::SetEnabledResponse { changes: rows::changes(done) }))
    }

    async fn remove_job(&self, request: Request<v1::RemoveJobRequest>) -> RpcResult<v1::RemoveJobResponse> {
        let (who, request) = (who(&request), request.into_inner());
        let operation = Operation::Remove { job: job(request.job)?, cancel: request.cancel };
        let done = self.operate(who, operation).await?;
        Ok(Response::new(v1::RemoveJobResponse { changes: rows::changes(done) }))
    }

    async fn cancel_run(&self, request: Request<v1::CancelRunRequest>) -> RpcResult<v1::CancelRunResponse> {
        let (who, request) = (who(&request), request.into_inner());
        let operation = Operation::Cancel { job: job(request.job)?, item: Item(request.item) };
        let done = self.operate(who, operation).await?;
        Ok(Response::new(v1::CancelRunResponse { changes: rows::changes(done) }))
    }

    async fn drain_instance(
        &self,
        request: Request<v1::DrainInstanceRequest>,
    ) -> RpcResult<v1::DrainInstanceResponse> {
        let (who, request) = (who(&request), request.into_inner());
        let grace = match request.grace {
            None => Duration::MAX,
            Some(grace) => scalar::to_duration(grace)
                .filter(|grace| *grace <= MAX_GRACE)
                .ok_or_else(|| invalid("grace", "it is negative, or more than a year"))?,
        };
        let instance = named("instance", InstanceId::new(request.instance))?;
        let done = self.operate(who, Operation::Drain { instance, grace }).await?;
        Ok(Response::new(v1::DrainInstanceResponse { changes: rows::changes(done) }))
    }

    async fn shutdown_instance(
        &self,
        request: Request<v1::ShutdownInstanceRequest>,
    ) -> RpcResult<v1::ShutdownInstanceResponse> {
        let (who, request) = (who(&request), request.into_inner());
        let instance = named("instance", InstanceId::new(request.instance))?;
        let done = self.operate(who, Operation::Shutdown { job: job(request.job)?, instance }).await?;
        Ok(Response::new(v1::ShutdownInstanceResponse { changes: rows::changes(done) }))
    }

    async fn set_machine_enabled(
        &self,
        request: Request<v1::SetMachineEnabledRequest>,
    ) -> RpcResult<v1::SetMachineEnabledResponse> {
        let (who, v1::SetMachineEnabledRequest { machine, enabled, cancel }) =
            (who(&request), request.into_inner());
        if enabled && cancel {
            return Err(invalid("cancel", CANCEL_GOES));
        }
        let done = self.on_machine(who, machine, MachineAction::Enable { enabled, cancel }).await?;
        Ok(Response::new(v1::SetMachineEnabledResponse { changes: rows::changes(done) }))
    }

    async fn shutdown_machine(
        &self,
        request: Request<v1::ShutdownMachineRequest>,
    ) -> RpcResult<v1::ShutdownMachineResponse> {
        let (who, machine) = (who(&request), request.into_inner().machine);
        let done = self.on_machine(who, machine, MachineAction::Shutdown).await?;
        Ok(Response::new(v1::ShutdownMachineResponse { changes: rows::changes(done) }))
    }

    async fn remove_machine(
        &self,
        request: Request<v1::RemoveMachineRequest>,
    ) -> RpcResult<v1::RemoveMachineResponse> {
        let (who, machine) = (who(&request), request.into_inner().machine);
        let done = self.on_machine(who, machine, MachineAction::Remove).await?;
        Ok(Response::new(v1::RemoveMachineResponse { changes: rows::changes(done) }))
    }

    async fn list_items(&self, request: Request<v1::ListItemsRequest>) -> RpcResult<v1::ListItemsResponse> {
        let v1::ListItemsRequest { job: name, page_token } = request.into_inner();
        let rows = self.backend.items(&job(name)?).await.map_err(refused)?;
        let keyed = rows.into_iter().map(|row| (format!("{:010}", row.item.0), rows::item(row)));
        let (items, next_page_token) = page(keyed, &page_token, self.room());
        self.answer(v1::ListItemsResponse { items: values(items), next_page_token }, ONE_ROW)
    }

    async fn explain_item(
        &self,
        request: Request<v1::ExplainItemRequest>,
    ) -> RpcResult<v1::ExplainItemResponse> {
        let request = request.into_inner();
        let (name, item) = (job(request.job)?, Item(request.item));
        let sentences = explain::of(&name, item, &*self.backend, &*self.history).await.map_err(refused)?;
        let sentences = sentences.into_iter().map(rows::sentence).collect();
        self.answer(v1::ExplainItemResponse { sentences }, ONE_ROW)
    }

    async fn list_ownership(
        &self,
        request: Request<v1::ListOwnershipRequest>,
    ) -> RpcResult<v1::ListOwnershipResponse> {
        let request = request.into_inner();
        let filter = OwnerFilter {
            job: job(request.job)?,
            item: request.item.map(Item),
            from: request.start_time.and_then(scalar::to_time),
            to: request.end_time.and_then(scalar::to_time),
        };
        // Checks that the job exists.
        self.backend.job(&filter.job, 0).await.map_err(refused)?;
        let page = one_page(request.page_size, request.page_token);
        let (stays, next) = self.history.owners(filter, page).await.map_err(refused)?;
        let stays = stays.into_iter().map(rows::stay).collect();
        let answer = v1::ListOwnershipResponse { stays, next_page_token: next.unwrap_or_default() };
        self.answer(answer, "ask with a smaller page_size")
    }

    async fn list_instances(
        &self,
        request: Request<v1::ListInstancesRequest>,
    ) -> RpcResult<v1::ListInstancesResponse> {
        let v1::ListInstancesRequest { job, page_token } = request.into_inner();
        let rows = self.backend.instances(any_job(job)?.as_ref()).await.map_err(refused)?;
        let key = |row: &InstanceRow| format!("{}{PART}{}", row.job, row.instance);
        let keyed = rows.into_iter().map(|row| (key(&row), rows::instance(row)));
        let (instances, next_page_token) = page(keyed, &page_token, self.room());
        self.answer(v1::ListInstancesResponse { instances: values(instances), next_page_token }, ONE_ROW)
    }

    async fn list_machines(
        &self,
        request: Request<v1::ListMachinesRequest>,
    ) -> RpcResult<v1::ListMachinesResponse> {
        let v1::ListMachinesRequest { job, page_token, over_all_jobs } = request.into_inner();
        if over_all_jobs {
            if !job.is_empty() {
                return Err(invalid("over_all_jobs", "it goes without job: leave one of them out"));
            }
            let rows = self.backend.machines().await.map_err(refused)?.into_iter();
            let keyed = rows.map(|row| (row.machine.to_string(), rows::machine_over_all(row)));
            let (machines, next_page_token) = page(keyed, &page_token, self.room());
            let machines = values(machines);
            return self.answer(v1::ListMachinesResponse { machines, next_page_token }, ONE_ROW);
        }
        let rows = self.backend.servers(any_job(job)?.as_ref()).await.map_err(refused)?;
        let key = |row: &ServerRow| format!("{}{PART}{}", row.job, row.server);
        let keyed = rows.into_iter().map(|row| (key(&row), rows::machine(row)));
        let (machines, next_page_token) = page(keyed, &page_token, self.room());
        self.answer(v1::ListMachinesResponse { machines: values(machines), next_page_token }, ONE_ROW)
    }

    async fn list_runs(&self, request: Request<v1::ListRunsRequest>) -> RpcResult<v1::ListRunsResponse> {
        let request = request.into_inner();
        let outcome = match request.outcome() {
            v1::RunOutcome::Unspecified => None,
            worded => Some(
                rows::to_outcome(worded)
                    .ok_or_else(|| invalid("outcome", format!("no run ends as {}", worded.as_str_name())))?,
            ),
        };
        if request.token.is_some() && (request.job.is_empty() || request.item.is_none()) {
            return Err(invalid("token", "it goes with job and item: give both"));
        }
        let filter = RunFilter {
            job: any_job(request.job)?,
            item: request.item.map(Item),
            token: request.token.map(Token),
            state: outcome.map(RunState::from),
            instance: None,
            from: request.start_time.and_then(scalar::to_time),
            to: request.end_time.and_then(scalar::to_time),
        };
        let (page, name) = (one_page(request.page_size, request.page_token), filter.job.clone());
        let first = page.token.is_none();
        let (runs, next) = self.history.runs(filter, page).await.map_err(refused)?;
        self.is_known(name.as_ref(), !first || next.is_some() || !runs.is_empty()).await?;
        let traces = Traces::of(&*self.backend, runs.iter().map(|run| &run.job)).await;
        let traced = |run: RunRow| {
            let trace = traces.id(&run.job, run.token, run.fire);
            let trace_id = trace.map(|id| id.to_string()).unwrap_or_default();
            v1::RunRecord { trace_id, ..rows::run(run) }
        };
        let runs = runs.into_iter().map(traced).collect();
        let answer = v1::ListRunsResponse { runs, next_page_token: next.unwrap_or_default() };
        self.answer(answer, "ask with a smaller page_size")
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> RpcResult<v1::ListEventsResponse> {
        let request = request.into_inner();
        let kind = rows::to_event_kind(request.kind());
        let filter = EventFilter {
            job: any_job(request.job)?,
            kind,
            principal: (!request.principal.is_empty()).then_some(request.principal),
            from: request.start_time.and_then(scalar::to_time),
            to: request.end_time.and_then(scalar::to_time),
        };
        let (page, name) = (one_page(request.page_size, request.page_token), filter.job.clone());
        let first = page.token.is_none();
        let (events, next) = self.history.events(filter, page).await.map_err(refused)?;
        self.is_known(name.as_ref(), !first || next.is_some() || !events.is_empty()).await?;
        let events = events.into_iter().map(rows::event).collect();
        let answer = v1::ListEventsResponse { events, next_page_token: next.unwrap_or_default() };
        self.answer(answer, "ask with a smaller page_size")
    }

    async fn list_fires(&self, request: Request<v1::ListFiresRequest>) -> RpcResult<v1::ListFiresResponse> {
        let request = request.into_inner();
        let name = job(request.job)?;
        let row = self.backend.job(&name, 0).await.map_err(refused)?.row;
        known::item(&name, request.item, row.items, &*self.history).await.map_err(refused)?;
        let to = request.end_time.and_then(scalar::to_time).unwrap_or_else(|| self.clock.wall());
        let hour = Duration::from_secs(3600);
        let from = request.start_time.and_then(scalar::to_time).unwrap_or_else(|| to.minus(hour));
        let span = fires::Span {
            from: from.max(row.made.unwrap_or(from)),
            to,
            items: request.item.map_or(0..row.items, |item| item..item.saturating_add(1)),
            size: page_size(request.page_size, 1000, 10_000),
            token: request.page_token,
        };
        let (fires, next_page_token) =
            fires::of(span, &name, &*self.backend, &*self.history).await.map_err(refused)?;
        let fires = fires.into_iter().map(|fire| rows::fire(&name, fire)).collect();
        self.answer(v1::ListFiresResponse { fires, next_page_token }, "ask with a smaller page_size")
    }

    async fn dump_job(&self, request: Request<v1::DumpJobRequest>) -> RpcResult<v1::DumpJobResponse> {
        let v1::DumpJobRequest { job: name, page_token } = request.into_inner();
        let nodes = self.backend.dump(&job(name)?).await.map_err(refused)?;
        let nodes = nodes.into_iter().map(|(path, node)| {
            let data = bytes::Bytes::copy_from_slice(&node.data);
            (path, v1::DumpNode { data, ephemeral: node.ephemeral })
        });
        let (nodes, next_page_token) = page(nodes, &page_token, self.room());
        self.answer(v1::DumpJobResponse { nodes: nodes.into_iter().collect(), next_page_token }, ONE_ROW)
    }

    async fn get_server_info(
        &self,
        _request: Request<v1::GetServerInfoRequest>,
    ) -> RpcResult<v1::GetServerInfoResponse> {
        let health = *self.backend.health().borrow();
        // The status is returned even if the store does not answer.
        let asked = self.backend.members();
        let members = if health == Health::Serving {
            asked.await.unwrap_or_default()
        } else {
            // And without waiting for the store's timeout.
            tokio::time::timeout(UNWELL, asked).await.ok().and_then(Result::ok).unwrap_or_default()
        };
        let coordinators = members.into_iter().map(|row| row.member.url).collect();
        Ok(Response::new(v1::GetServerInfoResponse {
            version: version(),
            namespace: self.backend.namespace().to_string(),
            coordinator_id: self.backend.id().to_string(),
            store: self.info.registry.to_owned(),
            health: rows::health(health).into(),
            started_at: Some(timestamp(self.info.started)),
            now: Some(timestamp(self.clock.wall())),
            coordinators,
            history: Some(rows::history(self.history.status())),
        }))
    }

    async fn list_coordinators(
        &self,
        _request: Request<v1::ListCoordinatorsRequest>,
    ) -> RpcResult<v1::ListCoordinatorsResponse> {
        let read = self.backend.members().await;
        let own = *self.backend.health().borrow();
        let rows = read.map_err(|mut refusal| {
            if own != Health::Serving {
                let state = own.as_str();
                refusal.message = format!("the coordinator that was asked is {state}: {}", refusal.message);
            }
            refused(refusal)
        })?;
        let coordinators = rows.into_iter().map(|row| rows::coordinator(row, own)).collect();
        Ok(Response::new(v1::ListCoordinatorsResponse { coordinators }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> RpcResult<Self::WatchStream> {
        let job = any_job(request.into_inner().job)?;
        let (clock, stop) = (self.clock.clone(), self.stop.clone());
        Ok(Response::new(Box::pin(watching::watch(self.backend.watch(), job, clock, stop))))
    }
}

/// How long a coordinator that does not serve looks for the others before it answers without them.
const UNWELL: Duration = Duration::from_secs(1);

/// A page of the history.
fn one_page(asked: u32, token: String) -> Page {
    Page { size: page_size(asked, 100, 1000), token: (!token.is_empty()).then_some(token) }
}

fn page_size(asked: u32, default: usize, most: usize) -> usize {
    match asked {
        0 => default,
        asked => (asked as usize).min(most),
    }
}
