//! What programs write: kept, the last of it, and passed through.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, oneshot};

/// How much of a program's output a report takes, in bytes.
pub(super) const TAIL: usize = 64 << 10;
/// Room for the note that something was cut.
const NOTE: usize = 48;
/// Longest line that is kept whole when lines are marked.
const LINE: usize = 64 << 10;
/// Chunks that wait to be written; then programs wait.
const QUEUE: usize = 64;
/// How long the rest may take to be written at the end.
const FLUSH: Duration = Duration::from_secs(2);

/// The last of a program's output, both streams in the order in which they were read.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    cut: usize,
}

impl Tail {
    fn push(&self, chunk: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes.extend(chunk);
        let over = kept.bytes.len().saturating_sub(TAIL);
        kept.bytes.drain(..over);
        kept.cut += over;
    }

    /// What is kept, as text of at most 64 KiB; says how much was cut.
    pub(super) fn text(&self) -> String {
        let (all, text) = (self.written(), self.last(TAIL));
        if all <= TAIL && text.len() < TAIL {
            return text;
        }
        let text = end_of(&text, TAIL - NOTE);
        format!("[{} bytes before this were cut]\n{text}", all.saturating_sub(text.len()))
    }

    /// How many bytes there were.
    fn written(&self) -> usize {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.cut + kept.bytes.len()
    }

    /// The last bytes as text.
    pub(super) fn last(&self, most: usize) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.bytes.iter().copied().collect();
        end_of(&String::from_utf8_lossy(&bytes), most).to_owned()
    }
}

/// The end of a text, whole characters.
fn end_of(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    &text[from..]
}

/// One of the two streams.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Out,
    Err,
}

enum Write {
    Chunk(Stream, Vec<u8>),
    Flush(oneshot::Sender<()>),
}

/// Writes to our own stdout and stderr, on a thread of its own: whoever reads them may be slow.
#[derive(Debug, Clone)]
pub(super) struct Printer {
    queue: mpsc::Sender<Write>,
    prefixed: bool,
}

impl Printer {
    pub(super) fn start(prefixed: bool) -> Self {
        let (queue, mut writes) = mpsc::channel(QUEUE);
        std::thread::spawn(move || {
            while let Some(write) = writes.blocking_recv() {
                // A reader that went away is not a reason to stop programs.
                let _ = match write {
                    Write::Chunk(Stream::Out, bytes) => {
                        let mut out = std::io::stdout().lock();
                        out.write_all(&bytes).and_then(|()| out.flush())
                    }
                    Write::Chunk(Stream::Err, bytes) => std::io::stderr().lock().write_all(&bytes),
                    Write::Flush(done) => done.send(()).map_err(|()| std::io::ErrorKind::Other.into()),
                };
            }
        });
        Self { queue, prefixed }
    }

    /// Waits until earlier output is written, but not for ever.
    pub(super) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        let flushed = async {
            let _ = self.queue.send(Write::Flush(done)).await;
            written.await
        };
        let _ = tokio::time::timeout(FLUSH, flushed).await;
    }

    async fn say(&self, stream: Stream, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let _ = self.queue.send(Write::Chunk(stream, bytes)).await;
        }
    }
}

/// Reads a stream of a program to its end.
pub(super) async fn copy(
    mut from: impl AsyncRead + Unpin,
    stream: Stream,
    label: String,
    tail: Tail,
    printer: Printer,
) {
    let mut marker = printer.prefixed.then(|| Marker { label, rest: Vec::new() });
    let mut chunk = vec![0; 8 << 10];
    while let Ok(length @ 1..) = from.read(&mut chunk).await {
        let read = &chunk[..length];
        tail.push(read);
        let lines = match &mut marker {
            Some(marker) => marker.lines(read),
            None => read.to_vec(),
        };
        printer.say(stream, lines).await;
    }
    if let Some(mut marker) = marker {
        printer.say(stream, marker.rest()).await;
    }
}

/// Marks lines with who wrote them.
struct Marker {
    label: String,
    rest: Vec<u8>,
}

impl Marker {
    /// The lines that are complete now.
    fn lines(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut lines = Vec::new();
        for byte in chunk {
            self.rest.push(*byte);
            if *byte == b'\n' || self.rest.len() >= LINE {
                lines.extend(self.rest());
            }
        }
        lines
    }

    fn rest(&mut self) -> Vec<u8> {
        let mut line = std::mem::take(&mut self.rest);
        if line.is_empty() {
            return line;
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let mut marked = format!("[{}] ", self.label).into_bytes();
        marked.append(&mut line);
        marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_bounded_and_says_what_was_cut() {
        let tail = Tail::default();
        tail.push(b"short\n");
        assert_eq!(tail.text(), "short\n");
        for _ in 0..100 {
            tail.push(&[b'x'; 1000]);
        }
        tail.push(b"end");
        let text = tail.text();
        assert!(text.len() <= TAIL, "{}", text.len());
        assert!(text.starts_with("[34521 bytes before this were cut]\nxxx"), "{}", &text[..60]);
        assert!(text.ends_with("xend"));
        assert_eq!(tail.last(4), "xend");
    }

    #[test]
    fn bytes_that_are_not_text_never_make_it_longer_than_allowed() {
        let tail = Tail::default();
        tail.push(&[0xff; TAIL]);
        assert!(tail.text().len() <= TAIL && tail.last(10).len() <= 10);
        let tail = Tail::default();
        tail.push("aé".repeat(TAIL).as_bytes());
        assert!(tail.text().len() <= TAIL);
    }

    #[test]
    fn marked_lines_are_whole() {
        let mut marker = Marker { label: "words/3".into(), rest: Vec::new() };
        assert_eq!(marker.lines(b"one\ntw"), b"[words/3] one\n");
        assert_eq!(marker.lines(b"o\n\n"), b"[words/3] two\n[words/3] \n");
        assert_eq!(marker.rest(), b"");
        assert_eq!(marker.lines(b"end"), b"");
        assert_eq!(marker.rest(), b"[words/3] end\n");
    }
}
