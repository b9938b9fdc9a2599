//! Which instance owns which item: the strategies that answer a [`Question`] with an [`Assignment`].
//!
//! A strategy is a function of its question alone. It never asks which instances are enabled, whether an item is
//! running, or whether its answer is committed: the job's leader, which plans the assignment, decides all that. The
//! check of a job's configuration asks [`by_name`] whether its strategy is known.
//!
//! A new strategy is one file here and one line in `STRATEGIES`.

mod assignment;
mod average;
mod name_hash;
mod question;
mod sticky;

#[cfg(test)]
mod drawings_test;
#[cfg(test)]
mod elastic_job_test;
#[cfg(test)]
mod properties_test;

pub use assignment::{Assignment, ItemTwice};
pub use average::Average;
pub use name_hash::{Odevity, RoundRobin};
pub use question::{Question, Strategy};
pub use sticky::Sticky;

/// No strategy has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy {name:?}: use one of {}, or leave it empty for {}", list(), DEFAULT.name())]
pub struct StrategyError {
    /// The unknown name, cut to a length that can be shown.
    pub name: String,
}

/// The strategy of a job without one, as in Elastic-Job.
pub const DEFAULT: &dyn Strategy = &Average;

/// Every strategy, with the simple names of its classes in Elastic-Job 1.x, 2.x and 3.x.
static STRATEGIES: &[(&dyn Strategy, &[&str])] = &[
    (&Average, &["AverageAllocationJobShardingStrategy"]),
    (&Odevity, &["OdevitySortByNameJobShardingStrategy"]),
    (&RoundRobin, &["RotateServerByNameJobShardingStrategy", "RoundRobinByNameJobShardingStrategy"]),
    (&Sticky, &[]),
];

/// The packages of those classes in 1.x and 2.x.
const PACKAGES: [&str; 3] = [
    "com.dangdang.ddframe.job.lite.api.strategy.impl",
    "com.dangdang.ddframe.job.plugin.sharding.strategy",
    "io.elasticjob.lite.api.strategy.impl",
];

/// In 3.x they moved between packages below this one.
const APACHE: &str = "org.apache.shardingsphere.elasticjob.";

/// Longest part of an unknown name that an error repeats, in characters.
const SHOWN: usize = 160;

/// The strategy that a configuration names: by its own name, which is also Elastic-Job 3.x's type, or by the name of
/// Elastic-Job's class, with or without its package. An empty name means the default.
pub fn by_name(name: &str) -> Result<&'static dyn Strategy, StrategyError> {
    if name.is_empty() {
        return Ok(DEFAULT);
    }
    let class = class_name(name);
    STRATEGIES
        .iter()
        .find(|(strategy, classes)| strategy.name() == name || class.is_some_and(|c| classes.contains(&c)))
        .map(|(strategy, _)| *strategy)
        .ok_or_else(|| StrategyError { name: name.chars().take(SHOWN).collect() })
}

/// The names of all strategies, the default first.
pub fn names() -> impl Iterator<Item = &'static str> {
    STRATEGIES.iter().map(|(strategy, _)| strategy.name())
}

/// The class's simple name; `None` if its package was never Elastic-Job's.
fn class_name(name: &str) -> Option<&str> {
    match name.rsplit_once('.') {
        None => Some(name),
        Some((package, class)) => (PACKAGES.contains(&package) || name.starts_with(APACHE)).then_some(class),
    }
}

fn list() -> String {
    names().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_is_found_by_its_own_name() {
        assert_eq!(names().collect::<Vec<_>>(), ["AVG_ALLOCATION", "ODEVITY", "ROUND_ROBIN", "STICKY"]);
        for name in names() {
            assert_eq!(by_name(name).unwrap().name(), name);
        }
        assert_eq!(by_name("").unwrap().name(), "AVG_ALLOCATION");
    }

    #[test]
    fn the_class_names_of_elastic_job_are_aliases() {
        let classes = [
            ("AverageAllocationJobShardingStrategy", "AVG_ALLOCATION"),
            ("OdevitySortByNameJobShardingStrategy", "ODEVITY"),
            ("RotateServerByNameJobShardingStrategy", "ROUND_ROBIN"),
            ("RoundRobinByNameJobShardingStrategy", "ROUND_ROBIN"),
        ];
        let packages = [
            "",
            "com.dangdang.ddframe.job.lite.api.strategy.impl.",
            "com.dangdang.ddframe.job.plugin.sharding.strategy.",
            "io.elasticjob.lite.api.strategy.impl.",
            "org.apache.shardingsphere.elasticjob.lite.api.strategy.impl.",
            "org.apache.shardingsphere.elasticjob.infra.handler.sharding.impl.",
        ];
        for (class, name) in classes {
            for package in packages {
                assert_eq!(by_name(&format!("{package}{class}")).unwrap().name(), name, "{package}{class}");
            }
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        for bad in ["avg_allocation", " STICKY", "com.acme.AverageAllocationJobShardingStrategy", "."] {
            assert_eq!(by_name(bad).unwrap_err().name, bad);
        }
        assert_eq!(
            by_name("NEAREST").unwrap_err().to_string(),
            "there is no strategy \"NEAREST\": use one of AVG_ALLOCATION, ODEVITY, ROUND_ROBIN, STICKY, \
             or leave it empty for AVG_ALLOCATION"
        );
        assert_eq!(by_name(&"x".repeat(5000)).unwrap_err().name.len(), SHOWN);
    }
}
