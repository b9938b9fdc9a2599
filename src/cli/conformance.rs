//! `rosterd conformance`: whether a client keeps the rules, tried on a worker that was made with it. What is tried stands in
//! the crate of that name; here it is asked for, and shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use rosterd_conformance::{Rule, Trial, Verdict, judge, rules, scripts};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::failure::{Code, Failure, Result};
use super::options::read_text;
use super::output::form::say;

/// Shown below `--help`.
const AFTER: &str =
    "PROGRAM is a worker made with the client under trial. It reads ROSTERD_SERVER, ROSTERD_CREDENTIAL and
  CONFORMANCE_JOBS       names of its jobs, separated by commas; handler type `conformance`
  CONFORMANCE_SLOTS      how many runs at a time
  CONFORMANCE_DRAIN_MS   the drain timeout
  CONFORMANCE_ADDRESS    the worker's address
  CONFORMANCE_CONFIG     text of the job file; NAME in it is the job's name; empty: none
  CONFORMANCE_NAME       its name in the lines that it writes
and its handler does what the item's parameter says, steps separated by `;`:
  succeed, fail TEXT, fatal TEXT, sleep MS, busy MS, block MS, ignore MS, gate PATH,
  once PATH STEP, progress N [TEXT], output TEXT, offset TEXT, append TEXT, count N M, batches N
On standard output it writes a line for each start, cancel, end and callback, in the form that
`rosterd verify` reads. The guide's page about clients of your own has all of it, and such a worker.

Exit codes:
  0  every rule was kept, but those that --known names
  1  a rule was broken
  2  wrong usage: nothing was tried";

#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub(crate) struct Conformance {
    /// Only these rules, or scripts by name; separated by commas
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    only: Vec<String>,
    /// Rules that are known to be broken: they are tried, and do no harm; separated by commas
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    known: Vec<String>,
    /// List the rules, with the scripts that judge each
    #[arg(long, conflicts_with = "program")]
    list: bool,
    /// Make a table of what --json wrote into these files, a column for each, in Markdown
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "program")]
    table: Vec<PathBuf>,
    /// How many workers at a time
    #[arg(long, value_name = "N", default_value = "6")]
    at_a_time: usize,
    /// JSON for programs, one value; also with --list
    #[arg(long)]
    json: bool,
    /// The worker, and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present_any = ["list", "table"])]
    program: Vec<OsString>,
}

/// What `--json` writes, and `--table` reads.
#[derive(Debug, Serialize, Deserialize)]
struct Results {
    passed: usize,
    failed: usize,
    rules: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    rule: String,
    text: String,
    result: Outcome,
    scripts: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    breaches: Vec<Breach>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Breach {
    script: String,
    why: String,
    seen: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Pass,
    Fail,
    /// It is broken, and that was known.
    Known,
}

impl Conformance {
    pub(crate) async fn run(self) -> Result {
        if self.list {
            return say(&if self.json { list_as_json() } else { list() });
        }
        if !self.table.is_empty() {
            return say(&compare(&self.table)?);
        }
        self.check()?;
        let trial = Trial { program: self.program, only: self.only, at_a_time: self.at_a_time };
        // A process that was begun in the background may ignore SIGINT, and hands that down to the workers that it starts; what it
        // listens to it does not.
        let failed = |error| Failure::failed(Code::Conformance, error);
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let verdicts = tokio::select! {
            verdicts = judge(trial) => verdicts.map_err(failed)?,
            _ = interrupt.recv() => return Err(Failure::failed(Code::Conformance, "interrupted: not every rule was tried")),
        };
        if verdicts.is_empty() {
            return Err(Failure::usage("no rule was tried"));
        }
        let results = Results::new(verdicts, &self.known);
        if self.json {
            say(&serde_json::to_string(&results).map_err(|error| Failure::failed(Code::Output, error))?)?;
        } else {
            say(&results.text())?;
        }
        match results.failed {
            0 => Ok(()),
            1 => Err(Failure::failed(Code::Nonconforming, "1 rule is broken")),
            count => Err(Failure::failed(Code::Nonconforming, format!("{count} rules are broken"))),
        }
    }

