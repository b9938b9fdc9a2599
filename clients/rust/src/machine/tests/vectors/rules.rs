//! The rules of clients/spec/machine.md, and what checks them: vectors, scripts on the wire, or both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn spec(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec").join(name)
}

/// A rule's letters are its part of the machine.
fn is_rule(word: &str) -> bool {
    let parts = word.split_once('-');
    parts.is_some_and(|(part, number)| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_uppercase())
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
    })
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// Each rule of the page, and what checks it by its row.
fn rules(page: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut rules = BTreeMap::new();
    for cells in page.lines().map(cells).filter(|cells| cells.len() == 3 && is_rule(cells[0])) {
        let held = cells[2].split(',').map(str::trim).filter(|by| !by.is_empty());
        assert!(rules.insert(cells[0], held.collect()).is_none(), "{} is there twice", cells[0]);
    }
    rules
}

/// The rules that the scripts on the wire name.
fn on_the_wire(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-'))
        .filter(|word| is_rule(word))
        .collect()
}

#[test]
fn every_rule_is_held_by_what_its_row_says() {
    let page = std::fs::read_to_string(spec("machine.md")).unwrap();
    let rules = rules(&page);
    assert!(rules.len() >= 60, "{}", rules.len());
    let loaded = super::load();
    let named = loaded.iter().flat_map(|vector| vector["rules"].as_array().unwrap());
    let vectors: BTreeSet<&str> = named.map(|rule| rule.as_str().unwrap()).collect();
    let mut holders = vec![("v", vectors)];
    let scripts = std::fs::read_to_string(spec("wire.md")).unwrap_or_default();
    if !scripts.is_empty() {
        holders.push(("w", on_the_wire(&scripts)));
    }
    for (by, named) in &holders {
        let said = rules.iter().filter(|(_, held)| held.contains(by)).map(|(rule, _)| *rule);
        let said: BTreeSet<&str> = said.collect();
        let unheld: Vec<_> = said.difference(named).collect();
        let unsaid: Vec<_> = named.difference(&said).collect();
        assert!(
            unheld.is_empty(),
            "{by}: the page says that these are held, and none names them: {unheld:?}"
        );
        assert!(unsaid.is_empty(), "{by}: these are named, and the page does not say so: {unsaid:?}");
    }
    for (rule, held) in &rules {
        let row = page.lines().find(|line| cells(line)[0] == *rule).unwrap_or_default();
        assert!(!held.is_empty() || row.contains("Withdrawn"), "{rule} is held by nothing");
    }
}
