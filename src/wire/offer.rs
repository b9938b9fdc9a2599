//! The configuration in a worker's registration: text that a stranger wrote, parsed before anything else sees it. Its
//! length and its nesting bound the time that takes. Called by `convert` alone.

use std::sync::Arc;

use rosterd_domain::id::JobName;
use rosterd_domain::job::{self, JobSpec};
use rosterd_domain::view;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::Offer;

/// Longest configuration in a registration, in bytes.
pub(crate) const MAX_OFFER: usize = 64 << 10;
/// Deepest nesting of one, in brackets that are open at a time.
const MAX_OPEN: usize = 64;

/// What a registration's configuration says.
pub(crate) fn parse(job: &JobName, text: &str, handler_type: &str) -> Offer {
    parse_one(job, text, handler_type).map(Arc::new).map_err(|why| Refusal::new(Code::ConfigInvalid, why))
}

/// The one job of the text.
fn parse_one(name: &JobName, text: &str, handler_type: &str) -> Result<JobSpec, String> {
    if open_brackets(text) > MAX_OPEN {
        return Err(format!("config nests deeper than {MAX_OPEN} levels: a job needs four"));
    }
    let specs = job::parse_file(text.as_bytes()).map_err(|defects| defects.to_string())?;
    let [spec] = &specs[..] else {
        return Err(format!("config holds {} jobs: it must hold one, {name}", specs.len()));
    };
    if spec.config().job_name != *name {
        return Err(format!("jobName is {}: it must be the registered job, {name}", spec.config().job_name));
    }
    view::validate(spec).map_err(|defects| defects.to_string())?;
    let named = if handler_type.is_empty() { spec.handler() } else { handler_type };
    JobSpec::new(spec.config().clone(), spec.policy().clone(), named).map_err(|defects| defects.to_string())
}

/// The most brackets that are open at a time, wherever they stand.
fn open_brackets(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let job = JobName::new("report").unwrap();
        parse(&job, text, "").unwrap_err().message
    }

    #[test]
    fn an_offer_is_one_job_of_the_registered_name() {
        let job = JobName::new("report").unwrap();
        let text = "jobName: report\nshardingTotalCount: 2\ncron: 0 0 3 * * ?\n";
        let spec = parse(&job, text, "Report").unwrap();
        assert_eq!((spec.config().sharding_total_count, spec.handler()), (2, "Report"));
        assert!(refused(&text.replace("report", "other")).contains("jobName is other"));
        assert!(refused(&format!("{text}---\n{}", text.replace("report", "b"))).contains("holds 2 jobs"));
        assert!(refused("jobName: report\n").contains("shardingTotalCount"));
    }

    #[test]
    fn what_nests_without_end_is_refused_before_it_is_parsed() {
        let deep = format!("jobName: report\nprops: {}{}\n", "[".repeat(20_000), "]".repeat(20_000));
        assert!(refused(&deep).contains("nests deeper than 64 levels"), "{}", refused(&deep));
        assert!(refused(&format!("jobName: report\nprops:\n  {}a\n", "- ".repeat(20_000))).contains("nest"));
    }
}
