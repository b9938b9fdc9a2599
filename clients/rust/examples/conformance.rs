//! A worker for `rosterd conformance`: its handler does what the item's parameter says, and each event of its runs is a
//! line on standard output. `rosterd conformance --help` describes the steps and the environment.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rosterd_client::embedding::{BootClock, Clock as _};
use rosterd_client::{Failure, Fire, Job, Options, Outcome, Run, Worker};
use serde_json::{Value, json};

const LOOK_EVERY: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    tracing_to_stderr();
    let number =
        |name: &str, default: u64| variable(name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let mut options = Options::from_env();
    options.slots = u32::try_from(number("CONFORMANCE_SLOTS", 4)).unwrap_or(4);
    options.drain_timeout = Duration::from_millis(number("CONFORMANCE_DRAIN_MS", 30_000));
    options.address = variable("CONFORMANCE_ADDRESS").unwrap_or(options.address);
    let jobs = variable("CONFORMANCE_JOBS").unwrap_or_else(|| "conformance".into());
    let worker = jobs.split(',').map(job).fold(Worker::new(options), Worker::add);
    match worker.run().await {
        Ok(()) => {
            write("exit", "left", None);
            ExitCode::SUCCESS
        }
        Err(error) => {
            write("exit", &error.to_string(), None);
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the kit says by the environment what it wants")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn job(name: &str) -> Job {
    let config = variable("CONFORMANCE_CONFIG").unwrap_or_default().replace("NAME", name);
    let slow = name.contains("slow-callback");
    let bad = name.contains("bad-callback");
    let called = move |detail: &'static str| {
        move |fire: Fire| async move {
            write("callback", detail, Some(json!({ "job": fire.job })));
            if slow {
                tokio::time::sleep(SLOW).await;
            }
            if bad { Err(Failure::new("refused")) } else { Ok(()) }
        }
    };
    let job = Job::new(name).handler_type("conformance").config(config).cooperative(true);
    let job = job.on_all_started(called("started")).on_all_completed(called("completed"));
    if name.starts_with("dataflow") { dataflow(job) } else { job.handler(simple) }
}

// ---- a simple job

async fn simple(run: Run) -> Result<(), Failure> {
    write("start", run.item_parameter(), Some(ids(&run)));
    let result = perform(&run).await;
    let detail = result.as_ref().err().map_or_else(|| "ok".to_owned(), ToString::to_string);
    write("end", &detail, Some(ids(&run)));
    result
}

async fn perform(run: &Run) -> Result<(), Failure> {
    for step in run.item_parameter().split(';') {
        let step = step.trim();
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        if word == "once" {
            let (path, other) = rest.split_once(' ').unwrap_or((rest, "succeed"));
            if !Path::new(path).exists() {
                std::fs::write(path, "")?;
                let (word, rest) = other.split_once(' ').unwrap_or((other, ""));
                one(run, word, rest).await?;
            }
        } else {
            one(run, word, rest).await?;
        }
    }
    Ok(())
}

async fn one(run: &Run, word: &str, rest: &str) -> Result<(), Failure> {
    let millis = || number(rest).map(Duration::from_millis);
    match word {
        "" | "succeed" | "batches" => {}
        "fail" => return Err(Failure::new(rest)),
        "fatal" => return Err(Failure::fatal(rest)),
        "sleep" => {
            let length = millis()?;
            tokio::select! {
                biased;
                () = run.cancelled() => return Err(stopped(run)),
                () = tokio::time::sleep(length) => {}
            }
        }
        "busy" => {
            let until = BootClock.now() + millis()?;
            while BootClock.now() < until {
                if run.is_cancelled() {
                    return Err(stopped(run));
                }
            }
        }
        "block" => std::thread::sleep(millis()?),
        "ignore" => tokio::time::sleep(millis()?).await,
        "gate" => {
            while !Path::new(rest).exists() {
                tokio::select! {
                    biased;
                    () = run.cancelled() => return Err(stopped(run)),
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
        }
        "progress" => {
            let (percent, text) = rest.split_once(' ').unwrap_or((rest, ""));
            run.progress(u32::try_from(number(percent)?).unwrap_or(u32::MAX), text);
        }
        "output" => run.set_output(rest),
        "offset" => run.set_offset(rest.as_bytes().to_vec())?,
        "append" => run.set_offset([&run.offset(), rest.as_bytes()].concat())?,
        "count" => {
            let (processed, failed) = rest.split_once(' ').unwrap_or((rest, "0"));
            run.count(number(processed)?, number(failed)?);
        }
        _ => return Err(Failure::fatal(format!("{word:?} is not a step"))),
    }
    Ok(())
}

fn number(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| Failure::fatal(format!("{text:?} is not a whole number")))
}

/// Logs that the run sees that it must stop.
fn stopped(run: &Run) -> Failure {
    write("cancel", "", Some(ids(run)));
    Failure::cancelled()
}

// ---- a dataflow job

/// How many batches each run has fetched.
static FETCHED: Mutex<BTreeMap<(u32, u64), u64>> = Mutex::new(BTreeMap::new());

fn dataflow(job: Job) -> Job {
    let fetch = |run: Run| async move {
        let steps = run.item_parameter().split(';');
        let batches =
            steps.filter_map(|step| step.trim().strip_prefix("batches ")).find_map(|n| n.parse().ok());
        let mut all = FETCHED.lock().unwrap_or_else(PoisonError::into_inner);
        let fetched = all.entry((run.item(), run.token())).or_insert(0);
        if *fetched >= batches.unwrap_or(0) {
            return Ok(Vec::new());
        }
        *fetched += 1;
        Ok(vec![*fetched])
    };
    let process = |run: Run, _: Vec<u64>| async move { perform(&run).await };
    let before = |run: Run| async move {
        write("start", run.item_parameter(), Some(ids(&run)));
        Ok(())
    };
    let after = |run: Run, outcome: Outcome| async move {
        let detail = if outcome == Outcome::Succeeded { "ok".to_owned() } else { format!("{outcome:?}") };
        write("end", &detail, Some(ids(&run)));
    };
    job.before(before).after(after).dataflow(fetch, process)
}

// ---- lines

fn ids(run: &Run) -> Value {
    let fire = run.fire_time().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    json!({
        "job": run.job(),
        "item": run.item(),
        "token": run.token(),
        "fire": u64::try_from(fire.as_millis()).unwrap_or(u64::MAX),
        "source": run.source().as_str(),
        "attempt": run.attempt(),
        "instance": run.instance_id(),
    })
}

#[allow(clippy::disallowed_methods, reason = "a line says when it was written, for people")]
fn write(what: &str, detail: &str, of: Option<Value>) {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut line = of.unwrap_or_else(|| json!({}));
    line["at"] = u64::try_from(BootClock.now().as_nanos()).unwrap_or(u64::MAX).into();
    line["wall"] = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX).into();
    line["worker"] = variable("CONFORMANCE_NAME").unwrap_or_else(|| "rust".into()).into();
    line["what"] = what.into();
    // The parameters of a flood of runs are not logged.
    line["detail"] = detail.chars().take(200).collect::<String>().into();
    let line = format!("{line}\n");
    let written = match variable("CONFORMANCE_LOG") {
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(line.as_bytes()).and_then(|()| out.flush())
        }
        Some(path) => std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes())),
    };
    if let Err(error) = written {
        eprintln!("a line cannot be written: {error}");
    }
}

/// What the client logs.
fn tracing_to_stderr() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
}
