//! A coordinator's admin service that answers from a script and records its requests.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures_util::Stream;
use prost_types::Timestamp;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_server::{AdminService, AdminServiceServer};
use rosterd_wire::proto::v1::watch_response::Event;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::binary::{Ran, command};

/// The script, and the requests.
#[derive(Clone, Default)]
pub(crate) struct Script {
    asked: Arc<Mutex<Vec<String>>>,
}

/// A server that plays it.
pub(crate) struct Served {
    pub(crate) url: String,
    script: Script,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::start_for(None)
    }

    /// A server that requires no credential.
    pub(crate) fn start_open() -> Self {
        Self::start_for(Some("Bearer s3cret"))
    }

    /// `anybody`: the credential that every client is assumed to have sent.
    fn start_for(anybody: Option<&'static str>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let script = Script::default();
        let service = AdminServiceServer::with_interceptor(script.clone(), move |mut request: Request<()>| {
            if let Some(shown) = anybody {
                request.metadata_mut().insert("authorization", MetadataValue::from_static(shown));
            }
            Ok(request)
        });
        let url = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let (reporter, health) = tonic_health::server::health_reporter();
            reporter.set_service_status("down", tonic_health::ServingStatus::NotServing).await;
            let server = tonic::transport::Server::builder().add_service(service).add_service(health);
            tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
            url
        });
        Self { url, script, _runtime: runtime }
    }

    /// Runs the binary against it.
    pub(crate) fn rosterd(&self, args: &[&str]) -> Ran {
        let mut command = command();
        command.args(args).env("ROSTERD_SERVER", &self.url).env("ROSTERD_CREDENTIAL", "s3cret");
        command.output().unwrap().into()
    }

    /// The last request.
    pub(crate) fn asked(&self) -> String {
        self.script.asked.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

impl Script {
    fn note<T: Debug>(&self, method: &str, request: &Request<T>) -> Result<(), Status> {
        let credential = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        if credential != Some("Bearer s3cret") {
            return Err(refusal(
                Code::Unauthenticated,
                "UNAUTHENTICATED",
                "no valid credential came with the request",
            ));
        }
        self.asked.lock().unwrap().push(format!("{method} {:?}", request.get_ref()));
        Ok(())
    }
}

fn refusal(code: Code, reason: &str, message: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "rosterd", std::collections::HashMap::new());
    Status::with_error_details(code, message, details)
}

pub(crate) fn at(second: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: 1_795_219_200 + second, nanos: 0 })
}

fn changed(job: &str, line: &str) -> Vec<v1::JobChange> {
    let effect = v1::JobEffect::Changed.into();
    vec![v1::JobChange { job: job.into(), lines: vec![line.into()], effect, ..Default::default() }]
}

/// A change of several jobs, of which one is not changed.
fn refused_by_one(machine: &str) -> Vec<v1::JobChange> {
    let mut changes = changed("words", &format!("machine {machine} removed"));
    changes.push(v1::JobChange {
        job: "nightly".into(),
        lines: vec![format!("machine {machine} has 1 instances: shut them down first")],
        effect: v1::JobEffect::Refused.into(),
        code: "MACHINE_IN_USE".into(),
        ..Default::default()
    });
    changes
}

/// The effect of applying `words`, or its preview.
fn applied(dry_run: bool) -> Vec<v1::JobChange> {
    let cron = v1::FieldChange {
        field: "cron".into(),
        old_value: None,
        new_value: Some("\"0 0 2 * * ?\"".into()),
        hidden: false,
    };
    let effect = if dry_run { v1::JobEffect::WouldChange } else { v1::JobEffect::Changed };
    let lines = vec!["changed cron".into()];
    vec![v1::JobChange {
        job: "words".into(),
        lines,
        effect: effect.into(),
        fields: vec![cron],
        warnings: vec![],
        code: String::new(),
    }]
}

fn words() -> v1::JobSummary {
    v1::JobSummary {
        name: "words".into(),
        handler_type: "words".into(),
        cron: Some("0/5 * * * * ?".into()),
        time_zone: "UTC".into(),
        sharding_total_count: 3,
        description: "counts words".into(),
        status: v1::JobStatus::Enabled.into(),
        instances: 2,
        running: 1,
        leader: Some("10.0.0.1@-@c-1".into()),
        next_fire: at(5),
        counters: Some(v1::Counters {
            runs: 7,
            succeeded: 5,
            crashed: 1,
            missed: [("down".into(), 2)].into(),
            ..Default::default()
        }),
        unmonitored: false,
    }
}

