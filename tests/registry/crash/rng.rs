//! What is random here follows from a number that a failure names.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `most`; 0 where that is 0.
    pub fn below(&mut self, most: usize) -> usize {
        let most = most.max(1) as u64;
        (self.next() % most) as usize
    }

    pub fn permille(&mut self, share: usize) -> bool {
        self.below(1_000) < share
    }
}
