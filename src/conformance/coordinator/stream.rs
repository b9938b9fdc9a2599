//! One stream of the worker, as a script holds it.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Code;

/// What waits to be written on one stream; a script that floods waits where it is full.
pub(super) const OUTGOING: usize = 16 * 1024;

/// What goes out on a stream.
#[derive(Debug)]
pub(crate) enum Out {
    Frame(bytes::Bytes),
    /// Its end: with a status, or without an error.
    End(Option<Code>),
}

/// One stream of the worker, as a script holds it.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// Over all coordinators of the script, in the order in which they came.
    pub(crate) number: usize,
    /// Which coordinator, from 0.
    pub(crate) at: usize,
    pub(crate) authorization: Option<String>,
    pub(super) out: mpsc::Sender<Out>,
    pub(super) connection: Connection,
}

impl Stream {
    /// False: the stream is gone.
    pub(crate) async fn send(&self, out: Out) -> bool {
        self.out.send(out).await.is_ok()
    }

    /// As if the coordinator had been killed.
    pub(crate) fn cut(&self) {
        self.connection.cut.cancel();
    }

    /// Says GOAWAY; the stream goes on.
    pub(crate) fn go_away(&self) {
        self.connection.go_away.cancel();
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Connection {
    pub(super) cut: CancellationToken,
    pub(super) go_away: CancellationToken,
}
