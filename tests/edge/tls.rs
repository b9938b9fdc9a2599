//! TLS on the single port: authentication, the cost of a slow handshake, and new certificates while streams are open.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rosterd_api::access::{Credentials, Grant, Proof};
use rosterd_api::layers::methods::Role;
use rosterd_api::tls::{Clients, Material, ServerTls};
use rosterd_session::frame::FromWorker;
use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::admin_service_client::AdminServiceClient;
use rosterd_wire::proto::v1::session_request::Frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::certificates::{Authority, Pair};
use crate::support::{Served, Worker, config, heartbeat, hello, serve, soon, until};

/// A coordinator with a certificate for its name.
struct Guarded {
    served: Served,
    ca: Authority,
    clients: Authority,
    tls: Arc<ServerTls>,
}

fn material<'a>(pair: &'a Pair, clients: Option<Clients<'a>>) -> Material<'a> {
    Material { certificate: pair.certificate.as_bytes(), key: pair.key.as_bytes(), clients }
}

async fn guarded(required: bool, preface: Option<Duration>) -> Guarded {
    let (ca, clients) = (Authority::new("servers"), Authority::new("clients"));
    let (pair, pem) = (ca.server(&["coordinator.example"]), clients.pem());
    let known = Clients { ca: pem.as_bytes(), required };
    let tls = ServerTls::new(&material(&pair, Some(known))).unwrap();
    let mut config = config();
    config.tls = Some(tls.clone());
    let by = |subject: &str| Proof::Certificate(subject.parse().unwrap());
    config.credentials = Credentials::new(vec![
        Grant::new("host", Role::Worker, by("cn:worker-7")),
        Grant::new("wall", Role::Viewer, by("cn:wall")),
    ]);
    if let Some(preface) = preface {
        config.listen.preface = preface;
    }
    Guarded { served: serve(config).await, ca, clients, tls }
}

impl Guarded {
    async fn channel(&self, identity: Option<&Pair>) -> Result<Channel, tonic::transport::Error> {
        self.channel_by(&self.ca, identity).await
    }

    async fn channel_by(
        &self,
        ca: &Authority,
        identity: Option<&Pair>,
    ) -> Result<Channel, tonic::transport::Error> {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca.pem()));
        let tls = tls.domain_name("coordinator.example");
        let tls = match identity {
            Some(pair) => tls.identity(Identity::from_pem(&pair.certificate, &pair.key)),
            None => tls,
        };
        let endpoint = Endpoint::from_shared(format!("https://{}", self.served.address)).unwrap();
        soon("a connection", endpoint.tls_config(tls).unwrap().connect()).await
    }
}

async fn info(channel: Channel) -> Result<(), tonic::Status> {
    let call = AdminServiceClient::new(channel);
    soon("an answer", { call }.get_server_info(v1::GetServerInfoRequest {})).await.map(|_| ())
}

/// The answer of HTTP/1.1 over TLS, and the negotiated protocol.
async fn get(address: SocketAddr, ca: &Authority, offered: &[&str]) -> (String, Option<Vec<u8>>) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
    let socket = TcpStream::connect(address).await.unwrap();
    let name = "coordinator.example".try_into().unwrap();
    let mut stream =
        soon("a handshake", TlsConnector::from(Arc::new(config)).connect(name, socket)).await.unwrap();
    let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    let request = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer)).await.unwrap();
    (answer, agreed)
}

async fn closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let _ = soon("the end of the connection", stream.read_to_end(&mut rest)).await;
    rest
}

