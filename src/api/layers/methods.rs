//! The methods and pages that this edge serves, and the access that each requires: the one table of rights. Once
//! credentials are required, a path that is not in it is not served, however it is spelled.

use std::collections::BTreeMap;

use http::Method;
use prost::Message as _;

pub use super::takes::{Access, Role};
use crate::rest::table::{self, Found};
use rosterd_wire::proto::v1::DESCRIPTOR;

/// The rule for a request; `None`: it is not served.
pub fn access(method: &Method, path: &str) -> Option<Access> {
    match table::find(method, path) {
        Some(Found::Route(route)) => return Some(route.access),
        // Refused there, with the method that it accepts.
        Some(Found::OtherMethod(_)) => return Some(Access::View),
        None => {}
    }
    if let Some(method) = path.strip_prefix("/rosterd.v1.AdminService/") {
        return match method {
            "ListJobs" | "GetJob" | "ListItems" | "ListInstances" | "ListMachines" | "ListRuns"
            | "ExplainItem" | "ListOwnership" | "ListFires" | "ListEvents" | "DumpJob" | "GetServerInfo"
            | "ListCoordinators" | "Watch" => Some(Access::View),
            "TriggerJob" | "PauseJob" | "ResumeJob" | "SetEnabled" | "CancelRun" | "DrainInstance"
            | "ShutdownInstance" | "SetMachineEnabled" | "ShutdownMachine" | "RemoveMachine" => {
                Some(Access::Operate)
            }
            "ApplyJobs" | "RemoveJob" => Some(Access::Administer),
            _ => None,
        };
    }
    match path {
        "/rosterd.v1.AlarmService/ListAlarms" => Some(Access::View),
        "/rosterd.v1.AlarmService/PutSilence"
        | "/rosterd.v1.AlarmService/DeleteSilence"
        | "/rosterd.v1.AlarmService/TestAlarms" => Some(Access::Operate),
        "/rosterd.v1.BackupService/Backup" | "/rosterd.v1.BackupService/RestoreJob" => {
            Some(Access::Administer)
        }
        "/rosterd.v1.WorkerService/Session" => Some(Access::Worker),
        "/grpc.health.v1.Health/Check" | "/grpc.health.v1.Health/Watch" | "/healthz" => Some(Access::Open),
        "/login/oidc" | "/login/oidc/callback" => Some(Access::Open),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Some(Access::View),
        "/plain" | "/metrics" => Some(Access::View),
        _ => None,
    }
}

/// Whether a path belongs to a gRPC service, existing or not.
pub(crate) fn is_service(path: &str) -> bool {
    path.starts_with("/rosterd.") || path.starts_with("/grpc.")
}

/// Requests of monitoring: they have places of their own, so that callers without a credential take none of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Probe {
    /// A page that is answered at once.
    Page,
    /// A call whose request message has to arrive first.
    Call,
    /// A watch of the health.
    Watch,
    /// A server reflection stream.
    Reflection,
    /// A file of the console, or a login to it.
    Console,
    /// A login that queries an identity provider.
    Login,
}

/// The kind of a monitoring path; `None`: it is another path.
pub fn probe(path: &str) -> Option<Probe> {
    match path {
        "/healthz" | "/metrics" => Some(Probe::Page),
        "/api/session" => Some(Probe::Console),
        "/login/oidc" | "/login/oidc/callback" => Some(Probe::Login),
        "/grpc.health.v1.Health/Check" => Some(Probe::Call),
        "/grpc.health.v1.Health/Watch" => Some(Probe::Watch),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => Some(Probe::Reflection),
        _ => None,
    }
}

/// Methods that are not in our own descriptors, and whether they stream.
const FOREIGN: [(&str, bool); 9] = [
    ("/login/oidc", false),
    ("/login/oidc/callback", false),
    ("/plain", false),
    ("/healthz", false),
    ("/metrics", false),
    ("/grpc.health.v1.Health/Check", false),
    ("/grpc.health.v1.Health/Watch", true),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", true),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", true),
];

/// Every path that is served, and whether it streams.
#[derive(Debug)]
pub struct Methods(BTreeMap<String, bool>);

impl Default for Methods {
    fn default() -> Self {
        let mut methods: BTreeMap<_, _> =
            FOREIGN.iter().map(|(path, streams)| ((*path).to_owned(), *streams)).collect();
        // The descriptors are our own, compiled in; without them every stream would have a deadline.
        let set = prost_types::FileDescriptorSet::decode(DESCRIPTOR).unwrap_or_default();
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    methods.insert(path, method.client_streaming() || method.server_streaming());
                }
            }
        }
        Self(methods)
    }
}

impl Methods {
    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Whether the path streams.
    pub fn streams(&self, path: &str) -> bool {
        let route = table::find(&Method::GET, path);
        matches!(route, Some(Found::Route(route)) if route.streams)
            || self.0.get(path).copied().unwrap_or(false)
    }

    /// The path as a label: one of a closed set.
    pub fn label(&self, path: &str) -> String {
        let known = self.0.get_key_value(path).map(|(known, _)| known.clone());
        known.or_else(|| table::template(path).map(str::to_owned)).unwrap_or_else(|| "other".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_the_descriptors_has_a_rule() {
        let methods = Methods::default();
        assert!(methods.paths().any(|path| path == "/rosterd.v1.AdminService/ListJobs"));
        for path in methods.paths() {
            assert!(
                access(&Method::POST, path).is_some(),
                "{path} has no rule: define the access that it requires"
            );
        }
    }

    #[test]
    fn a_path_spelled_otherwise_has_no_rule() {
        for path in ["//metrics", "/metrics/", "/METRICS", "/%6detrics", "/healthz/../metrics", ""] {
            assert_eq!(access(&Method::GET, path), None, "{path}");
        }
    }

    #[test]
    fn a_worker_neither_looks_nor_changes() {
        assert!(!Access::View.allows(Role::Worker) && !Access::Operate.allows(Role::Worker));
        assert!(!Access::Worker.allows(Role::Operator) && !Access::Operate.allows(Role::Viewer));
        assert!(Access::View.allows(Role::Operator) && Access::Operate.allows(Role::Admin));
        assert!(!Access::Worker.allows(Role::Admin) && !Access::Administer.allows(Role::Operator));
    }

    #[test]
    fn what_takes_no_credential_takes_no_place_of_others() {
        for path in Methods::default().paths().filter(|path| access(&Method::GET, path) == Some(Access::Open))
        {
            assert!(probe(path).is_some(), "{path} is open, but has no limit of its own");
        }
    }

    #[test]
    fn streams_are_known() {
        let methods = Methods::default();
        assert!(methods.streams("/rosterd.v1.WorkerService/Session"));
        assert!(methods.streams("/rosterd.v1.AdminService/Watch"));
        assert!(!methods.streams("/rosterd.v1.AdminService/ListJobs"));
        assert_eq!(methods.label("/no/such"), "other");
        assert!(methods.streams("/api/live") && !methods.streams("/api/jobs"));
        assert_eq!(methods.label("/api/jobs/report/trigger"), "/api/jobs/{job}/trigger");
    }
}