fn in_flight() -> v1::RunInFlight {
    v1::RunInFlight {
        token: 17,
        fire_time: at(0),
        source: v1::RunSource::NormalTrigger.into(),
        instance: "10.0.0.7@-@w-1".into(),
        started_at: at(0),
        trigger_id: String::new(),
    }
}

fn run(item: u32) -> v1::RunRecord {
    v1::RunRecord {
        run: Some(v1::RunRef { job: "words".into(), item, token: 17 }),
        fire_time: at(0),
        source: v1::RunSource::Failover.into(),
        instance: "10.0.0.7@-@w-1".into(),
        outcome: v1::RunOutcome::Failed.into(),
        started_at: at(0),
        ended_at: Some(Timestamp { nanos: 500_000_000, ..at(1).unwrap() }),
        attempt: 2,
        error: "exit status 3\nno such file".into(),
        output: "out".into(),
        state: "TASK_ERROR".into(),
        task_id: format!("words@-@{item}@-@READY@-@10.0.0.7@-@w-1"),
        ..Default::default()
    }
}

fn items() -> Vec<v1::ItemSummary> {
    let idle = v1::ItemSummary {
        parameter: "Beijing".into(),
        owner: Some("10.0.0.7@-@w-1".into()),
        state: v1::ItemState::Idle.into(),
        token: 16,
        last_fire: at(0),
        last: Some(v1::EndedRun {
            token: 16,
            fire_time: at(0),
            outcome: v1::RunOutcome::Succeeded.into(),
            reported: true,
            ..Default::default()
        }),
        ..Default::default()
    };
    let running = v1::ItemSummary {
        item: 1,
        parameter: String::new(),
        state: v1::ItemState::Running.into(),
        running: Some(in_flight()),
        token: 17,
        last: None,
        ..idle.clone()
    };
    let disabled = v1::ItemSummary { item: 2, disabled: true, owner: None, ..idle.clone() };
    vec![idle, running, disabled]
}

fn said(part: &str, text: &str, linked: Option<&str>) -> v1::ExplainedSentence {
    let link = |text: &str| v1::SentenceLink { text: text.into(), href: "workers".into() };
    v1::ExplainedSentence {
        part: part.into(),
        text: text.into(),
        links: linked.map(link).into_iter().collect(),
    }
}

fn events() -> Vec<Event> {
    let (job, item) = ("words".to_owned(), 1);
    vec![
        Event::RunStarted(v1::RunStartedEvent { job: job.clone(), item, run: Some(in_flight()) }),
        Event::RunEnded(v1::RunEndedEvent {
            job: job.clone(),
            item,
            run: Some(in_flight()),
            outcome: v1::RunOutcome::Failed.into(),
            error: "exit status 3".into(),
            output: String::new(),
        }),
        Event::FiresNotRun(v1::FiresNotRunEvent {
            job: job.clone(),
            item,
            first: at(0),
            latest: at(10),
            count: 3,
            result: v1::FireResult::Missed.into(),
            reason: "no_worker".into(),
        }),
        Event::Assigned(v1::AssignedEvent {
            job: job.clone(),
            generation: 4,
            owners: vec![v1::InstanceItems { instance: "A".into(), items: vec![0, 1, 2] }],
            why: "an instance joined".into(),
        }),
        Event::Worker(v1::WorkerEvent {
            instance: "A".into(),
            what: "dead".into(),
            change: v1::WorkerChange::Dead.into(),
        }),
        Event::Job(v1::JobEvent {
            job,
            what: "paused".into(),
            principal: "ops".into(),
            action: v1::JobAction::Pause.into(),
        }),
        Event::EventsLost(v1::EventsLostEvent { count: 9 }),
    ]
}

