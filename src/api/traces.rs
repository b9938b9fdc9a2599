//! The trace that a run belongs to, for people who look at runs. It is not stored with the run: it follows from the
//! run's fire and the job's incarnation. So it is not known for runs of a removed job, even if one of the same name was
//! created since. A restore gives a job another incarnation: for runs before it, the computed trace does not exist.

use std::collections::BTreeMap;

use rosterd_domain::id::{JobName, Token};
use rosterd_domain::time::Time;

use super::backend::Backend;
use rosterd_coordinator::handle::Birth;
use rosterd_session::trace::{FireTrace, TraceId};

/// How many jobs are looked up for one answer; runs of others are shown without a trace.
const MOST_JOBS: usize = 200;
/// The placeholder for the id in a page's address.
const TRACE_ID: &str = "{trace_id}";

/// What is known of the jobs of some runs.
#[derive(Debug, Default)]
pub(crate) struct Traces(BTreeMap<JobName, Birth>);

impl Traces {
    /// For runs of these jobs.
    pub(crate) async fn of<'a>(backend: &dyn Backend, jobs: impl Iterator<Item = &'a JobName>) -> Self {
        let mut distinct = std::collections::BTreeSet::new();
        for job in jobs {
            if distinct.len() == MOST_JOBS {
                break;
            }
            distinct.insert(job.clone());
        }
        Self(if distinct.is_empty() { BTreeMap::new() } else { backend.births(distinct).await })
    }

    /// The trace of a run.
    pub(crate) fn id(&self, job: &JobName, token: Token, fire: Time) -> Option<TraceId> {
        let birth = self.0.get(job).filter(|birth| token >= birth.first)?;
        Some(FireTrace::new(job, &birth.incarnation, fire).id())
    }
}

/// The page that shows it.
pub(crate) fn page(template: Option<&str>, id: TraceId) -> Option<String> {
    template.map(|template| template.replace(TRACE_ID, &id.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_the_job_before_has_no_trace_that_is_known() {
        let job = JobName::new("words").unwrap();
        let birth = Birth { incarnation: "b".into(), first: Token(10) };
        let traces = Traces([(job.clone(), birth)].into());
        let known = traces.id(&job, Token(10), Time(1_000)).unwrap();
        assert_eq!(known, FireTrace::new(&job, "b", Time(1_000)).id());
        assert_eq!(traces.id(&job, Token(9), Time(1_000)), None);
        assert_eq!(traces.id(&JobName::new("other").unwrap(), Token(10), Time(1_000)), None);
        let page = page(Some("https://jaeger/trace/{trace_id}?q={trace_id}"), known).unwrap();
        assert_eq!(page, format!("https://jaeger/trace/{known}?q={known}"));
    }
}
