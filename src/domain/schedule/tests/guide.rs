//! The examples of the guide's page on cron are true.

use super::*;

const PAGE: &str = include_str!("../../../../docs/guide/src/cron.md");

/// The cells of the tables with this many columns, without code marks.
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

/// What is in code marks within a cell or a line.
fn code(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split('`').skip(1).step_by(2)
}

/// A complete expression, not a part of one.
fn is_whole(text: &str) -> bool {
    text.starts_with('@') || text.split(' ').count() >= 5 && !text.contains("rosterd")
}

#[test]
fn what_the_guide_calls_refused_is_refused() {
    let (_, refused) = PAGE.split_once("## What is refused").unwrap();
    let mut rows = 0;
    for line in refused.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        for written in code(cells[0]) {
            assert!(Schedule::parse(written, "UTC").is_err(), "{written} is accepted");
        }
        for instead in code(cells[2]).filter(|text| is_whole(text)) {
            schedule(instead, "UTC");
        }
        rows += 1;
    }
    assert!(rows >= 5, "only {rows} rows were found");
}

/// Every complete expression that the page shows before that.
#[test]
fn what_the_guide_shows_is_accepted() {
    let (taken, _) = PAGE.split_once("## What is refused").unwrap();
    let tables = taken.lines().filter(|line| line.starts_with("| `"));
    let shown: Vec<&str> = tables.flat_map(code).filter(|text| is_whole(text)).collect();
    assert!(shown.len() >= 20, "only {shown:?}");
    for text in shown {
        schedule(text, "UTC");
    }
}
