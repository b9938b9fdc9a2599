//! How results look: tables and texts for people, JSON and YAML for programs, names for pipes.

pub(crate) mod form;
pub(crate) mod look;
pub(crate) mod span;
pub(crate) mod table;
pub(crate) mod text;
mod yaml;
