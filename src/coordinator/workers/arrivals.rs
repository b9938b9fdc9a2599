//! Hellos arrive, wait for their turn, and have it.

use std::collections::BTreeSet;

use rosterd_domain::id::{JobName, WorkerId};
use rosterd_domain::time::Mono;
use rosterd_session::code::{Code, Refusal};
use rosterd_session::frame::Hello;

use crate::io::event::StreamId;
use crate::workers::admission::{Arrival, Credential, Knows, PATIENCE};
use crate::workers::stream::Stream;
use crate::workers::{Workers, WorkersTurn};

impl WorkersTurn<'_> {
    /// A Hello arrived.
    pub(crate) fn arrives(&mut self, stream: StreamId, hello: Box<Hello>, knows: Knows<'_>) {
        if let Err(refusal) = self.check_hello(&hello) {
            return self.workers.close(self.io, stream, Some(refusal));
        }
        let now = self.io.now.mono;
        let of = self.workers.credential_of(stream);
        if self.first_of(&of).is_some_and(|first| now.since(first) >= PATIENCE) {
            return self.workers.close(self.io, stream, Some(self.overloaded()));
        }
        if let Some((worker, _)) = &hello.identity {
            self.workers.admission.comes(stream, worker);
        }
        self.workers.admission.wait(of, Arrival { stream, hello, heard: now });
        self.admit(knows);
    }

    /// Since when the first of a credential's queue waits; those whose stream has ended are forgotten.
    fn first_of(&mut self, of: &Credential) -> Option<Mono> {
        let Workers { admission, streams, .. } = &mut *self.workers;
        admission.first_of(of, |stream| streams.get(&stream).is_some_and(Stream::is_greeting))
    }

    /// Admits workers whose turn it is.
    pub(crate) fn admit(&mut self, knows: Knows<'_>) {
        while let Some(Arrival { stream, hello, heard }) = self.workers.admission.pop() {
            if !self.workers.is_greeting(stream) {
                continue;
            }
            if self.io.now.mono.since(heard) >= PATIENCE {
                let refusal = self.overloaded();
                self.workers.close(self.io, stream, Some(refusal));
                continue;
            }
            let names = unknown_names(&hello, knows);
            self.workers.admission.begin(stream, self.workers.credential_of(stream), names);
            self.hello(stream, hello, heard);
        }
    }

    fn overloaded(&self) -> Refusal {
        let message = format!(
            "{} workers are being attached, and others wait: come again in a second, or go to another coordinator",
            self.workers.admission.under_way()
        );
        Refusal::new(Code::Overloaded, message)
    }

    /// A worker presented its key: it was alive when it sent the Hello, wherever it is attached so far.
    pub(crate) fn lives(&mut self, worker: &WorkerId, heard: Mono) {
        if let Some(known) = self.workers.table.get_mut(worker) {
            known.lease.hear(heard);
        }
        if let Some(found) = self.workers.elsewhere.get_mut(worker) {
            found.hear(heard);
        }
    }

    /// Admits the workers that arrived before this coordinator was ready.
    pub(crate) fn admit_early(&mut self, knows: Knows<'_>) {
        let early =
            if self.cluster.is_open(self.io) { self.workers.admission.take_early() } else { Vec::new() };
        for (stream, hello) in early {
            if self.workers.streams.contains_key(&stream) {
                self.arrives(stream, hello, knows);
            }
        }
    }
}

/// How many names in a Hello are not known here.
fn unknown_names(hello: &Hello, knows: Knows<'_>) -> usize {
    let runs: BTreeSet<&JobName> = hello.in_flight.iter().map(|run| &run.job).collect();
    let names = hello.jobs.iter().chain(&hello.asked).chain(runs);
    names.filter(|name| !knows(name)).count()
}
