//! Spans of time as people write them: `90s`, `1h30m`.

/// Units, the longest first, in milliseconds.
pub const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Numbers, each with the milliseconds of its unit, in the order of the text; `None`: the text is not a span.
pub fn parts(mut text: &str) -> Option<Vec<(u64, u64)>> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
        let (unit, rest) = rest.split_at(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
        parts.push((number.parse().ok()?, *millis));
        text = rest;
    }
    (!parts.is_empty()).then_some(parts)
}

/// Whether the longest unit comes first, and each appears once.
pub fn in_order(parts: &[(u64, u64)]) -> bool {
    parts.is_sorted_by(|(_, before), (_, after)| before > after)
}

/// Their sum in milliseconds; `None`: overflow.
pub fn total(parts: &[(u64, u64)]) -> Option<u64> {
    parts.iter().try_fold(0u64, |sum, (number, unit)| sum.checked_add(number.checked_mul(*unit)?))
}
