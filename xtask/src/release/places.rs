//! The places with the version of this project: manifests, constants of the clients, instructions in pages. All must
//! agree before anything is built.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::version::Version;
use crate::command::{output, root};
use crate::metadata;

/// One place, and its version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VersionPlace {
    /// The file, and the entry in it if it has several.
    place: String,
    found: String,
}

/// A file, the text before the version, and the text after it.
const LINES: [(&str, &str, &str); 8] = [
    ("clients/python/rosterd/__about__.py", "\nVERSION = \"", "\""),
    ("clients/typescript/src/version.ts", "\nexport const VERSION = \"", "\""),
    ("clients/go/doc.go", "\nconst Version = \"", "\""),
    (
        "clients/java/rosterd-client/src/main/java/io/rosterd/client/internal/machine/Machine.java",
        " String VERSION = \"",
        "\"",
    ),
    ("deploy/helm/rosterd/Chart.yaml", "\nversion: ", "\n"),
    ("deploy/helm/rosterd/Chart.yaml", "\nappVersion: \"", "\""),
    ("Dockerfile", "\nARG VERSION=", "\n"),
    ("Cargo.toml", "[workspace.package]\nversion = \"", "\""),
];
/// Files of npm, and where in them.
const JSON: [(&str, &str); 3] = [
    ("clients/typescript/package.json", "/version"),
    ("clients/typescript/package-lock.json", "/version"),
    ("clients/typescript/package-lock.json", "/packages//version"),
];
/// Manifests of Maven that must name one.
const MAVEN: &str = "clients/java/";
/// Images, as manifests and pages name them.
const IMAGES: [&str; 2] = ["rosterd:", "rosterd-worker:"];

/// The version in the workspace's manifest.
pub(super) fn workspace() -> Result<Version> {
    let (file, before, after) = LINES[LINES.len() - 1];
    between(&read(file)?, before, after)
        .with_context(|| format!("{file}: no version of the workspace"))?
        .parse()
}

/// The defects, by file.
pub(super) fn defects(version: &Version) -> Result<Vec<String>> {
    let places = all()?;
    println!("    the version is in {} places", places.len());
    Ok(wrong(&places, &version.to_string()))
}

fn wrong(places: &[VersionPlace], version: &str) -> Vec<String> {
    let wrong = places.iter().filter(|place| place.found != version);
    wrong.map(|VersionPlace { place, found }| format!("{place}: {found}, not {version}")).collect()
}

fn all() -> Result<Vec<VersionPlace>> {
    let mut places = Vec::new();
    // A crate with its own version; the others have the workspace's.
    for package in metadata::described()? {
        let path = package["manifest_path"].as_str().unwrap_or_default();
        if !std::fs::read_to_string(path).context("a manifest")?.contains("\nversion.workspace = true\n") {
            let place = Path::new(path).strip_prefix(root()).unwrap_or(Path::new(path)).display().to_string();
            places.push(VersionPlace {
                place,
                found: package["version"].as_str().unwrap_or("none").to_owned(),
            });
        }
    }
    for (file, before, after) in LINES {
        let found = between(&read(file)?, before, after).unwrap_or_else(|| "none".into());
        let name =
            before.trim().lines().next_back().unwrap_or_default().trim_end_matches([' ', ':', '=', '"']);
        places.push(VersionPlace { place: format!("{file} ({name})"), found });
    }
    for (file, pointer) in JSON {
        let value: Value = serde_json::from_str(&read(file)?).context(file)?;
        let found = value.pointer(pointer).and_then(Value::as_str).unwrap_or("none").to_owned();
        places.push(VersionPlace { place: format!("{file} ({pointer})"), found });
    }
    let listed = output(
        Command::new("git").current_dir(root()).args(["ls-files", "--", "*.md", "*.yaml", "*pom.xml"]),
    )?;
    for file in listed.lines().filter(|file| *file != "CHANGELOG.md" && !file.starts_with("docs/decisions/"))
    {
        let text = read(file)?;
        let of_maven = of_group(&text);
        if file.starts_with(MAVEN) && file.ends_with("pom.xml") && of_maven.is_empty() {
            bail!("{file}: names no version of io.rosterd");
        }
        let found = of_maven.into_iter().chain(of_images(&text));
        places.extend(found.map(|(line, found)| VersionPlace { place: format!("{file}:{line}"), found }));
    }
    Ok(places)
}

