//! The packages of the clients, for their registries. It pushes nothing.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::Release;
use super::program::copy;
use crate::command::{cargo, must, target};
use crate::{java, node, python};

/// The crate. cargo builds it once more from the package alone, but in a dry run.
pub(super) fn rust(release: &Release) -> Result<Vec<PathBuf>> {
    let mut package = cargo();
    package.args(["package", "--locked", "--package", "rosterd-client"]);
    if release.dry_run {
        package.args(["--allow-dirty", "--no-verify"]);
    }
    must(&mut package)?;
    let name = format!("rosterd-client-{}.crate", release.version);
    take(release, &[target().join("package").join(name)])
}

/// A wheel, and the sources.
pub(super) fn python(release: &Release) -> Result<Vec<PathBuf>> {
    python::setup()?;
    let folder = release.work("python")?;
    must(&mut python::packages_into(&folder))?;
    take(release, &with_ending(&folder, &["whl", "gz"])?)
}

/// npm's archive.
pub(super) fn typescript(release: &Release) -> Result<Vec<PathBuf>> {
    node::setup()?;
    let folder = release.work("npm")?;
    must(node::npm(&["pack", "--quiet", "--pack-destination"]).arg(&folder))?;
    take(release, &with_ending(&folder, &["tgz"])?)
}

/// For each published module its classes, sources and documentation, and the manifests.
pub(super) fn java(release: &Release) -> Result<Vec<PathBuf>> {
    let projects = java::PUBLISHED.map(|module| format!(":{module}")).join(",");
    must(&mut java::maven(&["--quiet", "package", "-DskipTests", "--also-make", "--projects", &projects]))?;
    let version = &release.version;
    let mut made = Vec::new();
    for module in java::PUBLISHED {
        let folder = java::folder().join(module);
        for kind in ["", "-sources", "-javadoc"] {
            made.push(folder.join(format!("target/{module}-{version}{kind}.jar")));
        }
    }
    let mut made = take(release, &made)?;
    let manifests = java::PUBLISHED.map(|module| (module, java::folder().join(module).join("pom.xml")));
    for (module, manifest) in
        manifests.into_iter().chain([("rosterd-parent", java::folder().join("pom.xml"))])
    {
        let to = release.folder.join(format!("{module}-{version}.pom"));
        copy(&manifest, &to, 0o644)?;
        made.push(to);
    }
    Ok(made)
}

fn with_ending(folder: &Path, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<Result<Vec<_>>>()?;
    files.retain(|path| endings.iter().any(|end| path.extension().is_some_and(|is| is == *end)));
    files.sort();
    if files.len() < endings.len() {
        bail!("{}: {} of {} files", folder.display(), files.len(), endings.len());
    }
    Ok(files)
}

/// Copies them to the others.
fn take(release: &Release, files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let taken = files.iter().map(|file| {
        let to = release.folder.join(file.file_name().context("a file has a name")?);
        copy(file, &to, 0o644)?;
        Ok(to)
    });
    taken.collect()
}
