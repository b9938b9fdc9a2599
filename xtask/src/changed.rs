//! The effects of a change: the files that it touches, their crates, the dependents of these, and the suites that test
//! any of them. If a file's path is unknown, everything is affected.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::{output, root};
use crate::metadata::described;
use crate::suites::{Pick, SUITES, Suite, SuiteKind};

/// A crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// Relative to the top of the repository, without a trailing slash; empty for the top.
    pub(crate) folder: String,
    /// Crates of the workspace that it depends on, for its tests too.
    pub(crate) needs: BTreeSet<String>,
    /// It has deliberate bugs.
    pub(crate) mutants: bool,
}

/// The suites that a change since `since` can affect; without a revision: since `origin/main` if it is known, otherwise
/// the uncommitted changes.
pub(crate) fn suites(since: &str) -> Result<BTreeSet<&'static str>> {
    let files = files(since)?;
    println!("    {} files have changed", files.len());
    let packages = packages()?;
    let shared = |suite: &str| std::fs::read_to_string(root().join("tests").join(suite).join("main.rs"));
    let shares =
        |suite: &str, folder: &str| shared(suite).is_ok_and(|text| text.contains(&format!("\"../{folder}/")));
    Ok(reached(&files, &packages, &shares))
}

/// The files that differ from `since`, and those that git does not know yet.
pub(crate) fn files(since: &str) -> Result<Vec<String>> {
    let git = |words: &[&str]| output(Command::new("git").current_dir(root()).args(words));
    let upstream = || {
        let found = git(&["for-each-ref", "--format=%(refname)", "refs/remotes/origin/main"]);
        found.is_ok_and(|text| !text.trim().is_empty())
    };
    let base = match since {
        "" if upstream() => git(&["merge-base", "origin/main", "HEAD"])?.trim().to_owned(),
        "" => "HEAD".to_owned(),
        revision => revision.to_owned(),
    };
    let changed =
        git(&["diff", "--name-only", &base, "--"]).with_context(|| format!("no revision {base:?}"))?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(changed.lines().chain(new.lines()).map(ToOwned::to_owned).collect())
}

/// The crates of the workspace, and their dependencies.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let top = root();
    let of = |package: &Value| -> Option<Package> {
        let manifest = std::path::Path::new(package["manifest_path"].as_str()?);
        let folder = manifest.parent()?.strip_prefix(&top).ok()?.to_str()?.to_owned();
        let needs = package["dependencies"].as_array()?.iter().filter(|needed| needed["path"].is_string());
        let needs = needs.filter_map(|needed| Some(needed["name"].as_str()?.to_owned())).collect();
        let mutants = package["features"]["mutants"].is_array();
        Some(Package { name: package["name"].as_str()?.to_owned(), folder, needs, mutants })
    };
    Ok(described()?.iter().filter_map(of).collect())
}

/// The crate that a source file belongs to.
pub(crate) fn owner<'a>(file: &str, packages: &'a [Package]) -> Option<&'a Package> {
    let below = |package: &&Package| {
        !package.folder.is_empty()
            && file.strip_prefix(&package.folder).is_some_and(|rest| rest.starts_with('/'))
    };
    let inner = packages.iter().filter(below).max_by_key(|package| package.folder.len());
    inner.or_else(|| packages.iter().find(|package| package.folder.is_empty() && file.starts_with("src/")))
}

/// These crates and all that need them.
fn dependents<'a>(changed: BTreeSet<&'a str>, packages: &'a [Package]) -> BTreeSet<&'a str> {
    let mut reached = changed;
    loop {
        let next =
            packages.iter().filter(|package| package.needs.iter().any(|name| reached.contains(&**name)));
        let next: Vec<_> =
            next.map(|package| &*package.name).filter(|name| !reached.contains(name)).collect();
        if next.is_empty() {
            return reached;
        }
        reached.extend(next);
    }
}

/// The suites and crates that one file affects directly.
type Reach<'a> = (Vec<&'static str>, Vec<&'a str>);

/// What a file affects; `None`: everything.
fn reach<'a>(file: &str, packages: &'a [Package], shares: &impl Fn(&str, &str) -> bool) -> Option<Reach<'a>> {
    let mut parts = file.split('/');
    let named = |names: &[&'static str]| (names.to_vec(), Vec::new());
    Some(match (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) {
        // Loaded by promtool, and each expression evaluated.
        ("deploy", "prometheus" | "grafana") => named(&["it"]),
        // The unit and the scripts go into the package, which has a test for them.
        ("deploy", _) => named(&["unit"]),
        // No suite tests the figures.
        ("tests", "bench") | (".ci" | ".github", _) => named(&[]),
        ("tests", "data") => (Vec::new(), vec!["rosterd-domain"]),
        ("tests", folder) if SUITES.iter().any(|suite| suite.name == folder) => {
            let of_folder =
                |pick: &Pick| matches!(pick, Pick::Test("rosterd" | "rosterd-sim", name) if *name == folder);
            let runs = |suite: &Suite| match suite.kind {
                SuiteKind::Programs(picks) => picks.iter().any(of_folder),
                SuiteKind::Check
                | SuiteKind::Doctests
                | SuiteKind::Python
                | SuiteKind::Node
                | SuiteKind::Conformance
                | SuiteKind::Go
                | SuiteKind::Java => false,
                SuiteKind::Console => folder == "console",
            };
            let tries = |suite: &&Suite| runs(suite) || shares(suite.name, folder);
            (SUITES.iter().filter(tries).map(|suite| suite.name).collect(), Vec::new())
        }
        ("tests", "architecture.rs") | ("docs", _) => named(&["domain", "unit"]),
        // The built files are compiled into the program.
        ("console", "dist" | "embed.rs") => (vec!["console"], vec!["rosterd-api"]),
        // Compared with what the program serves.
        ("console", _) if file == "console/src/lib/api/types.ts" => named(&["console", "it", "unit"]),
        ("console", _) => named(&["console", "unit"]),
        // Tests of coordinators run its worker.
        ("clients", "python") => named(&["python", "it", "conformance"]),
        ("clients", "typescript") => named(&["typescript", "conformance"]),
        // Every client's machine plays the vectors, and the table of codes is made from the enum.
        ("clients", "spec") => (
            vec!["python", "typescript", "go", "java"],
            vec!["rosterd-client", "rosterd-session", "rosterd-conformance"],
        ),
        ("examples", _) => named(&["it", "unit", "conformance"]),
        ("clients", "go") => named(&["go", "conformance"]),
        ("clients", "java") => named(&["java", "conformance"]),
        ("proto", _) | ("build.rs", _) => {
            // Some have their generated code committed, the others generate it.
            (vec!["python", "typescript", "go", "java"], vec!["rosterd-wire", "rosterd-client"])
        }
        (name, "") if name.ends_with(".md") => named(&["unit"]),
        _ => (Vec::new(), vec![&owner(file, packages)?.name]),
    })
}

