//! What several commands take.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use jiff::civil;
use jiff::tz::TimeZone;
use rosterd_domain::time::Time;

use super::complete::job_names;
use super::failure::{Code, Failure, Result};
use crate::config::value;

/// How many rows of a list that goes on are shown: the newest.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Limit {
    /// At most so many, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
}

impl Limit {
    /// How many rows are asked for: one more than is shown tells whether more is there.
    pub(crate) fn rows(self) -> usize {
        self.limit as usize + 1
    }

    /// How many of them a page brings, where it may bring `most`.
    pub(crate) fn page(self, most: u32) -> u32 {
        (self.limit + 1).min(most)
    }

    /// Cuts what is shown, and says to people that more is there.
    pub(crate) fn cut<R>(self, rows: &mut Vec<R>, for_people: bool) {
        if rows.len() <= self.limit as usize {
            return;
        }
        rows.truncate(self.limit as usize);
        if for_people {
            let limit = self.limit;
            eprintln!(
                "rosterd: only the newest {limit} are shown: see more with --limit, earlier ones with --until"
            );
        }
    }
}

/// A noun that lists: by itself, and by the word `list`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Listed<L: Args> {
    #[command(subcommand)]
    command: Option<ListWord<L>>,
    #[command(flatten)]
    list: L,
}

#[derive(Debug, Subcommand)]
enum ListWord<L: Args> {
    #[command(alias = "ls")]
    List(L),
}

impl<L: Args> Listed<L> {
    /// What is to be listed, said in either way.
    pub(crate) fn list(self) -> L {
        match self.command {
            None => self.list,
            Some(ListWord::List(list)) => list,
        }
    }
}

/// A job, by a word or, as it was written before, by a flag.
#[derive(Debug, Args)]
pub(crate) struct OfJob {
    /// The job
    #[arg(value_name = "JOB", required_unless_present = "job_flag", add = ArgValueCandidates::new(job_names))]
    job: Option<String>,
    #[arg(id = "job_flag", long = "job", value_name = "NAME", hide = true, conflicts_with = "job")]
    flag: Option<String>,
}

impl OfJob {
    pub(crate) fn name(self) -> String {
        self.job.or(self.flag).unwrap_or_default()
    }
}

/// A job, or none: all.
#[derive(Debug, Args)]
pub(crate) struct OnlyJob {
    /// Only of this job
    #[arg(value_name = "JOB", add = ArgValueCandidates::new(job_names))]
    job: Option<String>,
    #[arg(id = "job_flag", long = "job", value_name = "NAME", hide = true, conflicts_with = "job")]
    flag: Option<String>,
}

impl OnlyJob {
    /// Empty: all.
    pub(crate) fn name(self) -> String {
        self.job.or(self.flag).unwrap_or_default()
    }
}

/// A job, one item of it, or nothing: all.
#[derive(Debug, Args)]
pub(crate) struct Scope {
    /// Only of this job, or of this item of it, as in report/3
    #[arg(value_name = "JOB[/ITEM]", value_parser = scope, add = ArgValueCandidates::new(job_names))]
    of: Option<(String, Option<u32>)>,
    #[arg(id = "job_flag", long = "job", value_name = "NAME", hide = true, conflicts_with = "of")]
    job: Option<String>,
    /// Only of this item
    #[arg(long, value_name = "N", hide = true)]
    item: Option<u32>,
}

impl Scope {
    /// The job, empty for all, and the item.
    pub(crate) fn get(self) -> Result<(String, Option<u32>)> {
        let (job, item) = self.of.unwrap_or_else(|| (self.job.unwrap_or_default(), None));
        match (item, self.item) {
            (Some(one), Some(other)) if one != other => {
                Err(Failure::usage(format!("{job}/{one} and --item {other} are two items: name one")))
            }
            (None, Some(_)) if job.is_empty() => {
                Err(Failure::usage("--item: name its job as well, as in report/3"))
            }
            (item, other) => Ok((job, item.or(other))),
        }
    }

    /// The same, where there must be a job.
    pub(crate) fn of_a_job(self) -> Result<(String, Option<u32>)> {
        let (job, item) = self.get()?;
        if job.is_empty() {
            Err(Failure::usage("name the job, as in `report`, or `report/3` for one item"))
        } else {
            Ok((job, item))
        }
    }
}

/// `report`, or `report/3`. The name of a job has no slash.
fn scope(text: &str) -> Result<(String, Option<u32>), String> {
    if text.contains('/') {
        job_item(text).map(|(job, item)| (job, Some(item)))
    } else {
        Ok((text.to_owned(), None))
    }
}

