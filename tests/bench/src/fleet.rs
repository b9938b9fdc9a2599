//! Several coordinators on one ensemble.

use std::time::{Duration, Instant};

use crate::Result;
use crate::ensemble::Ensemble;
use crate::machine::Used;
use crate::options::Options;
use crate::server::Server;

/// The polling interval of waits.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Fleet {
    pub(crate) seats: Vec<Server>,
    /// After the coordinators.
    pub(crate) ensemble: Ensemble,
}

impl Fleet {
    pub(crate) fn start(options: &Options, coordinators: usize, set: &[(&str, &str)]) -> Result<Self> {
        let ensemble = Ensemble::start()?;
        let seats = (0..coordinators).map(|_| Server::on(options, &ensemble, "fleet", set));
        Ok(Self { seats: seats.collect::<Result<_>>()?, ensemble })
    }

    /// This many addresses, this seat's first.
    pub(crate) fn addresses(&self, first: usize, count: usize) -> String {
        let from_first = self.seats.iter().cycle().skip(first).take(count);
        from_first.map(Server::address).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn seat(&mut self, seat: usize) -> Result<&mut Server> {
        self.seats.get_mut(seat).ok_or_else(|| format!("no coordinator {seat}").into())
    }

    /// The sum of a counter over the live ones.
    pub(crate) fn counted(&self, name: &str) -> Result<f64> {
        self.seats.iter().filter(|seat| seat.lives()).map(|seat| seat.counted(name)).sum()
    }

    /// The resource usage of the live ones, together.
    pub(crate) fn used(&self) -> Used {
        let alive = self.seats.iter().filter(|seat| seat.lives());
        alive.map(Server::used).fold(Used::default(), Used::and)
    }

    /// The seat with the most of something.
    pub(crate) fn most(&self, name: &str) -> Result<usize> {
        let mut most = (0, f64::NEG_INFINITY);
        for (place, seat) in self.seats.iter().enumerate().filter(|(_, seat)| seat.lives()) {
            let value = seat.counted(name)?;
            if value > most.1 {
                most = (place, value);
            }
        }
        Ok(most.0)
    }

    /// The last lines of all logs.
    pub(crate) fn log(&self) -> String {
        let logs = self.seats.iter().map(Server::log).filter(|log| !log.is_empty());
        logs.collect::<Vec<_>>().join("\n")
    }
}

/// Waits until the condition holds. Returns whether it did.
pub(crate) fn wait(patience: Duration, so: impl FnMut() -> Result<bool>) -> Result<bool> {
    wait_looking(LOOK, patience, so)
}

/// The same, looking as rarely as this.
pub(crate) fn wait_looking(
    every: Duration,
    patience: Duration,
    mut so: impl FnMut() -> Result<bool>,
) -> Result<bool> {
    let until = Instant::now() + patience;
    loop {
        if so()? {
            return Ok(true);
        }
        if Instant::now() > until {
            return Ok(false);
        }
        std::thread::sleep(every);
    }
}

/// The same for a condition that must be reached.
pub(crate) fn must(what: &str, patience: Duration, so: impl FnMut() -> Result<bool>) -> Result {
    if wait(patience, so)? {
        Ok(())
    } else {
        Err(format!("waited in vain for {what} for {patience:?}").into())
    }
}