fn reached(
    files: &[String],
    packages: &[Package],
    shares: &impl Fn(&str, &str) -> bool,
) -> BTreeSet<&'static str> {
    let mut suites = BTreeSet::new();
    let mut crates = BTreeSet::new();
    for file in files {
        let Some((named, owned)) = reach(file, packages, shares) else {
            return SUITES.iter().map(|suite| suite.name).collect();
        };
        suites.extend(named);
        crates.extend(owned);
    }
    let crates = dependents(crates, packages);
    let tries = |suite: &&Suite| match suite.kind {
        SuiteKind::Programs(picks) => picks.iter().any(|pick| match pick {
            Pick::Units(name) | Pick::Test(name, _) => crates.contains(name),
        }),
        SuiteKind::Doctests => !crates.is_empty(),
        SuiteKind::Check => !files.is_empty(),
        // Every client, and the program that checks them.
        SuiteKind::Conformance => {
            ["rosterd-conformance", "rosterd-client"].iter().any(|name| crates.contains(name))
        }
        SuiteKind::Console => crates.contains("rosterd-api"),
        SuiteKind::Python | SuiteKind::Node | SuiteKind::Go | SuiteKind::Java => false,
    };
    suites.extend(SUITES.iter().filter(tries).map(|suite| suite.name));
    suites
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[&str]) -> Vec<&'static str> {
        let files: Vec<_> = files.iter().map(ToString::to_string).collect();
        let shares = |suite: &str, folder: &str| (suite, folder) == ("cluster", "it") || folder == "support";
        reached(&files, &packages().unwrap(), &shares).into_iter().collect()
    }

    #[test]
    fn a_change_reaches_what_depends_on_it_and_nothing_else() {
        assert_eq!(of(&[]), Vec::<&str>::new());
        assert_eq!(of(&["tests/it/storm.rs"]), ["check", "cluster", "hostile", "it"]);
        assert_eq!(of(&["clients/python/rosterd/hand.py"]), ["check", "conformance", "it", "python"]);
        assert_eq!(of(&["clients/go/worker.go"]), ["check", "conformance", "go"]);
        assert_eq!(of(&["clients/java/pom.xml"]), ["check", "conformance", "java"]);
        assert_eq!(of(&["console/src/App.svelte"]), ["check", "console", "unit"]);
        assert_eq!(of(&["console/src/lib/api/types.ts"]), ["check", "console", "it", "unit"]);
        assert_eq!(of(&["deploy/rosterd.service"]), ["check", "unit"]);
        assert_eq!(of(&["deploy/grafana/rosterd.json"]), ["check", "it"]);
        assert_eq!(of(&["tests/bench/src/main.rs", "README.md"]), ["check", "unit"]);
        let coordinator = of(&["src/coordinator/node.rs"]);
        assert!(coordinator.contains(&"sim") && coordinator.contains(&"it"), "{coordinator:?}");
        assert!(!coordinator.contains(&"domain") && !coordinator.contains(&"python"), "{coordinator:?}");
        let edge = of(&["src/api/edge.rs"]);
        assert!(edge.contains(&"edge") && !edge.contains(&"sim"), "{edge:?}");
        assert!(of(&["src/domain/item.rs"]).contains(&"domain"));
        assert!(of(&["proto/rosterd/v1/worker.proto"]).contains(&"python"));
    }

    #[test]
    fn what_has_no_place_reaches_everything() {
        for file in ["Cargo.lock", ".cargo/config.toml", "rustfmt.toml", "new/thing.txt"] {
            assert_eq!(of(&[file]).len(), SUITES.len(), "{file}");
        }
    }

    #[test]
    fn a_file_belongs_to_the_innermost_crate() {
        let packages = packages().unwrap();
        let owner = |file| owner(file, &packages).map(|package| package.name.clone());
        assert_eq!(owner("src/registry/zookeeper/mod.rs").as_deref(), Some("rosterd-registry"));
        assert_eq!(owner("src/cli/mod.rs").as_deref(), Some("rosterd"));
        assert_eq!(owner("tests/sim/seeds/play.rs").as_deref(), Some("rosterd-sim"));
        assert_eq!(owner("Cargo.toml"), None);
    }
}
