//! Who may call what: the table of rights against every method of the descriptor set.

use prost::Message as _;
use rosterd::api::layers::auth::Credential;
use rosterd::api::layers::methods::Role;
use rosterd::proto::v1::DESCRIPTOR;
use rosterd::proto::v1::session_request::Frame;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::pages::get_with;
use crate::support::{Served, Worker, config, hello, serve, soon};

async fn guarded() -> Served {
    let mut config = config();
    config.credentials = vec![
        Credential::new("fleet", Role::Worker, "worker-secret"),
        Credential::new("wall", Role::Viewer, "viewer-secret"),
        Credential::new("ops", Role::Operator, "operator-secret"),
    ];
    serve(config).await
}

async fn call(channel: &Channel, path: &str, secret: Option<&str>) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let mut request = tonic::Request::new(());
    if let Some(secret) = secret {
        request.metadata_mut().insert("authorization", format!("Bearer {secret}").parse().unwrap());
    }
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let call = client.unary(request, path.parse().unwrap(), codec);
    soon("an answer", call).await.map(|_| ())
}

/// Every method of our services, whether it streams, and what it takes.
fn methods() -> Vec<(String, bool, Role)> {
    let set = prost_types::FileDescriptorSet::decode(DESCRIPTOR).unwrap();
    let mut all = Vec::new();
    for service in set.file.iter().flat_map(|file| &file.service) {
        for method in &service.method {
            let looks = ["List", "Get", "Dump", "Watch"].iter().any(|verb| method.name().starts_with(verb));
            let role = match service.name() {
                "WorkerService" => Role::Worker,
                "AdminService" if looks => Role::Viewer,
                "AdminService" => Role::Operator,
                other => panic!("{other} is new: say here who may call it"),
            };
            let streams = method.client_streaming() || method.server_streaming();
            all.push((format!("/rosterd.v1.{}/{}", service.name(), method.name()), streams, role));
        }
    }
    assert!(all.len() >= 20);
    all
}

#[tokio::test]
async fn every_method_refuses_who_may_not_call_it() {
    let served = guarded().await;
    let channel = served.channel().await;
    for (path, streams, takes) in methods() {
        for secret in [None, Some(""), Some("operator-secret2"), Some("OPERATOR-SECRET")] {
            let status = call(&channel, &path, secret).await.unwrap_err();
            assert_eq!(status.code(), Code::Unauthenticated, "{path} with {secret:?}");
        }
        for (role, secret) in [
            (Role::Worker, "worker-secret"),
            (Role::Viewer, "viewer-secret"),
            (Role::Operator, "operator-secret"),
        ] {
            let may = if takes == Role::Viewer { role >= Role::Viewer } else { role == takes };
            if may && streams {
                continue;
            }
            let denied = call(&channel, &path, Some(secret))
                .await
                .is_err_and(|status| matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated));
            assert_eq!(denied, !may, "{path} as {role:?}");
        }
    }
    assert!(served.fake.operations.lock().unwrap().len() < 20, "a refused change was carried out");
}

#[tokio::test]
async fn a_worker_is_known_by_its_credential() {
    let mut served = guarded().await;
    let channel = served.channel().await;
    let (sender, queue) = tokio::sync::mpsc::channel(4);
    let mut request = tonic::Request::new(tokio_stream::wrappers::ReceiverStream::new(queue));
    request.metadata_mut().insert("authorization", "Bearer worker-secret".parse().unwrap());
    let mut client = rosterd::proto::v1::worker_service_client::WorkerServiceClient::new(channel);
    let frames = client.session(request).await.unwrap().into_inner();
    let worker = Worker { sender, frames };
    worker.send(Frame::Hello(hello())).await;
    assert_eq!(served.seen().await.peer.principal.as_deref(), Some("fleet"));
}

#[tokio::test]
async fn only_health_is_open() {
    let served = guarded().await;
    let channel = served.channel().await;
    call(&channel, "/grpc.health.v1.Health/Check", None).await.unwrap();
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    assert_eq!(call(&channel, reflection, None).await.unwrap_err().code(), Code::Unauthenticated);
    for path in
        ["/no.such.Service/Method", "/rosterd.v1.AdminService/NoSuch", "/rosterd.v1.AdminService//ListJobs"]
    {
        assert_eq!(call(&channel, path, None).await.unwrap_err().code(), Code::Unauthenticated, "{path}");
        let status = call(&channel, path, Some("operator-secret")).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{path}");
    }
    let operator = "Authorization: Bearer operator-secret\r\n";
    for (path, without, with) in [
        ("/healthz", 200, 200),
        ("/", 401, 200),
        ("/metrics", 401, 200),
        ("//metrics", 401, 403),
        ("/metrics/", 401, 403),
        ("/%6detrics", 401, 403),
        ("/healthz/../metrics", 401, 403),
        ("/METRICS", 401, 403),
    ] {
        assert_eq!(get_with(served.address, path, "").await.0, without, "{path}");
        assert_eq!(get_with(served.address, path, operator).await.0, with, "{path}");
    }
}