#[tokio::test]
async fn one_port_speaks_grpc_and_http_over_tls_and_nothing_in_the_clear() {
    let it = guarded(false, None).await;
    let (answer, agreed) = get(it.served.address, &it.ca, &["http/1.1"]).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(agreed.as_deref(), Some(&b"http/1.1"[..]));
    info(it.channel(Some(&it.clients.client("wall"))).await.unwrap()).await.unwrap();
    let mut plain = TcpStream::connect(it.served.address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    assert!(!closed(&mut plain).await.starts_with(b"HTTP"));
    let metrics = it.served.metrics.clone();
    until("the handshake to be counted", || {
        metrics.connections_refused.get_or_create(&[("reason", "handshake")]).get() == 1
    })
    .await;
}

#[tokio::test]
async fn a_certificate_names_the_caller() {
    let mut it = guarded(false, None).await;
    let channel = it.channel(Some(&it.clients.client("worker-7"))).await.unwrap();
    let status = info(channel.clone()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::PermissionDenied, "a worker does not look: {status}");
    let (_worker, seen) = it.served.attached(channel).await;
    assert_eq!(seen.peer.principal.as_deref(), Some("host"));
    let stranger = info(it.channel(Some(&it.clients.client("worker-8"))).await.unwrap()).await.unwrap_err();
    assert_eq!(stranger.code(), tonic::Code::Unauthenticated);
    assert!(stranger.message().contains("names cn:worker-8"), "{}", stranger.message());
    let nobody = info(it.channel(None).await.unwrap()).await.unwrap_err();
    assert_eq!(nobody.code(), tonic::Code::Unauthenticated);
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused_at_the_handshake() {
    for required in [false, true] {
        let it = guarded(required, None).await;
        // The coordinator's own authority is not that of its clients.
        for foreign in [Authority::new("clients").client("wall"), it.ca.client("wall")] {
            // With TLS 1.3 a client learns of it with its first answer, or before.
            let refused = match it.channel(Some(&foreign)).await {
                Ok(channel) => {
                    info(channel).await.is_err_and(|status| status.code() != tonic::Code::Unauthenticated)
                }
                Err(_) => true,
            };
            assert!(refused);
        }
        let without = match it.channel(None).await {
            Ok(channel) => info(channel).await.unwrap_err().code(),
            Err(_) => tonic::Code::Unavailable,
        };
        assert_eq!(without == tonic::Code::Unauthenticated, !required, "{without:?}");
        info(it.channel(Some(&it.clients.client("wall"))).await.unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_handshake_that_takes_its_time_delays_nobody_and_is_ended() {
    let mut it = guarded(false, Some(Duration::from_secs(3))).await;
    // The first bytes of a handshake record that promises more.
    let record = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00];
    let mut slow = Vec::new();
    for opening in [&record[..0], &record[..1], &record[..]] {
        let mut stream = TcpStream::connect(it.served.address).await.unwrap();
        stream.write_all(opening).await.unwrap();
        slow.push(stream);
    }
    let channel = it.channel(Some(&it.clients.client("worker-7"))).await.unwrap();
    let (worker, mut seen) = it.served.attached(channel).await;
    for stream in &mut slow {
        closed(stream).await;
    }
    let metrics = it.served.metrics.clone();
    until("the places to be given back", || metrics.connections.get() == 1).await;
    assert_eq!(metrics.connections_refused.get_or_create(&[("reason", "silent")]).get(), 3);
    worker.send(heartbeat(1)).await;
    assert!(matches!(seen.frame().await, Some(FromWorker::Heartbeat { .. })));
}

#[tokio::test]
async fn new_certificates_are_for_new_connections_and_bad_ones_for_none() {
    let mut it = guarded(false, None).await;
    let worker_7 = it.clients.client("worker-7");
    let channel = it.channel(Some(&worker_7)).await.unwrap();
    let (worker, mut seen): (Worker, _) = it.served.attached(channel).await;
    let (next, pem) = (Authority::new("servers, next"), it.clients.pem());
    let clients = || Some(Clients { ca: pem.as_bytes(), required: false });
    let pair = next.server(&["coordinator.example"]);
    let broken = Pair { key: it.ca.client("x").key, ..pair.clone() };
    it.tls.replace(&material(&broken, clients())).unwrap_err();
    it.channel(None).await.unwrap();
    it.tls.replace(&material(&pair, clients())).unwrap();
    assert!(
        it.channel(None).await.is_err(),
        "it shows the new certificate, which the old authority did not sign"
    );
    let wall = it.clients.client("wall");
    info(it.channel_by(&next, Some(&wall)).await.unwrap()).await.unwrap();
    for sequence in 1..=3 {
        worker.send(heartbeat(sequence)).await;
        let frame = seen.frame().await;
        assert!(
            matches!(frame, Some(FromWorker::Heartbeat { sequence: s, .. }) if s == sequence),
            "{frame:?}"
        );
    }
    let late = Worker::open(it.channel_by(&next, Some(&worker_7)).await.unwrap()).await;
    late.send(Frame::Hello(hello())).await;
    assert_eq!(it.served.seen().await.peer.principal.as_deref(), Some("host"));
}
