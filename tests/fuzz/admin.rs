//! Input of people and other coordinators: requests of the admin service with their page tokens, the files of TLS, and
//! the nodes of coordinators.

use std::str::from_utf8;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use prost::Message;
use rosterd_api::access::subject::PeerNames;
use rosterd_api::grpc::admin::{Admin, Info};
use rosterd_api::operator::Operator;
use rosterd_api::tls::{Clients, Material, ServerTls};
use rosterd_domain::id::*;
use rosterd_domain::item::{Missed, Outcome, Running, Source};
use rosterd_domain::plan::{Entry, FireResult};
use rosterd_domain::time::Time;
use rosterd_domain::txn::{Commit, Purpose, Txn, Write};
use rosterd_history::{Clock, EventKind, History, Options, Reader};
use rosterd_registry::Registry;
use rosterd_registry::memory::{MemoryStore, SessionOptions};
use rosterd_runtime::clock::Simulated;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_server::AdminService;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tonic::{Code, Request, Status};

use crate::stream::{apply, serves, start};

/// The moment at which it happens.
const NOW: i64 = 1_795_219_200;
/// Most requests of one input.
const MOST_REQUESTS: usize = 60;
/// Most pages that are read after one request.
const MOST_PAGES: usize = 30;

pub const REQUEST_WORDS: &[&str] = &[
    "\u{a}\u{5}words",
    "\u{a}\u{7}by-hand",
    "words",
    "10.0.0.7@-@w1",
    "10.0.0.7",
    "1795219230000.7",
    "9223372036854775807.",
    "-1.",
    ".18446744073709551616",
    "\u{1}",
    "/config",
    "\u{8}\u{1}",
    "jobName: words\n",
    "cron: 0/5 * * * * ?\n",
    "shardingTotalCount: 2\n",
];

