//! Requirements of registries on the clients' packages: authors, repository, license, contents. A part of `check`: it
//! builds nothing slow, and pushes nothing.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::{cargo, output, root, target};
use crate::{java, metadata, node, python};

const REPOSITORY: &str = "https://github.com/rosterd/rosterd";
/// The common description, in the clients after "Workers for rosterd, a".
const SENTENCE: &str = "distributed scheduler for sharded cron jobs";
/// Where it must stand.
const SAID_IN: [&str; 13] = [
    "Cargo.toml",
    "Dockerfile",
    "README.md",
    "clients/go/doc.go",
    "clients/java/pom.xml",
    "clients/java/rosterd-client/pom.xml",
    "clients/java/rosterd-elasticjob/pom.xml",
    "clients/java/rosterd-spring-boot-starter/pom.xml",
    "clients/python/pyproject.toml",
    "clients/rust/Cargo.toml",
    "clients/typescript/package.json",
    "deploy/helm/rosterd/Chart.yaml",
    "deploy/rosterd.service",
];

/// A checked package, with its defects.
pub(crate) fn checked() -> Result<[(&'static str, Vec<String>); 5]> {
    Ok([
        ("all say the same of what rosterd is", sentences()?),
        ("the package of the Rust client", rust()?),
        ("the package of the Python client", python()?),
        ("the package of the TypeScript client", typescript()?),
        ("the packages of the Java client", maven()?),
    ])
}

fn read(file: &str) -> Result<String> {
    std::fs::read_to_string(root().join(file)).with_context(|| file.to_owned())
}

fn sentences() -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for file in SAID_IN {
        if !read(file)?.contains(SENTENCE) {
            wrong.push(format!("{file}: does not say \"{SENTENCE}\""));
        }
    }
    Ok(wrong)
}

fn rust() -> Result<Vec<String>> {
    const FILE: &str = "clients/rust/Cargo.toml";
    let packages = metadata::described()?;
    let package =
        packages.iter().find(|package| package["name"] == "rosterd-client").context("no rosterd-client")?;
    let mut list = cargo();
    list.args(["package", "--quiet", "--package", "rosterd-client", "--list", "--allow-dirty"]);
    let listed = output(&mut list)?;
    let mut wrong = of_crate(package);
    wrong.extend(of_archive(
        &listed.lines().collect::<Vec<_>>(),
        &["Cargo.toml", "LICENSE", "README.md", "build.rs", "proto/rosterd/v1/worker.proto", "src/lib.rs"],
        &["src/machine/tests/", "tests/", "target/"],
    ));
    Ok(wrong.into_iter().map(|defect| format!("{FILE}: {defect}")).collect())
}

