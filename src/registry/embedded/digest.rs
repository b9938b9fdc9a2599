//! A digest over all rows, which shows that the database still holds what was written.
//!
//! SQLite's pages carry no checksums, so a flipped bit in a value or a lost row would go unnoticed. Each row has a hash
//! and the digest is their sum, so a batch changes it by the rows that it touches, in any order. It protects against
//! bad disks, not against malice.

use twox_hash::XxHash3_64;

use crate::tree::Stat;

/// The number of rows and the sum of their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Digest {
    pub(super) rows: u64,
    pub(super) sum: u64,
}

impl Digest {
    /// The row has changed: was created, if there is none before, or deleted, if there is none after.
    pub(super) fn change(&mut self, path: &str, before: Option<&Stat>, after: Option<&Stat>) {
        if let Some(stat) = before {
            self.rows = self.rows.wrapping_sub(1);
            self.sum = self.sum.wrapping_sub(hash(path, stat));
        }
        if let Some(stat) = after {
            self.add(hash(path, stat));
        }
    }

    /// There is a row more, with this hash.
    pub(super) fn add(&mut self, hash: u64) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash);
    }
}

/// XXH3 of what the row holds. Part of the file format: never change it.
fn hash(path: &str, stat: &Stat) -> u64 {
    let numbers = [stat.version.0, stat.created.0, stat.modified.0].map(u64::to_le_bytes);
    let row = [path.as_bytes(), &[0xff], &stat.data, &[0xff], numbers.as_flattened()];
    let length = row.iter().map(|part| part.len()).sum();
    // Nearly all rows are short, and each batch has hundreds.
    let (mut short, mut long) = ([0; 1024], Vec::new());
    let joined = match short.get_mut(..length) {
        Some(short) => short,
        None => {
            long.resize(length, 0);
            &mut long[..]
        }
    };
    let mut rest = &mut *joined;
    for part in row {
        let (place, after) = rest.split_at_mut(part.len());
        place.copy_from_slice(part);
        rest = after;
    }
    XxHash3_64::oneshot(joined)
}

/// The hash of a row in the first format: FNV-1a with a final step that spreads the last bytes.
pub(super) fn first_format_hash(path: &str, stat: &Stat) -> u64 {
    let numbers = [stat.version.0, stat.created.0, stat.modified.0];
    let parts = [path.as_bytes(), &[0xff], &stat.data, &[0xff]].into_iter().flatten().copied();
    let bytes = parts.chain(numbers.into_iter().flat_map(u64::to_le_bytes));
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rosterd_domain::id::{Revision, Version};

    fn stat(data: &str) -> Stat {
        Stat {
            data: data.as_bytes().into(),
            version: Version(1),
            created: Revision(2),
            modified: Revision(3),
            owner: None,
        }
    }

    #[test]
    fn the_order_of_changes_does_not_matter_and_every_bit_does() {
        let (mut one, mut other) = (Digest::default(), Digest::default());
        one.change("/a", None, Some(&stat("x")));
        one.change("/b", None, Some(&stat("y")));
        other.change("/b", None, Some(&stat("z")));
        other.change("/b", Some(&stat("z")), Some(&stat("y")));
        assert_ne!(one, other);
        other.change("/a", None, Some(&stat("x")));
        assert_eq!(one, other);
        assert_eq!(first_format_hash("/a", &stat("x")), 0xd55c_a4a6_2850_9649, "part of the first format");
        assert_eq!(hash("/a", &stat("x")), 0x3133_a0ac_2408_d46f, "part of the format");
        for length in 980..1020 {
            let data = "x".repeat(length);
            let numbers = [1_u64, 2, 3].map(u64::to_le_bytes);
            let row = [b"/a\xff", data.as_bytes(), &[0xff], numbers.as_flattened()].concat();
            assert_eq!(hash("/a", &stat(&data)), XxHash3_64::oneshot(&row), "{length} bytes");
        }
    }
}
