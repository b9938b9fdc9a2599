//! The sizes the protocol allows. Text is cut here, so that no report is refused for its length.

pub(crate) const ERROR_BYTES: usize = 8 * 1024;
pub(crate) const OUTPUT_BYTES: usize = 64 * 1024;
pub(crate) const OFFSET_BYTES: usize = 64 * 1024;
pub(crate) const PROGRESS_BYTES: usize = 1024;

/// How many answers to callbacks are kept, to send them again.
pub(crate) const CALLBACKS_REMEMBERED: usize = 128;

/// At most `bytes` of `text`, whole characters.
pub(crate) fn cut(mut text: String, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(super::cut("aé".into(), 2), "a");
        assert_eq!(super::cut("aé".into(), 3), "aé");
        assert_eq!(super::cut(String::new(), 3), "");
    }
}
