//! Limits of a job file in any syntax: nesting, cost, and tags.

/// Deepest nesting accepted; Elastic-Job's own forms need four levels.
pub(super) const MAX_DEPTH: usize = 32;

/// The cost of a value beyond the bytes of its texts.
pub(super) const NODE_COST: usize = 32;

/// The prefix of a tag that names a class of Elastic-Job; its JVMs refuse every other package.
pub(super) const CLASS_TAG: &str = "!!org.apache.shardingsphere.elasticjob.";

/// Whether a tag names a class of Elastic-Job, and nothing else.
pub(super) fn is_class_tag(tag: &str) -> bool {
    let class = tag.strip_prefix(CLASS_TAG).unwrap_or_default();
    !class.is_empty() && class.chars().all(|c| c.is_ascii_alphanumeric() || "._$".contains(c))
}