/// Requirements of crates.io and docs.rs.
fn of_crate(package: &Value) -> Vec<String> {
    let texts =
        ["description", "documentation", "homepage", "license", "readme", "repository", "rust_version"];
    let lists = ["keywords", "categories"];
    let absent = |field: &&&str| match &package[**field] {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    let mut wrong: Vec<_> =
        texts.iter().chain(&lists).filter(absent).map(|field| format!("no {field}")).collect();
    if package["repository"] != REPOSITORY {
        wrong.push(format!("the repository is {}, not {REPOSITORY}", package["repository"]));
    }
    if package["keywords"].as_array().is_some_and(|words| words.len() > 5) {
        wrong.push("more than 5 keywords".into());
    }
    // An empty list of registries: it must not be published.
    if package["publish"].as_array().is_some_and(Vec::is_empty) {
        wrong.push("publish is off".into());
    }
    wrong
}

/// The files that an archive must contain, and the folders that it must not.
fn of_archive(files: &[&str], with: &[&str], without: &[&str]) -> Vec<String> {
    let missing =
        with.iter().filter(|file| !files.contains(file)).map(|file| format!("no {file} in the package"));
    let foreign = files.iter().filter(|file| without.iter().any(|folder| file.starts_with(folder)));
    missing.chain(foreign.map(|file| format!("{file} is in the package"))).collect()
}

fn python() -> Result<Vec<String>> {
    const FILE: &str = "clients/python/pyproject.toml";
    let folder = target().join(format!("tmp/wheel-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let metadata = python::metadata(&folder.canonicalize()?);
    std::fs::remove_dir_all(&folder)?;
    let metadata = metadata?;
    if metadata.is_empty() {
        println!(
            "    NOT CHECKED: the wheel of the Python client: its environment is missing: run `cargo xtask setup`"
        );
        return Ok(Vec::new());
    }
    Ok(of_wheel(&metadata).into_iter().map(|defect| format!("{FILE}: {defect}")).collect())
}

/// The metadata that PyPI shows.
fn of_wheel(metadata: &str) -> Vec<String> {
    let fields = [
        "Summary: Workers for rosterd, a distributed scheduler for sharded cron jobs",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "Keywords: ",
        "Classifier: ",
        "Requires-Python: ",
        "Description-Content-Type: text/markdown",
        "Project-URL: Homepage, https://github.com/rosterd/rosterd",
        "Project-URL: Source, https://github.com/rosterd/rosterd",
        "Project-URL: Documentation, ",
        "Project-URL: Changelog, ",
        "Project-URL: Issues, https://github.com/rosterd/rosterd/issues",
    ];
    let head = metadata.split("\n\n").next().unwrap_or_default();
    let absent = fields.iter().filter(|field| !head.lines().any(|line| line.starts_with(**field)));
    absent.map(|field| format!("the wheel does not say {field:?}")).collect()
}

fn typescript() -> Result<Vec<String>> {
    const FILE: &str = "clients/typescript/package.json";
    let package: Value = serde_json::from_str(&read(FILE)?).context(FILE)?;
    // Its scripts would build it, which only a release needs.
    let packed = output(&mut node::npm(&["pack", "--dry-run", "--json", "--ignore-scripts"]))?;
    let packed: Value = serde_json::from_str(&packed).context("npm pack --json")?;
    let files = packed[0]["files"].as_array().cloned().unwrap_or_default();
    let files: Vec<&str> = files.iter().filter_map(|file| file["path"].as_str()).collect();
    let mut wrong = of_npm(&package);
    wrong.extend(of_archive(
        &files,
        &["LICENSE", "README.md", "package.json"],
        &["build/", "node_modules/", "src/", "test/"],
    ));
    Ok(wrong.into_iter().map(|defect| format!("{FILE}: {defect}")).collect())
}

fn of_npm(package: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let fields = [
        ("/license", "Apache-2.0"),
        ("/homepage", REPOSITORY),
        ("/bugs", "https://github.com/rosterd/rosterd/issues"),
        ("/repository/type", "git"),
        ("/repository/url", "git+https://github.com/rosterd/rosterd.git"),
        ("/repository/directory", "clients/typescript"),
    ];
    for (field, wanted) in fields {
        if package.pointer(field).and_then(Value::as_str) != Some(wanted) {
            wrong.push(format!("{field} is not {wanted:?}"));
        }
    }
    for field in ["keywords", "files"] {
        if package[field].as_array().is_none_or(Vec::is_empty) {
            wrong.push(format!("no {field}"));
        }
    }
    if package["engines"]["node"].as_str().is_none() {
        wrong.push("no engines.node".into());
    }
    if package["private"] == true {
        wrong.push("it is private".into());
    }
    wrong
}

fn maven() -> Result<Vec<String>> {
    let mut wrong = of_parent(&read("clients/java/pom.xml")?);
    for entry in std::fs::read_dir(java::folder())? {
        let file = entry?.path().join("pom.xml");
        if file.is_file() {
            let module =
                file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
            let published = java::PUBLISHED.contains(&module.as_str());
            wrong.extend(of_module(&std::fs::read_to_string(&file)?, &module, published));
        }
    }
    wrong.sort();
    Ok(wrong)
}

/// Requirements of Maven Central, which modules inherit from their parent.
fn of_parent(pom: &str) -> Vec<String> {
    let wanted = [
        ("a name", "<name>"),
        ("a description", "<description>"),
        ("its url", "\n  <url>https://github.com/rosterd/rosterd</url>"),
        ("a licence", "<licenses>\n    <license>\n      <name>Apache-2.0</name>"),
        ("a developer", "<developers>\n    <developer>"),
        ("where its sources are", "<connection>scm:git:https://github.com/rosterd/rosterd.git</connection>"),
        ("where they are for authors", "<developerConnection>scm:git:"),
    ];
    let absent = wanted.iter().filter(|(_, text)| !pom.contains(text));
    absent.map(|(what, text)| format!("clients/java/pom.xml: without {what}: {}", text.trim())).collect()
}

/// A module has a description; one that is not published is marked, or `mvn deploy` would push it.
fn of_module(pom: &str, module: &str, published: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut unless = |good: bool, what: &str| {
        if !good {
            wrong.push(format!("clients/java/{module}/pom.xml: {what}"));
        }
    };
    let kept = pom.contains("<maven.deploy.skip>true</maven.deploy.skip>");
    unless(pom.contains("<name>") && pom.contains("<description>"), "no name and description");
    if published {
        unless(!kept, "is kept from being published");
        unless(pom.contains("maven-source-plugin"), "without sources (maven-source-plugin)");
        unless(pom.contains("maven-javadoc-plugin"), "without documentation (maven-javadoc-plugin)");
    } else {
        unless(kept, "must not be published: maven.deploy.skip");
    }
    wrong
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_manifests_say_by_themselves_is_complete() {
        assert_eq!(sentences().unwrap(), [""; 0]);
        assert_eq!(maven().unwrap(), [""; 0]);
        let package = read("clients/typescript/package.json").unwrap();
        assert_eq!(of_npm(&serde_json::from_str(&package).unwrap()), [""; 0]);
        let packages = metadata::described().unwrap();
        for package in packages {
            let published = package["name"] == "rosterd-client";
            assert_eq!(
                of_crate(&package).is_empty(),
                published,
                "{} {:?}",
                package["name"],
                of_crate(&package)
            );
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let package = json!({ "description": "", "keywords": [], "repository": "https://x", "publish": [] });
        let wrong = of_crate(&package);
        for defect in ["no description", "no keywords", "no license", "publish is off"] {
            assert!(wrong.iter().any(|is| is == defect), "{wrong:?}");
        }
        assert!(wrong.iter().any(|defect| defect.contains("\"https://x\"")), "{wrong:?}");
        assert_eq!(
            of_archive(&["LICENSE", "tests/a"], &["LICENSE", "b"], &["tests/"]),
            ["no b in the package", "tests/a is in the package"]
        );
        assert!(
            of_wheel("Summary: x\n\nKeywords: in the text\n")
                .iter()
                .any(|defect| defect.contains("Keywords"))
        );
        assert!(of_npm(&json!({ "private": true })).len() > 8);
        assert_eq!(of_parent("<project>").len(), 7);
        let kept = "<name><description><maven.deploy.skip>true</maven.deploy.skip>";
        assert_eq!(of_module(kept, "x", false), [""; 0]);
        assert_eq!(of_module(kept, "x", true).len(), 3);
        assert_eq!(of_module("", "x", false).len(), 2);
    }
}
