//! A copy of the tree with the simulation's patches applied: deliberate bugs that add code, which is therefore not in
//! the sources. Unchanged files are not written again, so that cargo rebuilds only the changed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::{must, output, root, target};

/// Where they are.
const PATCHES: &str = "tests/sim/patches";

/// Updates the copy. Returns its path.
pub(crate) fn tree() -> Result<PathBuf> {
    let (from, to) = (root(), target().join("patched/tree"));
    let listed = output(Command::new("git").current_dir(&from).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    let names: BTreeSet<&str> = listed.lines().filter(|name| from.join(name).is_file()).collect();
    let patched = patched(&from, &target().join("patched/stage"))?;
    for name in &names {
        let wanted = match patched.get(*name) {
            Some(wanted) => wanted.clone(),
            None => fs::read(from.join(name)).with_context(|| (*name).to_owned())?,
        };
        write(&to.join(name), &wanted)?;
    }
    // Files that are no longer in the tree must not be built.
    let mut stale = Vec::new();
    rest(&to, &to, &names, &mut stale)?;
    for path in stale {
        fs::remove_file(path)?;
    }
    Ok(to)
}

/// The files that patches change, with the patches applied.
fn patched(from: &Path, stage: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    if stage.exists() {
        fs::remove_dir_all(stage)?;
    }
    let mut changed = BTreeMap::new();
    let mut patches: Vec<PathBuf> =
        fs::read_dir(from.join(PATCHES))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    patches.sort();
    for patch in &patches {
        for name in touched(&fs::read_to_string(patch)?) {
            write(&stage.join(&name), &fs::read(from.join(&name)).with_context(|| name.clone())?)?;
            changed.insert(name, Vec::new());
        }
    }
    for patch in &patches {
        // The stage lies in the repository: git must not treat it as part of that.
        let mut git = Command::new("git");
        git.current_dir(stage).env("GIT_CEILING_DIRECTORIES", target()).arg("apply").arg(patch);
        must(&mut git).context("a patch no longer applies: create it again from the code that it changes")?;
    }
    for (name, text) in &mut changed {
        *text = fs::read(stage.join(name))?;
    }
    Ok(changed)
}

/// The files that a patch changes.
fn touched(patch: &str) -> BTreeSet<String> {
    patch.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(str::to_owned).collect()
}

fn write(path: &Path, text: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

fn rest(folder: &Path, top: &Path, names: &BTreeSet<&str>, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.strip_prefix(top)?.to_string_lossy().into_owned();
        if path.is_dir() {
            rest(&path, top, names, found)?;
        } else if !names.contains(&*name) {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patches_fit_the_tree_and_say_that_they_are_in() {
        let stage = std::env::temp_dir().join(format!("rosterd-patched-{}", std::process::id()));
        let patched = patched(&root(), &stage);
        fs::remove_dir_all(&stage).unwrap();
        let patched = patched.unwrap();
        let text = |name: &str| String::from_utf8(patched[name].clone()).unwrap();
        assert!(text("src/domain/mutants.rs").contains("ARE_PATCHED: bool = true"));
        assert!(text("src/domain/item.rs").contains("mutants::ENDED_ITEMS_CRASH"));
        assert_eq!(touched("--- a/x\n+++ b/y/z.rs\n+++ c"), BTreeSet::from(["y/z.rs".to_owned()]));
    }
}
