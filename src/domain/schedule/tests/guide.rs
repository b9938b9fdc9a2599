//! The examples of the guide's page on cron are true.

use super::*;

const PAGE: &str = include_str!("../../../../docs/guide/src/cron.md");

/// The cells of the tables that have so many columns, code marks taken off.
fn rows(columns: usize) -> Vec<Vec<&'static str>> {
    let cells = |line: &'static str| -> Vec<_> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect()
    };
    PAGE.lines()
        .filter(|line| line.starts_with("| `"))
        .map(cells)
        .filter(|row| row.len() == columns)
        .collect()
}

#[test]
fn the_guides_examples_fire_when_it_says() {
    let rows = rows(4);
    assert!(rows.len() >= 20, "only {} examples were found", rows.len());
    for row in rows {
        let fires = schedule(row[0], "UTC").upcoming(at("2026-11-25T12:00:00Z"), 2);
        let shown = |fire: &Time| fire.timestamp().strftime("%a %Y-%m-%d %H:%M:%S").to_string();
        assert_eq!(fires.iter().map(shown).collect::<Vec<_>>(), row[2..], "{}", row[0]);
    }
}

#[test]
fn what_the_guide_calls_refused_is_refused() {
    let refused = PAGE.split("## What is refused").nth(1).unwrap();
    for line in refused.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let written = cells[0].split('`').nth(1).unwrap();
        assert!(Schedule::parse(written, "UTC").is_err(), "{written} is accepted");
        for instead in cells[2].split('`').skip(1).step_by(2).filter(|text| text.contains(' ')) {
            schedule(instead, "UTC");
        }
    }
}
