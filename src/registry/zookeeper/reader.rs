//! Reads: of one revision, not older than anything acknowledged before, and retried while the session is alive.
//!
//! Each is preceded by a `sync` on the same connection, so that the server has caught up with the leader when it reads.
//! While the leader changes, that alone is not a proof: a deposed leader that does not know it yet may answer it, for
//! as long as the ensemble's `syncLimit`. Writes that this session got an acknowledgement for are always seen; others'
//! latest writes may be missed once, and a decision from such a reading is refused by its guards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use rosterd_domain::id::Revision;
use rosterd_domain::time::Time;
use zookeeper_client::{Client, Error};

use super::core::Core;
use super::fetch;
use super::wants::{Found, Wants};
use crate::paths::{NodeRole, Path, Paths};
use crate::{Read, ReadError, SessionState, View};

impl Core {
    /// Reads the nodes of `read_set`, and evaluates them.
    pub(super) fn read<T, W, F>(self: Arc<Self>, wants: W, look: F) -> Read<T>
    where
        T: Send + 'static,
        W: Fn(&Paths, &Found) -> Wants + Send + Sync + 'static,
        F: FnOnce(View<'_>) -> Result<T, ReadError> + Send + 'static,
    {
        async move {
            // Everything acknowledged before the call is visible to the read.
            let seen = Revision(self.known.seen.load(Ordering::Relaxed));
            let found = self.fetch(&wants).await?;
            self.believe(&found);
            let tree = found.into_tree(seen);
            look(View::new(&tree, &self.paths, Some(self.session)))
        }
        .boxed()
    }

    async fn fetch(
        &self,
        wants: &(dyn Fn(&Paths, &Found) -> Wants + Send + Sync),
    ) -> Result<Found, ReadError> {
        let begun = self.life.clock.mono();
        let mut tries = 0;
        loop {
            let left = self.terms.limit.saturating_sub(self.life.clock.mono().since(begun));
            let tried = match tokio::time::timeout(left, self.try_once(wants)).await {
                Ok(tried) => tried?,
                Err(_) => Err(Error::Timeout),
            };
            let error = match tried {
                Ok(found) => return Ok(found),
                Err(Error::NoAuth) => return Err(ReadError::Unavailable(NOT_ALLOWED.into())),
                Err(error) => error,
            };
            tries += 1;
            let pause = self.terms.backoff.pause(tries);
            let late = self.life.clock.mono().since(begun) + pause >= self.terms.limit;
            if self.life.state() == SessionState::Gone {
                return Err(ReadError::Fenced);
            }
            if tries > self.terms.backoff.retries || late {
                return Err(ReadError::Unavailable(format!(
                    "{error}, after {tries} tries; see that a majority of the ZooKeeper servers runs and can be \
                     reached"
                )));
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn try_once(
        &self,
        wants: &(dyn Fn(&Paths, &Found) -> Wants + Send + Sync),
    ) -> Result<Result<Found, Error>, ReadError> {
        let connected =
            self.life.follow().wait_for(|state| *state != SessionState::Suspended).await.map(|s| *s);
        let (Ok(SessionState::Connected), Some(client)) = (connected, self.client()) else {
            return Err(ReadError::Fenced);
        };
        self.gate.pass().await;
        Ok(self.read_after_sync(&client, wants).await)
    }

    async fn read_after_sync(
        &self,
        client: &Client,
        wants: &(dyn Fn(&Paths, &Found) -> Wants + Send + Sync),
    ) -> Result<Found, Error> {
        // Sent at the call: the reads follow it on the same connection without waiting for its answer.
        let synced = client.sync("/");
        let found = fetch::fetch(client, &self.known.sizes, &|found| wants(&self.paths, found)).await?;
        synced.await?;
        Ok(found)
    }

    /// When a node was last written, by the clock of the server that was the leader then. Sees this session's own
    /// writes, on whichever server it is.
    pub(super) async fn written_at(&self, path: &Path) -> Result<Option<Time>, ReadError> {
        let Some(client) = self.client() else { return Err(ReadError::Fenced) };
        match tokio::time::timeout(self.terms.limit, client.check_stat(path.as_str())).await {
            Ok(Ok(stat)) => Ok(stat.map(|stat| Time(stat.mtime))),
            Ok(Err(error)) => Err(ReadError::Unavailable(error.to_string())),
            Err(_) => Err(ReadError::Unavailable("ZooKeeper does not answer".into())),
        }
    }

    /// Updates the cache, which determines how the next write of these nodes is encoded.
    fn believe(&self, found: &Found) {
        let mut existence = self.existence();
        for (path, kind) in found.kinds() {
            if matches!(self.paths.place(path), NodeRole::Decision(_)) {
                existence.set(path, Some(kind));
            }
        }
    }
}

const NOT_ALLOWED: &str = "ZooKeeper does not allow these nodes to be read with these credentials; check them, and \
                           who may use the nodes";
