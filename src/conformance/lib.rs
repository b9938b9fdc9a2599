//! Whether a client of rosterd keeps the rules: a scripted coordinator on real sockets that plays its side of the conversation
//! with a worker of that client, and judges by what the worker says and does.
//!
//! Each script starts the worker afresh, or takes it over from the one before where that left it with nothing in flight. Nothing
//! here serves anybody but the worker under trial, on loopback. `rosterd conformance` calls it.
#![warn(missing_docs)]

mod broken;
mod coordinator;
mod event;
mod owned;
mod play;
mod rules;
mod scripts;
mod stage;
mod witness;
mod worker;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use self::rules::{Rule, rules};
use self::stage::House;
use self::witness::Witness;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The worker and its arguments.
    pub program: Vec<OsString>,
    /// Numbers of rules, or names of scripts; empty: all.
    pub only: Vec<String>,
    /// How many workers at a time.
    pub at_a_time: usize,
}

/// What became of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The rule.
    pub rule: Rule,
    /// How many scripts have judged it.
    pub scripts: usize,
    /// How it was broken, by script; empty: it was kept.
    pub breaches: Vec<Breach>,
}

/// How a rule was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// Group and name of the script.
    pub script: String,
    /// What was expected, and what came.
    pub why: String,
    /// What happened last, a line each.
    pub seen: Vec<String>,
}

/// The scripts that judge each rule.
pub fn scripts() -> BTreeMap<&'static str, Vec<String>> {
    play::scripts_by_rule()
}

/// Tries the program; the rules that were judged, in their order.
///
/// Fails where no folder for the scripts' files can be made.
pub async fn judge(trial: Trial) -> io::Result<Vec<Verdict>> {
    let folder = Folder::make()?;
    let house = House {
        program: trial.program.into(),
        witness: Witness::default(),
        folder: folder.0.clone(),
        workers: Arc::default(),
    };
    let watch = house.witness.clone().watch();
    let found = tokio::select! {
        found = play::all(&house, &trial.only, trial.at_a_time.max(1)) => found,
        () = watch => Vec::new(),
    };
    let asked = |rule: &Rule| {
        let named = |one: &String| scripts().keys().any(|id| id.eq_ignore_ascii_case(one));
        // A call that names only scripts gets everything that they judge.
        !trial.only.iter().any(named) || trial.only.iter().any(|one| one.eq_ignore_ascii_case(rule.id))
    };
    let verdicts = rules().iter().filter(|rule| asked(rule)).filter_map(|rule| {
        let of_rule: Vec<_> = found.iter().filter(|found| found.rule == rule.id).collect();
        let breaches = of_rule.iter().filter_map(|found| {
            let (why, seen) = found.broken.clone()?;
            Some(Breach { script: found.script.clone(), why, seen })
        });
        let breaches: Vec<Breach> = breaches.collect();
        (!of_rule.is_empty()).then_some(Verdict { rule: *rule, scripts: of_rule.len(), breaches })
    });
    Ok(verdicts.collect())
}

/// Where the scripts' files are; gone with it.
struct Folder(Arc<Path>);

impl Folder {
    fn make() -> io::Result<Self> {
        let name = format!("rosterd-conformance-{}", uuid::Uuid::new_v4());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)?;
        Ok(Self(folder.into()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests;
