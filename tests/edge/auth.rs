//! Authorization: the table of rights against every method of the descriptor set.

use std::collections::BTreeSet;

use prost::Message as _;
use rosterd_api::access::secret::{ID_BYTES, SECRET_BYTES, Secret};
use rosterd_api::access::{Credentials, Grant};
use rosterd_api::layers::methods::Role;
use rosterd_wire::proto::v1::DESCRIPTOR;
use rosterd_wire::proto::v1::session_request::Frame;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::pages::get_with;
use crate::support::{Served, Worker, config, hello, serve, soon};

/// A unique secret.
pub(crate) fn secret(number: u8) -> Secret {
    Secret::from_bytes([number; ID_BYTES], [number; SECRET_BYTES])
}

const NAMES: [&str; 4] = ["fleet", "wall", "ops", "boss"];

/// One grant of each role.
pub(crate) fn grants() -> Vec<Grant> {
    let roles = Role::ALL.into_iter().zip(NAMES).zip(1..);
    roles.map(|((role, name), number)| Grant::by_secret(name, role, &secret(number))).collect()
}

async fn guarded() -> Served {
    let mut config = config();
    config.credentials = Credentials::new(grants());
    serve(config).await
}

/// The callers in the table below: no credential, a wrong secret, one of each role, a revoked one.
fn columns() -> [(&'static str, Option<String>); 7] {
    let text = |number| Some(secret(number).text().to_owned());
    [
        ("nobody", None),
        ("wrong", text(99)),
        ("worker", text(1)),
        ("viewer", text(2)),
        ("operator", text(3)),
        ("admin", text(4)),
        ("revoked", text(5)),
    ]
}

const OPEN: &str = "ok ok ok ok ok ok ok";
const WORKS: &str = "?? ?? ok no no no ??";
const LOOKS: &str = "?? ?? no ok ok ok ??";
const KEEPS: &str = "?? ?? no no ok ok ??";
const MAKES: &str = "?? ?? no no no ok ??";

/// Every method, and the result for each caller: `??` is UNAUTHENTICATED, `no` PERMISSION_DENIED.
const TABLE: [(&str, &str); 37] = [
    ("/rosterd.v1.WorkerService/Session", WORKS),
    ("/rosterd.v1.AdminService/ListJobs", LOOKS),
    ("/rosterd.v1.AdminService/GetJob", LOOKS),
    ("/rosterd.v1.AdminService/ListItems", LOOKS),
    ("/rosterd.v1.AdminService/ExplainItem", LOOKS),
    ("/rosterd.v1.AdminService/ListOwnership", LOOKS),
    ("/rosterd.v1.AdminService/ListInstances", LOOKS),
    ("/rosterd.v1.AdminService/ListMachines", LOOKS),
    ("/rosterd.v1.AdminService/ListRuns", LOOKS),
    ("/rosterd.v1.AdminService/ListEvents", LOOKS),
    ("/rosterd.v1.AdminService/ListFires", LOOKS),
    ("/rosterd.v1.AdminService/DumpJob", LOOKS),
    ("/rosterd.v1.AdminService/GetServerInfo", LOOKS),
    ("/rosterd.v1.AdminService/ListCoordinators", LOOKS),
    ("/rosterd.v1.AdminService/Watch", LOOKS),
    ("/rosterd.v1.AdminService/TriggerJob", KEEPS),
    ("/rosterd.v1.AdminService/PauseJob", KEEPS),
    ("/rosterd.v1.AdminService/ResumeJob", KEEPS),
    ("/rosterd.v1.AdminService/SetEnabled", KEEPS),
    ("/rosterd.v1.AdminService/CancelRun", KEEPS),
    ("/rosterd.v1.AdminService/DrainInstance", KEEPS),
    ("/rosterd.v1.AdminService/ShutdownInstance", KEEPS),
    ("/rosterd.v1.AdminService/SetMachineEnabled", KEEPS),
    ("/rosterd.v1.AdminService/ShutdownMachine", KEEPS),
    ("/rosterd.v1.AdminService/RemoveMachine", KEEPS),
    ("/rosterd.v1.AdminService/ApplyJobs", MAKES),
    ("/rosterd.v1.AdminService/RemoveJob", MAKES),
    ("/rosterd.v1.AlarmService/ListAlarms", LOOKS),
    ("/rosterd.v1.AlarmService/PutSilence", KEEPS),
    ("/rosterd.v1.AlarmService/DeleteSilence", KEEPS),
    ("/rosterd.v1.AlarmService/TestAlarms", KEEPS),
    ("/rosterd.v1.BackupService/Backup", MAKES),
    ("/rosterd.v1.BackupService/RestoreJob", MAKES),
    ("/grpc.health.v1.Health/Check", OPEN),
    ("/grpc.health.v1.Health/Watch", OPEN),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", LOOKS),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", LOOKS),
];

/// The same for pages: 401 and 403.
const PAGES: [(&str, &str); 5] =
    [("/", OPEN), ("/plain", LOOKS), ("/metrics", LOOKS), ("/healthz", OPEN), ("/api/session", OPEN)];

