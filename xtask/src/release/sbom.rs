//! The components of the program, in CycloneDX format: each crate of its normal dependency tree, from `cargo metadata`
//! and the lock file, without crates that only build or test it. Also the texts of their licenses, which ship with
//! every copy.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::version::Version;
use crate::command::{cargo, output, root};

const PROGRAM: &str = "rosterd";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The crates of the program.
pub(super) struct Tree {
    /// Packages by id, as cargo describes them.
    packages: BTreeMap<String, Value>,
    /// The requirements of each.
    needs: BTreeMap<String, BTreeSet<String>>,
    root: String,
    /// Digests of crates.io, by name and version.
    digests: BTreeMap<(String, String), String>,
}

impl Tree {
    /// Reads cargo's tree by the lock file. For one platform: the needs of others are not in the program.
    pub(super) fn read() -> Result<Self> {
        let words = ["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET];
        let metadata: Value = serde_json::from_str(&output(cargo().args(words))?)?;
        // cargo resolves the features of all members together: the program alone may have less.
        let words = ["tree", "--locked", "--package", PROGRAM, "--edges", "normal", "--target", TARGET];
        let tree = output(cargo().args(words).args(["--prefix", "none", "--format", "{p}"]))?;
        let lock = std::fs::read_to_string(root().join("Cargo.lock"))?;
        Self::new(&metadata, &tree, digests(&lock))
    }

    fn new(metadata: &Value, tree: &str, digests: BTreeMap<(String, String), String>) -> Result<Self> {
        let built: BTreeSet<(&str, &str)> = tree.lines().filter_map(name_and_version).collect();
        let all = metadata["packages"].as_array().context("cargo metadata names no packages")?;
        let packages: BTreeMap<String, Value> = all
            .iter()
            .filter(|package| built.contains(&(text(&package["name"]), text(&package["version"]))))
            .map(|package| (text(&package["id"]).to_owned(), package.clone()))
            .collect();
        let root = packages.iter().find(|(_, package)| package["name"] == PROGRAM);
        let root = root.context("cargo metadata does not name the program")?.0.clone();
        let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata resolves nothing")?;
        let mut needs = BTreeMap::new();
        for node in nodes.iter().filter(|node| packages.contains_key(text(&node["id"]))) {
            let deps = node["deps"].as_array().into_iter().flatten().filter(|dep| is_normal(dep));
            let deps = deps.map(|dep| text(&dep["pkg"]).to_owned()).filter(|id| packages.contains_key(id));
            needs.insert(text(&node["id"]).to_owned(), deps.collect());
        }
        let mut tree = Self { packages, needs, root, digests };
        let reached = tree.reached();
        tree.packages.retain(|id, _| reached.contains(id));
        Ok(tree)
    }

    fn reached(&self) -> BTreeSet<String> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![self.root.clone()]);
        while let Some(id) = next.pop() {
            if reached.insert(id.clone()) {
                next.extend(self.needs.get(&id).into_iter().flatten().cloned());
            }
        }
        reached
    }

    pub(super) fn crates(&self) -> usize {
        self.packages.len()
    }

    /// The document. `at`: seconds since 1970.
    pub(super) fn cyclonedx(&self, version: &Version, at: &str) -> Result<Value> {
        let component = |id: &String| self.packages.get(id).map(|package| self.component(package));
        let mut program = component(&self.root).context("no program")?;
        program["type"] = json!("application");
        program["version"] = json!(version.to_string());
        let others = self.packages.keys().filter(|id| **id != self.root).filter_map(component);
        let dependencies = self.packages.iter().map(|(id, package)| {
            let needs = self.needs.get(id).into_iter().flatten().filter_map(|id| self.packages.get(id));
            json!({ "ref": purl(package), "dependsOn": needs.map(purl).collect::<BTreeSet<_>>() })
        });
        Ok(json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "timestamp": super::timestamp(at)?,
                "tools": { "components": [{ "type": "application", "name": "cargo xtask release" }] },
                "component": program,
                "properties": [{ "name": "cdx:cargo:target", "value": TARGET }],
            },
            "components": others.collect::<Vec<_>>(),
            "dependencies": dependencies.collect::<Vec<_>>(),
        }))
    }

    fn component(&self, package: &Value) -> Value {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let mut component = json!({
            "type": "library",
            "bom-ref": purl(package),
            "name": name,
            "version": version,
            "licenses": [licence(package)],
            "purl": purl(package),
        });
        if let Some(digest) = self.digests.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": digest }]);
        }
        if let Some(repository) = package["repository"].as_str() {
            component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
        }
        component
    }

    /// The licenses of all crates of others, each text once, with the crates that it covers.
    pub(super) fn notices(&self) -> Result<String> {
        let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut all =
            String::from("Crates of others in this program, and their licences. The texts follow.\n\n");
        for package in self.packages.values().filter(|package| !package["source"].is_null()) {
            let name = format!("{} {}", text(&package["name"]), text(&package["version"]));
            writeln!(all, "{name}: {}", text(&package["license"]))?;
            let folder =
                Path::new(text(&package["manifest_path"])).parent().context("a manifest is in a folder")?;
            for text in licence_files(folder)? {
                texts.entry(text).or_default().insert(name.clone());
            }
        }
        for (text, names) in texts {
            let names: Vec<_> = names.into_iter().collect();
            write!(all, "\n{}\n{}\n\n{}\n", "-".repeat(80), names.join(", "), text.trim_end())?;
        }
        Ok(all)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `serde v1.0.228`, perhaps with a path or `(*)` after it.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split(' ');
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

/// Crates in the program, not those that build or test it.
fn is_normal(dep: &Value) -> bool {
    dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

/// <https://github.com/package-url/purl-spec>: crates of ours are in no registry.
fn purl(package: &Value) -> String {
    let own =
        if package["source"].is_null() { "?vcs_url=git%2Bhttps://github.com/rosterd/rosterd" } else { "" };
    format!("pkg:cargo/{}@{}{own}", text(&package["name"]), text(&package["version"]))
}

/// As an SPDX expression: old crates may write a `/` for OR.
fn licence(package: &Value) -> Value {
    match (package["license"].as_str(), package["license_file"].as_str()) {
        (Some(licence), _) => json!({ "expression": licence.replace(" / ", " OR ").replace('/', " OR ") }),
        (None, Some(file)) => json!({ "license": { "name": format!("see its file {file}") } }),
        (None, None) => json!({ "license": { "name": "unknown" } }),
    }
}

fn licence_files(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let is_one = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"]
            .iter()
            .any(|word| name.starts_with(word));
        if is_one && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|file| Ok(String::from_utf8_lossy(&std::fs::read(file)?).into_owned())).collect()
}

fn digests(lock: &str) -> BTreeMap<(String, String), String> {
    let mut digests = BTreeMap::new();
    for package in lock.split("\n[[package]]\n") {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
            line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(digest)) =
            (field("name"), field("version"), field("checksum"))
        {
            digests.insert((name, version), digest);
        }
    }
    digests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, licence: Value, source: Value) -> Value {
        json!({ "id": format!("{name}#{version}"), "name": name, "version": version, "license": licence, "source": source,
            "manifest_path": "/x/Cargo.toml" })
    }

    fn needs(id: &str, on: &[(&str, Value)]) -> Value {
        let deps = on.iter().map(|(id, kind)| json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] }));
        json!({ "id": id, "deps": deps.collect::<Vec<_>>() })
    }

    fn tree() -> Tree {
        let registry = json!("registry+https://github.com/rust-lang/crates.io-index");
        let metadata = json!({
            "packages": [
                package("rosterd", "0.1.0", json!("Apache-2.0"), Value::Null),
                package("rosterd-domain", "0.1.0", json!("Apache-2.0"), Value::Null),
                package("a", "1.0.0", json!("MIT/Apache-2.0"), registry.clone()),
                package("a", "2.0.0", json!("MIT OR Apache-2.0"), registry.clone()),
                package("builds", "1.0.0", json!("MIT"), registry.clone()),
                package("not-on", "1.0.0", json!("MIT"), registry),
            ],
            "resolve": { "nodes": [
                needs("rosterd#0.1.0", &[("rosterd-domain#0.1.0", Value::Null), ("a#2.0.0", json!("dev")), ("builds#1.0.0", json!("build"))]),
                needs("rosterd-domain#0.1.0", &[("a#1.0.0", Value::Null), ("not-on#1.0.0", Value::Null)]),
                needs("a#1.0.0", &[]),
                needs("a#2.0.0", &[]),
            ] },
        });
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"x\"\nchecksum = \"abc\"\n";
        let tree =
            "rosterd v0.1.0 (/x)\nrosterd-domain v0.1.0 (/x/src/domain)\na v1.0.0\na v1.0.0 (*)\na v2.0.0\n";
        Tree::new(&metadata, tree, digests(lock)).unwrap()
    }

    #[test]
    fn the_bill_of_materials_names_what_is_in_the_program_and_nothing_else() {
        let bill = tree().cyclonedx(&"0.1.0".parse().unwrap(), "0").unwrap();
        assert_eq!(
            (&bill["bomFormat"], &bill["specVersion"], &bill["version"]),
            (&json!("CycloneDX"), &json!("1.6"), &json!(1))
        );
        assert_eq!(bill["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
        assert_eq!(bill["metadata"]["component"]["type"], "application");
        assert_eq!(bill["metadata"]["component"]["name"], "rosterd");
        let components = bill["components"].as_array().unwrap();
        let purls: Vec<_> = components.iter().map(|component| text(&component["purl"])).collect();
        let own = "pkg:cargo/rosterd-domain@0.1.0?vcs_url=git%2Bhttps://github.com/rosterd/rosterd";
        assert_eq!(purls, ["pkg:cargo/a@1.0.0", own], "no feature that is off, nothing that builds or tests");
        assert_eq!(components[0]["licenses"], json!([{ "expression": "MIT OR Apache-2.0" }]));
        assert_eq!(components[0]["hashes"], json!([{ "alg": "SHA-256", "content": "abc" }]));
        assert!(components[1]["hashes"].is_null());
        // Every reference leads to a component.
        let refs: BTreeSet<_> =
            components.iter().chain([&bill["metadata"]["component"]]).map(|c| text(&c["bom-ref"])).collect();
        for dependency in bill["dependencies"].as_array().unwrap() {
            assert!(refs.contains(text(&dependency["ref"])), "{dependency}");
            assert!(
                dependency["dependsOn"].as_array().unwrap().iter().all(|on| refs.contains(text(on))),
                "{dependency}"
            );
        }
    }

    /// The real tree, from cargo, which needs no network if the crates are there.
    #[test]
    fn each_crate_of_the_program_has_a_version_and_a_licence() {
        let tree = Tree::read().unwrap();
        let bill = tree.cyclonedx(&"0.1.0".parse().unwrap(), "0").unwrap();
        let components = bill["components"].as_array().unwrap();
        assert!(components.len() > 150, "{}", components.len());
        for component in components {
            assert!(!text(&component["version"]).is_empty(), "{component}");
            assert!(component["licenses"][0]["expression"].is_string(), "{component}");
            let ours = text(&component["purl"]).contains('?');
            assert!(ours || component["hashes"].is_array(), "{component}");
        }
        let named = |name: &str| components.iter().any(|component| component["name"] == name);
        assert!(named("tokio") && named("rosterd-domain") && named("libsqlite3-sys"));
        assert!(!named("proptest") && !named("tonic-prost-build") && !named("xtask"));
        assert!(tree.notices().unwrap().contains("Permission is hereby granted, free of charge"));
    }
}
