//! CRC-32C bound to identity, and the key hash that filters, caches and shards share.

use crate::base::entry::KeyspaceId;

/// CRC-32C of `bytes`, seeded with the place the bytes belong to, so that a right block in the
/// wrong file or at the wrong offset fails its check (rules F1 and P9).
///
/// `seed` is [`file_seed`] of the file; `offset` the position of the first byte in that file.
pub(crate) fn crc_at(seed: u32, offset: u64, bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c_append(crc32c::crc32c_append(seed, &offset.to_le_bytes()), bytes))
}

/// CRC-32C of `bytes` under `seed` alone, for bytes without a fixed place.
pub(crate) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c_append(seed, bytes))
}

/// CRC-32C of two byte strings in a row, bound to nothing: the part of a checksum that can be
/// computed before the place is known. Never stored as it is.
pub(crate) fn crc_of_parts(first: &[u8], second: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(first), second)
}

/// The seed of every checksum in one file: database and file number.
pub(crate) fn file_seed(uuid: &[u8; 16], file: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(uuid), &file.to_le_bytes())
}

/// A CRC computed over bytes that hold a CRC is weak; masking (as LevelDB does) mends that.
fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Hash of a user key: computed once per operation and reused by every filter and shard.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// Hash of (keyspace, key) in memory alone.
pub(crate) fn key_hash_in(keyspace: KeyspaceId, key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, u64::from(keyspace.0))
}

/// Hash of (keyspace, key) that stands on disk, under a key of the database: who chooses user keys
/// cannot choose what collides. Never change it while the format number stays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedHash(u64);

impl KeyedHash {
    /// The hash of the database with this identity.
    pub(crate) fn new(uuid: &[u8; 16]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(uuid))
    }

    /// Hash of a key of a keyspace.
    pub(crate) fn hash(self, keyspace: KeyspaceId, key: &[u8]) -> u64 {
        xxhash_rust::xxh3::xxh3_64_with_seed(key, self.seed(keyspace))
    }

    /// Hash of a key of a keyspace that may stand for the key itself: 128 bits.
    pub(crate) fn wide(self, keyspace: KeyspaceId, key: &[u8]) -> u128 {
        xxhash_rust::xxh3::xxh3_128_with_seed(key, self.seed(keyspace))
    }

    fn seed(self, keyspace: KeyspaceId) -> u64 {
        // An odd factor, so that no two keyspaces share a seed.
        self.0 ^ u64::from(keyspace.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Whole-file checksum that can be fed piece by piece (rule F4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rolling(u32);

impl Rolling {
    /// An empty checksum for the file with this seed.
    pub(crate) fn new(seed: u32) -> Self {
        Self(seed)
    }

    /// Feeds the next bytes of the file.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    /// The checksum of everything fed so far.
    pub(crate) fn value(self) -> u32 {
        mask(self.0)
    }
}

#[cfg(test)]
mod tests;
