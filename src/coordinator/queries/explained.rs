//! Why an item is where it is, and what it waits for: the input is read here, the domain makes the sentences.

use std::collections::BTreeMap;

use rosterd_domain::explain::{Attached, Facts, Sentence, Stay, explain};
use rosterd_domain::id::{CoordinatorId, InstanceId, Item, JobName};
use rosterd_session::code::{Code, Refusal};

use crate::handle::{Handle, Health, MemberRow};
use crate::queries::views::unreadable;

impl Handle {
    /// Explains an item. `stays`: its owners, from the history.
    pub async fn explain(
        &self,
        name: &JobName,
        item: Item,
        stays: Vec<Stay>,
    ) -> Result<Vec<Sentence>, Refusal> {
        let snapshot = self.snapshot(name).await?;
        let view = self.decoded(name, &snapshot)?;
        let read = self.inner.registry.attachments().await.map_err(unreadable)?;
        let attached = read.into_iter().filter_map(|(worker, (_, attachment))| {
            let instance = InstanceId::from_parts(&attachment.address, &worker).ok()?;
            let leaves = attachment.draining || attachment.leave_grace_ms.is_some();
            Some((instance, Attached { host: attachment.host, leaves }))
        });
        let facts = Facts {
            now: self.inner.clock.wall(),
            attached: attached.collect(),
            idle: idle(self.members().await?, *self.inner.health.borrow()),
            stays,
        };
        explain(&view, &snapshot.records, item, &facts).ok_or_else(|| {
            let message =
                format!("item {item} of {name} does not exist: its items are 0 to {}", view.rules.items - 1);
            Refusal::new(Code::ItemUnknown, message)
        })
    }
}

/// Coordinators that fire nothing; `own`: the health of this one.
fn idle(members: Vec<MemberRow>, own: Health) -> BTreeMap<CoordinatorId, String> {
    let why = |row: &MemberRow| {
        let ahead = row.member.clock_ahead_ms;
        let clock = || match ahead {
            0 => "its clock is off".to_owned(),
            ahead @ 1.. => format!("its clock is {ahead} ms ahead of the store's"),
            behind => format!("its clock is {} ms behind the store's", behind.unsigned_abs()),
        };
        match (row.asked, own) {
            (true, Health::ClockOff) => Some(clock()),
            (true, Health::Suspended) => Some("the store does not answer it".to_owned()),
            (true, Health::Starting) => Some("it is still starting".to_owned()),
            (true, Health::Draining) => Some("it is stopping".to_owned()),
            (true, Health::Serving) => None,
            (false, _) if row.member.draining => Some("it is stopping".to_owned()),
            (false, _) => (ahead != 0).then(clock),
        }
    };
    members.into_iter().filter_map(|row| Some((row.id.clone(), why(&row)?))).collect()
}
