//! The scripts, their table and the specification belong together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::rules::all;
use crate::scripts::groups;
use crate::stage::IN_EVERY_SCRIPT;
use crate::{rules, scripts};

#[test]
fn every_script_judges_rules_that_the_specification_has() {
    let known: BTreeSet<&str> = all().map(|rule| rule.id).collect();
    let judged: BTreeSet<&str> = scripts().into_keys().collect();
    let unknown: Vec<_> = judged.difference(&known).collect();
    assert!(unknown.is_empty(), "clients/spec/machine.md does not have {unknown:?}");
    assert!(rules().len() >= 40, "{} rules", rules().len());
}

#[test]
fn names_of_scripts_are_their_own() {
    let names: Vec<&str> = groups().iter().flat_map(|group| group.scenes).map(|scene| scene.name).collect();
    let own: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(own.len(), names.len());
}

#[test]
fn the_longest_begin_first() {
    let seconds: Vec<u32> = groups().iter().map(|group| group.seconds).collect();
    assert!(seconds.is_sorted_by(|before, after| before >= after), "{seconds:?}");
}

/// The table of scripts beside the specification.
fn page() -> String {
    let mut page = String::from(
        "# Scripts on the wire\n\n<!-- Made from src/conformance/scripts: cargo xtask docs -->\n\n\
         What `rosterd conformance -- PROGRAM` plays, and which rules of [the machine](machine.md) each script judges.\n\n\
         | script | rules |\n| --- | --- |\n",
    );
    let mut groups = groups();
    groups.sort_by_key(|group| group.name);
    for group in groups {
        for scene in group.scenes {
            page += &format!("| {}/{} | {} |\n", group.name, scene.name, scene.rules.join(", "));
        }
    }
    page + &format!("| every script | {} |\n", IN_EVERY_SCRIPT.join(", "))
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/spec/wire.md")
}

#[test]
fn the_page_of_scripts_is_fresh() {
    let written = std::fs::read_to_string(file()).unwrap_or_default();
    assert_eq!(written, page(), "cargo xtask docs writes it anew");
}

#[test]
#[ignore = "writes the page: cargo xtask docs"]
fn write_the_guides_page() {
    std::fs::write(file(), page()).unwrap();
}
