//! Every limit of the engine, each with the sum it comes from.

/// Longest key: its length fits 16 bits in every format (64 KiB less one byte).
pub const KEY_BYTES_MAX: usize = 65_535;

/// Longest end of a range delete: one byte more than a key, so that an end beyond every key (and
/// one just behind the longest key) can be written down.
pub(crate) const RANGE_END_BYTES_MAX: usize = KEY_BYTES_MAX + 1;

/// Longest value kept in one piece: a frame, a block and a journal segment must each hold it with
/// its header in 32-bit lengths, and recovery must hold one in memory.
pub const VALUE_BYTES_MAX: usize = 256 << 20;

/// Longest value in a file of its own, which is written and read piece by piece: its length fits
/// the 32 bits of a handle (4 GiB less one byte).
pub const LARGE_VALUE_BYTES_MAX: u64 = u32::MAX as u64;

/// Operations in one batch: counts are 32-bit in the frame; the bound keeps a batch's index small.
pub const BATCH_OPERATIONS_MAX: usize = 1 << 24;

/// Encoded bytes of one batch: one frame, 32-bit length, with room for its header.
pub const BATCH_BYTES_MAX: usize = 1 << 30;

/// Length of a keyspace's name in bytes.
pub const KEYSPACE_NAME_BYTES_MAX: usize = 255;

/// Levels of an LSM index: with a factor of 10 seven levels hold 10^7 memtables.
pub(crate) const LEVELS: usize = 7;

const _: () = assert!(VALUE_BYTES_MAX + KEY_BYTES_MAX + 64 < BATCH_BYTES_MAX);
const _: () = assert!(BATCH_BYTES_MAX < u32::MAX as usize);
const _: () = assert!((VALUE_BYTES_MAX as u64) < LARGE_VALUE_BYTES_MAX);
