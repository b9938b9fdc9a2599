//! The web console in `console`: built into `console/dist`, which is committed, so that the program builds without
//! Node. This verifies that it matches the sources, and runs the console's own tests. Only `build` changes what is
//! served.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::{must, root, target};
use crate::node::packages;
use crate::summary::{Tally, playwright, tallied, vitest};

/// The browser of its tests.
pub(crate) const PACKAGES: &[&str] = &["chromium"];

fn folder() -> PathBuf {
    root().join("console")
}

/// Its tests in a browser, with real coordinators and workers.
fn browser() -> PathBuf {
    root().join("tests/console")
}

/// A program that came with its packages.
fn program(words: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.current_dir(folder()).args(words);
    command
}

/// Installs its packages, and those of its tests in a browser.
pub(crate) fn setup() -> Result<()> {
    [folder(), browser()].iter().try_for_each(|folder| packages(folder))
}

/// `cargo xtask console`: builds `console/dist`.
pub(crate) fn build() -> Result<bool> {
    setup()?;
    built(&folder().join("dist"))?;
    Ok(true)
}

fn built(out: &Path) -> Result<()> {
    let out = out.display().to_string();
    must(&mut program(&["node_modules/vite/bin/vite.js", "build", "--outDir", &out, "--emptyOutDir"]))
}

/// Whether `console/dist` matches its sources: builds them elsewhere and compares every byte.
pub(crate) fn is_fresh() -> Result<bool> {
    setup()?;
    let made = target().join("web/dist");
    built(&made)?;
    let differs = differences(&contents(&folder().join("dist"))?, &contents(&made)?);
    for file in &differs {
        println!(
            "    console/dist/{file} differs from what the sources produce: run `cargo xtask console` and commit it"
        );
    }
    Ok(differs.is_empty())
}

/// Files by their path below a folder.
type Contents = BTreeMap<String, Vec<u8>>;

fn contents(top: &Path) -> Result<Contents> {
    let mut found = Contents::new();
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(top)?.display().to_string();
                found.insert(name, std::fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

/// The files that are in only one, or differ.
fn differences(committed: &Contents, made: &Contents) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = committed.keys().chain(made.keys()).collect();
    names.into_iter().filter(|name| committed.get(*name) != made.get(*name)).cloned().collect()
}

/// Its linters.
pub(crate) fn linters() -> Result<Vec<Command>> {
    setup()?;
    // Like `npm run check`, but each separately.
    Ok(vec![
        program(&[
            "node_modules/svelte-check/bin/svelte-check",
            "--tsconfig",
            "./tsconfig.json",
            "--fail-on-warnings",
        ]),
        program(&["node_modules/eslint/bin/eslint.js", "."]),
        program(&["node_modules/prettier/bin/prettier.cjs", "--check", ".", "../tests/console"]),
        program(&["../tests/console/node_modules/typescript/bin/tsc", "--project", "../tests/console"]),
    ])
}

/// Runs its tests: unit tests, then every page in a browser.
pub(crate) fn test(shipped: Option<&Path>, mark: &str, rest: &[String]) -> Result<Tally> {
    let some = !rest.is_empty();
    let mut units = program(&["node_modules/vitest/vitest.mjs", "run", "--passWithNoTests=false"]);
    let mut pages = program(&["node_modules/@playwright/test/cli.js", "test"]);
    pages.current_dir(browser());
    if some {
        units.args(["--testNamePattern", &rest.join(" ")]);
        pages.args(["--pass-with-no-tests", "--grep", &rest.join(" ")]);
    }
    if let Some(shipped) = shipped {
        pages.env("ROSTERD_BINARY", shipped);
    }
    let mut tally = tallied(&mut units, mark, some, vitest)?;
    tally += tallied(&mut pages, mark, some, playwright)?;
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_a_missing_and_a_forgotten_file_are_named() {
        let of = |files: &[(&str, &str)]| -> Contents {
            files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
        };
        let made = of(&[("index.html", "new"), ("assets/a.js", "1")]);
        assert_eq!(differences(&made, &made), Vec::<String>::new());
        let committed = of(&[("index.html", "old"), ("assets/b.js", "1")]);
        assert_eq!(differences(&committed, &made), ["assets/a.js", "assets/b.js", "index.html"]);
    }

    #[test]
    fn the_committed_console_is_there() {
        let files = contents(&folder().join("dist")).unwrap();
        let page = String::from_utf8(files["index.html"].clone()).unwrap();
        let script = page.split('"').find_map(|part| part.strip_prefix("./")).unwrap();
        assert!(files.contains_key(script), "{script} is not among {:?}", files.keys());
        assert!(!page.contains("<style") && !page.contains("style="), "the policy allows no inline style");
    }
}
