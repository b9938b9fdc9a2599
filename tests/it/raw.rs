//! A raw worker stream, for frames that no client library would send.

use std::time::Duration;

use rosterd_wire::proto::v1;
use rosterd_wire::proto::v1::session_request::Frame;
use rosterd_wire::proto::v1::session_response::Frame as Said;
use rosterd_wire::proto::v1::worker_service_client::WorkerServiceClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::harness::PATIENCE;

pub struct Raw {
    pub sender: mpsc::Sender<v1::SessionRequest>,
    frames: Option<Streaming<v1::SessionResponse>>,
    channel: Channel,
    queue: Option<mpsc::Receiver<v1::SessionRequest>>,
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

pub fn hello() -> v1::Hello {
    v1::Hello {
        stream_number: 1,
        slots: 4,
        address: "by-hand".into(),
        client: "raw".into(),
        ..Default::default()
    }
}

pub fn register(job: &str) -> v1::Register {
    v1::Register { job: job.into(), handler_type: job.into(), ..Default::default() }
}

impl Raw {
    /// A stream; opened when the first answer is awaited, since answers may wait for the Hello.
    pub fn new(channel: Channel) -> Self {
        let (sender, queue) = mpsc::channel(1024);
        Self { sender, frames: None, channel, queue: Some(queue) }
    }

    /// A worker that has been welcomed.
    pub async fn attached(channel: Channel, hello: v1::Hello) -> (Self, v1::Welcome) {
        let mut raw = Self::new(channel);
        raw.send(Frame::Hello(hello)).await;
        let welcome = raw
            .find("Welcome", |said| if let Said::Welcome(welcome) = said { Some(welcome) } else { None })
            .await;
        (raw, welcome)
    }

    pub async fn send(&self, frame: Frame) {
        let _gone = soon("room", self.sender.send(v1::SessionRequest { frame: Some(frame) })).await;
    }

    async fn open(&mut self) -> Result<&mut Streaming<v1::SessionResponse>, Status> {
        if let Some(queue) = self.queue.take() {
            let mut client = WorkerServiceClient::new(self.channel.clone());
            let call = client.session(ReceiverStream::new(queue));
            self.frames = Some(soon("the stream", call).await?.into_inner());
        }
        Ok(self.frames.as_mut().expect("a stream that was refused"))
    }

    pub async fn next(&mut self) -> Result<Option<Said>, Status> {
        let frames = self.open().await?;
        Ok(soon("a frame", frames.message()).await?.and_then(|response| response.frame))
    }

    /// The next frame of a kind; others are skipped.
    pub async fn find<T>(&mut self, what: &str, pick: impl Fn(Said) -> Option<T>) -> T {
        loop {
            match self.next().await {
                Ok(Some(frame)) => {
                    if let Some(found) = pick(frame) {
                        return found;
                    }
                }
                other => panic!("{what} was expected, and the stream ended: {other:?}"),
            }
        }
    }

    /// What ends the stream.
    pub async fn end(&mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended without a reason"),
                Err(status) => return status,
            }
        }
    }

    pub async fn registered(&mut self, job: &str) {
        self.send(Frame::Register(register(job))).await;
        self.find("Registered", |said| if let Said::Registered(_) = said { Some(()) } else { None }).await;
    }

    pub async fn trigger(&mut self) -> v1::Trigger {
        self.find("Trigger", |said| if let Said::Trigger(trigger) = said { Some(trigger) } else { None })
            .await
    }

    /// Reports an outcome and returns the answer.
    pub async fn report(&mut self, run: v1::RunRef, outcome: v1::RunOutcome) -> v1::ReportAck {
        let report =
            v1::RunCompleted { run: Some(run), outcome: outcome.into(), attempt: 1, ..Default::default() };
        self.send(Frame::RunCompleted(report)).await;
        self.find("ReportAck", |said| if let Said::ReportAck(ack) = said { Some(ack) } else { None }).await
    }

    /// Keeps its lease until the returned handle is dropped.
    pub fn lives(&self) -> tokio_util::task::AbortOnDropHandle<()> {
        let sender = self.sender.clone();
        tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
            for sequence in 1.. {
                let beat = v1::Heartbeat { sequence, ..Default::default() };
                let beat = v1::SessionRequest { frame: Some(Frame::Heartbeat(beat)) };
                if sender.send(beat).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }))
    }

    pub async fn heartbeat(&self, sequence: u64) {
        let lease = Some(prost_types::Duration::try_from(Duration::from_secs(30)).unwrap());
        self.send(Frame::Heartbeat(v1::Heartbeat { sequence, lease, ..Default::default() })).await;
    }
}
