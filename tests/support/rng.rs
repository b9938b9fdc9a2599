//! The one source of randomness: SplitMix64. A seed always gives the same numbers, on every machine.

use std::time::Duration;

/// A stream of numbers; every part of the world has one of its own, so that parts do not disturb each other.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        let mut rng = Self(seed ^ 0x5eed_0f0a_11aa);
        rng.next();
        rng
    }

    /// A stream that depends on this one's state and on `name`.
    pub fn fork(&mut self, name: &str) -> Self {
        let salt = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(self.next() ^ salt)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `n - 1`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// 0 to `len - 1`; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True this many times in a thousand.
    pub fn permille(&mut self, n: u64) -> bool {
        self.below(1000) < n
    }

    /// Between two times in milliseconds, both included.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }

    /// One of these; there must be at least one.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }

    /// One of these, if there is any.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.index(of.len()))
    }
}
