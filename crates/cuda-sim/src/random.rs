//! A small random number generator (SplitMix64) that produces the same sequence from a seed on
//! every machine.

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The bias of the remainder is far too small to affect a schedule.
        (self.next() % (bound as u64).max(1)) as usize
    }

    /// Returns true with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < probability
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        // The first outputs of the reference implementation for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn random_choices_have_their_probability() {
        let mut random = Random::new(1);
        let hits = (0..100_000).filter(|_| random.chance(0.25)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!random.chance(0.0));
        assert!(random.chance(1.0));
    }
}
