//! Pages for answers that may be long: as many rows as fit into a message, and a token that names the last of them.
//! Each row has a key, which determines the order. Pure; called by `admin`.

use prost::Message;

/// Separates the parts of a key: it sorts below everything that a name may hold, so that keys sort like their parts.
pub(super) const PART: char = '\u{1}';

/// The rows after `token` that fit into `most` bytes, at least one; and the token of the next page, empty if there are
/// no more.
pub(super) fn page<T: Message>(
    rows: impl Iterator<Item = (String, T)>,
    token: &str,
    most: usize,
) -> (Vec<(String, T)>, String) {
    let mut page: Vec<(String, T)> = Vec::new();
    let mut size = 0;
    for (key, row) in rows.skip_while(|(key, _)| !token.is_empty() && key.as_str() <= token) {
        // Plus tags and lengths.
        size += row.encoded_len() + key.len() + 16;
        if size > most
            && let Some((last, _)) = page.last()
        {
            let next = last.clone();
            return (page, next);
        }
        page.push((key, row));
    }
    (page, String::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rosterd_wire::proto::v1::RunRef;

    #[test]
    fn pages_hold_every_row_once_whatever_their_size() {
        let rows =
            || (0..50_u32).map(|item| (format!("{item:03}"), RunRef { job: "j".repeat(40), item, token: 1 }));
        for most in [1, 200, 1000, 1 << 20] {
            let (mut token, mut seen, mut pages) = (String::new(), Vec::new(), 0);
            loop {
                let (page, next) = page(rows(), &token, most);
                assert!(
                    page.len() == 1 || page.iter().map(|(_, row)| row.encoded_len()).sum::<usize>() <= most
                );
                seen.extend(page.iter().map(|(_, row)| row.item));
                pages += 1;
                token = next;
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!(seen, (0..50).collect::<Vec<_>>());
            assert_eq!(pages == 1, most > 10_000);
        }
    }
}
