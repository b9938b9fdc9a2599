//! Why a transaction is made: for logs, metrics and what tests hold against it.

use std::fmt;

/// A fixed list, so that what is said of all writes of a sort is said of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Purpose {
    /// No coordinator writes it: a tool or a test does.
    #[default]
    Other,
    /// A leader that another coordinator is the first to lead gives the job up.
    Abdicate,
    /// A stage of a guarantee is announced to a worker.
    Announce,
    /// What its worker answered to that.
    Announced,
    /// Somebody applies a configuration.
    Apply,
    /// A worker is asked to leave.
    AskToLeave,
    /// A plan: which instance owns which item.
    Assign,
    /// A worker comes to its host.
    Attach,
    /// Hosts are asked to tell when what they told ahead has begun.
    Barrier,
    /// Something is asked of the host of a worker.
    Command,
    /// Commands that have nothing left to do are taken away.
    Commands,
    /// A coordinator says that it is there.
    Coordinator,
    /// A job is made.
    Create,
    /// Somebody takes a job, an item, a machine or an instance out of service.
    Disable,
    /// Instances that have gone for good are removed.
    Dismiss,
    /// A worker leaves: nothing more is given to it.
    Drain,
    /// A coordinator becomes leader of a job.
    Elect,
    /// What was disabled is taken back into service.
    Enable,
    /// Nodes of crashed items that another tool made or removed are put right.
    FailoverItems,
    /// A configuration that another tool wrote is taken over.
    ForeignConfig,
    /// A switch that another tool wrote is taken over.
    ForeignSwitch,
    /// A trigger that another tool wrote is taken over.
    ForeignTrigger,
    /// A worker has left.
    Goodbye,
    /// A host starts and ends runs.
    Host,
    /// Jobs come from a file.
    Import,
    /// Instances of workers that are here are put and removed.
    Instances,
    /// A coordinator looks at its own session before it speaks of leases.
    Lease,
    /// Nodes that other tools read are put right.
    Mirrors,
    /// Tokens are raised.
    Number,
    /// Somebody pauses a job or lets it go on.
    Pause,
    /// A job of a file begins to be put together.
    Prepare,
    /// Records of items are made.
    Records,
    /// A guarantee that nobody waits for any more is cleared.
    Release,
    /// A job is removed.
    Remove,
    /// A machine is forgotten.
    RemoveMachine,
    /// Jobs come from a backup.
    Restore,
    /// A job that was put together begins to be.
    Reveal,
    /// Machines that nobody has used for long are removed.
    Servers,
    /// Instances are shut down for a job.
    Shutdown,
    /// What is left of a removed job is swept.
    Sweep,
    /// Somebody fires a job by hand.
    Trigger,
    /// A worker is marked dead.
    Verdict,
}

impl Purpose {
    /// Each of them but `Other`.
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
        Self::Verdict,
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
            Self::Verdict => "verdict",
        }
    }

    /// Whether the job's leader alone may write it.
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
