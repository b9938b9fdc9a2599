//! `rosterd top`: a whole terminal that shows jobs, workers and runs as they are, once a second.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use crossterm::event::{Event, EventStream, KeyCode, KeyModifiers};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{cursor, execute};
use futures_util::StreamExt as _;

use super::failure::{Code, Failure, Result};
use super::json;
use super::output::look::{Look, look};
use super::output::span::{human, time};
use super::output::table::{Cell, Ids, Table, col, cut, painted, style};
use super::output::text::word;
use super::server::{ALL, Admin, Client, Server};
use rosterd_wire::proto::v1;

/// Rows of the latest runs at the least, where there are so many.
const RUNS: usize = 6;

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// How often it looks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = crate::config::value::positive)]
    interval: Duration,
    #[command(flatten)]
    server: Server,
}

/// What one look has seen.
#[derive(Debug, Default)]
struct Seen {
    info: v1::GetServerInfoResponse,
    coordinators: Vec<v1::CoordinatorSummary>,
    jobs: Vec<v1::JobSummary>,
    instances: Vec<v1::InstanceSummary>,
    runs: Vec<v1::RunRecord>,
}

/// The terminal, given back however this ends.
struct Screen;

impl Screen {
    fn take() -> std::io::Result<Self> {
        enable_raw_mode()?;
        let screen = Self;
        execute!(std::io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nothing left to be done about either.
        let _shown = execute!(std::io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _raw = disable_raw_mode();
    }
}

impl Top {
    pub(crate) async fn run(self) -> Result {
        if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
            return Err(Failure::usage(
                "top needs a terminal; for programs there are `rosterd jobs list --json` and `rosterd watch --json`",
            ));
        }
        let admin = self.server.admin().await?;
        // A refusal is printed on the ordinary screen.
        let mut seen = see(&admin).await?;
        let failed = |error: std::io::Error| Failure::failed(Code::Output, error);
        let screen = Screen::take().map_err(failed)?;
        let mut keys = EventStream::new();
        let mut ticks = tokio::time::interval(self.interval);
        let mut trouble = String::new();
        loop {
            draw(&seen, &trouble).map_err(failed)?;
            tokio::select! {
                key = keys.next() => match key {
                    Some(Ok(Event::Key(key))) if is_end(key.code, key.modifiers) => break,
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                },
                _ = ticks.tick() => match see(&admin).await {
                    Ok(now) => (seen, trouble) = (now, String::new()),
                    Err(failure) => trouble = failure.to_string(),
                },
            }
        }
        drop(screen);
        Ok(())
    }
}

fn is_end(code: KeyCode, modifiers: KeyModifiers) -> bool {
    match code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c' | 'd') => modifiers.contains(KeyModifiers::CONTROL),
        _ => false,
    }
}

async fn see(admin: &Admin) -> Result<Seen> {
    let info =
        admin.ask(v1::GetServerInfoRequest {}, |mut c: Client, q| async move { c.get_server_info(q).await });
    let coordinators = admin
        .ask(v1::ListCoordinatorsRequest {}, |mut c: Client, q| async move { c.list_coordinators(q).await });
    let jobs = admin.pages(
        v1::ListJobsRequest::default(),
        |mut c: Client, q| async move { c.list_jobs(q).await },
        |a: v1::ListJobsResponse| (a.jobs, a.next_page_token),
        |q: &mut v1::ListJobsRequest, token| q.page_token = token,
        ALL,
    );
    let instances = admin.pages(
        v1::ListInstancesRequest::default(),
        |mut c: Client, q| async move { c.list_instances(q).await },
        |a: v1::ListInstancesResponse| (a.instances, a.next_page_token),
        |q: &mut v1::ListInstancesRequest, token| q.page_token = token,
        ALL,
    );
    let question = v1::ListRunsRequest { page_size: 50, ..Default::default() };
    let runs = admin.ask(question, |mut c: Client, q| async move { c.list_runs(q).await });
    let (info, coordinators, jobs, instances, runs) = tokio::join!(info, coordinators, jobs, instances, runs);
    Ok(Seen {
        info: info?,
        coordinators: coordinators?.coordinators,
        jobs: jobs?,
        instances: instances?,
        runs: runs?.runs,
    })
}

