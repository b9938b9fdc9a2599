//! The whole edge: services, pages and layers on one listener. The composition root creates one.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use http::StatusCode;
use rosterd_wire::status;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tower::ServiceBuilder;

use super::access::Credentials;
use super::access::attempts::Attempts;
use super::access::provider::Provider;
use super::access::session::Sessions;
use super::alarms::Alarms;
use super::backend::Backend;
use super::backup::Backups;
use super::console::{self, Console};
use super::grpc::admin::{Admin, Info};
use super::grpc::alarms::AlarmDesk;
use super::grpc::backup::BackupGate;
use super::grpc::health;
use super::grpc::worker::{SessionLimits, Workers};
use super::history::History;
use super::http::{Site, routes as http_routes};
use super::layers::auth::Auth;
use super::layers::deadlines::Deadlines;
use super::layers::limits::{Bounds, Limits, ProbeLimits};
use super::layers::methods::Methods;
use super::layers::observe::Observer;
use super::layers::origin::Origins;
use super::layers::{aside, auth, deadlines, is_grpc, limits, observe, origin, web};
use super::listen::{Incoming, ListenLimits, serve};
use super::operator::Operator;
use super::rest::Desk;
use super::rest::Recent;
use super::rest::{self, Rest};
use super::tls::ServerTls;
use rosterd_runtime::aside::Aside;
use rosterd_runtime::clock::SharedClock;
use rosterd_runtime::shares::Shares;
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};
use rosterd_runtime::telemetry::Metrics;
use rosterd_wire::proto::v1::DESCRIPTOR;
use rosterd_wire::proto::v1::admin_service_server::AdminServiceServer;
use rosterd_wire::proto::v1::alarm_service_server::AlarmServiceServer;
use rosterd_wire::proto::v1::backup_service_server::BackupServiceServer;
use rosterd_wire::proto::v1::worker_service_server::{self, WorkerServiceServer};

/// A service with its size limits.
macro_rules! limited {
    ($service:expr, $config:expr) => {
        $service.max_decoding_message_size($config.max_receive).max_encoding_message_size($config.max_send)
    };
}

/// Limits and rights of the edge.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// Of the listener.
    pub listen: ListenLimits,
    /// Of a worker's stream.
    pub session: SessionLimits,
    /// Largest message that is accepted, and that is sent, in bytes.
    pub max_receive: usize,
    #[allow(missing_docs)]
    pub max_send: usize,
    /// Concurrent calls.
    pub calls: usize,
    /// Concurrent worker streams.
    pub workers: usize,
    /// Other concurrent streams.
    pub watchers: usize,
    /// Limits for requests of monitoring, which need no credential, per address.
    pub probes: ProbeLimits,
    /// Only this machine can reach the listener. Without credentials, requests must then use a loopback name, so that
    /// no web page gets here under a name of its own.
    pub loopback: bool,
    /// The longest time for a call.
    pub call_deadline: Duration,
    /// Who may do what.
    pub credentials: Arc<Credentials>,
    /// If set, only TLS is accepted.
    pub tls: Option<Arc<ServerTls>>,
    /// The path under which a proxy serves all of this, plain and without a trailing slash; empty: none. Requests may
    /// have it or not.
    pub base_path: String,
    /// Lets people log in with a browser; `None`: they send a credential with each request.
    pub sessions: Option<Arc<Sessions>>,
    /// The page of a trace, `{trace_id}` in it.
    pub trace_url: Option<String>,
    /// The identity provider for logging in.
    pub provider: Option<Arc<dyn Provider>>,
    /// Threads for REST requests; `None`: they run where they arrive.
    pub aside: Option<Aside>,
}

/// There is nothing to show of a provider.
impl fmt::Debug for dyn Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for EdgeConfig {
    fn default() -> Self {
        Self {
            listen: ListenLimits::default(),
            session: SessionLimits::default(),
            max_receive: 1 << 20,
            max_send: 4 << 20,
            calls: 1024,
            workers: 50_000,
            watchers: 256,
            probes: ProbeLimits::default(),
            loopback: false,
            call_deadline: Duration::from_secs(30),
            credentials: Credentials::open(),
            tls: None,
            base_path: String::new(),
            sessions: None,
            trace_url: None,
            provider: None,
            aside: None,
        }
    }
}

/// The dependencies of the edge.
pub struct Edge {
    /// The coordinator.
    pub backend: Arc<dyn Backend>,
    /// Saves and restores the namespace.
    pub backups: Arc<dyn Backups>,
    /// The history.
    pub history: Arc<dyn History>,
    /// The alarms and their receivers.
    pub alarms: Arc<rosterd_alarms::desk::Desk>,
    /// The clock.
    pub clock: SharedClock,
    /// This coordinator.
    pub info: Info,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Owns the spawned tasks; the end of its phase Edge ends the edge.
    pub tasks: Tasks,
    /// Limits and rights.
    pub config: EdgeConfig,
}

impl Edge {
    /// Serves until the phase Edge ends and its connections have ended. It ends by itself at most a second after
    /// [`ListenLimits::shutdown`], so that phase's deadline is longer.
    pub async fn serve(self, listener: impl Incoming) -> io::Result<()> {
        let (stop, late) = (self.tasks.stop(ShutdownPhase::Edge), CancellationToken::new());
        let (limits, tls) = (self.config.listen, self.config.tls.clone());
        let counted = (self.metrics.clone(), self.clock.clone());
        let routes = self.routes(late.clone()).await?;
        serve(listener, routes, tls, limits, counted, (stop, late)).await
    }

