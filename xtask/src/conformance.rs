//! The clients against the conformance kit: the shipped program checks the worker of each. The kit's results for all of
//! them are the table in clients/README.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::clients::{path, workers};
use crate::command::{root, target};
use crate::python;
use crate::summary::{Tally, conformance, tallied};

/// The worker without a client in examples/, and the rules that its page lists.
const OWN: &str = "examples/own-client/conformance.py";

/// Checks all of them. Arguments go to the kit: `-- --only RUN-1`.
pub(crate) fn test(shipped: Option<&Path>, mark: &str, rest: &[String]) -> Result<Tally> {
    let Some(shipped) = shipped else {
        bail!("the kit is part of the program that is shipped, which was not built")
    };
    let mut tally = Tally::default();
    for (name, worker) in workers()? {
        println!("{mark}    {name}");
        tally += judge(shipped, rest, &worker, mark)?;
    }
    println!("{mark}    {OWN}");
    let generated = target().join("own-client");
    python::generate(&generated)?;
    let rules = ["--only".to_owned(), kept_by_own(&root())?];
    let worker = [python::interpreter_of_tests(), path(&root().join(OWN)), path(&generated)];
    tally += judge(shipped, if rest.is_empty() { &rules } else { rest }, &worker, mark)?;
    Ok(tally)
}

fn judge(shipped: &Path, words: &[String], worker: &[String], mark: &str) -> Result<Tally> {
    let mut command = Command::new(shipped);
    command.arg("conformance").args(words).arg("--").args(worker);
    tallied(&mut command, mark, false, conformance)
}

/// The rules of the worker without a client: a separate line in the guide.
fn kept_by_own(top: &Path) -> Result<String> {
    let page: PathBuf = top.join("docs/guide/src/own-client.md");
    let text = std::fs::read_to_string(&page).with_context(|| path(&page))?;
    let own = text.lines().find(|line| line.contains(OWN));
    let line = own.and_then(|line| line.strip_prefix("rosterd conformance --only "));
    let rules = line.and_then(|line| line.split(' ').next());
    Ok(rules.with_context(|| format!("{} does not state which rules it follows", path(&page)))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_names_the_rules_that_the_worker_without_a_client_keeps() {
        let rules = kept_by_own(&root()).unwrap();
        assert!(rules.split(',').count() > 10, "{rules}");
    }
}
