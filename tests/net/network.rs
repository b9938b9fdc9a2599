//! The simulated network as servers and clients reach it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use hyper_util::rt::TokioIo;
use rosterd_api::listen::{Incoming, Keepalive};
use tonic::transport::{Channel, Endpoint, Error};
use tower::service_fn;
use turmoil::net::{TcpListener, TcpStream};

pub const PORT: u16 = 7700;

/// The URL of a coordinator.
pub fn url(host: &str) -> String {
    format!("http://{host}:{PORT}")
}

/// A listening socket of the simulated network.
pub struct Listener(TcpListener);

impl Listener {
    pub async fn bind() -> io::Result<Self> {
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await.map(Self)
    }
}

impl Incoming for Listener {
    type Socket = TcpStream;

    async fn accept(&self, _: Keepalive) -> io::Result<(TcpStream, SocketAddr)> {
        self.0.accept().await
    }
}

/// A channel through the simulated network.
pub async fn dial(endpoint: Endpoint) -> Result<Channel, Error> {
    let connector = service_fn(|uri: http::Uri| async move {
        let host = uri.host().unwrap_or_default().to_owned();
        TcpStream::connect((host, uri.port_u16().unwrap_or(PORT))).await.map(TokioIo::new)
    });
    endpoint.connect_with_connector(connector).await
}
