//! Texts to durations and sizes, and back; and what a host's name says.

use std::net::IpAddr;
use std::time::Duration;

use rosterd_domain::span;

const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// A duration: whole numbers with `d`, `h`, `m`, `s` or `ms`, as `90s` or `1h30m`, the larger units first.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parts = span::parts(text).filter(|parts| span::in_order(parts));
    let millis = parts
        .and_then(|parts| span::total(&parts))
        .ok_or("write whole numbers with units: ms, s, m, h or d, as 90s or 1h30m")?;
    Ok(Duration::from_millis(millis))
}

/// The same, and more than nothing.
pub fn positive(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("write more than nothing, as 30s".into()) } else { Ok(duration) }
}

/// A number of bytes: a whole number, and `KiB`, `MiB` or `GiB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let plain = text.parse().ok();
    plain.or_else(|| united(text, &SIZES)).ok_or_else(|| "write a whole number, and KiB, MiB or GiB".into())
}

/// A duration as it would be written: `1500ms`, `5s`, `30d`.
pub fn show(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".into();
    }
    let whole = |(_, size): &&(&str, u64)| millis.is_multiple_of(*size);
    let (unit, size) = span::UNITS.iter().find(whole).unwrap_or(&("ms", 1));
    format!("{}{unit}", millis / size)
}

/// Whether a host is this machine and nobody else reaches it: `localhost`, `127.0.0.1:80`, `[::1]:80`; the port may be left out.
pub(super) fn is_loopback(host: &str) -> bool {
    let host = match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
        _ => host,
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn united(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, size) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_this_machine_or_others_reach_it() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:80"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", ":80", "db", "db:80", "localhost.example", "10.0.0.1:80", "[::2]:80", "127.0.0.1.example"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("5s", 5000),
            ("90s", 90_000),
            ("30d", 2_592_000_000),
            ("1h30m", 5_400_000),
            ("1m500ms", 60_500),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(show(Duration::from_secs(90)), "90s");
        assert_eq!(show(Duration::from_secs(120)), "2m");
        assert_eq!(show(Duration::from_millis(1500)), "1500ms");
        for bad in ["", "5", "s", "-1s", "1.5s", "5 s", "5S", "30m1h", "1h1h", "1h5", "99999999999999999999d"]
        {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(bytes("1MiB"), Ok(1 << 20));
        assert_eq!(bytes("4096"), Ok(4096));
        assert!(bytes("1MB").is_err() && bytes("").is_err() && bytes("-1").is_err());
    }
}
