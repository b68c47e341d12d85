//! Puts entries together into a block's uncompressed bytes.
//!
//! Owned by one writer. Invariant: entries arrive in order (the writer checks).

use crate::base::codec::{put_varint, varint_len};
use crate::base::entry::{Kind, SEQ_MAX, Seq};
use crate::table::block::common_prefix;
use crate::table::format::RESTART_INTERVAL_MAX;

/// A block in the making.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    restart_interval: usize,
    since_restart: usize,
    entries: usize,
}

/// Bytes that a seq takes in an entry: 0 to 7.
fn seq_len(seq: Seq) -> usize {
    debug_assert!(seq <= SEQ_MAX);
    (64 - seq.leading_zeros() as usize).div_ceil(8)
}

impl BlockBuilder {
    /// A builder that restarts prefix compression every `restart_interval` entries (1 to
    /// [`RESTART_INTERVAL_MAX`]).
    pub(crate) fn new(restart_interval: usize) -> Self {
        Self {
            bytes: Vec::new(),
            restarts: Vec::new(),
            restart_interval: restart_interval.clamp(1, RESTART_INTERVAL_MAX),
            since_restart: 0,
            entries: 0,
        }
    }

    /// Whether no entry was added since the last [`BlockBuilder::clear`].
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Entries added since then.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Length of the finished block.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// Upper bound of what adding such an entry adds to [`BlockBuilder::len`].
    pub(crate) fn entry_len_max(key: &[u8], value: &[u8]) -> usize {
        let lengths = 1 + varint_len(key.len() as u64) + varint_len(value.len() as u64);
        lengths + 1 + 7 + key.len() + value.len() + 4
    }

    /// What adding this entry adds to [`BlockBuilder::len`]; `last_key` is the key added before.
    pub(crate) fn entry_len(&self, last_key: &[u8], key: &[u8], seq: Seq, value: &[u8]) -> usize {
        let shared = self.shared(last_key, key);
        let restart = if shared.is_none() { 4 } else { 0 };
        let shared = shared.unwrap_or(0);
        let unshared = key.len() - shared;
        let lengths = [shared, unshared, value.len()].map(|length| varint_len(length as u64));
        lengths.iter().sum::<usize>() + 1 + seq_len(seq) + unshared + value.len() + restart
    }

    /// Key bytes that the next entry shares with the one before; `None`: it is a restart point.
    fn shared(&self, last_key: &[u8], key: &[u8]) -> Option<usize> {
        let restarts = self.is_empty() || self.since_restart >= self.restart_interval;
        (!restarts).then(|| common_prefix(last_key, key))
    }

    /// Adds the next entry; `last_key` is the key added before.
    pub(crate) fn add(&mut self, last_key: &[u8], key: &[u8], seq: Seq, kind: Kind, value: &[u8]) {
        let shared = self.shared(last_key, key).unwrap_or_else(|| {
            self.restarts.push(self.bytes.len() as u32);
            self.since_restart = 0;
            0
        });
        self.since_restart += 1;
        self.entries += 1;
        let unshared = key.get(shared..).unwrap_or(&[]);
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, unshared.len() as u64);
        put_varint(&mut self.bytes, value.len() as u64);
        let seq_len = seq_len(seq);
        self.bytes.push(kind as u8 | ((seq_len as u8) << 4));
        self.bytes.extend(seq.to_le_bytes().into_iter().take(seq_len));
        self.bytes.extend_from_slice(unshared);
        self.bytes.extend_from_slice(value);
    }

    /// Ends the block and returns its bytes, valid until [`BlockBuilder::clear`].
    pub(crate) fn finish(&mut self) -> &[u8] {
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.bytes.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.bytes
    }

    /// Makes ready for the next block, keeping the buffers.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.restarts.clear();
        self.since_restart = 0;
        self.entries = 0;
    }
}
