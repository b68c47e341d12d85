//! Keys of records that were moved, one behind the other: each as what differs from the one before,
//! since they come mostly in their order. What goes with a key is its owner's.

use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::entry::KeyspaceId;
use crate::base::error::Result;
use crate::table::block::common_prefix;

/// The key that the next one is told apart from.
#[derive(Debug, Default)]
pub(crate) struct MovedKey(Vec<u8>);

impl MovedKey {
    /// Writes the next key.
    pub(crate) fn put(&mut self, bytes: &mut Vec<u8>, keyspace: KeyspaceId, key: &[u8]) {
        put_varint(bytes, u64::from(keyspace.0));
        let shared = common_prefix(&self.0, key);
        let rest = key.get(shared..).unwrap_or_default();
        put_varint(bytes, shared as u64);
        put_bytes(bytes, rest);
        self.0.truncate(shared);
        self.0.extend_from_slice(rest);
    }

    /// Reads the next key, and says whose it is.
    pub(crate) fn take(&mut self, rest: &mut Reader<'_>) -> Result<KeyspaceId> {
        let keyspace = KeyspaceId(rest.varint_u32()?);
        self.0.truncate(rest.varint()? as usize);
        self.0.extend_from_slice(rest.bytes()?);
        Ok(keyspace)
    }

    /// The key read last.
    pub(crate) fn key(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity()
    }
}
