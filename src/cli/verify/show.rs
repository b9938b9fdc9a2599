//! What was found: for people, with the lines that prove it, and for programs.

use std::collections::{BTreeMap, BTreeSet};

use rosterd_domain::time::Time;
use rosterd_domain::verify::given::nanos;
use rosterd_domain::verify::{Fault, Line, Owner, Verdict, What};
use serde_json::{Value, json};

use super::evidence::{Evidence, Places};
use crate::cli::output::look::look;
use crate::cli::output::table::{Cell, Table, col};
use crate::cli::output::text::facts;

/// Most lines that are shown of one violation.
const MOST_LINES: usize = 20;
/// Most violations that are shown; JSON has all.
const MOST_FAULTS: usize = 50;

/// What is asked, and the rules that answer it.
const QUESTIONS: [(&str, &[&str]); 4] = [
    ("run twice for one fire", &["once_per_fire", "started_twice"]),
    ("run by two at once", &["overlap", "lease"]),
    ("without an outcome", &["no_outcome"]),
    ("tokens that do not rise", &["tokens"]),
];

pub(super) struct Findings<'a> {
    pub(super) verdict: &'a Verdict,
    pub(super) evidence: &'a Evidence,
    /// What was found of jobs without monitorExecution, and was never promised to them.
    pub(super) not_promised: usize,
    pub(super) owners: bool,
}