fn read(file: &str) -> Result<String> {
    std::fs::read_to_string(root().join(file)).with_context(|| file.to_owned())
}

/// The text between the two.
fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let text = format!("\n{text}");
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0.trim().to_owned())
}

/// Versions of our artifacts in Maven's files, each with its line: of the project itself, of parents and of
/// dependencies. Those from a property or the parent do not count.
fn of_group(text: &str) -> Vec<(usize, String)> {
    const GROUP: &str = "<groupId>io.rosterd</groupId>";
    let mut found = Vec::new();
    for (at, _) in text.match_indices(GROUP) {
        let rest = &text[at..];
        let end = ["</parent>", "</dependency>", "<packaging>", "<name>"]
            .iter()
            .filter_map(|end| rest.find(end))
            .min();
        let element = &rest[..end.unwrap_or(rest.len())];
        let Some(start) = element.find("<version>").map(|start| start + "<version>".len()) else { continue };
        let version = element[start..].split('<').next().unwrap_or_default();
        if !version.starts_with("${") {
            found.push((line_of(text, at + start), version.to_owned()));
        }
    }
    found
}

/// Versions of our images, each with its line.
fn of_images(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for image in IMAGES {
        for (at, _) in text.match_indices(image) {
            let before = text[..at].chars().next_back();
            let rest = &text[at + image.len()..];
            let version = rest
                .split(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c))
                .next()
                .unwrap_or_default();
            let begins = before.is_none_or(|c| " /\"'\n".contains(c));
            // A port has no dot.
            let version = version.trim_end_matches('.');
            if begins && version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.') {
                found.push((line_of(text, at), version.to_owned()));
            }
        }
    }
    found
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_places_of_this_repository_say_the_workspaces_version() {
        let version = workspace().unwrap();
        assert_eq!(defects(&version).unwrap(), [""; 0]);
        let other: Version = "987.6.5".parse().unwrap();
        let wrong = defects(&other).unwrap();
        let named = |file: &str| wrong.iter().any(|defect| defect.starts_with(file));
        let files = [
            "Cargo.toml",
            "clients/python/rosterd/__about__.py",
            "clients/typescript/package.json",
            "clients/java/pom.xml:",
            "clients/java/rosterd-client/pom.xml:",
            "clients/java/README.md:",
            "examples/elasticjob-spring/pom.xml:",
            "deploy/helm/rosterd/Chart.yaml (appVersion",
            "deploy/kubernetes/worker.yaml:",
            "docs/guide/src/kubernetes.md:",
            "Dockerfile",
        ];
        for file in files {
            assert!(named(file), "{file} is not looked at: {wrong:#?}");
        }
    }

    #[test]
    fn a_place_that_says_another_version_is_named_with_what_it_says() {
        let place = |place: &str, found: &str| VersionPlace { place: place.into(), found: found.into() };
        let places = [place("a", "0.2.0"), place("b.xml:9", "0.1.0"), place("c", "none")];
        assert_eq!(wrong(&places, "0.2.0"), ["b.xml:9: 0.1.0, not 0.2.0", "c: none, not 0.2.0"]);
    }

    #[test]
    fn versions_of_ours_are_found_in_what_maven_reads() {
        let pom = "<project>\n<parent>\n<groupId>org.x</groupId><version>9</version>\n</parent>\n\
                   <groupId>io.rosterd</groupId>\n<artifactId>a</artifactId>\n<version>1.0.0</version>\n<packaging>pom</packaging>\n\
                   <dependency>\n<groupId>io.rosterd</groupId>\n<artifactId>b</artifactId>\n</dependency>\n\
                   <dependency>\n<groupId>io.rosterd</groupId>\n<version>${project.version}</version>\n</dependency>\n\
                   <dependency>\n<groupId>io.rosterd</groupId>\n<version>1.0.1</version>\n</dependency>\n";
        assert_eq!(of_group(pom), [(7, "1.0.0".to_owned()), (19, "1.0.1".to_owned())]);
    }

    #[test]
    fn versions_of_images_are_found_and_ports_and_others_are_not() {
        let text = "image: rosterd-worker:0.1.0\nurl http://rosterd:7700 my-rosterd:3.1\n`r.example/rosterd:0.2.0-rc.1`.";
        let found = of_images(text);
        assert_eq!(found, [(3, "0.2.0-rc.1".to_owned()), (1, "0.1.0".to_owned())]);
    }
}
