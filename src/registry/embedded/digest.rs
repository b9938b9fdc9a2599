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
    /// The row has changed: was created, if there is none before, or deleted, if there is none after.
    pub(super) fn change(&mut self, path: &str, before: Option<&Stat>, after: Option<&Stat>) {
        let begun = Hash::new(path);
        if let Some(stat) = before {
            self.rows = self.rows.wrapping_sub(1);
            self.sum = self.sum.wrapping_sub(begun.finish(stat));
        }
        if let Some(stat) = after {
            self.rows = self.rows.wrapping_add(1);
            self.sum = self.sum.wrapping_add(begun.finish(stat));
        }
    }
}

/// FNV-1a with a final step that spreads the last bytes. Part of the file format: never change it.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    /// The state after the path, from which both states of its node are hashed.
    fn new(path: &str) -> Self {
        let mut hash = Self(0xcbf2_9ce4_8422_2325);
        hash.eat(path.as_bytes());
        hash.eat(&[0xff]);
        hash
    }

    fn eat(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(mut self, stat: &Stat) -> u64 {
        self.eat(&stat.data);
        self.eat(&[0xff]);
        for number in [stat.version.0, stat.created.0, stat.modified.0] {
            self.eat(&number.to_le_bytes());
        }
        let mut hash = self.0;
        hash ^= hash >> 32;
        hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 29)
    }
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
        assert_eq!(
            Hash::new("/a").finish(&stat("x")),
            0xd55c_a4a6_2850_9649,
            "the hash is part of the file format"
        );
    }
}