/// A history with a bit of everything: the same for all inputs, which only read it.
static HISTORY: LazyLock<(tempfile::TempDir, Reader)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let clock: Clock = Arc::new(|| Time::from_seconds(NOW));
    let (recorder, reader) = History::open(dir.path().join("history.db"), Options::default(), clock).unwrap();
    let job = JobName::new("words").unwrap();
    for n in 0..40_u32 {
        let (item, token) = (Item(n % 3), Token(u64::from(n) + 1));
        let fire = Time::from_seconds(NOW + 5 * i64::from(n / 3));
        if n % 7 == 6 {
            let result = FireResult::Missed(Missed::NoSlot);
            recorder.record(
                &job,
                fire,
                &Entry::NotRun { item, first: fire, latest: fire, count: 1, result },
                None,
            );
            continue;
        }
        let run = Running {
            fire,
            source: Source::NormalTrigger,
            instance: InstanceId::new("10.0.0.7@-@w1").unwrap(),
            worker: WorkerId::new("w1").unwrap(),
            since: fire,
            trigger: None,
            held: false,
            cancelled: false,
            deaths: 0,
        };
        recorder.record(&job, fire, &Entry::Started { item, token, run: run.clone() }, None);
        let ended = Entry::Ended { item, token, run, outcome: Outcome::Succeeded, at: fire, requeued: false };
        recorder.record(&job, fire, &ended, None);
        recorder.event(fire, Some(&job), EventKind::Job, "changed", Some("ann"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(recorder.stop());
    (dir, reader)
});

/// A refusal must describe what is wrong with the request, or with its timing. It must never be an internal error.
fn told(status: &Status) -> String {
    let text = status.message();
    assert!(!matches!(status.code(), Code::Internal | Code::Unknown | Code::DataLoss), "{status:?}");
    assert!(!text.is_empty() && text.len() <= 64 << 10, "a refusal of {} bytes", text.len());
    text.chars().filter(char::is_ascii_lowercase).take(40).collect()
}

/// Calls a method with a message from the bytes, and reads all pages of the answer: each page token that it returns
/// must be accepted.
macro_rules! methods {
    ($admin:ident, $which:ident, $bytes:ident; plain: $($n:literal $method:ident $request:ident,)*
     paged: $($paged_n:literal $paged:ident $paged_request:ident,)*) => {
        match $which {
            $($n => match v1::$request::decode($bytes) {
                Ok(question) => match $admin.$method(Request::new(question)).await {
                    Ok(_) => concat!(stringify!($method), " ").to_owned(),
                    Err(status) => told(&status),
                },
                Err(_) => "no message".to_owned(),
            },)*
            $($paged_n => match v1::$paged_request::decode($bytes) {
                Ok(mut question) => {
                    let mut pages = 0;
                    loop {
                        match $admin.$paged(Request::new(question.clone())).await {
                            Err(status) => {
                                assert!(pages == 0 || status.code() != Code::InvalidArgument, "its own token: {status:?}");
                                break told(&status);
                            }
                            Ok(answer) => {
                                let next = answer.into_inner().next_page_token;
                                pages += 1;
                                if next.is_empty() || pages == MOST_PAGES {
                                    break format!("{} {} ", stringify!($paged), pages.min(3));
                                }
                                assert_ne!(next, question.page_token, "the same page again");
                                question.page_token = next;
                            }
                        }
                    }
                }
                Err(_) => "no message".to_owned(),
            },)*
            _ => "no method".to_owned(),
        }
    };
}

async fn ask(admin: &Admin, which: u8, bytes: &[u8]) -> String {
    methods! { admin, which, bytes;
        plain:
            1 get_job GetJobRequest,
            2 apply_jobs ApplyJobsRequest,
            3 trigger_job TriggerJobRequest,
            4 pause_job PauseJobRequest,
            5 resume_job ResumeJobRequest,
            6 set_enabled SetEnabledRequest,
            7 remove_job RemoveJobRequest,
            8 cancel_run CancelRunRequest,
            9 drain_instance DrainInstanceRequest,
            10 shutdown_instance ShutdownInstanceRequest,
            21 set_machine_enabled SetMachineEnabledRequest,
            22 shutdown_machine ShutdownMachineRequest,
            23 remove_machine RemoveMachineRequest,
            18 get_server_info GetServerInfoRequest,
            19 list_coordinators ListCoordinatorsRequest,
            20 watch WatchRequest,
        paged:
            0 list_jobs ListJobsRequest,
            11 list_items ListItemsRequest,
            12 list_instances ListInstancesRequest,
            13 list_machines ListMachinesRequest,
            14 list_runs ListRunsRequest,
            15 list_fires ListFiresRequest,
            16 list_events ListEventsRequest,
            17 dump_job DumpJobRequest,
    }
}

/// Requests one after the other: the number of a method, the length in two bytes, and a message. The coordinator must
/// survive them, and serve the next client.
pub fn requests(input: &[u8]) -> String {
    LazyLock::force(&HISTORY);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let store = MemoryStore::new(&Namespace::new("default").unwrap());
        let (handle, driver) = start(&store);
        let driver = tokio::spawn(driver.run());
        apply(&handle).await;
        let (backend, history) = (Arc::new(handle.clone()), Arc::new(HISTORY.1.clone()));
        let admin = Admin {
            backend: backend.clone(),
            history: history.clone(),
            operator: Arc::new(Operator { backend, history }),
            clock: Arc::new(Simulated::new(Time::from_seconds(NOW))),
            info: Info { registry: "embedded", started: Time::from_seconds(NOW) },
            stop: tokio_util::sync::CancellationToken::new(),
            max_send: 4 << 10,
        };
        let (mut rest, mut kinds) = (input, std::collections::BTreeSet::new());
        for _ in 0..MOST_REQUESTS {
            let [which, high, low, more @ ..] = rest else { break };
            let length = usize::from(u16::from_be_bytes([*high, *low])).min(more.len());
            kinds.insert(ask(&admin, *which, &more[..length]).await);
            assert!(!driver.is_finished(), "the coordinator has ended");
            rest = &more[length..];
        }
        kinds.insert(serves(&handle).await);
        handle.stop();
        driver.await.unwrap();
        kinds.into_iter().collect()
    })
}