/// `report/3`.
pub(crate) fn job_item(text: &str) -> Result<(String, u32), String> {
    let read = text.rsplit_once('/').and_then(|(job, item)| Some((job.to_owned(), item.parse().ok()?)));
    let read = read.filter(|(job, _)| !job.is_empty());
    read.ok_or_else(|| "expected JOB/ITEM, a job's name and the number of an item, as in report/3".to_owned())
}

/// Consent to what cannot be taken back.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Consent {
    /// Ask nothing; without a terminal nothing is asked either
    #[arg(short, long)]
    yes: bool,
}

impl Consent {
    /// Whether a person is to be asked; a program knows what it does.
    pub(crate) fn is_needed(self) -> bool {
        !self.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks, where a person is to be asked.
    pub(crate) fn ask(self, question: &str) -> Result {
        if !self.is_needed() {
            return Ok(());
        }
        eprint!("{question} [y/N] ");
        let mut answer = String::new();
        let read = std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut answer));
        read.map_err(|error| Failure::failed(Code::NotConfirmed, error))?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::failed(Code::NotConfirmed, "nothing was changed")),
        }
    }
}

/// A file's text; `-` is stdin.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))
}

/// A time: RFC 3339, how long ago, or a date or time of the clock of this machine.
#[allow(clippy::disallowed_methods, reason = "a person's `ago` counts from now")]
pub(crate) fn moment(text: &str) -> Result<Time, String> {
    moment_at(text, jiff::Timestamp::now(), TimeZone::system())
}

fn moment_at(text: &str, now: jiff::Timestamp, zone: TimeZone) -> Result<Time, String> {
    if let Ok(ago) = value::duration(text) {
        return Ok(Time::from(now).minus(ago));
    }
    let today = now.to_zoned(zone.clone()).date();
    let local = |at: civil::DateTime| at.to_zoned(zone.clone()).ok().map(|at| Time::from(at.timestamp()));
    let at = match text {
        "now" => Some(Time::from(now)),
        "today" => local(today.at(0, 0, 0, 0)),
        "yesterday" => today.yesterday().ok().and_then(|day| local(day.at(0, 0, 0, 0))),
        // A date alone is its midnight; one with a zone is not a local one.
        _ if text.ends_with(['Z', 'z']) || text.contains('+') => None,
        _ => (text.parse::<civil::DateTime>().ok())
            .or_else(|| text.parse::<civil::Time>().ok().map(|time| today.to_datetime(time)))
            .and_then(local),
    };
    at.map_or_else(|| Time::parse(text), Ok).map_err(|error| {
        format!(
            "{error}; how long ago, as 30m, 2h or 1d; or local, as 2026-11-23, 2026-11-23T14:00, 14:00, today or yesterday"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_named_by_its_job_and_number() {
        assert_eq!(job_item("report/3"), Ok(("report".into(), 3)));
        for text in ["report", "report/", "/3", "report/x", "report/-1"] {
            assert!(job_item(text).is_err(), "{text}");
        }
        assert_eq!(scope("report"), Ok(("report".into(), None)));
        assert_eq!(scope("report/3"), Ok(("report".into(), Some(3))));
        assert!(scope("report/x").is_err());
    }

    #[test]
    fn a_moment_is_written_as_people_do() {
        let now: jiff::Timestamp = "2026-11-27T08:15:30Z".parse().unwrap();
        let zone = TimeZone::get("Asia/Shanghai").unwrap();
        for (text, at) in [
            ("2026-11-21T00:00:00Z", "2026-11-21T00:00:00Z"),
            ("2026-11-21T00:00:00+08:00", "2026-11-20T16:00:00Z"),
            ("2h", "2026-11-27T06:15:30Z"),
            ("1h30m", "2026-11-27T06:45:30Z"),
            ("2026-11-23", "2026-11-22T16:00:00Z"),
            ("2026-11-23 14:00", "2026-11-23T06:00:00Z"),
            ("2026-11-23T14:00:05", "2026-11-23T06:00:05Z"),
            ("14:00", "2026-11-27T06:00:00Z"),
            ("today", "2026-11-26T16:00:00Z"),
            ("yesterday", "2026-11-25T16:00:00Z"),
            ("now", "2026-11-27T08:15:30Z"),
        ] {
            let read = moment_at(text, now, zone.clone()).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.to_string(), at, "{text}");
        }
        assert!(moment_at("tomorrow", now, zone).unwrap_err().contains("RFC 3339"));
    }
}
