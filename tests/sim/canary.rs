//! Secrets that can be told from everything else, and who listens for them in what a thread logs.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// What the worlds' secrets hold: parameters of jobs and items, credentials of workers.
pub const CANARY: &str = "canary-in-the-mine";

thread_local! {
    static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Lines with a secret that this thread has logged since this was last asked.
pub fn heard() -> Vec<String> {
    HEARD.with(RefCell::take)
}

/// Whether a text gives a secret away.
pub fn sings(text: &str) -> bool {
    text.contains(CANARY)
}

/// Listens to what this thread logs at this level and above until the guard goes; not where it is printed for people.
pub fn listen(most: Level) -> Option<DefaultGuard> {
    drop(heard());
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
        if sings(&self.0) {
            HEARD.with_borrow_mut(|heard| heard.push(self.0));
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
    tracing::debug!(target: "rosterd::test", parameter = CANARY, "in a field");
    tracing::info!(target: "rosterd::test", "in {CANARY} words");
    tracing::trace!(target: "rosterd::test", "{CANARY} too low to be heard");
    tracing::info!(target: "rosterd::test", "nothing");
    let heard = heard();
    drop(guard);
    assert_eq!(heard.len(), 2, "{heard:?}");
}