fn draw(seen: &Seen, trouble: &str) -> std::io::Result<()> {
    let (columns, rows) = size()?;
    let lines = lines(seen, trouble, usize::from(columns.max(40)), usize::from(rows.max(8)), look());
    let mut out = std::io::stdout().lock();
    execute!(out, cursor::MoveTo(0, 0))?;
    for (n, line) in lines.iter().enumerate() {
        // What was there is written over: clearing first would flicker.
        write!(out, "{}{line}\u{1b}[K", if n == 0 { "" } else { "\r\n" })?;
    }
    write!(out, "\u{1b}[J")?;
    out.flush()
}

/// So many lines, none of them longer than the terminal is wide.
fn lines(seen: &Seen, trouble: &str, columns: usize, rows: usize, look: &Look) -> Vec<String> {
    #[allow(clippy::disallowed_methods, reason = "`ago` counts from now")]
    let now = jiff::Timestamp::now().into();
    let look = Look { width: Some(columns), now, ..look.clone() };
    let health = word(seen.info.health().as_str_name(), "SERVER_HEALTH_");
    let lag = seen
        .coordinators
        .iter()
        .filter_map(|row| row.lag.as_ref())
        .map(json::millis)
        .max()
        .unwrap_or_default();
    let running: u32 = seen.jobs.iter().map(|job| job.running).sum();
    let head = format!(
        "rosterd {}  {}  {} coordinators  {} jobs  {running} running  {} workers  lag {lag}ms",
        seen.info.namespace,
        health,
        seen.coordinators.len(),
        seen.jobs.len(),
        seen.instances.len(),
    );
    let head = cut(&head, columns).replacen(&health, &painted(&health, style(&health), look.color), 1);
    let mut out = vec![head];
    out.push(match trouble {
        "" => cut("q or Ctrl-C ends", columns),
        trouble => painted(&cut(trouble, columns), style("failed"), look.color),
    });
    // Room is shared: half for jobs, the rest for workers and runs, each with its heading.
    let room = rows.saturating_sub(out.len() + 2);
    let for_runs = RUNS.min(seen.runs.len()) + 1;
    let for_jobs = (seen.jobs.len() + 1).min((room / 2).max(2));
    let for_workers = (seen.instances.len() + 1).min(room.saturating_sub(for_jobs + for_runs).max(2));
    let for_runs = room.saturating_sub(for_jobs + for_workers);
    for (table, most) in
        [(jobs(seen, &look), for_jobs), (workers(seen), for_workers), (runs(seen, &look), for_runs)]
    {
        out.push(String::new());
        let text = table.text(false, &look);
        let all = text.lines().count();
        out.extend(text.lines().take(most).map(str::to_owned));
        if all > most && most > 1 {
            out.pop();
            out.push(format!("… {} more", all - most + 1));
        }
    }
    out.truncate(rows);
    out
}

/// What needs a look comes first.
fn jobs(seen: &Seen, look: &Look) -> Table {
    let mut jobs: Vec<&v1::JobSummary> = seen.jobs.iter().collect();
    let rank = |job: &v1::JobSummary| match json::status(job.status()).as_str() {
        "no_worker" => 0,
        _ if job.running > 0 => 1,
        "enabled" => 2,
        _ => 3,
    };
    jobs.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
    let row = |job: &&v1::JobSummary| {
        let counters = job.counters.clone().unwrap_or_default();
        let next = job.next_fire.as_ref().map(|at| time(at).since(look.now));
        [
            Cell::from(job.name.as_str()),
            Cell::state(json::status(job.status())),
            job.sharding_total_count.into(),
            job.instances.into(),
            job.running.into(),
            counters.succeeded.into(),
            (counters.failed + counters.timed_out).into(),
            counters.crashed.into(),
            next.map_or_else(|| "-".into(), |next| format!("in {}", human(next)).into()),
        ]
    };
    let columns = [
        col("JOB").named().cut(12),
        col("STATUS"),
        col("ITEMS"),
        col("WORKERS"),
        col("RUNNING"),
        col("OK"),
        col("FAILED"),
        col("CRASHED"),
        col("NEXT"),
    ];
    Table::of(columns, jobs.iter().map(row))
}

