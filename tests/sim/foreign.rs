//! What a foreign tool has written, as the shadow follows it. A write of one is no barrier: what it forbids holds from when
//! a coordinator has heard of it, so the shadow takes over what it allows, and who writes it anew.

use rosterd_domain::id::JobName;
use rosterd_registry::View;

use crate::watch::Shadow;

/// After each write of a foreign tool.
pub fn follow(shadow: &mut Shadow, view: &View<'_>) {
    // One of which a part is there is being removed, and nobody writes below it.
    let there = |name: &JobName| !matches!(view.job(name), Ok(None));
    shadow.jobs.retain(|name, _| there(name));
    shadow.records.retain(|(name, _), _| shadow.jobs.contains_key(name));
    for (name, job) in &mut shadow.jobs {
        let Ok(Some(nodes)) = view.job(name) else { continue };
        if nodes.leader.is_none() {
            job.deposed = job.leader.take().or(job.deposed.take());
        }
        job.necessary = nodes.necessary.map(|version| version.0);
        for (server, enabled) in &mut job.servers {
            let is = nodes.servers.iter().find(|(address, _)| address.as_str() == server);
            *enabled |= is.is_none_or(|(_, enabled)| *enabled);
        }
        let config = nodes.config.map(|node| String::from_utf8_lossy(&node.data).into_owned());
        job.foreign_config = config;
    }
}
