//! Deadlines for gRPC calls: the client's own `grpc-timeout`, or ours if it has none or a longer one. Streams have no
//! deadline here: their services end them. Plain HTTP has its deadline from `web`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;

use super::methods::Methods;
use super::refused;
use rosterd_session::code::{Code, Refusal};

/// How long calls may take.
pub struct Deadlines {
    /// Which paths stream.
    pub methods: Arc<Methods>,
    /// The longest time for a call.
    pub most: Duration,
}

/// The layer.
pub async fn layer(State(deadlines): State<Arc<Deadlines>>, request: Request, next: Next) -> Response {
    if deadlines.methods.streams(request.uri().path()) {
        return next.run(request).await;
    }
    let time = grpc_timeout(request.headers()).unwrap_or(deadlines.most).min(deadlines.most);
    // A moment early: its caller's own timer runs already, with another status.
    let time = time - (time / 10).min(Duration::from_millis(10));
    tokio::time::timeout(time, next.run(request)).await.unwrap_or_else(|_| {
        let what = format!("it took longer than {time:?}: what it would have changed may yet be changed");
        refused(true, &Refusal::new(Code::DeadlineExceeded, what))
    })
}

/// At most eight digits and a unit, as gRPC defines it.
fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_digits_and_a_unit() {
        let parse = |text: &'static str| {
            grpc_timeout(&HeaderMap::from_iter([("grpc-timeout".parse().unwrap(), text.parse().unwrap())]))
        };
        assert_eq!(parse("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse("2H"), Some(Duration::from_secs(7200)));
        for bad in ["", "S", "1", "1s", "-1S", "123456789S", "+1S"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
