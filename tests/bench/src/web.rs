//! The web side of a coordinator during fires: REST requests at a steady rate, and open pages of the console.
//!
//! This process sends the requests, on the same processors: its share is not in the coordinator's figures, but in every
//! latency.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{interval, sleep, sleep_until, timeout_at};

use crate::Result;
use crate::fires::{Taken, take, take_beside, tell_settings};
use crate::load::Load;
use crate::machine::percentile;
use crate::options::Options;
use crate::report::Report;
use crate::server::Server;

/// Requests a second.
const ASKED: u32 = 100;
const CONNECTIONS: usize = 8;
/// The requests, one after the other: those of a page of the console, and those of scripts.
const PATHS: [&str; 8] = [
    "/api/overview",
    "/api/jobs?limit=100",
    "/api/jobs/tick-7",
    "/api/jobs/tick-7/sharding",
    "/api/jobs/config/tick-7",
    "/api/runs?limit=50",
    "/api/jobs/tick-7/fires?limit=20",
    "/api/cluster",
];
/// How often a page reads the list of jobs again.
const REREAD: Duration = Duration::from_secs(20);

/// A thousand fires a second, alone and beside a hundred requests a second.
pub(crate) fn rest(options: &Options, report: &mut Report) -> Result {
    let load = Load { jobs: jobs(options), items: 1, every: 1, processes: 2 };
    tell_settings(report);
    let runtime = runtime()?;
    for _ in 0..options.runs {
        tell(report, &take(options, &load)?, &format!("{}, no requests", load.name()));
        let (beside, took) = take_beside(options, &load, |server, time| runtime.block_on(ask(server, time)))?;
        let name = format!("{}, {ASKED} requests a second", load.name());
        tell(report, &beside, &name);
        let all = took.of(|_| true);
        for (what, percent) in [("p50", 50.0), ("p99", 99.0), ("slowest", 100.0)] {
            let value = percentile(&all, percent);
            report.add(&format!("REST {what}"), &name, "ms", None, value, &beside.floor);
        }
        for path in PATHS {
            let of = took.of(|asked| asked == path);
            let (p50, p99) = (percentile(&of, 50.0), percentile(&of, 99.0));
            println!("    {:4} of GET {path}: p50 {p50:.2}, p99 {p99:.2} ms", of.len());
        }
    }
    Ok(())
}

/// A thousand jobs of ten items that fire all the time, and more and more pages that show them live.
pub(crate) fn console(options: &Options, report: &mut Report) -> Result {
    let load = Load { jobs: jobs(options), items: 10, every: 10, processes: 2 };
    tell_settings(report);
    let runtime = runtime()?;
    for _ in 0..options.runs {
        let mut alone = None;
        for pages in [0, 1, 10, 100] {
            let (taken, shown) =
                take_beside(options, &load, |server, time| runtime.block_on(show(server, pages, time)))?;
            let name = format!("{}, {pages} pages", load.name());
            tell(report, &taken, &name);
            let ran = taken.coordinator.ran / taken.seconds;
            let alone = *alone.get_or_insert(ran);
            if pages == 0 {
                continue;
            }
            let (each, floor) = (f64::from(pages), &taken.floor);
            let mut add = |what: &str, unit, value| report.add(what, &name, unit, None, value, floor);
            add("a page: coordinator CPU", "cores", (ran - alone) / each);
            add("a page: events", "/s", shown.events as f64 / each / taken.seconds);
            add("a page: told of a gap", "times", shown.gaps as f64 / each);
            add("a page: bytes", "kB/s", shown.bytes as f64 / 1e3 / each / taken.seconds);
            add("a page: its first list of jobs", "ms", percentile(&shown.first, 50.0));
        }
    }
    Ok(())
}

