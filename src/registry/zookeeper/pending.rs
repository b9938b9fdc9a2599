//! A transaction that was handed over and waits for its answer, alone or with others.

use rosterd_domain::time::Mono;
use rosterd_domain::txn::{Commit, Txn};
use tokio::sync::oneshot;

use super::encode::Sweeping;
use super::existence::Fresh;
use super::group::Touched;
use crate::lower::Lowered;

/// A transaction that was handed over.
pub(super) struct Pending {
    pub(super) txn: Txn,
    pub(super) lowered: Lowered,
    pub(super) touched: Touched,
    pub(super) reply: oneshot::Sender<Commit>,
    pub(super) asked: Mono,
    pub(super) looks: u32,
    pub(super) fresh: Option<Fresh>,
    pub(super) sweeping: Option<Sweeping>,
}

impl Pending {
    pub(super) fn new(txn: Txn, lowered: Lowered, reply: oneshot::Sender<Commit>, asked: Mono) -> Self {
        let touched = Touched::by(&lowered.ops);
        Self { txn, lowered, touched, reply, asked, looks: 0, fresh: None, sweeping: None }
    }
}

/// Transactions handed over together. Boxed, since they are taken out of the middle of queues.
#[allow(clippy::vec_box, reason = "what moves is a pointer")]
pub(super) type Group = Vec<Box<Pending>>;
