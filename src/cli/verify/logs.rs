//! The logs of workers: which of their lines are judged.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rosterd_domain::id::JobName;
use rosterd_domain::time::Time;
use rosterd_domain::verify::{Line, What, read_all};

use super::evidence::{Evidence, Places};
use crate::cli::failure::{Failure, Result};
use crate::cli::options::read_text;

/// A run, as its lines name it.
type LoggedRun = (String, String, u32, u64);

/// Reads the files: the lines about runs of the job that began in that time, and those about processes.
pub(super) fn read(
    files: &[PathBuf],
    job: Option<&JobName>,
    from: Option<Time>,
    to: Option<Time>,
) -> Result<Evidence> {
    let (mut lines, mut places) = (Vec::new(), Vec::new());
    for (n, file) in files.iter().enumerate() {
        let read = read_all(&read_text(file)?).map_err(|bad| {
            Failure::usage(format!(
                "{}:{} is not a line of a worker's log: {}; correct it, or take it out if it is the torn end of a \
                 process that was killed",
                file.display(),
                bad.line,
                bad.why
            ))
        })?;
        for (number, line) in read {
            if (from.is_some() || to.is_some()) && line.wall == 0 && !line.what.is_about_a_process() {
                let place = format!("{}:{number}", file.display());
                return Err(Failure::usage(format!("{place} has no wall time: leave out --since and --to")));
            }
            lines.push(line);
            places.push((n, number));
        }
    }
    let within =
        |line: &Line| from.is_none_or(|from| line.wall >= from.0) && to.is_none_or(|to| line.wall < to.0);
    let wanted = |line: &&Line| job.is_none_or(|job| line.job == job.as_str()) && within(line);
    let runs: BTreeSet<LoggedRun> =
        lines.iter().filter(|line| line.what == What::Start).filter(wanted).map(run).collect();
    let judged = |line: &Line| match line.what {
        what if what.is_about_a_process() => true,
        What::Scheduled | What::NotRun => wanted(&line),
        _ => runs.contains(&run(line)),
    };
    let kept: Vec<bool> = lines.iter().map(judged).collect();
    let nothing = !lines.iter().zip(&kept).any(|(line, kept)| *kept && !line.what.is_about_a_process());
    if nothing {
        (lines, places) = (Vec::new(), Vec::new());
    }
    let mut keep = kept.iter().copied();
    lines.retain(|_| keep.next().unwrap_or(true));
    let mut keep = kept.iter().copied();
    places.retain(|_| keep.next().unwrap_or(true));
    let places = Places::Files(files.to_vec(), places);
    Ok(Evidence { lines, places, trace: None, notes: Vec::new(), since: Time::default() })
}

fn run(line: &Line) -> LoggedRun {
    (line.worker.clone(), line.job.clone(), line.item, line.token)
}
