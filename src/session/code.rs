//! Every refusal that a user can meet, by code. The table in the guide is made from this enum, and so are the
//! gRPC statuses; who refuses names the field, the value and the remedy in the message.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $class:ident;)*) => {
        /// A refusal's code: stable, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)*
        }

        impl Code {
            /// All codes, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The code as programs see it.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// What kind of refusal it is.
            pub fn class(self) -> Class {
                match self { $(Code::$name => Class::$class,)* }
            }

            /// What it means and what to do, for the table.
            pub fn remedy(self) -> &'static str {
                match self { $(Code::$name => concat!($($doc),+),)* }
            }
        }
    };
}

/// Kinds of refusal; each is one gRPC status and one HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The request can never work as it is (INVALID_ARGUMENT).
    Invalid,
    /// No such thing (NOT_FOUND).
    Unknown,
    /// It is there already, or belongs to another (ALREADY_EXISTS).
    Exists,
    /// Not in the state that things are in (FAILED_PRECONDITION).
    Precondition,
    /// Another was faster, or took the place (ABORTED).
    Superseded,
    /// Too much, for now (RESOURCE_EXHAUSTED).
    Exhausted,
    /// Not now: try again, or elsewhere (UNAVAILABLE).
    Unavailable,
    /// Who are you (UNAUTHENTICATED).
    Unauthenticated,
    /// You may not (PERMISSION_DENIED).
    Denied,
    /// It took too long (DEADLINE_EXCEEDED).
    Deadline,
    /// Ours to mend (INTERNAL).
    Defect,
}

