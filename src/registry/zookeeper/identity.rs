//! Checks whether a connection still belongs to the session that we hold.
//!
//! A server that no longer knows a session has to say so. If it gives another session instead (ClickHouse Keeper did),
//! the client library accepts that silently and continues to show the first number. Then our ephemeral nodes remain
//! until the session that owns them has timed out, while we write in a session that owns nothing. No existing node
//! tells the difference; a node that is created now does. So after each reconnect one is created, its owner is read,
//! and it is deleted, in one transaction that nobody sees and that also proves the session.

use rosterd_domain::id::Revision;
use rosterd_domain::mutants;
use rosterd_domain::time::Mono;
use zookeeper_client::{Acls, Client, Error, MultiWriteError, MultiWriteResult, SessionState as ClientState};

use super::core::Core;
use super::wants::session;
use super::{multi, root_paths};
use crate::paths::Paths;
use crate::tree::SessionId;

/// Which session the servers made the owner of a new node, and in which transaction.
pub(super) async fn owner(
    client: &Client,
    paths: &Paths,
    acls: Acls<'static>,
) -> Result<(SessionId, Revision), Error> {
    // Named after the session that we hold, so it cannot collide with another's.
    let path = paths.common().child(&format!("session-{:#x}", client.session_id().0));
    let mut writer = client.new_multi_writer();
    writer.add_create(path.as_str(), &[], &multi::options(true, acls))?;
    // Some servers answer a create without the node's owner; the answer to a set always has it.
    writer.add_set_data(path.as_str(), &[], None)?;
    writer.add_delete(path.as_str(), None)?;
    let results = writer.commit().await.map_err(|error| match error {
        MultiWriteError::OperationFailed { source, .. } | MultiWriteError::RequestFailed { source } => source,
    })?;
    let told = results.into_iter().find_map(|result| match result {
        MultiWriteResult::SetData { stat } => Some((session(stat.ephemeral_owner), stat.mzxid)),
        _ => None,
    });
    match told.and_then(|(owner, number)| Some((owner, Revision(u64::try_from(number).ok()?)))) {
        Some(told) => Ok(told),
        None => Err(Error::UnexpectedError("the answer does not say whose the node is".to_owned())),
    }
}

impl Core {
    /// Whether the connection belongs to our session; asks until that is known or the connection is lost. If it belongs
    /// to another session, ours is over, as if the servers had ended it.
    pub(super) async fn recognise(&self, client: &Client) -> bool {
        // Our own clock bounds the wait: the session is not proved until this has an answer.
        tokio::select! {
            ours = self.ask_until_known(client) => ours,
            () = self.stopped.cancelled() => false,
        }
    }

    async fn ask_until_known(&self, client: &Client) -> bool {
        for tries in 1.. {
            let sent = self.life.clock.mono();
            match tokio::time::timeout(self.terms.limit, owner(client, &self.paths, self.terms.acls)).await {
                Ok(Ok((owner, _))) => return self.is_owner(owner, sent),
                Ok(Err(why)) => self.not_known(client, &why).await,
                Err(_) => {}
            }
            // The next connection asks again.
            if client.state() != ClientState::SyncConnected {
                break;
            }
            tokio::time::sleep(self.terms.backoff.pause(tries)).await;
        }
        false
    }

    fn is_owner(&self, owner: SessionId, sent: Mono) -> bool {
        if owner == self.session || mutants::is_on(mutants::ANY_SESSION_IS_OURS) {
            self.life.proven(sent);
            return true;
        }
        tracing::error!(
            "the ZooKeeper server has given another session ({:#x}) instead of ours ({:#x}) without saying so: ours is \
             given up, and another one follows. See that all servers of the list are of one ensemble, and that they \
             keep sessions when they start again",
            owner.0,
            self.session.0
        );
        self.end();
        false
    }

    async fn not_known(&self, client: &Client, why: &Error) {
        tracing::debug!("it is not known yet whose the connection is: {why}");
        if *why == Error::NoNode {
            // A folder that must always exist was removed.
            let made = tokio::time::timeout(
                self.terms.limit,
                root_paths::ensure_root_paths(client, &self.paths, self.terms.acls),
            )
            .await;
            if let Ok(Err((path, why))) = made {
                tracing::warn!("the folders of the namespace cannot be made again: {path}: {why}");
            }
        }
    }
}

/// The error if the first session is not the one that we hold.
pub(super) fn strange(owner: SessionId) -> String {
    format!("a node that was made in this session is said to be of another ({:#x})", owner.0)
}
