//! When a certificate expires: the one field of X.509 that none of our dependencies exposes. Parses DER just as far as
//! that field; for anything that does not follow RFC 5280 it returns nothing.

use rosterd_domain::time::Time;

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version, which is omitted for the first one.
const VERSION: u8 = 0xa0;

/// An element: its tag, its content, and what follows it.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = input.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let length = (!digits.is_empty() && digits.len() <= 4)
            .then(|| digits.iter().fold(0usize, |length, digit| length << 8 | usize::from(*digit)))?;
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

fn sequence(input: &[u8]) -> Option<(&[u8], &[u8])> {
    element(input).filter(|(tag, ..)| *tag == SEQUENCE).map(|(_, content, rest)| (content, rest))
}

/// The end of a certificate's validity.
pub(super) fn not_after(certificate: &[u8]) -> Option<Time> {
    let (certificate, _) = sequence(certificate)?;
    let (body, _) = sequence(certificate)?;
    let (tag, _, after) = element(body)?;
    let body = if tag == VERSION { after } else { body };
    // Serial number, algorithm, issuer.
    let (_, _, body) = element(body)?;
    let (_, body) = sequence(body)?;
    let (_, body) = sequence(body)?;
    let (validity, _) = sequence(body)?;
    let (_, _, ends) = element(validity)?;
    let (tag, ends, _) = element(ends)?;
    time(tag, std::str::from_utf8(ends).ok()?)
}

/// `YYMMDDHHMMSSZ`, in which 50 means 1950, or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &str) -> Option<Time> {
    let text = match tag {
        UTC_TIME => format!("{}{text}", if text.get(..2)? < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let digits = text.strip_suffix('Z').filter(|digits| digits.len() == 14)?;
    let [year, month, day] = [digits.get(..4)?, digits.get(4..6)?, digits.get(6..8)?];
    let [hour, minute, second] = [digits.get(8..10)?, digits.get(10..12)?, digits.get(12..)?];
    Time::parse(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn made(year: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(year, 3, 4));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms_of_time() {
        for year in [2027, 2049, 2050, 2123] {
            let ends = Time::parse(&format!("{year}-03-04T00:00:00Z")).unwrap();
            assert_eq!(not_after(&made(year)), Some(ends));
        }
    }

    #[test]
    fn what_is_cut_or_something_else_says_nothing() {
        let whole = made(2027);
        for end in 0..whole.len().min(200) {
            assert_eq!(not_after(&whole[..end]), None, "cut at {end}");
        }
        assert_eq!(not_after(&[SEQUENCE, 0x85, 1, 1, 1, 1, 1]), None);
        assert_eq!(time(UTC_TIME, "2701011Z"), None);
        assert_eq!(time(UTC_TIME, "ß70101000000Z"), None);
        assert_eq!(time(0x02, "270101000000Z"), None);
    }
}
