//! Jobs: what a user applies, what the registry stores of it, and everything that can be wrong with it.
//!
//! A [`JobConfig`] holds the fields that Elastic-Job has and is stored in its node `config`; a [`Policy`] holds the
//! rest and is stored in a node of our own; a [`JobSpec`] is both plus the handler's type. All three are valid by
//! construction: their holders need not check them again.
//!
//! Never reads a file, a clock or the registry, never panics on any input, and does not interpret schedules or
//! strategies: those are checked by functions passed to `validate_with`. Called by the API and the command line (files,
//! differences), by the registry's side (nodes), by the planners (fields).

mod config;
mod defect;
mod diff;
mod fields;
mod file;
mod items;
mod limits;
mod markdown;
mod node;
mod origin;
mod policy;
mod read;
mod reader;
mod shape;
mod spec;
#[cfg(test)]
mod tests;
mod tree;
mod yaml;

pub use config::{
    ConfigFields, DEFAULT_STRATEGY, DEFAULT_ZONE, JobConfig, MAX_CRON, MAX_DESCRIPTION, MAX_ITEM_PARAMETERS,
    MAX_ITEMS, MAX_PARAMETER, MAX_PROPS, MAX_WORD,
};
pub use defect::{Defect, DefectKind, Defects, nearest};
pub use diff::{Change, diff};
pub use fields::{FIELDS, FieldInfo, Generation, POLICY_FIELDS, PolicyField, Use, field};
pub use file::{MAX_FILE, OWN_KEY, parse_file, parse_file_with};
pub use items::{ItemParameters, ItemParametersError};
pub use markdown::fields_markdown;
pub use node::MAX_NODE;
pub use policy::{DstGap, Guarantee, JobKind, MAX_POLICY, OnTimeout, Policy, Retries, TooLate};
pub use spec::{COMMAND_LINE, JobSpec, STREAMING};