fn jobs(options: &Options) -> u32 {
    if options.quick { 100 } else { 1000 }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

fn tell(report: &mut Report, taken: &Taken, name: &str) {
    taken.print(name);
    let floor = &taken.floor;
    let mut add = |what: &str, unit, value| report.add(what, name, unit, None, value, floor);
    add("lag p50", "ms", taken.fires.percentile(50.0));
    add("lag p99", "ms", taken.fires.percentile(99.0));
    add("missed", "runs", taken.fires.missed as f64);
    add("coordinator CPU", "cores", taken.coordinator.ran / taken.seconds);
    add("coordinator memory", "MiB", taken.coordinator.rss);
}

// ---- requests at a steady rate

/// How long each answer took, in milliseconds, by path.
#[derive(Debug, Default)]
struct Took(Vec<(&'static str, f64)>);

impl Took {
    /// Those of some paths, sorted.
    fn of(&self, wanted: impl Fn(&str) -> bool) -> Vec<f64> {
        let mut of: Vec<f64> =
            self.0.iter().filter(|(asked, _)| wanted(asked)).map(|(_, took)| *took).collect();
        of.sort_by(f64::total_cmp);
        of
    }
}

/// Each is measured from when the request was due, so that no wait is left out.
async fn ask(server: &Server, time: Duration) -> Result<Took> {
    let address: SocketAddr = server.address().parse()?;
    let end = tokio::time::Instant::now() + time;
    let period = Duration::from_secs(1) * u32::try_from(CONNECTIONS)? / ASKED;
    let askers = (0..CONNECTIONS).map(|number| {
        tokio::spawn(async move {
            let mut connection = connect(address).await?;
            let mut due = tokio::time::Instant::now() + period.mul_f64(number as f64 / CONNECTIONS as f64);
            let mut took = Vec::new();
            let mut paths = PATHS.iter().cycle().skip(number);
            while due < end {
                sleep_until(due).await;
                let path = paths.next().ok_or("there is always another")?;
                let (status, _) = get(&mut connection, address, path).await?;
                if status != StatusCode::OK {
                    return Err(format!("{path}: {status}").into());
                }
                took.push((*path, due.elapsed().as_secs_f64() * 1e3));
                due += period;
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(took)
        })
    });
    let mut all = Took::default();
    for took in join_all(askers).await {
        all.0.extend(took??);
    }
    Ok(all)
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Empty<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

fn request(address: SocketAddr, path: &str) -> Result<Request<Empty<Bytes>>> {
    // Like a browser.
    let request = Request::get(path).header("host", address.to_string()).header("accept-encoding", "gzip");
    Ok(request.body(Empty::new())?)
}

async fn get(
    connection: &mut SendRequest<Empty<Bytes>>,
    address: SocketAddr,
    path: &str,
) -> Result<(StatusCode, Bytes)> {
    connection.ready().await?;
    let answer = connection.send_request(request(address, path)?).await?;
    Ok((answer.status(), answer.into_body().collect().await?.to_bytes()))
}

// ---- open pages

/// The events that all pages received.
#[derive(Debug, Default)]
struct Shown {
    events: u64,
    gaps: u64,
    bytes: u64,
    /// Milliseconds until the first list of jobs, sorted.
    first: Vec<f64>,
}

async fn show(server: &Server, pages: u32, time: Duration) -> Result<Shown> {
    let address: SocketAddr = server.address().parse()?;
    let end = tokio::time::Instant::now() + time;
    let open = (0..pages).map(|number| {
        tokio::spawn(async move {
            // People open pages one after the other.
            sleep((time / 10).mul_f64(f64::from(number) / f64::from(pages))).await;
            let begun = Instant::now();
            let (listening, reading) = tokio::join!(listen(address, end), read(address, begun, end));
            let (heard, (first, bytes)) = (listening?, reading?);
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((heard, first, bytes))
        })
    });
    let mut shown = Shown::default();
    for page in join_all(open).await {
        let (heard, first, bytes) = page??;
        shown.events += heard.events;
        shown.gaps += heard.gaps;
        shown.bytes += heard.bytes + bytes;
        shown.first.push(first);
    }
    shown.first.sort_by(f64::total_cmp);
    sleep_until(end).await;
    Ok(shown)
}

/// The page of all jobs: reads its list, and reads it again as the console does.
async fn read(address: SocketAddr, begun: Instant, end: tokio::time::Instant) -> Result<(f64, u64)> {
    let mut connection = connect(address).await?;
    let (mut first, mut bytes) = (f64::NAN, 0);
    for path in ["/", "/api/session"] {
        bytes += get(&mut connection, address, path).await?.1.len() as u64;
    }
    let mut again = interval(REREAD);
    while timeout_at(end, again.tick()).await.is_ok() {
        let (status, list) = get(&mut connection, address, "/api/jobs?limit=10000").await?;
        if status != StatusCode::OK {
            return Err(format!("the list of jobs: {status}").into());
        }
        bytes += list.len() as u64;
        if first.is_nan() {
            first = begun.elapsed().as_secs_f64() * 1e3;
        }
    }
    Ok((first, bytes))
}

/// The page's events until the end.
async fn listen(address: SocketAddr, end: tokio::time::Instant) -> Result<Shown> {
    let mut connection = connect(address).await?;
    connection.ready().await?;
    let mut body = connection.send_request(request(address, "/api/live")?).await?.into_body();
    let mut shown = Shown::default();
    while let Ok(Some(frame)) = timeout_at(end, body.frame()).await {
        let Ok(data) = frame?.into_data() else { continue };
        shown.bytes += data.len() as u64;
        // An event whose first word is cut in two between pieces is not counted: one in thousands.
        shown.events += count(&data, b"event: ");
        shown.gaps += count(&data, b"event: lost");
    }
    Ok(shown)
}

fn count(data: &[u8], word: &[u8]) -> u64 {
    data.windows(word.len()).filter(|window| *window == word).count() as u64
}
