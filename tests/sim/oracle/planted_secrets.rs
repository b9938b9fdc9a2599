//! Secrets that are planted in a world (canaries), and a subscriber that finds them in a thread's log.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// The text that every secret of a world holds: parameters of jobs and items, credentials of workers.
pub const PLANTED_SECRET: &str = "canary-in-the-mine";

thread_local! {
    static LEAKED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The lines with a secret that this thread has logged since the last call.
pub fn leaked_lines() -> Vec<String> {
    LEAKED.with(RefCell::take)
}

/// Whether a text contains a secret.
pub fn leaks_secret(text: &str) -> bool {
    text.contains(PLANTED_SECRET)
}

/// Subscribes to what this thread logs at this level and above, until the guard is dropped; not if `RUST_LOG` prints it.
pub fn listen(most: Level) -> Option<DefaultGuard> {
    drop(leaked_lines());
    std::env::var_os("RUST_LOG").is_none().then(|| tracing::subscriber::set_default(Listener(most)))
}

struct Listener(Level);

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.0 && metadata.target().starts_with("rosterd")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.0))
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        line.judge();
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        line.judge();
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        line.judge();
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// A line of the log.
struct Line(String);

impl Line {
    fn judge(self) {
        if leaks_secret(&self.0) {
            LEAKED.with_borrow_mut(|heard| heard.push(self.0));
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A text takes whatever is written.
        let _always = write!(self.0, " {}={value:?}", field.name());
    }
}

#[test]
fn what_is_logged_is_listened_to() {
    let guard = listen(Level::DEBUG);
    tracing::debug!(target: "rosterd::test", parameter = PLANTED_SECRET, "in a field");
    tracing::info!(target: "rosterd::test", "in {PLANTED_SECRET} words");
    tracing::trace!(target: "rosterd::test", "{PLANTED_SECRET} too low to be heard");
    tracing::info!(target: "rosterd::test", "nothing");
    let heard = leaked_lines();
    drop(guard);
    assert_eq!(heard.len(), 2, "{heard:?}");
}
