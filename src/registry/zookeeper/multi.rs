//! One `multi` in flight: what is handed to the client library, and what its answer means.
//!
//! A refused step is certain: nothing was applied. Any other failure leaves open whether it was applied.

use std::time::Duration;

use rosterd_domain::id::Revision;
use zookeeper_client::{
    Acls, Client, CreateMode, CreateOptions, Error, MultiWriteError, MultiWriteResult, MultiWriter,
};

use super::encode::Step;
use crate::paths::Path;

/// The outcome.
#[derive(Debug)]
pub(super) enum Answer {
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
    steps: &[Step],
    numbering: &Path,
    acls: Acls<'static>,
    limit: Duration,
) -> impl Future<Output = Answer> + Send + 'c {
    let mut writer = client.new_multi_writer();
    let added = steps.iter().try_for_each(|step| add(&mut writer, step, acls));
    let numbered = steps.iter().any(|step| matches!(step, Step::Set { .. }));
    let added = added.and_then(|()| match numbered {
        true => Ok(()),
        false => writer.add_set_data(numbering.as_str(), &[], None),
    });
    // The request is in the library's queue when `commit` returns, not when its future is polled.
    let sent = added.map(|()| writer.commit());
    async move {
        match sent {
            Err(error) => Answer::Unavailable(format!("the client library refuses it: {error}")),
            Ok(sent) => match tokio::time::timeout(limit, sent).await {
                Ok(answer) => read(answer),
                Err(_) => Answer::Unknown(format!("no answer within {} ms", limit.as_millis())),
            },
        }
    }
}

fn add(writer: &mut MultiWriter<'_>, step: &Step, acls: Acls<'static>) -> Result<(), Error> {
    match step {
        Step::Check { path, version } => writer.add_check_version(path.as_str(), *version),
        Step::Create { path, data, ephemeral } => {
            writer.add_create(path.as_str(), data, &options(*ephemeral, acls))
        }
        Step::Set { path, data, version } => writer.add_set_data(path.as_str(), data, *version),
        Step::Delete { path, version } => writer.add_delete(path.as_str(), *version),
    }
}

/// The options for creating a node.
pub(super) fn options(ephemeral: bool, acls: Acls<'static>) -> CreateOptions<'static> {
    let mode = if ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
    mode.with_acls(acls)
}

fn read(answer: Result<Vec<MultiWriteResult>, MultiWriteError>) -> Answer {
    match answer {
        Ok(results) => {
            let number = results.iter().find_map(|result| match result {
                MultiWriteResult::SetData { stat } => u64::try_from(stat.mzxid).ok(),
                _ => None,
            });
            match number {
                Some(number) => Answer::Applied(Revision(number)),
                None => Answer::Unknown("the answer has no number".into()),
            }
        }
        Err(MultiWriteError::OperationFailed { index, source }) => Answer::Refused(index, source),
        Err(MultiWriteError::RequestFailed { source: source @ (Error::Throttled | Error::NotReadOnly) }) => {
            Answer::Unavailable(format!("ZooKeeper refuses to write: {source}"))
        }
        Err(MultiWriteError::RequestFailed { source }) => Answer::Unknown(source.to_string()),
    }
}
