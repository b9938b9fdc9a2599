//! One `multi` in flight: what is handed to the client library, and what its answer means.
//!
//! A refused step is certain: nothing was applied. Any other failure leaves open whether it was applied.

use std::time::Duration;

use rosterd_domain::id::Revision;
use zookeeper_client::{
    Acls, Client, CreateMode, CreateOptions, Error, MultiWriteError, MultiWriteResult, MultiWriter,
};

use super::encode::MultiOp;
use crate::paths::Path;

/// The outcome.
#[derive(Debug)]
pub(super) enum OpResult {
    Applied(Revision),
    /// The operation that did not hold, by its index in the whole `multi`.
    Refused(usize, Error),
    /// Certainly not applied, and no step is to blame.
    Unavailable(String),
    /// It may have been applied.
    Unknown(String),
}

/// The largest packet that is sent. The servers close a connection that sends more than 1 MiB (`jute.maxbuffer`), and
/// the chroot makes names longer.
pub(super) const MAX_PACKET: usize = 512 << 10;

/// Sends the operations at once; the future waits for the answer.
///
/// If there is no set among them, a node of ours is set along: only the answer to a set has the transaction's number.
pub(super) fn send<'c>(
    client: &'c Client,
    steps: &[MultiOp],
    numbering: &Path,
    acls: Acls<'static>,
    limit: Duration,
) -> impl Future<Output = OpResult> + Send + 'c {
    let mut writer = client.new_multi_writer();
    let added = steps.iter().try_for_each(|step| add(&mut writer, step, acls));
    let numbered = steps.iter().any(|step| matches!(step, MultiOp::Set { .. }));
    let added = added.and_then(|()| match numbered {
        true => Ok(()),
        false => writer.add_set_data(numbering.as_str(), &[], None),
    });
    // The request is in the library's queue when `commit` returns, not when its future is polled.
    let sent = added.map(|()| writer.commit());
    async move {
        match sent {
            Err(error) => OpResult::Unavailable(format!("the client library refuses it: {error}")),
            Ok(sent) => match tokio::time::timeout(limit, sent).await {
                Ok(answer) => read(answer),
                Err(_) => OpResult::Unknown(format!("no answer within {} ms", limit.as_millis())),
            },
        }
    }
}

fn add(writer: &mut MultiWriter<'_>, step: &MultiOp, acls: Acls<'static>) -> Result<(), Error> {
    match step {
        MultiOp::Check { path, version } => writer.add_check_version(path.as_str(), *version),
        MultiOp::Create { path, data, ephemeral } => {
            writer.add_create(path.as_str(), data, &options(*ephemeral, acls))
        }
        MultiOp::Set { path, data, version } => writer.add_set_data(path.as_str(), data, *version),
        MultiOp::Delete { path, version } => writer.add_delete(path.as_str(), *version),
    }
}

/// The options for creating a node.
pub(super) fn options(ephemeral: bool, acls: Acls<'static>) -> CreateOptions<'static> {
    let mode = if ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
    mode.with_acls(acls)
}

fn read(answer: Result<Vec<MultiWriteResult>, MultiWriteError>) -> OpResult {
    match answer {
        Ok(results) => {
            let number = results.iter().find_map(|result| match result {
                MultiWriteResult::SetData { stat } => u64::try_from(stat.mzxid).ok(),
                _ => None,
            });
            match number {
                Some(number) => OpResult::Applied(Revision(number)),
                None => OpResult::Unknown("the answer has no number".into()),
            }
        }
        Err(MultiWriteError::OperationFailed { index, source }) => OpResult::Refused(index, source),
        Err(MultiWriteError::RequestFailed { source: source @ (Error::Throttled | Error::NotReadOnly) }) => {
            OpResult::Unavailable(format!("ZooKeeper refuses to write: {source}"))
        }
        Err(MultiWriteError::RequestFailed { source }) => OpResult::Unknown(source.to_string()),
    }
}
