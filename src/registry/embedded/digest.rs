//! A digest over all rows, which shows that the database still holds what was written.
//!
//! SQLite's pages carry no checksums, so a flipped bit in a value or a lost row would go unnoticed. Each row has a hash
//! and the digest is their sum, so a batch changes it by the rows that it touches, in any order. It protects against
//! bad disks, not against malice.

use crate::tree::Stat;

/// The number of rows and the sum of their hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Digest {
    pub(super) rows: u64,
    pub(super) sum: u64,
}

impl Digest {
    pub(super) fn add(&mut self, path: &str, stat: &Stat) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(hash(path, stat));
    }

    pub(super) fn remove(&mut self, path: &str, stat: &Stat) {
        self.rows = self.rows.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(hash(path, stat));
    }
}

/// FNV-1a with a final step that spreads the last bytes. Part of the file format: never change it.
fn hash(path: &str, stat: &Stat) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    eat(path.as_bytes());
    eat(&[0xff]);
    eat(&stat.data);
    eat(&[0xff]);
    for number in [stat.version.0, stat.created.0, stat.modified.0] {
        eat(&number.to_le_bytes());
    }
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
        one.add("/a", &stat("x"));
        one.add("/b", &stat("y"));
        other.add("/b", &stat("z"));
        other.add("/b", &stat("y"));
        other.remove("/b", &stat("z"));
        assert_ne!(one, other);
        other.add("/a", &stat("x"));
        assert_eq!(one, other);
        assert_eq!(hash("/a", &stat("x")), 0xd55c_a4a6_2850_9649, "the hash is part of the file format");
    }
}
