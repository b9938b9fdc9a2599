//! The drawings and the counts of the guide's page on strategies match what the strategies return.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Assignment, Question, by_name};
use crate::id::{InstanceId, JobName};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/src/strategies.md");
const ITEMS: u32 = 10;
/// The columns from the start of a drawing to that of the next one beside it.
const WIDTH: usize = 28;

/// The caption of a drawing, the job, the instances before, and those after if some join or leave.
type Drawing = (&'static str, &'static str, &'static str, Option<&'static str>);

const CHANGES: [Drawing; 3] = [
    ("a, b, c", "report", "abc", None),
    ("d comes", "report", "abc", Some("abcd")),
    ("b leaves", "report", "abc", Some("ac")),
];
const JOBS: [Drawing; 3] = [
    ("job billing", "billing", "abc", None),
    ("job report", "report", "abc", None),
    ("job report, d comes", "report", "abc", Some("abcd")),
];
const ROWS: [(&str, [Drawing; 3]); 4] =
    [("AVG_ALLOCATION", CHANGES), ("ODEVITY", JOBS), ("ROUND_ROBIN", JOBS), ("STICKY", CHANGES)];

/// The owner of each item.
type Owners = BTreeMap<u32, char>;

fn assign(strategy: &str, job: &str, instances: &str, current: &Assignment) -> (Assignment, Owners) {
    let job = JobName::new(job).unwrap();
    let ids: Vec<InstanceId> =
        instances.chars().map(|name| InstanceId::new(name.to_string()).unwrap()).collect();
    let question = Question { job: &job, instances: &ids, items: ITEMS, current };
    let answer = by_name(strategy).unwrap().assign(&question);
    let owners = answer.owners().map(|(item, id)| (item.0, id.as_str().chars().next().unwrap())).collect();
    (answer, owners)
}

/// The assignment before, and after.
fn play(strategy: &str, (_, job, before, after): Drawing) -> (Owners, Owners) {
    let (held, was) = assign(strategy, job, before, &Assignment::default());
    match after {
        Some(after) => (was, assign(strategy, job, after, &held).1),
        None => (was.clone(), was),
    }
}

fn moved(strategy: &str, drawing: Drawing) -> usize {
    let (was, is) = play(strategy, drawing);
    is.iter().filter(|(item, owner)| was.get(item) != Some(owner)).count()
}

fn drawn(strategy: &str, drawings: &[Drawing]) -> String {
    let rows =
        if drawings.iter().any(|drawing| drawing.3.is_some_and(|after| after.contains('d'))) { 4 } else { 3 };
    let mut lines = vec![String::new(); 2 + rows];
    for (at, drawing) in drawings.iter().enumerate() {
        let (was, is) = play(strategy, *drawing);
        let numbers: Vec<String> = (0..ITEMS).map(|item| item.to_string()).collect();
        let mut panel = vec![format!(" {}", drawing.0), format!("item {}", numbers.join(" "))];
        for name in ('a'..).take(rows) {
            let marks: Vec<&str> = (0..ITEMS)
                .map(|item| match is[&item] == name {
                    true if was[&item] == name => "■",
                    true => "□",
                    false => "·",
                })
                .collect();
            let lives = drawing.3.unwrap_or(drawing.2).contains(name);
            panel.push(if lives { format!("{name}    {}", marks.join(" ")) } else { String::new() });
        }
        for (line, part) in lines.iter_mut().zip(panel) {
            let room = (at * WIDTH).saturating_sub(line.chars().count());
            write!(line, "{}{part}", " ".repeat(room)).unwrap();
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The page with its drawings and counts generated again.
fn made(page: &str) -> String {
    let mut rest = page;
    let mut out = String::new();
    for (strategy, drawings) in ROWS {
        let (before, from) = rest.split_once("```text\n").expect("a drawing for each strategy");
        let (_, after) = from.split_once("```").expect("a drawing ends");
        write!(out, "{before}```text\n{}```", drawn(strategy, &drawings)).unwrap();
        rest = after;
    }
    out.push_str(rest);
    let mut lines: Vec<String> = out.split('\n').map(str::to_owned).collect();
    for (strategy, _) in ROWS {
        let hashes = matches!(strategy, "ODEVITY" | "ROUND_ROBIN");
        let start = format!("| `{strategy}`{} |", if hashes { ", job `report`" } else { "" });
        let line = lines.iter_mut().find(|line| line.starts_with(&start)).expect("a row for each strategy");
        *line = format!("{start} {} | {} |", moved(strategy, CHANGES[1]), moved(strategy, CHANGES[2]));
    }
    lines.join("\n")
}

#[test]
fn the_guides_drawings_are_what_the_strategies_answer() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let bless = "cargo test -p rosterd-domain write_the_guides_page -- --ignored";
    assert!(page == made(&page), "strategies.md is out of date; run: {bless}");
}

#[test]
#[ignore = "writes docs/guide/src/strategies.md"]
fn write_the_guides_page() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    std::fs::write(PAGE, made(&page)).unwrap();
}
