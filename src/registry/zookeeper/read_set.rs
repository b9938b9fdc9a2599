//! The nodes that each of the port's reads needs. Plain functions of what was found so far; see `fetch`.

use rosterd_domain::id::{InstanceId, Item, JobName, WorkerId};
use rosterd_domain::snapshot::Stage;

use super::wants::{Found, Want, Wants};
use crate::paths::{Path, Paths};

const DATA: Want = Want { data: true, children: false };
const CHILDREN: Want = Want { data: false, children: true };
const BOTH: Want = Want { data: true, children: true };

/// The names of the jobs.
pub(super) fn jobs(paths: &Paths) -> Wants {
    Wants::from([(paths.jobs(), CHILDREN)])
}

/// A job's decision state.
pub(super) fn job(paths: &Paths, job: &JobName, found: &Found) -> Wants {
    let data = [
        paths.job(job),
        paths.config(job),
        paths.policy(job),
        paths.paused(job),
        paths.sharding(job),
        paths.election(job),
        paths.leader(job),
        paths.necessary(job),
        paths.numbering(),
        paths.announced(job, Stage::Started),
        paths.announced(job, Stage::Completed),
    ];
    let lists = [paths.incarnations(job), paths.failover_items(job), paths.foreign_triggers(job)];
    let mut wants: Wants = data.into_iter().map(|path| (path, DATA)).collect();
    wants.extend(lists.into_iter().map(|path| (path, CHILDREN)));
    for folder in [paths.servers(job), paths.instances(job), paths.triggers(job), paths.commands(job)] {
        wants.extend(found.children(&folder).map(|name| (folder.child(name), DATA)));
        wants.insert(folder, CHILDREN);
    }
    let instances = paths.instances(job);
    let ids = found.children(&instances).filter_map(|name| InstanceId::new(name).ok());
    wants.extend(ids.map(|id| (paths.own_instance(job, &id), DATA)));
    wants
}

/// A job's decision state and its records.
pub(super) fn snapshot(paths: &Paths, name: &JobName, found: &Found) -> Wants {
    let mut wants = job(paths, name, found);
    let records = paths.sharding(name);
    let items = found.children(&records).filter_map(|name| name.parse::<u32>().ok());
    let items: Vec<Path> = items.map(|item| paths.record(name, Item(item))).collect();
    wants.extend(items.into_iter().map(|path| (path, DATA)));
    wants.insert(records, BOTH);
    wants
}

/// Which items of a job are marked as disabled.
pub(super) fn switches(paths: &Paths, name: &JobName, found: &Found) -> Wants {
    let sharding = paths.sharding(name);
    let items = found.children(&sharding).filter_map(|name| name.parse::<u32>().ok());
    let mut wants: Wants = items.map(|item| (paths.item_disabled(name, Item(item)), DATA)).collect();
    wants.extend([(paths.job(name), DATA), (paths.incarnations(name), CHILDREN), (sharding, BOTH)]);
    wants
}

/// All that is kept of a job.
pub(super) fn whole(paths: &Paths, name: &JobName, found: &Found) -> Wants {
    let mut wants = snapshot(paths, name, found);
    wants.extend(folder(paths.offsets(name), found));
    wants
}

/// A node's data.
pub(super) fn node(path: Path) -> Wants {
    Wants::from([(path, DATA)])
}

/// A folder's children with their data.
pub(super) fn folder(path: Path, found: &Found) -> Wants {
    let mut wants: Wants = found.children(&path).map(|name| (path.child(name), DATA)).collect();
    wants.insert(path, CHILDREN);
    wants
}

/// A worker's attachment.
pub(super) fn attachment(paths: &Paths, worker: &WorkerId) -> Wants {
    node(paths.worker(worker))
}

/// Everything from a node down.
pub(super) fn everything(root: &Path, found: &Found) -> Wants {
    let mut wants = Wants::from([(root.clone(), BOTH)]);
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for name in found.children(&folder) {
            let path = folder.child(name);
            wants.insert(path.clone(), BOTH);
            folders.push(path);
        }
    }
    wants
}
