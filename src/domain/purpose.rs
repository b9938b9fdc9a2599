//! Why a transaction is made: for logs, metrics and the assertions of tests.

use std::fmt;

/// A fixed list, so that a rule about all transactions of a kind covers each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Purpose {
    /// Not written by a coordinator, but by a tool or a test.
    #[default]
    Other,
    /// A leader gives up a job for which another coordinator ranks first.
    Abdicate,
    /// A stage of a guarantee is announced to a worker.
    Announce,
    /// A worker's answer to that.
    Announced,
    /// A configuration is applied.
    Apply,
    /// A worker is asked to drain.
    AskToLeave,
    /// A plan: which instance owns which item.
    Assign,
    /// A worker attaches to its host.
    Attach,
    /// Hosts are asked to report when the runs that they sent ahead of time have started.
    Barrier,
    /// A command for the host of a worker.
    Command,
    /// Commands that are done are removed.
    Commands,
    /// A coordinator registers itself.
    Coordinator,
    /// A job is created.
    Create,
    /// A job, an item, a machine or an instance is disabled.
    Disable,
    /// Instances that are gone for good are removed.
    Dismiss,
    /// A worker drains: it gets nothing more.
    Drain,
    /// A coordinator becomes leader of a job.
    Elect,
    /// Something that was disabled is enabled.
    Enable,
    /// A worker's lease has expired: it is marked dead.
    Expire,
    /// Nodes of crashed items that another tool created or removed are corrected.
    FailoverItems,
    /// A configuration that another tool wrote is adopted.
    ForeignConfig,
    /// A switch that another tool wrote is adopted.
    ForeignSwitch,
    /// A trigger that another tool wrote is adopted.
    ForeignTrigger,
    /// A worker has left.
    Goodbye,
    /// A host starts and ends runs.
    Host,
    /// Jobs are imported from a file.
    Import,
    /// Instances of workers that are attached here are written and removed.
    Instances,
    /// A coordinator checks its own session before it grants leases.
    Lease,
    /// Nodes that other tools read are corrected.
    Mirrors,
    /// Tokens are raised.
    Number,
    /// A job is paused or resumed.
    Pause,
    /// A job of a file starts to be prepared.
    Prepare,
    /// Records of items are created.
    Records,
    /// A guarantee that no fire waits for any longer is cleared.
    Release,
    /// A job is removed.
    Remove,
    /// A machine is forgotten.
    RemoveMachine,
    /// Jobs are restored from a backup.
    Restore,
    /// A prepared job gets its incarnation.
    Reveal,
    /// Machines that have been unused for long are removed.
    Servers,
    /// Instances are shut down for a job.
    Shutdown,
    /// The remains of a removed job are swept.
    Sweep,
    /// A job is triggered manually.
    Trigger,
}

impl Purpose {
    /// All but `Other`.
    pub const ALL: &'static [Self] = &[
        Self::Abdicate,
        Self::Announce,
        Self::Announced,
        Self::Apply,
        Self::AskToLeave,
        Self::Assign,
        Self::Attach,
        Self::Barrier,
        Self::Command,
        Self::Commands,
        Self::Coordinator,
        Self::Create,
        Self::Disable,
        Self::Dismiss,
        Self::Drain,
        Self::Elect,
        Self::Enable,
        Self::Expire,
        Self::FailoverItems,
        Self::ForeignConfig,
        Self::ForeignSwitch,
        Self::ForeignTrigger,
        Self::Goodbye,
        Self::Host,
        Self::Import,
        Self::Instances,
        Self::Lease,
        Self::Mirrors,
        Self::Number,
        Self::Pause,
        Self::Prepare,
        Self::Records,
        Self::Release,
        Self::Remove,
        Self::RemoveMachine,
        Self::Restore,
        Self::Reveal,
        Self::Servers,
        Self::Shutdown,
        Self::Sweep,
        Self::Trigger,
    ];

    /// The word for logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Abdicate => "abdicate",
            Self::Announce => "announce",
            Self::Announced => "announced",
            Self::Apply => "apply",
            Self::AskToLeave => "ask to leave",
            Self::Assign => "assign",
            Self::Attach => "attach",
            Self::Barrier => "barrier",
            Self::Command => "command",
            Self::Commands => "commands",
            Self::Coordinator => "coordinator",
            Self::Create => "create",
            Self::Disable => "disable",
            Self::Dismiss => "dismiss",
            Self::Drain => "drain",
            Self::Elect => "elect",
            Self::Enable => "enable",
            Self::Expire => "expire",
            Self::FailoverItems => "failover items",
            Self::ForeignConfig => "foreign config",
            Self::ForeignSwitch => "foreign switch",
            Self::ForeignTrigger => "foreign trigger",
            Self::Goodbye => "goodbye",
            Self::Host => "host",
            Self::Import => "import",
            Self::Instances => "instances",
            Self::Lease => "lease",
            Self::Mirrors => "mirrors",
            Self::Number => "number",
            Self::Pause => "pause",
            Self::Prepare => "prepare",
            Self::Records => "records",
            Self::Release => "release",
            Self::Remove => "remove",
            Self::RemoveMachine => "remove machine",
            Self::Restore => "restore",
            Self::Reveal => "reveal",
            Self::Servers => "servers",
            Self::Shutdown => "shutdown",
            Self::Sweep => "sweep",
            Self::Trigger => "trigger",
        }
    }

    /// Whether only the job's leader may write it.
    #[must_use]
    pub fn is_led(self) -> bool {
        matches!(
            self,
            Self::Announce
                | Self::Announced
                | Self::Assign
                | Self::FailoverItems
                | Self::ForeignSwitch
                | Self::Mirrors
                | Self::Records
                | Self::Release
                | Self::Servers
        )
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
