//! TLS to the servers: authentication, and the owner of the nodes.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rosterd_registry::Registry;
use rosterd_registry::zookeeper::{Backoff, ConnectError, Tls, ZooKeeperOptions, ZooKeeperRegistry};

use super::connect;
use crate::words::*;
use crate::zookeeper_server::Ensemble;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this name, and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A server that requires TLS certificates of `authority`, with its secure port.
fn secure(authority: &Authority, dir: &Path) -> (Ensemble, u16) {
    let (certificate, key) = authority.issue("127.0.0.1");
    let (keys, trusted) = (dir.join("keys.pem"), dir.join("trusted.pem"));
    std::fs::write(&keys, format!("{key}{certificate}")).unwrap();
    std::fs::write(&trusted, authority.pem()).unwrap();
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let ensemble = Ensemble::start(
        1,
        &[
            format!("secureClientPort={port}"),
            "secureClientPortAddress=127.0.0.1".into(),
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".into(),
            "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider".into(),
            format!("ssl.keyStore.location={}", keys.display()),
            "ssl.keyStore.type=PEM".into(),
            format!("ssl.trustStore.location={}", trusted.display()),
            "ssl.trustStore.type=PEM".into(),
            "ssl.clientAuth=need".into(),
            "ssl.hostnameVerification=false".into(),
        ],
    );
    // The plain port is open before this one is.
    let deadline = std::time::Instant::now() + super::PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(std::time::Instant::now() < deadline, "the server does not open its secure port");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    (ensemble, port)
}

#[tokio::test]
async fn a_certificate_is_an_identity_and_only_the_right_servers_are_believed() {
    let dir = crate::words::dir();
    let authority = Authority::new();
    let (ensemble, port) = secure(&authority, dir.path());
    let options = |ca: String, identity: Option<(String, String)>| ZooKeeperOptions {
        tls: Some(Tls { ca, identity }),
        backoff: Backoff { retries: 0, ..Backoff::default() },
        ..ZooKeeperOptions::new(format!("127.0.0.1:{port}"), namespace())
    };
    let registry = connect(&options(authority.pem(), Some(authority.issue("worker")))).await;
    put(&registry, [create(&j(), "i1")]).await;
    assert!(registry.job(&j()).await.unwrap().is_some());
    let plain = super::raw(&ZooKeeperOptions::new(ensemble.list(), namespace())).await;
    let error = plain.get_data("/ns/job").await.unwrap_err();
    assert_eq!(error, zookeeper_client::Error::NoAuth, "its nodes are not anybody's");
    let stranger = Authority::new();
    for (ca, identity) in [
        (stranger.pem(), Some(authority.issue("worker"))),
        (authority.pem(), Some(stranger.issue("worker"))),
        (authority.pem(), None),
    ] {
        let error = ZooKeeperRegistry::connect(options(ca, identity)).await.err().expect("it was let in");
        let text = error.to_string();
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{text}");
        assert!(text.contains("speaks TLS") && text.contains("certificate"), "{text}");
    }
    let error =
        ZooKeeperRegistry::connect(options("no PEM".into(), None)).await.err().expect("no certificates");
    assert!(matches!(error, ConnectError::Tls(_)), "{error}");
}
