//! The access that a method or a route requires: the words of the table of rights.

use serde::{Deserialize, Serialize};

/// What a method requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No credential.
    Open,
    /// No credential either, but one is checked if it is sent.
    Anybody,
    /// The role worker.
    Worker,
    /// The role viewer, or a higher one.
    View,
    /// The role operator or admin.
    Operate,
    /// The role admin.
    Administer,
}

impl Access {
    /// Whether a role is sufficient.
    pub fn allows(self, role: Role) -> bool {
        match self {
            Self::Open | Self::Anybody => true,
            Self::Worker => role == Role::Worker,
            Self::View => role >= Role::Viewer,
            Self::Operate => role >= Role::Operator,
            Self::Administer => role == Role::Admin,
        }
    }

    /// The lowest role that is sufficient, for a refusal.
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

/// What a credential may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Opens worker streams, nothing else.
    Worker,
    /// Reads.
    Viewer,
    /// Reads, and operates: triggers, pauses, disables, cancels, drains.
    Operator,
    /// The same, and applies and removes jobs.
    Admin,
}

impl Role {
    /// All of them, the lowest first.
    pub const ALL: [Role; 4] = [Self::Worker, Self::Viewer, Self::Operator, Self::Admin];

    /// Its name in the credential file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}