macro_rules! script {
    ($($method:ident($question:ident $q:ident) -> $answer:ident { $($field:ident : $value:expr),* };)*) => {
        #[tonic::async_trait]
        impl AdminService for Script {
            $(
                async fn $method(
                    &self,
                    request: Request<v1::$question>,
                ) -> Result<Response<v1::$answer>, Status> {
                    self.note(stringify!($method), &request)?;
                    #[allow(unused_variables)]
                    let $q = request.into_inner();
                    Ok(Response::new(v1::$answer { $($field: $value),* }))
                }
            )*

            type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

            async fn watch(
                &self,
                request: Request<v1::WatchRequest>,
            ) -> Result<Response<Self::WatchStream>, Status> {
                self.note("watch", &request)?;
                let told = events().into_iter().map(|event| Ok(v1::WatchResponse { at: at(1), event: Some(event) }));
                Ok(Response::new(Box::pin(tokio_stream::iter(told.collect::<Vec<_>>()))))
            }
        }
    };
}

script! {
    list_jobs(ListJobsRequest q) -> ListJobsResponse {
        jobs: if q.name_contains == "none" { vec![] } else { vec![words()] },
        next_page_token: String::new()
    };
    get_job(GetJobRequest q) -> GetJobResponse {
        summary: Some(match q.job.as_str() {
            "words" => words(),
            job => return Err(refusal(Code::NotFound, "JOB_UNKNOWN", &format!("there is no job {job:?}: apply it first"))),
        }),
        spec: "jobName: words\nshardingTotalCount: 3\n".into(),
        generation: 4,
        epoch: 2,
        upcoming: (1..=i64::from(q.upcoming)).filter_map(|n| at(5 * n)).collect(),
        stats: q.intervals.iter().map(|interval| v1::IntervalStats {
            interval: Some(*interval), runs: 9, succeeded: 5, failed: 1, records_processed: 700, records_failed: 3, ..Default::default()
        }).collect()
    };
    apply_jobs(ApplyJobsRequest q) -> ApplyJobsResponse { changes: applied(q.dry_run) };
    trigger_job(TriggerJobRequest q) -> TriggerJobResponse { trigger_id: "t-1".into(), changes: changed("words", "items 1, 2 run now") };
    pause_job(PauseJobRequest q) -> PauseJobResponse { changes: changed(&q.job, "paused") };
    resume_job(ResumeJobRequest q) -> ResumeJobResponse { changes: changed(&q.job, "resumed") };
    set_enabled(SetEnabledRequest q) -> SetEnabledResponse { changes: changed(&q.job, if q.enabled { "enabled" } else { "disabled" }) };
    remove_job(RemoveJobRequest q) -> RemoveJobResponse {
        changes: if q.cancel { changed(&q.job, "removed") } else {
            return Err(refusal(Code::FailedPrecondition, "RUN_IN_FLIGHT", "item 1 is running: wait, or --cancel"));
        }
    };
    cancel_run(CancelRunRequest q) -> CancelRunResponse { changes: changed(&q.job, "item 3 is told to stop") };
    drain_instance(DrainInstanceRequest q) -> DrainInstanceResponse { changes: changed("", "asked to leave") };
    set_machine_enabled(SetMachineEnabledRequest q) -> SetMachineEnabledResponse {
        changes: changed("words", if q.enabled { "machine enabled" } else { "machine disabled" })
    };
    shutdown_machine(ShutdownMachineRequest q) -> ShutdownMachineResponse { changes: changed("words", "1 instances are shut down") };
    remove_machine(RemoveMachineRequest q) -> RemoveMachineResponse { changes: refused_by_one(&q.machine) };
    shutdown_instance(ShutdownInstanceRequest q) -> ShutdownInstanceResponse { changes: changed(&q.job, "shut down") };
    list_items(ListItemsRequest q) -> ListItemsResponse {
        items: match q.page_token.as_str() { "" => items()[..1].to_vec(), _ => items()[1..].to_vec() },
        next_page_token: if q.page_token.is_empty() { "0".into() } else { String::new() }
    };
    explain_item(ExplainItemRequest q) -> ExplainItemResponse {
        sentences: vec![
            said("owner", &format!("10.0.0.7@-@w-1 owns item {} of {}; its worker is attached to coordinator c-1.", q.item, q.job), Some("10.0.0.7@-@w-1")),
            said("candidates", "10.0.0.8@-@w-2 gets no items: its worker is leaving.", None),
            said("candidates", "10.0.0.9@-@w-3 gets no items: it no longer exists.", None),
        ]
    };
    list_ownership(ListOwnershipRequest q) -> ListOwnershipResponse {
        stays: vec![
            v1::OwnershipRecord { item: 1, instance: "10.0.0.7@-@w-1".into(), start_time: at(5), reason: "10.0.0.8@-@w-2 has gone".into(), generation: 4, ..Default::default() },
            v1::OwnershipRecord {
                item: 1, instance: "10.0.0.8@-@w-2".into(), start_time: at(0), end_time: at(5), reason: "first assignment".into(),
                end_reason: "10.0.0.8@-@w-2 has gone".into(), generation: 1,
            },
        ],
        next_page_token: String::new()
    };
    list_instances(ListInstancesRequest q) -> ListInstancesResponse {
        instances: vec![v1::InstanceSummary {
            instance: "10.0.0.7@-@w-1".into(), job: "words".into(), address: "10.0.0.7".into(), host: "c-1".into(),
            slots: 8, items: 2, enabled: true, running: 1, state: v1::InstanceState::Running.into(), client: "python/0.1".into(), labels: [("zone".into(), "a".into())].into(),
        }],
        next_page_token: String::new()
    };
    list_machines(ListMachinesRequest q) -> ListMachinesResponse {
        machines: vec![v1::MachineSummary {
            machine: "10.0.0.7".into(), job: if q.over_all_jobs { String::new() } else { "words".into() },
            enabled: q.over_all_jobs, instances: 1, jobs: if q.over_all_jobs { 3 } else { 1 }, disabled_jobs: 1,
        }],
        next_page_token: String::new()
    };
    list_runs(ListRunsRequest q) -> ListRunsResponse {
        runs: if q.page_token.is_empty() { vec![run(0), run(1)] } else { vec![run(2)] },
        next_page_token: if q.page_token.is_empty() { "2".into() } else { String::new() }
    };
    list_events(ListEventsRequest q) -> ListEventsResponse {
        events: vec![
            v1::EventRecord { at: at(5), job: "words".into(), kind: v1::EventKind::Job.into(), what: "paused".into(), principal: "ann".into() },
            v1::EventRecord { at: at(0), kind: v1::EventKind::Worker.into(), what: "10.0.0.7@-@w-1 dead".into(), ..Default::default() },
        ],
        next_page_token: if q.page_token.is_empty() { "2".into() } else { String::new() }
    };
    list_fires(ListFiresRequest q) -> ListFiresResponse {
        fires: vec![
            v1::FireRecord { fire_time: at(0), result: v1::FireResult::Run.into(), run: Some(run(0)), runs: 1, ..Default::default() },
            v1::FireRecord { fire_time: at(5), result: v1::FireResult::Missed.into(), reason: "no_slot".into(), ..Default::default() },
        ],
        next_page_token: String::new()
    };
    dump_job(DumpJobRequest q) -> DumpJobResponse {
        nodes: [
            ("/config".to_owned(), v1::DumpNode { data: "{\"jobName\":\"words\"}".into(), ephemeral: false }),
            ("/sharding/10/running".to_owned(), v1::DumpNode { data: "A".into(), ephemeral: true }),
            ("/sharding/2".to_owned(), v1::DumpNode { data: vec![0xff, 0].into(), ephemeral: false }),
        ].into(),
        next_page_token: String::new()
    };
    list_coordinators(ListCoordinatorsRequest q) -> ListCoordinatorsResponse {
        coordinators: vec![
            v1::CoordinatorSummary {
                coordinator_id: "10.0.0.1@-@c1".into(), url: "http://10.0.0.1:7700".into(), asked: true, version: "0".into(),
                started_at: at(0), leads: 4, workers: 2, lag: Some(prost_types::Duration { seconds: 0, nanos: 3_000_000 }),
                draining: false, state: v1::ServerHealth::Suspended.into(), proved_ago: Some(prost_types::Duration { seconds: 7, nanos: 250_000_000 }),
            },
            v1::CoordinatorSummary {
                coordinator_id: "10.0.0.2@-@c2".into(), url: "http://10.0.0.2:7700".into(), draining: true, version: "0".into(),
                started_at: at(5), ..Default::default()
            },
        ]
    };
    get_server_info(GetServerInfoRequest q) -> GetServerInfoResponse {
        version: "0".into(), namespace: "default".into(), coordinator_id: "c".into(), store: "embedded".into(),
        health: 3, started_at: at(0), now: at(5), coordinators: vec!["http://a:1".into(), "http://b:2".into()],
        history: None
    };
}
