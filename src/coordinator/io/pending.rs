//! What is in flight at the store, and its purpose.

use std::collections::BTreeSet;
use std::sync::Arc;

use rosterd_domain::id::{Item, JobName, WorkerId};
use rosterd_domain::time::Mono;
use rosterd_session::frame::Hello;

use crate::io::event::{RequestId, StreamId};

/// The purpose of a read.
#[derive(Debug)]
pub(crate) enum ReadFor {
    Jobs,
    Nodes(JobName),
    Job(JobName),
    Switches(JobName),
    Offset(JobName, Item),
    /// A worker's Hello with an identity.
    Hello(StreamId, Box<Hello>, Mono),
    /// A worker of ours whose attachment was written with unknown outcome, or taken over by another host.
    Own(WorkerId),
    /// A worker that a record names.
    Suspect(WorkerId),
    /// The live coordinators, before these workers are marked dead because their hosts are not among them.
    Expire(BTreeSet<WorkerId>),
    Attachments,
    Coordinators,
    Clock,
}

/// The purpose of a transaction.
#[derive(Debug)]
pub(crate) enum TxnFor {
    Job(JobName),
    /// The attachment of a Hello.
    Attach(StreamId),
    Draining(WorkerId),
    /// A worker here was asked to drain.
    AskToLeave {
        worker: WorkerId,
        grace_ms: u64,
        requester: Requester,
    },
    /// The lease in an attachment.
    Lease(WorkerId),
    Expire(WorkerId),
    Goodbye(WorkerId),
    /// The lease of a worker that another coordinator hosts has expired.
    ExpireRemote(WorkerId),
    Own,
}

/// The request to answer, and its principal; `None` if a command is executed.
pub(crate) type Requester = Option<(RequestId, Option<Arc<str>>)>;
