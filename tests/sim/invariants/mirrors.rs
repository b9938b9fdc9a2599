//! Once faults have stopped, the nodes that tools read agree with the records.
//!
//! What a foreign tool has removed comes back with the item's next run.
//!
//! Source: Elastic-Job #2429 and #467. Tools read these nodes; stale ones stopped jobs forever when they were taken for
//! the truth.

use rosterd_domain::item::Source;

use super::Resting;

/// The mirrors of one job that differ from its records.
pub(super) fn at_rest(of: &Resting<'_>) -> Vec<String> {
    let (view, snapshot, mut found) = (of.view, of.snapshot, Vec::new());
    let Some(dump) = of.rest.dumps.get(&view.name) else { return found };
    let text = |path: &str| dump.get(path).map(|node| String::from_utf8_lossy(&node.data).into_owned());
    for (item, (_, record)) in &snapshot.records {
        let mut expect = |path: String, wanted: Option<String>, exact: bool| {
            let is = text(&path);
            if (exact && is != wanted) || is.is_some() != wanted.is_some() {
                found.push(format!("{}{path} is {is:?}, but the records require {wanted:?}", view.name));
            }
        };
        // Without monitorExecution no node shows a run, even one that a record holds from before.
        let run = record.running().filter(|_| view.rules.monitor);
        let holder = run.map(|run| run.instance.to_string());
        if !of.rest.unmarked.contains(&(view.name.clone(), *item, record.token)) {
            expect(format!("/sharding/{item}/running"), holder.clone(), true);
        }
        let taker = holder.filter(|_| run.is_some_and(|run| run.source == Source::Failover));
        expect(format!("/sharding/{item}/failover"), taker, true);
        expect(format!("/sharding/{item}/misfire"), record.misfire.map(|_| String::new()), false);
        let crashed = record.crashed().map(|_| String::new());
        expect(format!("/leader/failover/items/{item}"), crashed, false);
        if item.0 < view.rules.items {
            let owner = view.sharding.owner(*item).map(ToString::to_string);
            expect(format!("/sharding/{item}/instance"), owner, true);
            let disabled = view.sharding.disabled_items.contains(item).then(String::new);
            expect(format!("/sharding/{item}/disabled"), disabled, false);
        }
    }
    found
}
