//! The log lines of refused clients.

use std::io::Write;
use std::sync::{Arc, Mutex};

use rosterd_api::access::Credentials;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tracing::subscriber::DefaultGuard;

use crate::auth::{grants, secret};
use crate::pages::get_with;
use crate::support::{config, serve, soon, until};

/// The lines of this thread, on which all of the test runs.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (lines, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn with(&self, what: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(what)).map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_failed_authentication_is_one_line_with_the_peer_however_often_it_is_tried() {
    let (lines, _guard) = Lines::listen();
    let mut config = config();
    config.credentials = Credentials::new(grants());
    let served = serve(config).await;
    let wrong = format!("Authorization: Bearer {}\r\n", secret(99).text());
    for _ in 0..20 {
        assert_eq!(get_with(served.address, "/metrics", &wrong).await.0, 401);
    }
    let told = lines.with("authentication failed");
    assert_eq!(told.len(), 1, "{told:?}");
    let line = &told[0];
    for part in ["WARN", "rosterd::audit", "peer=\"127.0.0.1:", "operation=\"/metrics\"", "UNAUTHENTICATED"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(!line.contains(secret(99).text()), "{line}");
}

#[tokio::test]
async fn connections_too_many_are_one_line_with_the_peer() {
    let (lines, _guard) = Lines::listen();
    let mut config = config();
    config.listen.caps.per_peer = 1;
    let served = serve(config).await;
    let _first = TcpStream::connect(served.address).await.unwrap();
    let metrics = served.metrics.clone();
    until("its place", || metrics.connections.get() == 1).await;
    for _ in 0..20 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let mut rest = Vec::new();
        let _ = soon("the end of the connection", stream.read_to_end(&mut rest)).await;
    }
    let told = lines.with("as many as max_connections_per_ip allows");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("WARN") && told[0].contains("peer=127.0.0.1:"), "{told:?}");
}
