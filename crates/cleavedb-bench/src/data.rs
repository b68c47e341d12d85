//! Keys and values of a run, each a pure function of the seed and an item number, so that two
//! engines, two runs and the reader of a value agree on the bytes without storing them.
//!
//! - D1: keys are 16 bytes, or longer by what no two keys share; items below `num` sort by item
//!   number, spread over the key space.
//! - D2: item `num + j` (an insertion) sorts at a scattered place between the first ones.
//! - D3: [`Dataset::missing_key`] lies between existing keys and never equals one.
//! - D4: a value starts with its item and version (as far as it is long enough) and is about
//!   half compressible.
//! - D5: where values have mixed sizes, a value's size is a function of its item and version,
//!   both of which it holds; as many are between 2 and 4 times the smallest as between 4 and 8.
//! - D6: [`Dataset::short_counter_key`] has the lengths of the keys of UP2X, a service that counts:
//!   normal, 10.45 bytes on average with a deviation of 1.4 (Cao et al., FAST'20).

use std::ops::Deref;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::distribution::{Permutation, mix};

/// Bytes of every key, unless more are asked for; the least.
pub const KEY_BYTES: usize = 16;

/// Bytes of a key, at most.
pub const KEY_BYTES_MAX: usize = 48;

/// A number of bytes that a key may have.
///
/// # Errors
/// A sentence that says which there are.
pub fn parse_key_bytes(text: &str) -> Result<usize, String> {
    let bytes = text.parse().ok().filter(|bytes| (KEY_BYTES..=KEY_BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| format!("keys have {KEY_BYTES} to {KEY_BYTES_MAX} bytes, not '{text}'"))
}

/// Bytes of the pool that values are cut from.
const POOL_BYTES: usize = 1 << 20;

/// Length of one piece of the pool: the first half random, the second half a repetition of it.
const PIECE_BYTES: usize = 100;

/// Bytes of the item number and the version in front of a value.
const HEADER_BYTES: usize = 16;

/// Smallest value where sizes are mixed.
pub const MIXED_BYTES_MIN: usize = 64;

/// Average length of a short key, its deviation, and the least.
const SHORT_KEY_BYTES: f64 = 10.45;
const SHORT_KEY_DEVIATION: f64 = 1.4;
const SHORT_KEY_BYTES_MIN: usize = 7;

/// Scatters the numbers of counters; odd.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key. What is beyond its length is zero, so that keys compare as their bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    length: usize,
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// The keys and values of one run.
#[derive(Clone, Debug)]
pub struct Dataset {
    num: u64,
    stride: u64,
    seed: u64,
    key_bytes: usize,
    value_bytes: usize,
    mixed: bool,
    pool: Vec<u8>,
    scatter: Permutation,
}

impl Dataset {
    /// A dataset of `num` items (at least 1) with values of `value_bytes`.
    #[must_use]
    pub fn new(num: u64, value_bytes: usize, seed: u64) -> Self {
        let num = num.max(1);
        Self {
            num,
            stride: u64::MAX / num,
            seed,
            key_bytes: KEY_BYTES,
            value_bytes,
            mixed: false,
            pool: pool(POOL_BYTES + value_bytes, seed),
            scatter: Permutation::new(num, seed ^ 0x5ca7),
        }
    }

    /// The same with values of [`MIXED_BYTES_MIN`] up to what was given as their size, if
    /// `mixed` (D5).
    #[must_use]
    pub fn with_mixed_sizes(mut self, mixed: bool) -> Self {
        self.mixed = mixed && self.value_bytes > MIXED_BYTES_MIN;
        self
    }

    /// The same with keys of so many bytes, from [`KEY_BYTES`] to [`KEY_BYTES_MAX`] (D1).
    #[must_use]
    pub fn with_key_bytes(mut self, key_bytes: usize) -> Self {
        self.key_bytes = key_bytes.clamp(KEY_BYTES, KEY_BYTES_MAX);
        self
    }

    /// Items loaded at the beginning.
    #[must_use]
    pub fn num(&self) -> u64 {
        self.num
    }

    /// Bytes of every key but those of [`Dataset::short_counter_key`].
    #[must_use]
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Bytes of every value, or of the largest.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Key of an item.
    #[must_use]
    pub fn key(&self, item: u64) -> Key {
        self.key_at(self.place(item))
    }

    /// The keys that all items lie between: from the first, inclusive, to the second, exclusive.
    #[must_use]
    pub fn bounds(&self) -> ([u8; KEY_BYTES], [u8; KEY_BYTES]) {
        let mut end = hexadecimal(u64::MAX);
        if let Some(first) = end.first_mut() {
            // The first letter that is no digit.
            *first = b'g';
        }
        (hexadecimal(0), end)
    }

    /// A key that no item has, close above `item`'s (D3).
    #[must_use]
    pub fn missing_key(&self, item: u64) -> Key {
        let item = item % self.num;
        self.key_at((item * self.stride).wrapping_add(self.stride / 2 + 1))
    }

    /// Key of a counter, for merges; all counters sort after all items.
    #[must_use]
    pub fn counter_key(&self, item: u64) -> Key {
        let mut key = self.key_at(item);
        if let Some(first) = key.bytes.first_mut() {
            *first = b'm';
        }
        key
    }

    /// Key of a counter of UP2X (D6); no two are equal, nor is one a [`Dataset::counter_key`].
    #[must_use]
    pub fn short_counter_key(&self, item: u64) -> Key {
        let hash = mix(item ^ self.seed.rotate_left(17));
        // Four uniform numbers together are near enough to normal.
        let uniform = |part: u32| (hash >> (16 * part) & 0xffff) as f64 / 65_536.0;
        let sum: f64 = (0..4).map(uniform).sum();
        let deviations = (sum - 2.0) * 3f64.sqrt();
        let length = (SHORT_KEY_BYTES + deviations * SHORT_KEY_DEVIATION).round();
        let length = (length as usize).clamp(SHORT_KEY_BYTES_MIN, KEY_BYTES - 1);
        // An odd factor is one-to-one within a power of two; the counter's number is scattered.
        let [_, _, _, number @ ..] = (item.wrapping_mul(SCATTER) << 24 >> 24).to_be_bytes();
        let mut bytes = [0; KEY_BYTES_MAX];
        if let Some(first) = bytes.first_mut() {
            *first = b'm';
        }
        let rest = bytes.iter_mut().take(length).skip(1);
        for (to, from) in rest.zip(number.into_iter().chain(hash.to_be_bytes())) {
            *to = from;
        }
        Key { bytes, length }
    }

    /// Whether `key` is an item's key rather than a counter's.
    #[must_use]
    pub fn is_item_key(key: &[u8]) -> bool {
        key.first().is_some_and(|&first| first != b'm')
    }

    /// Writes the value of `item` at `version` into `value`, replacing what it holds.
    pub fn value(&self, item: u64, version: u64, value: &mut Vec<u8>) {
        value.clear();
        let hash = mix(self.seed ^ mix(item) ^ version.rotate_left(32));
        let start = (hash % POOL_BYTES as u64) as usize;
        let bytes = self.bytes_of(self.place(item), version);
        value.extend(self.pool.get(start..start + bytes).unwrap_or_default());
        let mut header = [0u8; HEADER_BYTES];
        let (left, right) = header.split_at_mut(HEADER_BYTES / 2);
        left.copy_from_slice(&self.place(item).to_be_bytes());
        right.copy_from_slice(&version.to_be_bytes());
        for (to, from) in value.iter_mut().zip(header) {
            *to = from;
        }
    }

    /// Whether `value` may be what was stored under the item key `key`: right length, right item.
    #[must_use]
    pub fn is_value_of(&self, key: &[u8], value: &[u8]) -> bool {
        if !self.mixed && value.len() != self.value_bytes {
            return false;
        }
        let mut place = 0u64;
        for &digit in key.iter().take(KEY_BYTES) {
            let Some(nibble) = (digit as char).to_digit(16) else { return false };
            place = place << 4 | u64::from(nibble);
        }
        if self.mixed {
            let header = value.get(HEADER_BYTES / 2..HEADER_BYTES);
            let version = header.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
            if version.is_none_or(|version| value.len() != self.bytes_of(place, version)) {
                return false;
            }
        }
        value.iter().zip(place.to_be_bytes()).all(|(&have, want)| have == want)
    }

    /// Bytes of a value (D5): the logarithm of the size is uniform.
    fn bytes_of(&self, place: u64, version: u64) -> usize {
        if !self.mixed {
            return self.value_bytes;
        }
        let hash = mix(place ^ mix(version ^ self.seed));
        let fraction = hash as f64 / u64::MAX as f64;
        let (least, most) = (MIXED_BYTES_MIN as f64, self.value_bytes as f64);
        ((least * (most / least).powf(fraction)) as usize).min(self.value_bytes)
    }

    /// The key at a place: its digits, then those of hashes of it.
    fn key_at(&self, place: u64) -> Key {
        let mut key = Key { bytes: [0; KEY_BYTES_MAX], length: self.key_bytes };
        let mut digits = place;
        let length = key.length;
        for part in key.bytes.chunks_mut(KEY_BYTES) {
            part.copy_from_slice(&hexadecimal(digits));
            digits = mix(digits ^ self.seed);
        }
        key.bytes.iter_mut().skip(length).for_each(|byte| *byte = 0);
        key
    }

    /// Where an item stands in the space of all 64-bit numbers (D1, D2).
    fn place(&self, item: u64) -> u64 {
        if item < self.num {
            return item * self.stride;
        }
        let round = item / self.num;
        let within = self.scatter.apply(item % self.num);
        (within * self.stride).wrapping_add(round % (self.stride / 2).max(1))
    }
}

/// `number` as 16 hexadecimal digits, so that bytes sort as numbers.
fn hexadecimal(number: u64) -> [u8; KEY_BYTES] {
    let mut digits = [0u8; KEY_BYTES];
    for (index, digit) in digits.iter_mut().enumerate() {
        let nibble = (number >> (60 - 4 * index) & 15) as u8;
        *digit = if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
    }
    digits
}

/// Bytes of which every second half piece repeats the first.
fn pool(bytes: usize, seed: u64) -> Vec<u8> {
    use rand::Rng;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut pool = Vec::with_capacity(bytes + PIECE_BYTES);
    let mut half = [0u8; PIECE_BYTES / 2];
    while pool.len() < bytes {
        random.fill_bytes(&mut half);
        pool.extend_from_slice(&half);
        pool.extend_from_slice(&half);
    }
    pool
}

#[cfg(test)]
mod tests;
