//! Limits concurrency: excess requests are refused at once and never queued. Calls count until the headers of their
//! answer, streams until their end; workers' streams and other streams have separate limits.
//!
//! Requests of monitoring, and for files of the console, need no credential, so they do not use these limits: they have
//! a few places of their own for each address, until the answer has ended, and a short time to arrive.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::methods::{Access, Methods, Probe, access, probe};
use super::{is_grpc, refused};
use crate::connection::Remote;
use crate::console::is_for;
use crate::peer::network;
use rosterd_runtime::telemetry::Metrics;
use rosterd_session::code::{Code, Refusal};

/// The limits.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Calls.
    pub calls: usize,
    /// Workers' streams.
    pub workers: usize,
    /// Other streams.
    pub watchers: usize,
}

/// The limits for monitoring.
#[derive(Debug, Clone, Copy)]
pub struct ProbeLimits {
    /// Concurrent requests of each kind, from one address; of IPv6, one /64.
    pub per_peer: usize,
    /// How long a request may take to arrive and its answer to begin.
    pub patience: Duration,
}

impl Default for ProbeLimits {
    fn default() -> Self {
        Self { per_peer: 32, patience: Duration::from_secs(1) }
    }
}

/// Places for requests.
pub struct Limits {
    methods: Arc<Methods>,
    calls: Arc<Semaphore>,
    workers: Arc<Semaphore>,
    watchers: Arc<Semaphore>,
    probes: Arc<Probes>,
    patience: Duration,
    metrics: Arc<Metrics>,
}

impl Limits {
    /// With these limits.
    pub fn new(
        methods: Arc<Methods>,
        bounds: Bounds,
        probes: ProbeLimits,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let [calls, workers, watchers] =
            [bounds.calls, bounds.workers, bounds.watchers].map(|most| Arc::new(Semaphore::new(most)));
        let (per_peer, patience) = (probes.per_peer, probes.patience);
        let probes = Arc::new(Probes { per_peer, taken: Mutex::default() });
        Arc::new(Self { methods, calls, workers, watchers, probes, patience, metrics })
    }

    fn refuse(&self, grpc: bool, code: Code, what: String) -> Response {
        self.metrics.refused.get_or_create(&[("code", code.as_str())]).inc();
        refused(grpc, &Refusal::new(code, what))
    }
}

/// The layer.
pub async fn layer(State(limits): State<Arc<Limits>>, mut request: Request, next: Next) -> Response {
    let (path, grpc) = (request.uri().path(), is_grpc(request.headers()));
    let console = || is_for((request.method(), request.uri(), request.headers())).then_some(Probe::Console);
    if let Some(probe) = probe(path).or_else(console) {
        return limits.probe(probe, grpc, request, next).await;
    }
    let kind = (limits.methods.streams(path), access(request.method(), path));
    let (places, what) = match kind {
        (false, _) => (&limits.calls, "requests"),
        (true, Some(Access::Worker)) => (&limits.workers, "workers"),
        (true, _) => (&limits.watchers, "watchers"),
    };
    let Ok(place) = places.clone().try_acquire_owned() else {
        let what = format!("this coordinator has as many {what} as it takes: try another one, or later");
        return limits.refuse(grpc, Code::Overloaded, what);
    };
    match kind {
        (true, Some(Access::Worker)) => {
            request.extensions_mut().insert(WorkerPlace { _place: Arc::new(place) });
            next.run(request).await
        }
        (true, _) => next.run(request).await.map(|body| Body::new(Placed { body, _place: place })),
        (false, _) => next.run(request).await,
    }
}

/// The place of a worker's stream, for its handler to hold: a body around its body would be one more for each frame.
#[derive(Debug, Clone)]
pub struct WorkerPlace {
    _place: Arc<OwnedSemaphorePermit>,
}

impl Limits {
    async fn probe(&self, probe: Probe, grpc: bool, request: Request, next: Next) -> Response {
        let peer = request.extensions().get::<Remote>().map(|remote| remote.address.ip());
        let peer = network(peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        let Some(place) = self.probes.take(probe, peer) else {
            let what = format!(
                "{} such requests of {peer} are open, as many as one address may have: end one of them",
                self.probes.most(probe)
            );
            return self.refuse(grpc, Code::Overloaded, what);
        };
        // A login waits for its row in the audit.
        let patience = match probe {
            Probe::Console => FOR_A_LOGIN + self.patience,
            Probe::Login => AT_A_PROVIDER,
            _ => self.patience,
        };
        match tokio::time::timeout(patience, next.run(request)).await {
            Ok(response) => response.map(|body| Body::new(Placed { body, _place: place })),
            Err(_) => {
                let what = format!("the request did not arrive within {patience:?}: send it at once");
                self.refuse(grpc, Code::DeadlineExceeded, what)
            }
        }
    }
}

/// The places for monitoring. They need no total limit: connections have one, and so does each network.
struct Probes {
    per_peer: usize,
    taken: Mutex<BTreeMap<(Probe, IpAddr), usize>>,
}

/// How much longer a login may take: the disk may be slow.
const FOR_A_LOGIN: Duration = Duration::from_secs(2);
/// How long a login may take that queries an identity provider.
const AT_A_PROVIDER: Duration = Duration::from_secs(30);
/// The console has this many times as many places: all clients of a proxy share one address, and a page has several
/// files.
const FOR_PAGES: usize = 8;

impl Probes {
    fn most(&self, probe: Probe) -> usize {
        if probe == Probe::Console { FOR_PAGES * self.per_peer } else { self.per_peer }
    }

    fn take(self: &Arc<Self>, probe: Probe, peer: IpAddr) -> Option<ProbePlace> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry((probe, peer)).or_default();
        if *count >= self.most(probe) {
            return None;
        }
        *count += 1;
        Some(ProbePlace { probes: self.clone(), key: (probe, peer) })
    }
}

/// Released when it is dropped.
struct ProbePlace {
    probes: Arc<Probes>,
    key: (Probe, IpAddr),
}

impl Drop for ProbePlace {
    fn drop(&mut self) {
        let mut taken = self.probes.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

/// A body that holds its place until it has ended.
struct Placed<P> {
    body: Body,
    _place: P,
}

impl<P: Send + Unpin + 'static> http_body::Body for Placed<P> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
