//! Random numbers of comparisons: xoshiro256++ (Blackman and Vigna, 2019), seeded by SplitMix64.
//!
//! Not SplitMix64 alone as elsewhere: a comparison must give the same answer in every version, and
//! verdicts near their threshold change with the stream. Not for secrets.

use metier_types::random::SplitMix64;

#[derive(Debug, Clone)]
pub struct Xoshiro256([u64; 4]);

impl Xoshiro256 {
    /// From a seed; any seed is good.
    pub fn new(seed: u64) -> Self {
        let mut words = SplitMix64::new(seed);
        Self(std::array::from_fn(|_| words.next_u64()))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// An integer below `bound`, by multiplication (Lemire); its bias of `bound` / 2⁶⁴ is
    /// negligible.
    pub fn next_below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_the_published_sequence_of_its_seeding_and_step() {
        // splitmix64 of seed 0 begins with this word in its authors' test vectors.
        assert_eq!(Xoshiro256::new(0).0[0], 0xe220_a839_7b1d_cdaf);
        // xoshiro256++ from the state 1, 2, 3, 4, as in the reference implementation's tests.
        let mut random = Xoshiro256([1, 2, 3, 4]);
        assert_eq!([random.next_u64(), random.next_u64()], [41_943_041, 58_720_359]);
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut random = Xoshiro256::new(7);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[random.next_below(10)] += 1);
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }
}
