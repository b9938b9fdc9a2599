//! Whether the subject of a query to the history exists or existed. An empty list means that nothing happened; but
//! nothing can have happened to an unknown job, or to an item that a job never had, and a caller that mistyped the name
//! has to learn that. The same for gRPC and REST, which call it.

use std::collections::BTreeSet;

use rosterd_domain::id::{Item, JobName};
use rosterd_history::{EventFilter, OwnerFilter, Page, RunFilter};
use rosterd_session::code::{Code, Refusal};

use crate::backend::Backend;
use crate::history::History;

/// Refuses a job that neither exists nor is in the history. `found`: something was found of it.
pub(crate) async fn job(
    name: Option<&JobName>,
    found: bool,
    backend: &dyn Backend,
    history: &dyn History,
) -> Result<(), Refusal> {
    let Some(name) = name.filter(|_| !found) else { return Ok(()) };
    if may_exist(name, backend.names().await) || is_kept(name, None, history).await? {
        return Ok(());
    }
    let what = "does not exist, and the history of this coordinator has nothing of it: see rosterd jobs list";
    Err(Refusal::new(Code::JobUnknown, format!("job {name} {what}")))
}

/// Refuses an item beyond the `items` of a job that the history does not know either.
pub(crate) async fn item(
    name: &JobName,
    item: Option<u32>,
    items: u32,
    history: &dyn History,
) -> Result<(), Refusal> {
    let Some(item) = item.filter(|item| *item >= items) else { return Ok(()) };
    if is_kept(name, Some(Item(item)), history).await? {
        return Ok(());
    }
    Err(Refusal::new(Code::ItemUnknown, no_item(name, item, items)))
}

fn no_item(name: &JobName, item: u32, items: u32) -> String {
    let last = items.saturating_sub(1);
    format!(
        "item {item} of {name} does not exist: its items are 0 to {last}, and the history has nothing of it"
    )
}

/// If the store is unavailable, the history alone has answered, so nothing is refused.
fn may_exist(name: &JobName, names: Result<BTreeSet<JobName>, Refusal>) -> bool {
    names.map_or(true, |names| names.contains(name))
}

/// Whether the history has anything of a job, or of an item of it.
async fn is_kept(name: &JobName, item: Option<Item>, history: &dyn History) -> Result<bool, Refusal> {
    let one = || Page { size: 1, token: None };
    let runs = RunFilter { job: Some(name.clone()), item, ..RunFilter::default() };
    if !history.runs(runs, one()).await?.0.is_empty() {
        return Ok(true);
    }
    let owners = OwnerFilter { job: name.clone(), item, from: None, to: None };
    if !history.owners(owners, one()).await?.0.is_empty() {
        return Ok(true);
    }
    let events = EventFilter { job: Some(name.clone()), ..EventFilter::default() };
    Ok(item.is_none() && !history.events(events, one()).await?.0.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_may_exist_where_the_store_does_not_answer() {
        let name = JobName::new("a").unwrap();
        let away = Refusal::new(Code::StoreUnavailable, "no answer");
        assert!(may_exist(&name, Err(away)) && may_exist(&name, Ok([name.clone()].into())));
        assert!(!may_exist(&name, Ok(BTreeSet::new())));
    }
}
