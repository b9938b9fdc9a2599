//! Opens the history: starts its threads, and connects the recorder, the reader and the store behind them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::outbox::{Outbox, Spooler};
use super::postgres::{Address, Library, Sender};
use super::queue::Queue;
use super::reader::Reader;
use super::recorder::Recorder;
use super::sql::FileShelves;
use super::writer::Writer;
use super::{Clock, HistoryError, Options};

/// The entry point of the history.
#[derive(Debug)]
pub struct History;

impl History {
    /// Opens the history at `path`, or creates one, and starts its writer.
    ///
    /// Blocks while the file is opened. Fails only if no thread can be started. The writer stops with
    /// [`Recorder::stop`], or when the last recorder is dropped; both write the rows that wait.
    pub fn open(
        path: impl Into<PathBuf>,
        options: Options,
        clock: Clock,
    ) -> Result<(Recorder, Reader), HistoryError> {
        let path = path.into();
        let file = Arc::new(AtomicU64::new(0));
        let queue = Arc::new(Queue::new(options.queue, options.queue_bytes));
        let writer = Writer::new(path.clone(), options, clock, queue.clone(), file.clone());
        let thread = std::thread::Builder::new()
            .name("history".into())
            .spawn(move || writer.run())
            .map_err(HistoryError::Thread)?;
        let shelves = Arc::new(FileShelves::new(path, file));
        Ok((Recorder::new(queue.clone(), Some(thread)), Reader::new(shelves, Some(queue))))
    }

    /// Opens the history in a database that other coordinators share, and starts sending to it. Rows wait in the file
    /// `spool` until the database has them, within `spool_bytes`; any further row is dropped and counted.
    ///
    /// Fails only if no threads can be started: the database may be unreachable. Sending stops with [`Recorder::stop`],
    /// a moment after all waiting rows are in the file; rows that are left there are sent after the next start.
    pub fn share(
        address: Address,
        spool: impl Into<PathBuf>,
        spool_bytes: u64,
        options: Options,
        clock: Clock,
    ) -> Result<(Recorder, Reader), HistoryError> {
        let outbox = Outbox::new(spool.into(), spool_bytes);
        let queue = Arc::new(Queue::new(options.queue, options.queue_bytes));
        let spooler = Spooler::new(outbox.clone(), options.clone(), clock.clone(), queue.clone());
        let sender = Sender::new(outbox.clone(), address.clone(), options, clock, queue.clone());
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        let sending = thread("history sender").spawn(move || sender.run()).map_err(HistoryError::Thread)?;
        let spooling = thread("history").spawn(move || spooler.run(sending)).map_err(HistoryError::Thread)?;
        let shared = (outbox, Arc::from(address.shown()));
        let recorder = Recorder::sharing(queue.clone(), spooling, shared.clone());
        Ok((recorder, Reader::new(Arc::new(Library::new(address)), Some(queue)).of(shared)))
    }

    /// Reads a history that coordinators share. Connects with the first question.
    pub fn look_into(address: Address) -> Reader {
        Reader::new(Arc::new(Library::new(address)), None)
    }

    /// Reads a history that another process writes or has written. Opens the file with the first question.
    pub fn look_at(path: impl Into<PathBuf>) -> Reader {
        Reader::new(Arc::new(FileShelves::new(path.into(), Arc::default())), None)
    }
}