impl Findings<'_> {
    pub(super) fn text(&self) -> String {
        let faults = &self.verdict.faults;
        let mut text = match faults.len() {
            0 => "clean\n\n".to_owned(),
            1 => "1 violation\n\n".to_owned(),
            count => format!("{count} violations\n\n"),
        };
        for fault in faults.iter().take(MOST_FAULTS) {
            text += &self.fault(fault);
        }
        if faults.len() > MOST_FAULTS {
            text += &format!("and {} more; --json has them all\n\n", faults.len() - MOST_FAULTS);
        }
        let rows = self.summary();
        text += &facts(rows.iter().map(|(name, value)| (name.as_str(), value.clone())));
        for note in &self.evidence.notes {
            text += &format!("\nnote: {note}\n");
        }
        if self.owners {
            text += "\n";
            text += &self.owners_table();
        }
        text
    }

    /// A violation and its proof.
    fn fault(&self, fault: &Fault) -> String {
        let mut text = format!("{fault}\n");
        let proof = fault.proof(&self.evidence.lines);
        let rows: Vec<[String; 5]> = proof.iter().take(MOST_LINES).map(|place| self.row(*place)).collect();
        let wide: [usize; 4] =
            std::array::from_fn(|n| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or_default());
        for row in rows {
            let cells = row.iter().zip(wide.iter().chain(&[0]));
            let line: Vec<String> = cells.map(|(cell, wide)| format!("{cell:wide$}")).collect();
            text += &format!("  {}\n", line.join("  ").trim_end());
        }
        if proof.len() > MOST_LINES {
            text += &format!("  and {} more lines\n", proof.len() - MOST_LINES);
        }
        text + "\n"
    }

    fn row(&self, place: usize) -> [String; 5] {
        let line = &self.evidence.lines[place];
        let about = match line.what {
            What::Scheduled | What::NotRun => format!("{}/{}", line.job, line.item),
            what if what.is_about_a_process() => String::new(),
            _ => format!("{}/{} token {}", line.job, line.item, line.token),
        };
        let mut more = Vec::new();
        if !line.worker.is_empty() {
            more.push(format!("on {}", line.worker));
        }
        if matches!(line.what, What::Start) {
            more.push(format!("{} of {}", line.source, Time(line.fire)));
        }
        if let (What::Start | What::Tick, Some(lease)) = (line.what, line.lease) {
            more.push(format!("lease {} ms", lease / 1_000_000));
        }
        if !line.detail.is_empty() && !matches!(line.what, What::Start) {
            more.push(line.detail.clone());
        }
        [self.place(place), when(line), line.what.as_str().to_owned(), about, more.join(", ")]
    }

    fn place(&self, place: usize) -> String {
        match &self.evidence.places {
            Places::History(places) => places[place].clone(),
            Places::Files(files, places) => {
                let (file, number) = places[place];
                format!("{}:{number}", files[file].display())
            }
        }
    }

    /// Names and values, in order.
    fn summary(&self) -> Vec<(String, String)> {
        let runs = &self.verdict.runs;
        let count = |n: usize| n.to_string();
        let items: BTreeSet<(&str, u32)> = runs.iter().map(|run| (run.job.as_str(), run.item)).collect();
        let jobs: BTreeSet<&str> = items.iter().map(|(job, _)| *job).collect();
        let workers: BTreeSet<&str> = runs.iter().map(|run| run.worker.as_str()).collect();
        let mut rows = vec![
            (
                "judged".to_owned(),
                format!(
                    "{} of {} of {} by {}",
                    many(runs.len(), "run"),
                    many(items.len(), "item"),
                    many(jobs.len(), "job"),
                    many(workers.len(), "worker")
                ),
            ),
            ("from".to_owned(), self.span().map(|(from, _)| from.to_string()).unwrap_or_default()),
            ("to".to_owned(), self.span().map(|(_, to)| to.to_string()).unwrap_or_default()),
        ];
        for (question, rules) in QUESTIONS {
            let found = self.verdict.faults.iter().filter(|fault| rules.contains(&fault.rule)).count();
            let answer = if found == 0 { "none".to_owned() } else { found.to_string() };
            rows.push((question.to_owned(), answer));
        }
        let again = runs.iter().filter(|run| run.source == "FAILOVER").count();
        rows.push(("taken over after a crash".to_owned(), count(again)));
        rows.push(("not ended yet".to_owned(), count(runs.iter().filter(|run| run.stop.is_none()).count())));
        if let Some(trace) = &self.evidence.trace {
            let results: Vec<String> = trace.results.iter().map(|(what, n)| format!("{n} {what}")).collect();
            rows.push(("scheduled times".to_owned(), results.join(", ")));
            let not_judged = [
                (trace.before, "scheduled times before anything is known of their item"),
                (trace.elsewhere, "runs whose end another coordinator may know"),
            ];
            let not_judged: Vec<String> = not_judged
                .into_iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, what)| format!("{n} {what}"))
                .collect();
            rows.push(("not judged".to_owned(), not_judged.join(", ")));
        }
        if self.not_promised > 0 {
            let found = match self.not_promised {
                1 => "1 overlap or unknown end".to_owned(),
                count => format!("{count} overlaps or unknown ends"),
            };
            rows.push(("not promised".to_owned(), format!("{found}, of jobs without monitorExecution")));
        }
        rows
    }

    /// From the first line to the last.
    fn span(&self) -> Option<(Time, Time)> {
        let walls = || self.evidence.lines.iter().map(|line| line.wall).filter(|wall| *wall != 0);
        Some((Time(walls().min()?), Time(walls().max()?)))
    }

    fn owners_table(&self) -> String {
        let walls = self.walls();
        let at = |at: u64| walls.get(&at).map_or_else(|| "-".to_owned(), |wall| Time(*wall).to_string());
        let tokens = |owner: &Owner| match (owner.runs, owner.first, owner.last) {
            (0, ..) => "-".to_owned(),
            (_, first, last) if first == last => first.to_string(),
            (_, first, last) => format!("{first}-{last}"),
        };
        let row = |owner: &Owner| {
            [
                Cell::from(format!("{}/{}", owner.job, owner.item)),
                at(owner.from).into(),
                owner
                    .until
                    .map_or_else(|| if owner.runs == 0 { "-" } else { "running" }.to_owned(), at)
                    .into(),
                owner.runs.to_string().into(),
                tokens(owner).into(),
                name(owner).into(),
            ]
        };
        let owners = self.owners();
        let columns = [
            col("ITEM").cut(8),
            col("FROM"),
            col("UNTIL"),
            col("RUNS"),
            col("TOKENS").cut(8),
            col("WHO").cut(8),
        ];
        Table::of(columns, owners.iter().map(row)).text(false, look())
    }

    /// Only a history knows the owners that ran nothing.
    fn owners(&self) -> Vec<Owner> {
        match &self.evidence.trace {
            Some(trace) => self.verdict.owners_by(&trace.given, self.evidence.since),
            None => self.verdict.owners(),
        }
    }

    /// What the calendar said at each line, and when an assignment came into force.
    fn walls(&self) -> BTreeMap<u64, i64> {
        let lines = self.evidence.lines.iter().filter(|line| line.wall != 0).map(|line| (line.at, line.wall));
        let given = self.evidence.trace.iter().flat_map(|trace| &trace.given);
        lines.chain(given.map(|given| (nanos(given.at), given.at.0))).collect()
    }

    pub(super) fn json(&self) -> Value {
        let walls = self.walls();
        let at = |at: u64| walls.get(&at).map(|wall| Time(*wall).to_string());
        let fault = |fault: &Fault| {
            let proof = fault.proof(&self.evidence.lines);
            let line =
                |place: &usize| json!({ "place": self.place(*place), "line": self.evidence.lines[*place] });
            json!({ "rule": fault.rule, "text": fault.text, "proof": proof.iter().map(line).collect::<Vec<_>>() })
        };
        let token = |token: u64| (token > 0).then_some(token);
        let owner = |owner: &Owner| {
            json!({
                "job": owner.job, "item": owner.item, "worker": owner.worker, "instance": owner.instance,
                "from": at(owner.from), "until": owner.until.and_then(at), "runs": owner.runs,
                "first_token": token(owner.first), "last_token": token(owner.last),
            })
        };
        let span = self.span();
        let trace = self.evidence.trace.as_ref();
        json!({
            "clean": self.verdict.faults.is_empty(),
            "violations": self.verdict.faults.iter().map(fault).collect::<Vec<_>>(),
            "runs": self.verdict.runs.len(),
            "from": span.map(|(from, _)| from.to_string()),
            "to": span.map(|(_, to)| to.to_string()),
            "taken_over": self.verdict.runs.iter().filter(|run| run.source == "FAILOVER").count(),
            "not_ended": self.verdict.runs.iter().filter(|run| run.stop.is_none()).count(),
            "scheduled_times": trace.map(|trace| &trace.results),
            "not_judged": trace.map(|trace| json!({ "scheduled_times": trace.before, "runs": trace.elsewhere })),
            "not_promised": self.not_promised,
            "notes": self.evidence.notes,
            "owners": self.owners().iter().map(owner).collect::<Vec<_>>(),
        })
    }
}

/// When a line was written, by the calendar where it says so.
fn when(line: &Line) -> String {
    match line.wall {
        0 => format!("at {}", line.at),
        wall => Time(wall).to_string(),
    }
}

/// Whose an item was: the process, and the instance where that has another name.
fn name(owner: &Owner) -> String {
    match (owner.worker.as_str(), owner.instance.as_str()) {
        ("", who) | (who, "") => who.to_owned(),
        (worker, instance) if worker == instance => worker.to_owned(),
        (worker, instance) => format!("{worker} ({instance})"),
    }
}

/// `3 runs`, `1 run`.
fn many(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