codes! {
    /// The first frame of a stream must be Hello, and only the first.
    HelloExpected = "HELLO_EXPECTED", Invalid;
    /// The stream did not open with a Hello in time.
    HelloTimeout = "HELLO_TIMEOUT", Deadline;
    /// A field of Hello is out of its range: the message names it.
    HelloInvalid = "HELLO_INVALID", Invalid;
    /// The worker expects another namespace than this coordinator serves: connect to one that serves it.
    NamespaceMismatch = "NAMESPACE_MISMATCH", Invalid;
    /// A later stream of the same worker process is attached: this one is too late.
    StreamSuperseded = "STREAM_SUPERSEDED", Superseded;
    /// The resume key is not the one given to this worker, or the credential is another than it came with: start without worker_id to get an identity of its own.
    ResumeRefused = "RESUME_REFUSED", Denied;
    /// Frames are refused faster than their answers are read: read the stream at all times, and correct what is refused.
    TooManyFrames = "TOO_MANY_FRAMES", Exhausted;
    /// The worker does not read the frames that it is sent.
    TooSlow = "TOO_SLOW", Exhausted;
    /// More unacknowledged reports than Welcome allowed.
    TooManyReports = "TOO_MANY_REPORTS", Exhausted;
    /// More jobs than one worker may register.
    TooManyJobs = "TOO_MANY_JOBS", Exhausted;
    /// The credential's workers would exceed its limits: the message names the limit, its value and what to do. An operator raises it in the credential file.
    QuotaExceeded = "QUOTA_EXCEEDED", Exhausted;
    /// More connections or streams than this coordinator accepts: try another one, or retry later.
    Overloaded = "OVERLOADED", Exhausted;
    /// The text is not a valid name: the message says what to write; of jobs and namespaces it is 1 to 128 letters, marks and digits of any script or . _ -, in composed form (NFC), at most 255 bytes.
    NameInvalid = "NAME_INVALID", Invalid;
    /// No such job: `rosterd jobs list` shows all jobs; a worker creates one by registering it with a config, `rosterd jobs apply` from a file.
    JobUnknown = "JOB_UNKNOWN", Unknown;
    /// The job exists with another handler type: use that one, or another job name.
    HandlerConflict = "HANDLER_CONFLICT", Exists;
    /// The job's configuration has defects: the message lists each with its field, value and remedy.
    ConfigInvalid = "CONFIG_INVALID", Invalid;
    /// The stored configuration cannot be read: apply it again.
    ConfigDamaged = "CONFIG_DAMAGED", Precondition;
    /// The job's configuration has changed since it was read: read it again, and change that.
    ConfigChanged = "CONFIG_CHANGED", Superseded;
    /// The job is being removed: try again when it is gone.
    JobRemoving = "JOB_REMOVING", Precondition;
    /// The worker has not registered the job on this stream.
    NotRegistered = "NOT_REGISTERED", Precondition;
    /// The job exists, and the restore would replace it: give --overwrite to return it to its state in the backup.
    JobExists = "JOB_EXISTS", Exists;
    /// No such item: items are 0 to sharding_total_count - 1.
    ItemUnknown = "ITEM_UNKNOWN", Unknown;
    /// No such instance of the job.
    InstanceUnknown = "INSTANCE_UNKNOWN", Unknown;
    /// No such machine of the job.
    MachineUnknown = "MACHINE_UNKNOWN", Unknown;
    /// Instances on the machine work for the job: shut them down first (`rosterd machines shutdown`), or wait until they have left.
    MachineInUse = "MACHINE_IN_USE", Precondition;
    /// No such run is in flight.
    RunUnknown = "RUN_UNKNOWN", Unknown;
    /// The item is running: wait, cancel the run, or ask for one run after it (--after-current).
    RunInFlight = "RUN_IN_FLIGHT", Precondition;
    /// A trigger waits for the item already.
    TriggerWaiting = "TRIGGER_WAITING", Exists;
    /// No such silence of alarms: `rosterd alarms list` shows those in force on the coordinator that is asked.
    SilenceUnknown = "SILENCE_UNKNOWN", Unknown;
    /// No such receiver of alarms: `rosterd alarms list` shows them; they are defined in the configuration file.
    ReceiverUnknown = "RECEIVER_UNKNOWN", Unknown;
    /// The job or item is disabled: enable it first.
    Disabled = "DISABLED", Precondition;
    /// The token is not that of the item's run in flight: another run took its place. Nothing was changed.
    ReportFenced = "REPORT_FENCED", Superseded;
    /// The report breaks a rule: the message says which. Nothing was changed.
    ReportInvalid = "REPORT_INVALID", Invalid;
    /// The state changed repeatedly while the request was processed: repeat it.
    Contended = "CONTENDED", Superseded;
    /// The store cannot write: the message says why and what to do. Nothing was changed.
    StoreUnavailable = "STORE_UNAVAILABLE", Unavailable;
    /// It is not known whether the change was made: look before you repeat it.
    OutcomeUnknown = "OUTCOME_UNKNOWN", Unavailable;
    /// This coordinator is stopping: connect to another one.
    Draining = "DRAINING", Unavailable;
    /// A message, or the answer to one, is longer than the coordinator accepts or sends: send or request less at a time.
    MessageTooLarge = "MESSAGE_TOO_LARGE", Exhausted;
    /// A request field is out of its range: the message names it.
    RequestInvalid = "REQUEST_INVALID", Invalid;
    /// The request took longer than its deadline.
    DeadlineExceeded = "DEADLINE_EXCEEDED", Deadline;
    /// A defect in this coordinator, whose log says more: report it. What the request would have changed may have been changed.
    Defect = "DEFECT", Defect;
    /// No valid credential came with the request: send `authorization: Bearer …`, or connect with a client certificate.
    Unauthenticated = "UNAUTHENTICATED", Unauthenticated;
    /// The identity provider did not respond, or not as OpenID Connect requires: the message has the details. Try again later, or log in with a credential.
    ProviderUnavailable = "PROVIDER_UNAVAILABLE", Unavailable;
    /// Too many logins from this address have failed: wait as long as the message says.
    LoginThrottled = "LOGIN_THROTTLED", Exhausted;
    /// The credential of an open stream was revoked, has changed or has expired: get a new one.
    CredentialRevoked = "CREDENTIAL_REVOKED", Unauthenticated;
    /// The credential does not allow this, by its role or for this job: use one that does.
    PermissionDenied = "PERMISSION_DENIED", Denied;
    /// The request may come from a web page: without credentials, a coordinator on loopback accepts only the names localhost, 127.0.0.1 and [::1], and no coordinator accepts gRPC with an Origin. Use one of these names, or credentials.
    OriginRefused = "ORIGIN_REFUSED", Denied;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal: code and message. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// For people: the field, the value, the remedy.
    pub message: String,
}

impl Refusal {
    /// A refusal with its message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/errors.md");

