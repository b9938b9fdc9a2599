//! Applies the writes of foreign tools to the shadow. Such a write is not a barrier: what it forbids takes effect when
//! a coordinator has noticed it, so the shadow takes over only what it allows.

use rosterd_domain::id::JobName;
use rosterd_registry::View;

use crate::oracle::observer::Shadow;

/// After each write of a foreign tool.
pub fn follow(shadow: &mut Shadow, view: &View<'_>) {
    // A job of which only a part exists is being removed, and nothing writes below it.
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
