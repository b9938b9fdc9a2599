//! Translates a transaction in domain words into steps on nodes, and a refused step back into words.
//!
//! Guards come first, then the writes in their order, so the caller learns of the first thing that does not hold. It
//! reads nothing: its result can be applied to a tree, or sent to a ZooKeeper ensemble as one `multi`. Called by the
//! stores, on the caller's side of their queues.

use std::sync::Arc;

use rosterd_domain::id::{JobName, Version};
use rosterd_domain::mutants;
use rosterd_domain::txn::{Guard, Txn, Write};

use super::forms;
use super::paths::{Path, Paths};
use super::tree::Op;

/// A transaction as steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lowered {
    pub(crate) ops: Vec<Op>,
    /// For each step the index of its guard or, counted on from the last guard, of its write.
    origins: Vec<u32>,
}

/// What a step comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    Guard(&'a Guard),
    Write(&'a Write),
}

impl Lowered {
    /// The guard or write that step `index` comes from.
    pub(crate) fn origin<'a>(&self, txn: &'a Txn, index: usize) -> Option<Origin<'a>> {
        let origin = *self.origins.get(index)? as usize;
        match txn.guards.get(origin) {
            Some(guard) => Some(Origin::Guard(guard)),
            None => txn.writes.get(origin - txn.guards.len()).map(Origin::Write),
        }
    }

    /// About how many bytes it writes.
    pub(crate) fn weight(&self) -> usize {
        let data = |op: &Op| match op {
            Op::Create { data, .. }
            | Op::Set { data, .. }
            | Op::Put { data, .. }
            | Op::Mirror { data, .. }
            | Op::Ensure { data, .. } => data.len() + 64,
            Op::Sweep { limit, .. } => limit * 64,
            _ => 64,
        };
        self.ops.iter().map(data).sum()
    }
}

/// Lowers a transaction; `Err`: why it can never be applied.
pub(crate) fn lower(paths: &Paths, txn: &Txn) -> Result<Lowered, String> {
    let capacity = txn.guards.len() + txn.writes.len() + 2;
    let mut ops = Vec::with_capacity(capacity);
    let mut origins = Vec::with_capacity(capacity);
    let mut close = |ops: &Vec<Op>, origin: usize| {
        origins.resize(ops.len(), u32::try_from(origin).unwrap_or(u32::MAX));
    };
    for (i, guard) in txn.guards.iter().enumerate() {
        ops.push(check(paths, guard)?);
        close(&ops, i);
    }
    for (i, write) in txn.writes.iter().enumerate() {
        Lowering { paths, txn, ops: &mut ops }.write(write)?;
        close(&ops, txn.guards.len() + i);
    }
    Ok(Lowered { ops, origins })
}

fn check(paths: &Paths, guard: &Guard) -> Result<Op, String> {
    Ok(match guard {
        Guard::Incarnation(job, name) => {
            let path = paths.incarnation(job, name).ok_or_else(|| no_incarnation(name))?;
            let any = mutants::is_on(mutants::INCARNATION_UNCHECKED);
            Op::CheckExists { path: if any { paths.job(job) } else { path } }
        }
        Guard::NoJob(job) => Op::CheckAbsent { path: paths.job(job) },
        Guard::Generation(job, generation) => {
            Op::Check { path: paths.sharding(job), version: Version(generation.0) }
        }
        Guard::Epoch(job, epoch) => Op::Check { path: paths.election(job), version: Version(epoch.0) },
        Guard::Config(job, version) => Op::Check { path: paths.config(job), version: *version },
        Guard::Record(job, item, version) => Op::Check { path: paths.record(job, *item), version: *version },
        Guard::Attachment(worker, version) => Op::Check { path: paths.worker(worker), version: *version },
        Guard::NoAttachment(worker) => Op::CheckAbsent { path: paths.worker(worker) },
        Guard::Prepared(job, name) => {
            Op::CheckExists { path: paths.prepared(job, name).ok_or_else(|| no_prepared(name))? }
        }
    })
}

fn no_incarnation(name: &str) -> String {
    format!("{name:?} cannot be the name of an incarnation")
}

fn no_prepared(name: &str) -> String {
    format!("{name:?} cannot be the name under which a job is put together")
}

struct Lowering<'a> {
    paths: &'a Paths,
    txn: &'a Txn,
    ops: &'a mut Vec<Op>,
}

