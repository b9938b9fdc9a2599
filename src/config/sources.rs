//! What a configuration is read from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::strangers;

/// Where values come from; later ones win.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Instead of the defaults of the table.
    pub defaults: Vec<(&'static str, String)>,
    /// A TOML file.
    pub file: Option<PathBuf>,
    /// Variables; those that name no field have no value here.
    pub environment: BTreeMap<String, String>,
    /// Field and value.
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// The environment of this process.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the configuration's variables")]
    pub fn environment() -> BTreeMap<String, String> {
        let texts = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        // Of no others the value: a client's credential may be among them.
        let ours = texts.filter_map(|(name, value)| match strangers::is_field(&name) {
            true => Some((name, value)),
            false => strangers::is_stranger(&name).then(|| (name, String::new())),
        });
        ours.collect()
    }
}
