//! Health for Kubernetes over HTTP, on the thread of the conversation: handlers that keep their own threads busy do not make
//! the process look dead.
//!
//! `/healthz`: the worker has not ended. `/readyz`: it is attached, its lease is valid, and it is not leaving.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::gate::Gate;

/// Connections at a time; one more waits in the system's queue.
const CONNECTIONS: usize = 32;
/// A request that takes longer to arrive gets no answer.
const REQUEST: Duration = Duration::from_secs(1);
const REQUEST_BYTES: usize = 2048;

/// Answers until its task is dropped.
pub(crate) async fn serve(listener: TcpListener, gate: Gate) {
    let listener =
        match listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener)) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!("health is not served: {error}"),
        };
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: wait for some.
            tokio::time::sleep(REQUEST / 10).await;
            continue;
        };
        let gate = gate.clone();
        tokio::spawn(async move {
            let _ = timeout(REQUEST, answer(stream, &gate)).await;
            drop(permit);
        });
    }
}

async fn answer(mut stream: TcpStream, gate: &Gate) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let path = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let (status, text) = match path {
        b"/healthz" => ("200 OK", "ok\n"),
        b"/readyz" if gate.ready() => ("200 OK", "ok\n"),
        b"/readyz" => ("503 Service Unavailable", "not ready\n"),
        _ => ("404 Not Found", "not found\n"),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}