impl Lowering<'_> {
    fn create(&mut self, path: Path, data: Arc<[u8]>) {
        self.ops.push(Op::Create { path, data, ephemeral: false });
    }

    fn put(&mut self, path: Path, data: Arc<[u8]>) {
        self.ops.push(Op::Put { path, data, ephemeral: false });
    }

    fn mine(&mut self, path: Path, data: Arc<[u8]>) {
        self.ops.push(Op::Put { path, data, ephemeral: true });
    }

    fn set(&mut self, path: Path, data: Arc<[u8]>, expect: Option<u64>) {
        self.ops.push(Op::Set { path, data, expect: expect.map(Version) });
    }

    fn remove(&mut self, path: Path) {
        self.ops.push(Op::Remove { path });
    }

    /// A mirror: it exists with this data, or it does not exist.
    fn mirror(&mut self, path: Path, data: Option<Arc<[u8]>>, ephemeral: bool) {
        self.ops.push(match data {
            Some(data) => Op::Mirror { path, data, ephemeral },
            None if mutants::is_on(mutants::MIRRORS_ARE_PRECONDITIONS) => Op::Delete { path, expect: None },
            None => Op::Remove { path },
        });
    }

    /// Exhaustive: a write without a form does not compile.
    fn write(&mut self, write: &Write) -> Result<(), String> {
        let paths = self.paths;
        match write {
            // The life of a job, its settings, its leadership.
            Write::CreateJob { job, incarnation, handler_type, config, policy, assignment } => {
                let name = paths.incarnation(job, incarnation).ok_or_else(|| no_incarnation(incarnation))?;
                let folder = [paths.incarnations(job), name];
                self.create_job(job, folder, [handler_type, config], policy, assignment);
            }
            Write::PrepareJob { job, name, handler_type, config, policy, assignment } => {
                let name = paths.prepared(job, name).ok_or_else(|| no_prepared(name))?;
                let folder = [paths.preparing(job), name];
                self.create_job(job, folder, [handler_type, config], policy, assignment);
            }
            Write::RevealJob { job, name, incarnation } => {
                let prepared = paths.prepared(job, name).ok_or_else(|| no_prepared(name))?;
                let named = paths.incarnation(job, incarnation).ok_or_else(|| no_incarnation(incarnation))?;
                self.ops.push(Op::Delete { path: prepared, expect: None });
                self.remove(paths.preparing(job));
                self.create(paths.incarnations(job), forms::empty());
                self.create(named, forms::empty());
            }
            Write::RenewJob { job, incarnation } => {
                let named = paths.incarnation(job, incarnation).ok_or_else(|| no_incarnation(incarnation))?;
                // Refused without the guard, and if the job has no incarnation.
                self.end_incarnation(job)?;
                self.ops.push(Op::Delete { path: paths.incarnations(job), expect: None });
                self.create(paths.incarnations(job), forms::empty());
                self.create(named, forms::empty());
            }
            Write::Config(job, config) => self.set(paths.config(job), forms::text(config), None),
            Write::Policy(job, policy) => self.put(paths.policy(job), forms::ours(policy)),
            Write::HandlerType(job, handler) => self.set(paths.job(job), forms::text(handler), None),
            Write::EndJob(job) => {
                self.end_incarnation(job)?;
                self.remove(paths.incarnations(job));
                self.remove(paths.config(job));
            }
            Write::SweepJob { job, limit } => {
                let unless = [paths.incarnations(job), paths.config(job)];
                self.ops.push(Op::Sweep { root: paths.job(job), unless, limit: *limit });
            }
            Write::Paused(job, true) => self.put(paths.paused(job), forms::empty()),
            Write::Paused(job, false) => self.remove(paths.paused(job)),
            Write::Assignment { job, expect, data } => {
                let any = mutants::is_on(mutants::PLAN_IGNORES_GENERATION);
                self.set(paths.sharding(job), data.clone(), Some(expect.0).filter(|_| !any));
            }
            Write::RaiseNecessary(job) => self.put(paths.necessary(job), forms::empty()),
            Write::ClearNecessary(job, version) => {
                let any = mutants::is_on(mutants::FLAG_CLEARED_UNREAD);
                let expect = Some(*version).filter(|_| !any);
                self.ops.push(Op::Delete { path: paths.necessary(job), expect });
            }
            Write::Elect { job, coordinator, expect } => {
                let data = forms::text(coordinator.as_str());
                self.set(paths.election(job), data.clone(), Some(expect.0));
                self.ops.push(Op::Create { path: paths.leader(job), data, ephemeral: true });
            }
            Write::Abdicate { job, expect } => {
                let version = Version(expect.0);
                self.ops.push(Op::Check { path: paths.election(job), version });
                self.remove(paths.leader(job));
            }
            // An item's record and its mirrors.
            Write::Record { job, item, expect, record } => {
                let (path, data) = (paths.record(job, *item), forms::json(&**record)?);
                let blind = record.running().is_some() && mutants::is_on(mutants::START_IGNORES_RECORD);
                match expect {
                    Some(_) if blind => self.set(path, data, None),
                    Some(version) => self.set(path, data, Some(version.0)),
                    None => self.create(path, data),
                }
            }
            Write::Offset { job, item, data } => self.put(paths.offset(job, *item), data.clone()),
            Write::Running { job, item, instance } => {
                let data = instance.as_ref().map(|id| forms::text(id.as_str()));
                self.mirror(paths.running(job, *item), data, true);
            }
            Write::Failover { job, item, instance } => {
                let data = instance.as_ref().map(|id| forms::text(id.as_str()));
                self.mirror(paths.failover(job, *item), data, true);
            }
            Write::ItemInstance { job, item, instance } => {
                let data = instance.as_ref().map(|id| forms::text(id.as_str()));
                self.mirror(paths.item_instance(job, *item), data, false);
            }
            Write::Misfire { job, item, marked } => {
                self.mirror(paths.misfire(job, *item), marked.then(forms::empty), false);
            }
            Write::ItemDisabled { job, item, disabled } => {
                self.mirror(paths.item_disabled(job, *item), disabled.then(forms::empty), false);
            }
            Write::FailoverItem { job, item, crashed } => {
                let data = crashed.map(|(fire, token)| forms::failover_item(fire, token)).transpose()?;
                self.mirror(paths.failover_item(job, *item), data, false);
            }
            Write::Started { job, item, present } => {
                self.mirror(paths.started(job, *item), present.then(forms::empty), false);
            }
            Write::Completed { job, item, present } => {
                self.mirror(paths.completed(job, *item), present.then(forms::empty), false);
            }
            Write::Announced { job, stage, announced } => {
                self.put(paths.announced(job, *stage), forms::json(announced)?);
            }
            // Servers, instances, triggers, workers and coordinators.
            Write::Server { job, server, enabled: None } => {
                // Never below a job that was removed: the job's node must exist, so the folder is not created here.
                self.ops.push(Op::CheckExists { path: paths.servers(job) });
                let data = forms::text(forms::ENABLED);
                self.ops.push(Op::Ensure { path: paths.server(job, server), data });
            }
            Write::Server { job, server, enabled: Some(enabled) } => {
                let data = if *enabled { forms::ENABLED } else { forms::DISABLED };
                self.put(paths.server(job, server), forms::text(data));
            }
            Write::RemoveServer(job, server) => self.remove(paths.server(job, server)),
            Write::Instance { job, instance, node } => {
                self.mine(paths.own_instance(job, instance), forms::json(node)?);
                self.mine(paths.instance(job, instance), forms::instance(instance));
            }
            Write::RemoveInstance(job, instance) => {
                self.remove(paths.instance(job, instance));
                self.remove(paths.own_instance(job, instance));
            }
            Write::Trigger { job, item, node } => {
                self.create(paths.trigger(job, *item), forms::json(node)?);
            }
            Write::Command { job, name, command } => {
                self.put(paths.command(job, name), forms::json(command)?)
            }
            Write::RemoveCommand(job, name) => self.remove(paths.command(job, name)),
            Write::RemoveTrigger(job, item) => self.remove(paths.trigger(job, *item)),
            Write::ClearForeignTrigger { job, instance, how } => {
                if how.node {
                    self.remove(paths.foreign_trigger(job, instance));
                }
                if let Some(version) = how.data {
                    // Its data as before; a write by somebody else meanwhile is a new command.
                    self.set(paths.instance(job, instance), forms::instance(instance), Some(version.0));
                }
            }
            Write::Attachment { worker, expect, node } => {
                let (path, data) = (paths.worker(worker), forms::json(node)?);
                match expect {
                    Some(version) => self.set(path, data, Some(version.0)),
                    None => self.create(path, data),
                }
            }
            Write::RemoveAttachment { worker, expect } => {
                let any = mutants::is_on(mutants::EXPIRY_IGNORES_VERSION);
                let expect = Some(*expect).filter(|_| !any);
                self.ops.push(Op::Delete { path: paths.worker(worker), expect });
            }
            Write::Numbering { offset, expect } => {
                let (path, data) = (paths.numbering(), forms::text(&offset.to_string()));
                match expect {
                    Some(version) => self.set(path, data, Some(version.0)),
                    None => self.create(path, data),
                }
            }
            Write::Coordinator { id, data } => self.mine(paths.coordinator(id), forms::ours(data)),
        }
        Ok(())
    }

    /// Deletes the incarnation that a guard names. Without the guard the folder is not empty, so the removal is
    /// refused.
    fn end_incarnation(&mut self, job: &JobName) -> Result<(), String> {
        for guard in &self.txn.guards {
            if let Guard::Incarnation(of, name) = guard
                && of == job
            {
                let path = self.paths.incarnation(job, name).ok_or_else(|| no_incarnation(name))?;
                self.ops.push(Op::Delete { path, expect: None });
            }
        }
        Ok(())
    }

    /// Creates a job at once, or prepares one: they differ in the folder that holds the name.
    fn create_job(
        &mut self,
        job: &JobName,
        folder: [Path; 2],
        [handler_type, config]: [&str; 2],
        policy: &str,
        assignment: &Arc<[u8]>,
    ) {
        let paths = self.paths;
        self.create(paths.job(job), forms::text(handler_type));
        self.create(paths.own(job), forms::empty());
        folder.into_iter().for_each(|path| self.create(path, forms::empty()));
        self.create(paths.config(job), forms::text(config));
        self.create(paths.policy(job), forms::ours(policy));
        self.create(paths.sharding(job), assignment.clone());
        for folder in paths.folders(job) {
            self.create(folder, forms::empty());
        }
    }
}
