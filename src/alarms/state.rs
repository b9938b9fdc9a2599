//! What outlives the process, in a file: active alarms and the receivers that were notified, silences, and what is remembered of jobs.
//! It is written after each look and each delivery that changed something. A process that is killed in between sends again what it sent
//! within that moment; keys are the same.

use std::path::{Path, PathBuf};

use super::book::Kept;

/// The file of a data directory.
pub(crate) const FILE: &str = "alarms.json";

/// Where it is, and what stands there.
#[derive(Debug)]
pub(crate) struct AlarmState {
    path: PathBuf,
    written: String,
}

impl AlarmState {
    /// Reads it; if it cannot be read, logs that and starts with an empty one.
    pub(crate) fn open(data_dir: &Path) -> (Self, Kept) {
        let path = data_dir.join(FILE);
        let written = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                tracing::warn!("{} cannot be read, so alarms begin anew: {error}", path.display());
                String::new()
            }
        };
        let kept = if written.is_empty() { Ok(Kept::default()) } else { serde_json::from_str(&written) };
        let kept = kept.unwrap_or_else(|error| {
            tracing::warn!("{} is not what was written there, so alarms begin anew: {error}", path.display());
            Kept::default()
        });
        (Self { path, written }, kept)
    }

    /// What is to be written; `None`: it stands there already.
    pub(crate) fn changed(&mut self, kept: &Kept) -> Option<(PathBuf, String)> {
        let text = serde_json::to_string(kept).ok()?;
        (text != self.written).then(|| {
            self.written.clone_from(&text);
            (self.path.clone(), text)
        })
    }

    /// It does not stand there after all.
    pub(crate) fn failed(&mut self) {
        self.written.clear();
    }
}

/// Whole, or not at all.
pub(crate) async fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension("json.new");
    tokio::fs::write(&beside, text).await?;
    tokio::fs::rename(&beside, path).await
}
