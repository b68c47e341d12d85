//! Which item comes next: uniform, scrambled zipfian, latest; and a permutation of the items that
//! needs no memory. All are pure functions of a seeded generator.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Zipf};

/// Exponent of the zipfian distributions where no other is given, as in YCSB.
pub const ZIPF_EXPONENT: f64 = 0.99;

/// Neighbourhoods of [`Chooser::composite`]: with 420 million items, 65,536 items in each.
const NEIGHBOURHOODS: u64 = 6_400;

/// Rounds of the Feistel network: four make a balanced one look random.
const ROUNDS: u64 = 4;

/// A one-to-one scrambling of 64-bit numbers (the finalizer of splitmix64).
#[must_use]
pub fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A pseudo-random order of `0..count`: a Feistel network over the next even number of bits,
/// walked on until it falls within the range.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// The permutation of `0..count` that belongs to `seed`.
    #[must_use]
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Self { count, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// The place of `index`. Precondition: `index` is below the count.
    #[must_use]
    pub fn apply(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut place = self.network(index);
        while place >= self.count {
            place = self.network(place);
        }
        place
    }

    fn network(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits & mask, number & mask);
        for round in 0..ROUNDS {
            let scrambled = mix(right ^ self.seed.rotate_left(round as u32 * 16) ^ round << 60);
            (left, right) = (right, left ^ scrambled & mask);
        }
        left << self.half_bits | right
    }
}

/// How items are chosen.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// Every item equally often.
    Uniform,
    /// A few items very often; the popular ones are scattered over the key space.
    Zipfian(Zipf<f64>, Permutation),
    /// A few of the newest items very often.
    Latest(Zipf<f64>),
    /// A few neighbourhoods very often, every item within one equally often.
    Composite(Zipf<f64>, Permutation),
}

impl Chooser {
    /// Scrambled zipfian over `0..count`, the item of rank r chosen in proportion to
    /// r to the power of minus `exponent` (above 0), by rejection inversion: exact for any
    /// exponent, also 1 and above, with no table.
    #[must_use]
    pub fn zipfian(count: u64, exponent: f64, seed: u64) -> Self {
        match zipf(count, exponent) {
            Some(zipf) => Self::Zipfian(zipf, Permutation::new(count.max(1), seed)),
            None => Self::Uniform,
        }
    }

    /// Zipfian from the newest of `count` items backwards.
    #[must_use]
    pub fn latest(count: u64) -> Self {
        zipf(count, ZIPF_EXPONENT).map_or(Self::Uniform, Self::Latest)
    }

    /// Zipfian neighbourhoods of `0..count`, uniform within: keys whose front is zipfian.
    #[must_use]
    pub fn composite(count: u64, exponent: f64, seed: u64) -> Self {
        let groups = NEIGHBOURHOODS.min(count.max(1));
        match zipf(groups, exponent) {
            Some(zipf) => Self::Composite(zipf, Permutation::new(groups, seed)),
            None => Self::Uniform,
        }
    }

    /// The next item, below `count` (at least 1), the number of items there are now.
    pub fn next(&self, random: &mut Xoshiro256PlusPlus, count: u64) -> u64 {
        let count = count.max(1);
        match self {
            Self::Uniform => random.random_range(0..count),
            Self::Zipfian(zipf, scatter) => {
                let rank = (zipf.sample(random) as u64).saturating_sub(1);
                scatter.apply(rank.min(scatter.count - 1)).min(count - 1)
            }
            Self::Composite(zipf, scatter) => {
                let rank = (zipf.sample(random) as u64).saturating_sub(1);
                let group = u128::from(scatter.apply(rank.min(scatter.count - 1)));
                let bound = |group: u128| {
                    (group * u128::from(count) / u128::from(scatter.count.max(1))) as u64
                };
                let (first, end) = (bound(group), bound(group + 1));
                random.random_range(first..end.max(first + 1)).min(count - 1)
            }
            Self::Latest(zipf) => {
                let rank = (zipf.sample(random) as u64).saturating_sub(1);
                count - 1 - rank.min(count - 1)
            }
        }
    }
}

fn zipf(count: u64, exponent: f64) -> Option<Zipf<f64>> {
    Zipf::new(count.max(1) as f64, exponent).ok()
}

#[cfg(test)]
mod tests;
