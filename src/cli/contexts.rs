//! The file of contexts: connections with names, and which of them is used. It holds no secret, but where one is.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::failure::{Code, Exit, Failure, Result};
use rosterd_runtime::private;

pub(super) const HEADER: &str =
    "# Written by `rosterd context`: connections with names, and which of them is used.\n";

/// A connection that has a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Context {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) server: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credential_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) insecure_credential: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<String>,
    pub(super) contexts: BTreeMap<String, Context>,
}

pub(super) fn failed(message: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, Code::Context, message.to_string())
}

/// `$XDG_CONFIG_HOME/rosterd/config.toml`, or that below `~/.config`; none if there is no home.
#[allow(clippy::disallowed_methods, reason = "where a user's files are")]
pub(super) fn path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("rosterd/config.toml"))
}

pub(super) fn read() -> Result<File> {
    let Some(path) = path() else { return Ok(File::default()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text)
            .map_err(|error| failed(format!("{}: {}", path.display(), error.to_string().trim_end()))),
        // That of another user, whose HOME this process was left with.
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(File::default())
        }
        Err(error) => Err(failed(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Whole or not at all: others may read it at this moment.
pub(super) fn write(file: &File) -> Result {
    let path = path().ok_or_else(|| failed("there is no place for contexts: set HOME or XDG_CONFIG_HOME"))?;
    let text = toml::to_string(file).map_err(failed)?;
    let beside = path.with_extension("toml.part");
    let written = std::fs::create_dir_all(path.parent().unwrap_or(&path))
        .and_then(|()| private::create_anew(&beside))
        .and_then(|mut made| {
            made.write_all(format!("{HEADER}{text}").as_bytes()).and_then(|()| made.sync_all())
        })
        .and_then(|()| std::fs::rename(&beside, &path));
    written.map_err(|error| failed(format!("{} cannot be written: {error}", path.display())))
}

/// The context of a name, or the one that is used; without either one that has nothing.
pub(super) fn named(name: Option<&str>) -> Result<Context> {
    let mut file = read()?;
    match name.map(str::to_owned).or_else(|| file.current.clone()) {
        None => Ok(Context::default()),
        Some(name) => file.take(&name),
    }
}

impl File {
    pub(super) fn take(&mut self, name: &str) -> Result<Context> {
        let known = || self.contexts.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.contexts.get(name) {
            Some(context) => Ok(context.clone()),
            None if self.contexts.is_empty() => Err(failed(format!(
                "there is no context {name:?}: make it by `rosterd context add {name} --server URL`"
            ))),
            None => Err(failed(format!("there is no context {name:?}: there are {}", known()))),
        }
    }
}

impl Context {
    pub(super) fn absolute(self) -> Result<Self> {
        let whole = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
        let made = || -> std::io::Result<Self> {
            Ok(Self {
                ca: whole(self.ca)?,
                cert: whole(self.cert)?,
                key: whole(self.key)?,
                credential_file: whole(self.credential_file)?,
                ..self
            })
        };
        made().map_err(failed)
    }
}
