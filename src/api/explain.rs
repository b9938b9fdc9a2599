//! Why an item is where it is: the coordinator explains it, with what the history knows about its moves. The same for
//! gRPC and REST, which call it.

use rosterd_domain::explain::{Sentence, Stay};
use rosterd_domain::id::{Item, JobName};
use rosterd_history::{OwnerFilter, Page};
use rosterd_session::code::Refusal;

use crate::backend::Backend;
use crate::history::History;

/// The sentences, in order. If the history is unavailable its part is left out.
pub(crate) async fn of(
    job: &JobName,
    item: Item,
    backend: &dyn Backend,
    history: &dyn History,
) -> Result<Vec<Sentence>, Refusal> {
    let filter = OwnerFilter { job: job.clone(), item: Some(item), from: None, to: None };
    let read = history.owners(filter, Page { size: 2, token: None }).await;
    let stays = read.map(|(rows, _)| rows).unwrap_or_default().into_iter().map(|row| Stay {
        instance: row.instance,
        from: row.from,
        to: row.to,
        reason: row.reason,
        end_reason: row.end_reason,
    });
    backend.explain(job, item, stays.collect()).await
}
