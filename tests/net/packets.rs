//! Every packet that is sent, delivered, held or lost, in order: these must be the same when a seed is played again.
//! Without their contents: HTTP answers carry the real date.

use std::fmt::{Debug, Write as _};
use std::io::{BufWriter, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::time::begun;

type File = Arc<Mutex<BufWriter<std::fs::File>>>;

struct Packets(File);

/// From now on writes packets to a file; other events can be written there too.
pub fn write_to(path: &str) -> impl Fn(&str) + use<> {
    let file = Arc::new(Mutex::new(BufWriter::new(std::fs::File::create(path).unwrap())));
    let _already = tracing_subscriber::registry().with(Packets(file.clone())).try_init();
    move |line: &str| writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{line}").unwrap()
}

impl<S: Subscriber> Layer<S> for Packets {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != "turmoil" {
            return;
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        if !line.0.starts_with("step") {
            let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(file, "{:?} {}", begun(), line.0).unwrap();
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = format!("{value:?}");
        if field.name() == "protocol" {
            text.truncate(text.find('[').unwrap_or(text.len()));
        }
        write!(self.0, "{text} ").unwrap();
    }
}