/// Each line is the node of a coordinator: which of several, and its data. The real coordinator must go on leading and
/// hosting.
pub fn coordinators(input: &[u8]) -> String {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let store = MemoryStore::new(&Namespace::new("default").unwrap());
        let other = store.open("other", SessionOptions::default());
        let (handle, driver) = start(&store);
        let driver = tokio::spawn(driver.run());
        apply(&handle).await;
        for line in input.split(|byte| *byte == b'\n').take(MOST_REQUESTS) {
            let [which, _, data @ ..] = line else { continue };
            let Ok(id) = CoordinatorId::new(format!("10.0.0.{}@-@other", which % 5)) else { continue };
            let data: Arc<str> = String::from_utf8_lossy(data).into();
            let mut txn = Txn::new(Purpose::Other);
            txn.write(Write::Coordinator { id, data });
            assert!(matches!(other.commit(txn).await, Commit::Committed(_)));
            tokio::time::sleep(Duration::from_millis(700)).await;
            assert!(!driver.is_finished(), "the coordinator has ended");
        }
        let members = handle.members().await.unwrap();
        let draining = members.iter().filter(|row| row.member.draining).count();
        let kind = format!("{} of which {draining} leave, {}", members.len(), serves(&handle).await);
        handle.stop();
        driver.await.unwrap();
        kind
    })
}

/// The TLS files, separated by a marker line: the certificates, the key, the CA of clients. A refusal must not contain
/// the key.
pub fn certificates(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let mut files = text.splitn(3, "\n=====\n").map(str::as_bytes);
    let (certificate, key) = (files.next().unwrap_or_default(), files.next().unwrap_or_default());
    let clients = files.next().map(|ca| Clients { ca, required: input.len().is_multiple_of(2) });
    let mut kind = match ServerTls::new(&Material { certificate, key, clients }) {
        Ok(_) => "in force ".to_owned(),
        Err(why) => {
            let why = why.to_string();
            assert!(!why.is_empty() && why.len() <= 4 << 10, "{} bytes of why", why.len());
            let lines = from_utf8(key).unwrap_or_default().lines().filter(|line| line.len() > 30);
            assert!(lines.clone().all(|line| !why.contains(line)), "it shows the key: {why}");
            why.chars().filter(char::is_ascii_lowercase).take(60).collect()
        }
    };
    for der in CertificateDer::pem_slice_iter(certificate).take(10).flatten() {
        let names = PeerNames::of(&der);
        for subject in names.subjects() {
            // A grant can name every valid subject.
            let text = subject.to_string();
            if let Ok(again) = text.parse::<rosterd_api::access::subject::Subject>() {
                assert_eq!(again, subject);
            }
        }
        kind += &names.subjects().count().to_string();
    }
    kind
}

/// Inputs that are refused at once find nothing: the kept requests get through, and read several pages.
#[test]
fn the_kept_requests_are_answered_and_turn_pages() {
    let kept = crate::engine::corpus("admin");
    let kinds: String = kept.iter().map(|(_, input)| requests(input)).collect();
    let answered = [
        "list_jobs 1",
        "get_job",
        "apply_jobs",
        "trigger_job",
        "pause_job",
        "resume_job",
        "set_enabled",
        "remove_job",
        "list_items 1",
        "list_instances 1",
        "list_machines 1",
        "list_runs 3",
        "list_fires 3",
        "list_events 3",
        "dump_job 1",
        "get_server_info",
        "list_coordinators",
        "watch",
    ];
    let missing: Vec<_> = answered.iter().filter(|kind| !kinds.contains(**kind)).collect();
    assert!(missing.is_empty(), "{missing:?} are not among {kinds}");
    let kept = crate::engine::corpus("certificates");
    let (_, pair) = kept.iter().find(|(file, _)| file.ends_with("pair")).unwrap();
    assert!(certificates(pair).starts_with("in force"));
}
