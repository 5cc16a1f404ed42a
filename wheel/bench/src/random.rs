//! Random numbers that are the same in every run and for every structure.

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        scale(self.next(), bound)
    }

    pub fn permutation(&mut self, len: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..len).collect();
        for last in (1..len).rev() {
            order.swap(last as usize, self.below(last + 1) as usize);
        }
        order
    }
}

/// Returns a number below `bound` that depends only on the name of an event, and not on the order of events.
pub fn hash(name: u64, bound: u32) -> u32 {
    scale(mix(name.wrapping_mul(0x9e37_79b9_7f4a_7c15)), bound)
}

pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[expect(clippy::cast_possible_truncation, reason = "the product's upper half is below the bound")]
fn scale(bits: u64, bound: u32) -> u32 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u32
}
