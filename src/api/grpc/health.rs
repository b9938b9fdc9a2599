//! `grpc.health.v1`: whether this coordinator accepts work, as a whole and per service.

use std::sync::Arc;

use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, HealthService};

use crate::backend::Backend;
use rosterd_coordinator::handle::Health;
use rosterd_runtime::mutants;
use rosterd_runtime::tasks::{ShutdownPhase, Tasks};

const SERVICES: [&str; 3] = ["", "rosterd.v1.WorkerService", "rosterd.v1.AdminService"];

/// The service, with a task that keeps it up to date. It is right from the first answer on.
pub async fn service(backend: Arc<dyn Backend>, tasks: &Tasks) -> HealthService {
    let reporter = HealthReporter::new();
    let first = *backend.health().borrow();
    report(&reporter, first).await;
    let keep = reporter.clone();
    tasks.restartable(ShutdownPhase::Edge, "health", move || follow(keep.clone(), backend.clone()));
    HealthService::from_health_reporter(reporter)
}

async fn follow(reporter: HealthReporter, backend: Arc<dyn Backend>) {
    let mut health = backend.health();
    loop {
        mutants::panic_if_injected("panic-health");
        let now = *health.borrow_and_update();
        report(&reporter, now).await;
        if health.changed().await.is_err() {
            // The sender of the health is gone, and so is the coordinator.
            report(&reporter, Health::Draining).await;
            std::future::pending::<()>().await;
        }
    }
}

async fn report(reporter: &HealthReporter, health: Health) {
    let status = match health {
        Health::Serving => ServingStatus::Serving,
        Health::Starting | Health::ClockOff | Health::Suspended | Health::Draining => {
            ServingStatus::NotServing
        }
    };
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}
