//! The methods and pages that this edge serves, and what each of them takes: the one table of rights. What is
//! not in it is not served once credentials are required, however its path is spelled.

use std::collections::BTreeMap;

use http::Method;
use prost::Message as _;
use serde::{Deserialize, Serialize};

use crate::rest::table::{self, Found};
use rosterd_wire::proto::v1::DESCRIPTOR;

/// What a credential may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Works: opens worker streams, nothing else.
    Worker,
    /// Looks.
    Viewer,
    /// Looks, and keeps things running: triggers, holds, disables, cancels, drains.
    Operator,
    /// That, and says what the jobs are: applies and removes them.
    Admin,
}

impl Role {
    /// All, the least first.
    pub const ALL: [Role; 4] = [Self::Worker, Self::Viewer, Self::Operator, Self::Admin];

    /// As the credential file has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// What a method takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
    /// Nothing either; who asks is looked at if it says so.
    Anybody,
    /// A worker's.
    Worker,
    /// A viewer's, or one that is more.
    View,
    /// An operator's or an admin's.
    Operate,
    /// An admin's.
    Administer,
}

impl Access {
    /// Whether a role is enough.
    pub fn allows(self, role: Role) -> bool {
        match self {
            Self::Open | Self::Anybody => true,
            Self::Worker => role == Role::Worker,
            Self::View => role >= Role::Viewer,
            Self::Operate => role >= Role::Operator,
            Self::Administer => role == Role::Admin,
        }
    }

    /// The least role that it takes, for a refusal.
    pub fn takes(self) -> &'static str {
        match self {
            Self::Open | Self::Anybody => "none",
            Self::Worker => "worker",
            Self::View => "viewer",
            Self::Operate => "operator",
            Self::Administer => "admin",
        }
    }
}

/// The rule for a request; `None`: it is not served.
pub fn access(method: &Method, path: &str) -> Option<Access> {
    match table::find(method, path) {
        Some(Found::Route(route)) => return Some(route.access),
        // Refused there, with the method that it takes.
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

/// Whether a path is of a gRPC service, there or not.
pub(crate) fn is_service(path: &str) -> bool {
    path.starts_with("/rosterd.") || path.starts_with("/grpc.")
}

/// What monitoring asks: it has places of its own, so that nobody without a credential takes those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Probe {
    /// A page that is answered at once.
    Page,
    /// A call whose request is waited for.
    Call,
    /// A watch of the health.
    Watch,
    /// A conversation about what is served.
    Reflection,
    /// A file of the console, or a login to it.
    Console,
    /// A login at a provider, which is asked.
    Login,
}

/// What a path is to monitoring; `None`: nothing.
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
        // The descriptors are our own, compiled in; without them every stream would be held to a deadline.
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

    /// Whether the path is one that streams.
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
            assert!(access(&Method::POST, path).is_some(), "{path} has no rule: say who may call it");
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
            assert!(probe(path).is_some(), "{path} is open, and has no places of its own");
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