    async fn routes(self, late: CancellationToken) -> io::Result<axum::Router> {
        let Self { backend, backups, history, alarms, clock, info, metrics, tasks, config } = self;
        let methods = Arc::new(Methods::default());
        let health = HealthServer::new(health::service(backend.clone(), &tasks).await);
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTOR)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let workers = Workers {
            backend: backend.clone(),
            tasks: tasks.clone(),
            limits: config.session,
            metrics: metrics.clone(),
            clock: clock.clone(),
            late,
            turns: Shares::new(|| Semaphore::new(1)),
            places: Shares::new(AtomicU32::default),
        };
        let stop = tasks.stop(ShutdownPhase::Edge);
        let gate = BackupGate::new(backups, history.clone(), stop.clone(), config.max_send);
        let operator = Arc::new(Operator { backend: backend.clone(), history: history.clone() });
        let admin = Admin {
            backend: backend.clone(),
            history: history.clone(),
            operator: operator.clone(),
            clock: clock.clone(),
            info,
            stop: stop.clone(),
            max_send: config.max_send,
        };
        let epoch = format!("{}-{}", backend.id(), admin.info.started.0);
        let recent = Recent::new(epoch.clone());
        let (kept, watched, at) = (recent.clone(), backend.clone(), clock.clone());
        tasks.restartable(ShutdownPhase::Edge, "live", move || {
            rest::follow(kept.clone(), watched.watch(), at.clone())
        });
        let desk = Arc::new(Desk {
            provider: config.provider.clone(),
            clock: clock.clone(),
            credentials: config.credentials.clone(),
            sessions: config.sessions.clone(),
            attempts: Attempts::default(),
            metrics: metrics.clone(),
            history: history.clone(),
        });
        let at_desk = desk.clone();
        let alarms = Arc::new(Alarms { desk: alarms, history: history.clone(), clock: clock.clone() });
        let alarm_desk = AlarmDesk(alarms.clone());
        let rest = Rest {
            backend: backend.clone(),
            history,
            operator,
            alarms,
            clock: clock.clone(),
            stop,
            recent,
            overview: rest::Overviews::default(),
            desk,
            trace_url: config.trace_url,
        };
        let workers = limited!(WorkerServiceServer::new(workers), config);
        let grpc = Routes::default()
            .add_service(limited!(AdminServiceServer::new(admin), config))
            .add_service(limited!(BackupServiceServer::new(gate), config))
            .add_service(limited!(AlarmServiceServer::new(alarm_desk), config))
            .add_service(limited!(health, config))
            .add_service(limited!(reflection().build_v1().map_err(io::Error::other)?, config))
            .add_service(limited!(reflection().build_v1alpha().map_err(io::Error::other)?, config));
        let site = Arc::new(Site { backend, metrics: metrics.clone() });
        let console = Console::new(&config.base_path);
        // Not by way of `Routes`, which wraps the body of a request once more, at a cost for each frame.
        let path = format!("/{}/{{*method}}", worker_service_server::SERVICE_NAME);
        let grpc = grpc.into_axum_router().route_service(&path, workers);
        let grpc = grpc.reset_fallback().layer(from_fn(only_grpc));
        let deadlines = Arc::new(Deadlines { methods: methods.clone(), most: config.call_deadline });
        // Credentials are reloaded from their file, but whether there is such a file does not change.
        let loopback = config.loopback && config.credentials.is_open();
        let origins = Arc::new(Origins { loopback, metrics: metrics.clone() });
        let counted = metrics.clone();
        let auth = Auth::new(config.credentials, methods.clone(), counted, clock.clone(), config.sessions);
        let auth = Arc::new(auth);
        let bounds = Bounds { calls: config.calls, workers: config.workers, watchers: config.watchers };
        let limits = Limits::new(methods.clone(), bounds, config.probes, metrics.clone());
        let observer = Arc::new(Observer { methods: methods.clone(), metrics, clock });
        // The last one is the outermost.
        let guarded = |routes: axum::Router| {
            routes
                .layer(from_fn_with_state(auth.clone(), auth::layer))
                .layer(from_fn_with_state(limits.clone(), limits::layer))
                .layer(from_fn_with_state(origins.clone(), origin::layer))
                .layer(from_fn_with_state(observer.clone(), observe::layer))
        };
        let grpc = guarded(grpc.layer(from_fn_with_state(deadlines, deadlines::layer)));
        let pages = http_routes(site, console, at_desk).merge(rest::routes(Arc::new(rest)));
        let pages = guarded(web::bounded(pages, config.call_deadline, config.max_receive));
        let mut pages = web::around(pages, methods, &epoch);
        if let Some(aside) = config.aside {
            pages = pages.layer(from_fn_with_state(aside, aside::layer));
        }
        let all = pages.merge(grpc);
        if config.base_path.is_empty() {
            return Ok(all);
        }
        // Before anything reads the path, including the router.
        let base = config.base_path;
        let strip = move |request: Request| console::without_base(&base, request);
        Ok(axum::Router::new().fallback_service(ServiceBuilder::new().map_request(strip).service(all)))
    }
}

/// The path of a service is not a page.
async fn only_grpc(request: Request, next: Next) -> Response {
    if is_grpc(request.headers()) {
        let response = next.run(request).await;
        return match Status::from_header_map(response.headers()) {
            // The stack below uses this code for a message that is too long, and nothing else does.
            Some(status) if status.code() == tonic::Code::OutOfRange => {
                status::status(&status::too_large(status.message())).into_http()
            }
            _ => response,
        };
    }
    let mut response = Response::new("no such page\n".into());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