    /// What was named must be there.
    fn check(&self) -> Result {
        let scripts = scripts();
        let is_rule = |name: &str| rules().iter().any(|rule| rule.id.eq_ignore_ascii_case(name));
        let is_script = |name: &str| {
            scripts
                .values()
                .flatten()
                .any(|script| script.split_once('/').is_some_and(|(_, last)| last == name))
        };
        let unknown = self.only.iter().find(|name| !is_rule(name) && !is_script(name));
        match unknown.or_else(|| self.known.iter().find(|name| !is_rule(name))) {
            Some(name) => Err(Failure::usage(format!("{name} is neither a rule nor a script: see --list"))),
            None => Ok(()),
        }
    }
}

impl Results {
    fn new(verdicts: Vec<Verdict>, known: &[String]) -> Self {
        let row = |verdict: Verdict| {
            let id = verdict.rule.id;
            let result = match verdict.breaches.is_empty() {
                true => Outcome::Pass,
                false if known.iter().any(|known| known.eq_ignore_ascii_case(id)) => Outcome::Known,
                false => Outcome::Fail,
            };
            let breaches = verdict.breaches.into_iter().map(|breach| Breach {
                script: breach.script,
                why: breach.why,
                seen: breach.seen,
            });
            let (rule, text) = (id.to_owned(), verdict.rule.text.to_owned());
            Row { rule, text, result, scripts: verdict.scripts, breaches: breaches.collect() }
        };
        let rules: Vec<Row> = verdicts.into_iter().map(row).collect();
        let count = |result| rules.iter().filter(|row| row.result == result).count();
        Self { passed: count(Outcome::Pass), failed: count(Outcome::Fail), rules }
    }

    /// What happened stands below the first rule that it broke.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut shown = BTreeMap::new();
        for row in &self.rules {
            let word = match row.result {
                Outcome::Pass => "pass",
                Outcome::Fail => "FAIL",
                Outcome::Known => "known",
            };
            text += &format!("{word:<6}{:<11}{}\n", row.rule, row.text);
            for Breach { script, why, seen } in &row.breaches {
                text += &format!("      {script}: {why}\n");
                if !seen.is_empty() && shown.insert((script, seen), ()).is_none() {
                    text.extend(seen.iter().map(|line| format!("        {line}\n")));
                }
            }
        }
        let known = self.rules.iter().filter(|row| row.result == Outcome::Known).count();
        let known = if known > 0 { format!("{known} known to be broken\n") } else { String::new() };
        format!("{text}\n{known}{} passed, {} failed\n", self.passed, self.failed)
    }
}

fn list() -> String {
    let scripts = scripts();
    let row = |rule: &Rule| {
        let by = scripts.get(rule.id).map(|scripts| scripts.join(", ")).unwrap_or_default();
        format!("{:<11}{}\n           {by}\n", rule.id, rule.text)
    };
    rules().iter().map(row).collect()
}

fn list_as_json() -> String {
    let scripts = scripts();
    let row = |rule: &Rule| json!({ "rule": rule.id, "text": rule.text, "scripts": scripts.get(rule.id) });
    rules().iter().map(row).collect::<Value>().to_string()
}

/// Client by rule, in Markdown; a column is named by its file.
fn compare(files: &[PathBuf]) -> Result<String> {
    let mut columns = Vec::new();
    for file in files {
        let results: Results = serde_json::from_str(&read_text(file)?).map_err(|error| {
            Failure::usage(format!("{} is not what --json writes: {error}", file.display()))
        })?;
        let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let cells: BTreeMap<String, Outcome> =
            results.rules.into_iter().map(|row| (row.rule, row.result)).collect();
        columns.push((name, cells));
    }
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = format!("| rule | {} |\n| --- |{}\n", names.join(" | "), " --- |".repeat(names.len()));
    for rule in rules() {
        let cell = |(_, cells): &(String, BTreeMap<String, Outcome>)| match cells.get(rule.id) {
            Some(Outcome::Pass) => "pass",
            Some(Outcome::Fail) => "**fail**",
            Some(Outcome::Known) => "known",
            None => "",
        };
        let cells: Vec<&str> = columns.iter().map(cell).collect();
        text += &format!("| {} {} | {} |\n", rule.id, rule.text, cells.join(" | "));
    }
    Ok(text)
}