fn workers(seen: &Seen) -> Table {
    let ids = Ids::of(seen.instances.iter().map(|row| row.instance.as_str()));
    let row = |row: &v1::InstanceSummary| {
        [
            ids.cell(&row.instance),
            row.job.as_str().into(),
            Cell::state(if row.enabled {
                word(row.state().as_str_name(), "INSTANCE_STATE_")
            } else {
                "disabled".into()
            }),
            row.items.into(),
            format!("{}/{}", row.running, row.slots).into(),
        ]
    };
    let columns =
        [col("WORKER").named().cut(12), col("JOB").cut(8), col("STATE"), col("ITEMS"), col("SLOTS")];
    Table::of(columns, seen.instances.iter().map(row))
}

fn runs(seen: &Seen, look: &Look) -> Table {
    let ids = Ids::of(seen.runs.iter().map(|run| run.instance.as_str()));
    let row = |run: &v1::RunRecord| {
        let id = run.run.clone().unwrap_or_default();
        let ago = run.started_at.as_ref().map(|at| human(look.now.since(time(at))));
        [
            Cell::from(format!("{}/{}", id.job, id.item)),
            Cell::state(json::outcome(run.outcome()).unwrap_or_else(|| "running".into())),
            ago.map_or_else(|| "-".into(), |ago| format!("{ago} ago").into()),
            json::source(run.source()).into(),
            ids.cell(&run.instance),
        ]
    };
    let columns =
        [col("LATEST RUN").named().cut(12), col("OUTCOME"), col("STARTED"), col("SOURCE"), col("ON").cut(8)];
    Table::of(columns, seen.runs.iter().map(row))
}

#[cfg(test)]
mod tests {
    use rosterd_domain::time::Time;

    use super::*;

    #[test]
    fn a_look_fits_its_terminal_and_shows_what_needs_one_first() {
        let job = |n: u32, status: v1::JobStatus| v1::JobSummary {
            name: format!("job-{n:03}-with-a-name-that-is-longer-than-others"),
            status: status.into(),
            ..Default::default()
        };
        let mut jobs: Vec<_> = (0..50).map(|n| job(n, v1::JobStatus::Enabled)).collect();
        jobs.push(job(99, v1::JobStatus::NoWorker));
        let run = |n: u32| v1::RunRecord {
            run: Some(v1::RunRef { job: "words".into(), item: n, token: 1 }),
            instance: "10.0.0.7@-@3f0c1e0de4aa3f0c1e0de4aa".into(),
            ..Default::default()
        };
        let seen = Seen { jobs, runs: (0..50).map(run).collect(), ..Seen::default() };
        let look = Look { width: None, color: false, zone: None, now: Time(0) };
        for (columns, rows) in [(80, 24), (40, 12), (200, 60)] {
            let lines = lines(&seen, "", columns, rows, &look);
            assert!(lines.len() <= rows, "{rows}: {lines:#?}");
            assert!(lines.iter().all(|line| line.chars().count() <= columns), "{columns}: {lines:#?}");
            let first = lines.iter().position(|line| line.contains("no_worker")).unwrap();
            assert!(lines[first - 1].starts_with("JOB"), "{lines:#?}");
            assert!(lines.iter().any(|line| line.contains(" more")), "{lines:#?}");
            assert!(lines.iter().any(|line| line.starts_with("LATEST RUN")), "{lines:#?}");
        }
        assert!(lines(&seen, "UNAVAILABLE: gone", 80, 24, &look)[1].contains("UNAVAILABLE"));
    }
}
