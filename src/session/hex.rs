//! Bytes as hexadecimal digits.

/// Each Trigger has two such texts, so the formatter does not write byte by byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    let mut text = String::with_capacity(2 * bytes.len());
    bytes.iter().for_each(|byte| text.extend([digit(byte >> 4), digit(*byte)]));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_two_digits() {
        assert_eq!(hex(&[0, 9, 10, 0x7f, 0xa0, 255]), "00090a7fa0ff");
    }
}
