//! A small random number generator: xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64.
//!
//! Implemented here, because comparisons must give the same result on every machine and in every
//! version. The default generator of a crate may change with an update. Not for secrets.

#[derive(Debug, Clone)]
pub struct Random([u64; 4]);

impl Random {
    /// Starts a stream; any seed is good.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        Self(std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// The next 64 random bits.
    pub fn next(&mut self) -> u64 {
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
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_the_published_sequence_of_its_seeding_and_step() {
        // The first output of splitmix64 for seed 0 in its authors' test vectors.
        assert_eq!(Random::new(0).0[0], 0xe220_a839_7b1d_cdaf);
        // xoshiro256++ from the state 1, 2, 3, 4, as in the tests of the reference implementation.
        let mut random = Random([1, 2, 3, 4]);
        assert_eq!([random.next(), random.next()], [41_943_041, 58_720_359]);
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut random = Random::new(7);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[random.below(10)] += 1);
        assert!(counts.iter().all(|n| (850..1150).contains(n)), "{counts:?}");
    }
}
