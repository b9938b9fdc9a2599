//! The capacity of the machine, and the resource usage of a process: read from /proc, or measured.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Result;

/// The machine in a line.
pub(crate) fn describe() -> String {
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        model.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1).map(str::to_owned));
    format!("{} cores ({}), load {}", cores(), model.unwrap_or_else(|| "unknown".into()), load())
}

/// How many processors there are.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

/// Seconds that the processors have been busy, over all processes.
pub(crate) fn busy() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = stat.lines().next().unwrap_or_default();
    let times: Vec<f64> = all.split_whitespace().skip(1).filter_map(|text| text.parse().ok()).collect();
    // user, nice, system; idle and iowait; interrupts, and steal. Guest time is in user.
    let (worked, idle) = (times.iter().take(8).sum::<f64>(), times.iter().skip(3).take(2).sum::<f64>());
    (worked - idle) / 100.0
}

/// The load average of the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

/// Microseconds since the epoch, by the machine's calendar.
pub(crate) fn wall() -> i64 {
    #[allow(clippy::disallowed_methods)]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Percentiles of durations, in milliseconds.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let place = (last as f64 * percent / 100.0).round() as usize;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

/// The raw rate of a ZooKeeper server, from one client with many writes in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw {
    /// Writes a second.
    pub(crate) rate: f64,
    /// Microseconds of its processor time for one of them.
    pub(crate) cpu: f64,
}

/// The current cost of one durable write and one round trip, and the load of the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    /// Milliseconds.
    pub(crate) write: (f64, f64),
    /// Milliseconds.
    pub(crate) trip: (f64, f64),
    pub(crate) load: f64,
    /// The rate of the figure's ZooKeeper server, if it has one.
    pub(crate) raw: Option<Raw>,
}

impl Floor {
    /// Appends 4 KiB and syncs it, a hundred times, in `dir`; sends a byte back and forth a thousand times.
    pub(crate) fn measure(dir: &Path) -> Result<Self> {
        Ok(Self { write: durable_write(dir)?, trip: round_trip()?, load: load(), raw: None })
    }
}

impl std::fmt::Display for Floor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { write, trip, load, raw } = self;
        write!(
            f,
            "durable write p50 {:.2} p99 {:.2} ms, loopback round trip p50 {:.3} p99 {:.3} ms, load {load:.1}",
            write.0, write.1, trip.0, trip.1
        )?;
        match raw {
            Some(Raw { rate, cpu }) => {
                write!(f, ", ZooKeeper alone {rate:.0} writes a second of {cpu:.0} µs each")
            }
            None => Ok(()),
        }
    }
}

fn times(count: usize, mut once: impl FnMut() -> Result) -> Result<(f64, f64)> {
    let mut took = Vec::with_capacity(count);
    let until = Instant::now() + Duration::from_secs(10);
    while took.len() < count && Instant::now() < until {
        let since = Instant::now();
        once()?;
        took.push(since.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    Ok((percentile(&took, 50.0), percentile(&took, 99.0)))
}

fn durable_write(dir: &Path) -> Result<(f64, f64)> {
    let path = dir.join("probe");
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    let page = [7u8; 4096];
    let took = times(100, || {
        file.write_all(&page)?;
        file.sync_data()?;
        Ok(())
    });
    fs::remove_file(&path)?;
    took
}

fn round_trip() -> Result<(f64, f64)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (mut there, _) = listener.accept()?;
    here.set_nodelay(true)?;
    there.set_nodelay(true)?;
    let echo = std::thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let mut byte = [1];
    let took = times(1000, || {
        here.write_all(&byte)?;
        here.read_exact(&mut byte)?;
        Ok(())
    });
    drop(here);
    let _ended = echo.join();
    took
}

/// The resource usage of a process so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    /// Seconds on a processor.
    pub(crate) ran: f64,
    /// Seconds that its threads waited for a busy processor.
    pub(crate) waited: f64,
    /// The part of its time that it spent in the kernel, in seconds.
    pub(crate) system: f64,
    /// Mebibytes.
    pub(crate) rss: f64,
    pub(crate) threads: u64,
    /// Times a thread of it gave up the processor to wait.
    pub(crate) switches: u64,
}

impl Used {
    pub(crate) fn of(pid: u32) -> Self {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let system = fields.get(12).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let rss = number(&status, "VmRSS") as f64 / 1024.0;
        let mut used = Self { system, rss, threads: number(&status, "Threads"), ..Self::default() };
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let times: Vec<f64> = read("schedstat").split(' ').filter_map(|text| text.parse().ok()).collect();
            used.ran += times.first().unwrap_or(&0.0) / 1e9;
            used.waited += times.get(1).unwrap_or(&0.0) / 1e9;
            used.switches += number(&read("status"), "voluntary_ctxt_switches");
        }
        used
    }

    /// The sum with another's.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            ran: self.ran + other.ran,
            waited: self.waited + other.waited,
            system: self.system + other.system,
            rss: self.rss + other.rss,
            threads: self.threads + other.threads,
            switches: self.switches + other.switches,
        }
    }

    /// The usage since `before`; size and threads are the current ones.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            ran: self.ran - before.ran,
            waited: self.waited - before.waited,
            system: self.system - before.system,
            switches: self.switches.saturating_sub(before.switches),
            ..self
        }
    }
}

fn number(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
