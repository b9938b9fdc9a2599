//! The targets of the workspace, as cargo knows them, and the test programs that it built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::{cargo, output, shown};

/// One target of one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) package: String,
    /// lib, bin, test.
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Target {
    fn read(package: &str, value: &Value) -> Option<Self> {
        let kind = match value["kind"][0].as_str()? {
            "custom-build" | "example" => return None,
            kind if kind.ends_with("lib") => "lib",
            kind => kind,
        };
        Some(Self { package: package.into(), kind: kind.into(), name: value["name"].as_str()?.into() })
    }
}

/// How everything under test is built, so that it is built once: the profile of README's first command, with our own
/// crates as `.cargo/tests.toml` says.
pub(crate) const PROFILE: [&str; 3] = ["--release", "--config", ".cargo/tests.toml"];
/// All crates that have tests.
const WORKSPACE: [&str; 3] = ["--workspace", "--exclude", "rosterd-bench"];
/// The bugs that the simulation switches on by name, off by default.
pub(crate) const FEATURES: [&str; 2] = ["--features", "rosterd/mutants,rosterd-sim/mutants"];

/// The crates of the workspace, as cargo describes them.
pub(crate) fn described() -> Result<Vec<Value>> {
    let text = output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let value: Value = serde_json::from_str(&text).context("cargo metadata")?;
    value["packages"].as_array().cloned().context("cargo metadata names no packages")
}

/// All targets that hold tests.
pub(crate) fn targets() -> Result<Vec<Target>> {
    let of = |package: &Value| -> Vec<Target> {
        let name = package["name"].as_str().unwrap_or_default();
        let targets = package["targets"].as_array().cloned().unwrap_or_default();
        let tested = targets.iter().filter(|target| target["test"] == true);
        tested.filter_map(|target| Target::read(name, target)).collect()
    };
    Ok(described()?.iter().flat_map(of).collect())
}

/// A test program, built.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) target: Target,
    pub(crate) path: PathBuf,
    /// Where it runs: the folder of its package.
    pub(crate) folder: PathBuf,
}

/// Builds test programs of the workspace; `None` if that failed (the compiler has printed why).
pub(crate) fn build(arguments: &[String]) -> Result<Option<Vec<Program>>> {
    let mut command = cargo();
    command.arg("test").args(WORKSPACE).args(PROFILE).args(FEATURES).args(arguments);
    built(command)
}

/// Builds the tests of some crates: those beside their code, and with `simulation` that one.
pub(crate) fn build_packages(
    names: &[&str],
    features: &[String],
    simulation: bool,
) -> Result<Option<Vec<Program>>> {
    let mut command = cargo();
    command.arg("test").args(PROFILE).args(["--lib", "--bins"]);
    command.args(names.iter().flat_map(|name| ["--package", name]));
    if simulation {
        command.args(["--test", "sim"]);
    }
    if !features.is_empty() {
        command.args(["--features", &features.join(",")]);
    }
    built(command)
}

/// The same in a copy of the tree, with a separate build folder.
pub(crate) fn build_in(tree: &Path, built_in: &Path, arguments: &[String]) -> Result<Option<Vec<Program>>> {
    let mut command = cargo();
    command.current_dir(tree).env("CARGO_TARGET_DIR", built_in);
    command.arg("test").args(WORKSPACE).args(PROFILE).args(FEATURES).args(arguments);
    built(command)
}

fn built(mut command: Command) -> Result<Option<Vec<Program>>> {
    command.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    println!("    $ {}", shown(&command));
    let done = command.stderr(Stdio::inherit()).output().context("cargo cannot be run")?;
    if !done.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&done.stdout);
    Ok(Some(text.lines().filter_map(program).collect()))
}

fn program(line: &str) -> Option<Program> {
    let value: Value = serde_json::from_str(line).ok()?;
    let path = value["executable"].as_str()?.into();
    if value["profile"]["test"] != true {
        return None;
    }
    let folder = PathBuf::from(value["manifest_path"].as_str()?).parent()?.to_path_buf();
    let target = Target::read(package(value["package_id"].as_str()?), &value["target"])?;
    Some(Program { target, path, folder })
}

/// The name in `path+file:///…/clients/rust#rosterd-client@0.1.0`, or in `path+file:///…/xtask#0.1.0`.
fn package(id: &str) -> &str {
    let (place, end) = id.rsplit_once('#').unwrap_or((id, id));
    match end.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::command::root;

    #[test]
    fn a_package_is_known_by_both_forms_of_its_id() {
        assert_eq!(package("path+file:///a/clients/rust#rosterd-client@0.1.0"), "rosterd-client");
        assert_eq!(package("path+file:///a/xtask#0.1.0"), "xtask");
    }

    /// The libraries of a build, each with its version and features.
    fn libraries(arguments: &[&str]) -> BTreeSet<String> {
        let format = ["--locked", "--prefix", "none", "--format", "{p} [{f}]"];
        let tree = output(cargo().arg("tree").args(format).args(arguments)).unwrap();
        let lines = tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
        // Our own crates are built for each of the two.
        lines.filter(|line| !line.is_empty() && !line.contains(&*root().to_string_lossy())).collect()
    }

    /// A library with different features in the tests and in the program is compiled twice, and only the time would
    /// show it.
    #[test]
    fn the_tests_use_the_libraries_of_the_program_with_its_features() {
        let program = libraries(&["--package", "rosterd", "--edges", "normal"]);
        let tests = libraries(&[&WORKSPACE[..], &FEATURES, &["--edges", "normal,dev"]].concat());
        assert!(program.len() > 100, "{program:?}");
        let twice: Vec<_> = program.difference(&tests).collect();
        assert!(twice.is_empty(), "name their features once, in [workspace.dependencies]: {twice:#?}");
    }

    #[test]
    fn only_test_programs_are_taken_from_what_cargo_says() {
        let line = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///a/xtask#0.1.0","manifest_path":"/a/xtask/Cargo.toml","target":{{"kind":["bin"],"name":"xtask"}},"profile":{{"test":{test}}},"executable":"/t/xtask-1"}}"#
            )
        };
        let program = program(&line(true)).unwrap();
        assert_eq!((program.target.kind.as_str(), program.folder), ("bin", PathBuf::from("/a/xtask")));
        assert!(super::program(&line(false)).is_none());
    }
}
