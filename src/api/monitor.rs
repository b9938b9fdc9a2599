//! A listener for health and metrics alone, separate from the main one: it answers whatever happens to that one, and
//! its address determines who can reach it. Plain HTTP, no credentials. The composition root creates one if configured.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

use super::backend::Backend;
use super::connection::Caps;
use super::grpc::health;
use super::http::{Site, monitoring};
use super::layers::limits::{Bounds, Limits, ProbeLimits};
use super::layers::methods::Methods;
use super::layers::observe::Observer;
use super::layers::origin::Origins;
use super::layers::{limits, observe, origin};
use super::listen::{Incoming, ListenLimits, serve};
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};
use rosterd_runtime::telemetry::Metrics;

/// Its limits: monitoring has few clients with small requests.
fn listen_limits() -> ListenLimits {
    ListenLimits {
        caps: Caps { total: 512, per_peer: 64 },
        streams_per_connection: 64,
        connection_window: 1 << 20,
        stream_window: 1 << 16,
        shutdown: Duration::from_secs(1),
        ..ListenLimits::default()
    }
}

/// All paths are probes, so nothing else needs room.
const NOTHING: Bounds = Bounds { calls: 1, workers: 0, watchers: 0 };
/// Largest message: the name of a service.
const LARGEST: usize = 4 << 10;

/// Health and metrics.
pub struct Monitor {
    /// The source of the health.
    pub backend: Arc<dyn Backend>,
    /// The metrics to serve.
    pub metrics: Arc<Metrics>,
    /// The clock.
    pub clock: SharedClock,
    /// Owns the spawned tasks; the end of its phase Edge ends it.
    pub tasks: Tasks,
    /// Only this machine can reach the listener: only names of loopback are accepted.
    pub loopback: bool,
}

impl Monitor {
    /// Serves until the phase Edge ends and its connections have ended.
    pub async fn serve(self, listener: impl Incoming) -> io::Result<()> {
        let Self { backend, metrics, clock, tasks, loopback } = self;
        let (methods, stop) = (Arc::new(Methods::default()), tasks.stop(ShutdownPhase::Edge));
        let health = HealthServer::new(health::service(backend.clone(), &tasks).await)
            .max_decoding_message_size(LARGEST);
        let grpc = Routes::new(health).into_axum_router().reset_fallback();
        let site = Arc::new(Site { backend, metrics: metrics.clone() });
        let origins = Arc::new(Origins { loopback, metrics: metrics.clone() });
        let limits = Limits::new(methods.clone(), NOTHING, ProbeLimits::default(), metrics.clone());
        let observer = Arc::new(Observer { methods, metrics: metrics.clone(), clock: clock.clone() });
        // The last one is the outermost.
        let routes: Router = monitoring(site)
            .merge(grpc)
            .layer(from_fn_with_state(limits, limits::layer))
            .layer(from_fn_with_state(origins, origin::layer))
            .layer(from_fn_with_state(observer, observe::layer));
        let ended = (stop, CancellationToken::new());
        serve(listener, routes, None, listen_limits(), (metrics, clock), ended).await
    }
}