    const HEAD: &str = "\
# Errors

<!-- Generated from the enum in src/session/code.rs: cargo xtask docs -->

Each refusal has a *code*, for programs, and a message, for people: the field, the value, the remedy. A refused request
has changed nothing, except with `OUTCOME_UNKNOWN`. On the command line it is the line `rosterd: CODE: message`, and the command line has [some codes of
its own](cli.md#codes); over gRPC it is the status of the table, with `google.rpc.ErrorInfo` (domain `rosterd`, the code as its reason).

No message shows the value of `jobParameter`, `shardingItemParameters`, `scriptCommandLine` or a text in `props`, since it
may be a secret and messages end in logs: it names the field, the entry, item or character, the length, or that it is a list or
a mapping, and what is allowed. `rosterd jobs diff` shows lengths.

| code | gRPC | meaning and remedy |
| --- | --- | --- |
";

    /// The guide's page of codes, made from the enum.
    fn markdown() -> String {
        let mut page = HEAD.to_owned();
        for code in Code::ALL {
            let _ = writeln!(page, "| `{code}` | {} | {} |", status(code.class()), code.remedy().trim());
        }
        page
    }

    const CLIENTS_PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/spec/codes.md");

    const CLIENTS_HEAD: &str = "\
# Codes, for clients

<!-- Generated from the enum in src/session/code.rs: cargo xtask docs -->

How a client handles each refusal ([the machine](machine.md#statuses)). It never decides by a code: the status of a stream, or the frame that
carries the code, is enough. After a Welcome it retries after every status, and offers a job again whatever Refused says.

| code | as the status of a stream | before any Welcome |
| --- | --- | --- |
";

    /// The page of the clients' specification: which statuses are final.
    fn for_clients() -> String {
        let mut page = CLIENTS_HEAD.to_owned();
        for code in Code::ALL {
            let before = if is_final(code.class()) { "final" } else { "tried again" };
            let _ = writeln!(page, "| `{code}` | {} | {before} |", status(code.class()));
        }
        page
    }

    /// Whether a worker that was never welcomed has nothing to hope for from repeating its Hello.
    fn is_final(class: Class) -> bool {
        match class {
            Class::Invalid | Class::Unknown | Class::Unauthenticated | Class::Denied => true,
            Class::Exists
            | Class::Precondition
            | Class::Superseded
            | Class::Exhausted
            | Class::Unavailable
            | Class::Deadline
            | Class::Defect => false,
        }
    }

    fn status(class: Class) -> &'static str {
        match class {
            Class::Invalid => "INVALID_ARGUMENT",
            Class::Unknown => "NOT_FOUND",
            Class::Exists => "ALREADY_EXISTS",
            Class::Precondition => "FAILED_PRECONDITION",
            Class::Superseded => "ABORTED",
            Class::Exhausted => "RESOURCE_EXHAUSTED",
            Class::Unavailable => "UNAVAILABLE",
            Class::Unauthenticated => "UNAUTHENTICATED",
            Class::Denied => "PERMISSION_DENIED",
            Class::Deadline => "DEADLINE_EXCEEDED",
            Class::Defect => "INTERNAL",
        }
    }

    #[test]
    fn codes_are_distinct_and_say_what_to_do() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| code.remedy().len() > 20));
    }

    #[test]
    fn the_guide_has_the_page_made_from_the_enum() {
        let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert!(committed == markdown(), "docs/guide/src/errors.md is out of date; run: cargo xtask docs");
    }

    #[test]
    fn the_clients_specification_has_the_page_made_from_the_enum() {
        let committed = std::fs::read_to_string(CLIENTS_PAGE).unwrap_or_default();
        assert!(committed == for_clients(), "clients/spec/codes.md is out of date; run: cargo xtask docs");
    }

    /// And its table of statuses says the same of those that the enum uses.
    #[test]
    fn the_clients_machine_classifies_statuses_as_the_enum_does() {
        let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/spec/machine.md");
        let machine = std::fs::read_to_string(machine).unwrap();
        for code in Code::ALL {
            let row = format!("| {} | final |", status(code.class()));
            assert_eq!(machine.contains(&row), is_final(code.class()), "{row}");
        }
    }

    #[test]
    #[ignore = "writes clients/spec/codes.md"]
    fn write_the_guides_page_for_clients() {
        std::fs::write(CLIENTS_PAGE, for_clients()).unwrap();
    }

    #[test]
    #[ignore = "writes docs/guide/src/errors.md"]
    fn write_the_guides_page() {
        std::fs::write(PAGE, markdown()).unwrap();
    }
}
