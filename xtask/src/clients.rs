//! The conformance worker of each client: how it is built, and how it is started. The kit checks them, and a test lets
//! them share a job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Result;

use crate::command::{cargo, locked, must, root, target};
use crate::metadata::{FEATURES, PROFILE};
use crate::{go, java, node, python};

/// The words that start the worker of each language.
pub(crate) type Workers = BTreeMap<&'static str, Vec<String>>;

/// Builds them all, once in the life of this program.
pub(crate) fn workers() -> Result<Workers> {
    static BUILT: Mutex<Option<Workers>> = Mutex::new(None);
    let mut built = locked(&BUILT);
    if let Some(workers) = &*built {
        return Ok(workers.clone());
    }
    let script = root().join("clients/python/conformance/worker.py");
    let workers = Workers::from([
        ("go", vec![path(&go::conformance()?)]),
        ("java", vec![path(&java::conformance()?)]),
        ("python", vec![python::interpreter_of_tests(), path(&script)]),
        ("rust", vec![rust()?]),
        ("typescript", vec!["node".into(), path(&node::conformance()?)]),
    ]);
    *built = Some(workers.clone());
    Ok(workers)
}

/// The same as a file of JSON, for tests.
pub(crate) fn table() -> Result<PathBuf> {
    let place = target().join("clients.json");
    std::fs::write(&place, serde_json::to_vec_pretty(&workers()?)?)?;
    Ok(place)
}

pub(crate) fn path(path: &Path) -> String {
    path.display().to_string()
}

fn rust() -> Result<String> {
    let mut build = cargo();
    build.args(["build", "--workspace", "--exclude", "rosterd-bench", "--example", "conformance"]);
    must(build.args(PROFILE).args(FEATURES))?;
    Ok(path(&target().join("release/examples/conformance")))
}