async fn call(channel: &Channel, path: &str, secret: Option<&str>, streams: bool) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let mut metadata = tonic::metadata::MetadataMap::new();
    if let Some(secret) = secret {
        metadata.insert("authorization", format!("Bearer {secret}").parse().unwrap());
    }
    if streams {
        // The response header shows whether it is allowed; the rest is irrelevant.
        let mut request = tonic::Request::new(tokio_stream::iter([()]));
        *request.metadata_mut() = metadata;
        let call = client.streaming(request, path.parse().unwrap(), codec);
        return soon("an answer", call).await.map(|_| ());
    }
    let mut request = tonic::Request::new(());
    *request.metadata_mut() = metadata;
    soon("an answer", client.unary(request, path.parse().unwrap(), codec)).await.map(|_| ())
}

/// Every method of the descriptor sets that are served, and whether it streams.
fn methods() -> Vec<(String, bool)> {
    let sets = [
        DESCRIPTOR,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut all = Vec::new();
    for file in sets.iter().flat_map(|set| prost_types::FileDescriptorSet::decode(*set).unwrap().file) {
        for service in &file.service {
            for method in &service.method {
                let streams = method.client_streaming() || method.server_streaming();
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                // Served by no version of tonic-health: a list of all services.
                if path != "/grpc.health.v1.Health/List" {
                    all.push((path, streams));
                }
            }
        }
    }
    all
}

#[tokio::test]
async fn every_method_is_open_to_those_in_the_table_and_to_nobody_else() {
    let methods = methods();
    let served_paths: BTreeSet<_> = methods.iter().map(|(path, _)| path.as_str()).collect();
    let listed: BTreeSet<_> = TABLE.iter().map(|(path, _)| *path).collect();
    assert_eq!(served_paths, listed, "a method came or went: say in TABLE who may call it");

    let credentials =
        Credentials::new([grants(), vec![Grant::by_secret("was", Role::Admin, &secret(5))]].concat());
    let mut config = config();
    config.credentials = credentials.clone();
    let served = serve(config).await;
    assert_eq!(credentials.replace(grants()), ["was"]);
    let channel = served.channel().await;
    for (path, row) in TABLE {
        let streams = methods.iter().any(|(method, streams)| method == path && *streams);
        for ((who, secret), expected) in columns().into_iter().zip(row.split(' ')) {
            let got = match call(&channel, path, secret.as_deref(), streams).await {
                Err(status) if status.code() == Code::Unauthenticated => "??",
                Err(status) if status.code() == Code::PermissionDenied => "no",
                // Any other error of an empty request comes from its handler.
                _ => "ok",
            };
            assert_eq!(got, expected, "{path} as {who}");
        }
    }
    for (path, row) in PAGES {
        for ((who, secret), expected) in columns().into_iter().zip(row.split(' ')) {
            let head = secret.map(|secret| format!("Authorization: Bearer {secret}\r\n")).unwrap_or_default();
            let got = match get_with(served.address, path, &head).await.0 {
                401 => "??",
                403 => "no",
                200 => "ok",
                other => panic!("{path} as {who}: {other}"),
            };
            assert_eq!(got, expected, "{path} as {who}");
        }
    }
    // Two roles may change, with seven methods, and one with two more; refused requests were not executed. An empty
    // request is refused before that.
    assert!(served.fake.operations.lock().unwrap().len() <= 1, "only an empty apply gets so far");
}

#[tokio::test]
async fn what_only_looks_like_a_secret_is_none() {
    let served = guarded().await;
    let channel = served.channel().await;
    let good = secret(4).text().to_owned();
    let path = "/rosterd.v1.AdminService/ListJobs";
    call(&channel, path, Some(&good), false).await.unwrap();
    for wrong in ["", &good[1..], &good.to_uppercase(), &format!("{good}A"), &good[..good.len() - 1]] {
        let status = call(&channel, path, Some(wrong), false).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{wrong:?}");
        assert!(!status.message().contains(&good[30..]), "{}", status.message());
    }
}

#[tokio::test]
async fn a_worker_is_known_by_its_credential() {
    let mut served = guarded().await;
    let channel = served.channel().await;
    let (sender, queue) = tokio::sync::mpsc::channel(4);
    let mut request = tonic::Request::new(tokio_stream::wrappers::ReceiverStream::new(queue));
    request.metadata_mut().insert("authorization", format!("Bearer {}", secret(1).text()).parse().unwrap());
    let mut client = rosterd_wire::proto::v1::worker_service_client::WorkerServiceClient::new(channel);
    let frames = client.session(request).await.unwrap().into_inner();
    let worker = Worker { sender, frames };
    worker.send(Frame::Hello(hello())).await;
    assert_eq!(served.seen().await.peer.principal.as_deref(), Some("fleet"));
}

#[tokio::test]
async fn a_path_in_another_spelling_is_open_to_no_one() {
    let served = guarded().await;
    let channel = served.channel().await;
    let admin = secret(4).text().to_owned();
    for path in
        ["/no.such.Service/Method", "/rosterd.v1.AdminService/NoSuch", "/rosterd.v1.AdminService//ListJobs"]
    {
        let refused = async |secret| call(&channel, path, secret, false).await.unwrap_err().code();
        assert_eq!(refused(None).await, Code::Unauthenticated, "{path}");
        assert_eq!(refused(Some(&admin)).await, Code::PermissionDenied, "{path}");
    }
    let head = format!("Authorization: Bearer {admin}\r\n");
    for path in ["//metrics", "/metrics/", "/%6detrics", "/healthz/../metrics", "/METRICS"] {
        assert_eq!(get_with(served.address, path, "").await.0, 401, "{path}");
        assert_eq!(get_with(served.address, path, &head).await.0, 403, "{path}");
    }
}
