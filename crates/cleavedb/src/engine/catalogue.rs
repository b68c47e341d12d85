//! Keyspaces: names, numbers, settings, and the index of each.

use std::collections::BTreeMap;

use crate::base::checksum::KeyedHash;
use crate::base::codec::{Reader, put_bytes, put_varint};
use crate::base::compress::Compression;
use crate::base::entry::KeyspaceId;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::KEYSPACE_NAME_BYTES_MAX;
use crate::base::merge_operator::SharedOperator;
use crate::base::section::{Section, SectionTag};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::sync::{Arc, figures};
use crate::base::usual::UsualRun;
use crate::engine::locate::streak::Streak;
use crate::engine::settings::{Deltas, IndexKind, KeyspaceSettings};
use crate::index::OrderedIndex;
use crate::values::strategy::Strategy;

/// One keyspace while the database is open.
pub(crate) struct KeyspaceState {
    /// Its permanent number.
    pub(crate) id: KeyspaceId,
    /// Its name.
    pub(crate) name: String,
    /// What was recorded at its creation.
    pub(crate) settings: KeyspaceSettings,
    /// Its merge operator; `None` also where the recorded one is not registered.
    pub(crate) operator: Option<SharedOperator>,
    /// Where its values go.
    pub(crate) placement: Placement,
    /// Its index.
    pub(crate) index: Arc<dyn OrderedIndex>,
    /// Set when it is dropped.
    pub(crate) dropped: AtomicBool,
    /// How far its scans usually go.
    pub(crate) usual_run: UsualRun,
    /// Whether what its scans read last of value files lay in the page cache.
    pub(crate) scans_cached: figures::AtomicBool,
    /// Whether its gets leave the locator out.
    pub(crate) unlocated: Streak,
}

impl KeyspaceState {
    /// `Closed` once dropped.
    pub(crate) fn check_exists(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            let message = format!("keyspace '{}' was dropped", self.name);
            return Err(Error::new(ErrorKind::Closed, message));
        }
        Ok(())
    }
}

/// Where the values of a keyspace go; what encoding a batch needs to know of it.
#[derive(Clone)]
pub(crate) struct Placement {
    /// Decides which values are separated.
    pub(crate) strategy: Arc<dyn Strategy>,
    /// Bytes from which on a value is separated; `None`: never.
    pub(crate) separate_at: Option<usize>,
    /// Compression of separated values.
    pub(crate) compression: Compression,
    /// Hash of keys, for the footers of value files.
    pub(crate) hash: KeyedHash,
}

impl Placement {
    /// Whether a value of this length is separated.
    pub(crate) fn separates(&self, value_bytes: usize) -> bool {
        self.strategy.separates(value_bytes, self.separate_at)
    }
}

/// All keyspaces.
#[derive(Default)]
pub(crate) struct Catalogue {
    by_name: BTreeMap<String, Arc<KeyspaceState>>,
    by_id: BTreeMap<KeyspaceId, Arc<KeyspaceState>>,
    /// Largest number ever given out.
    pub(crate) last_id: u32,
}

impl Catalogue {
    /// The keyspace of that name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<KeyspaceState>> {
        self.by_name.get(name).cloned()
    }

    /// The keyspace of that number.
    pub(crate) fn numbered(&self, id: KeyspaceId) -> Option<Arc<KeyspaceState>> {
        self.by_id.get(&id).cloned()
    }

    /// All keyspaces by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<KeyspaceState>> {
        self.by_name.values()
    }

    /// Adds one.
    pub(crate) fn insert(&mut self, keyspace: Arc<KeyspaceState>) {
        self.last_id = self.last_id.max(keyspace.id.0);
        self.by_id.insert(keyspace.id, Arc::clone(&keyspace));
        self.by_name.insert(keyspace.name.clone(), keyspace);
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<KeyspaceState>> {
        let gone = self.by_name.remove(name)?;
        self.by_id.remove(&gone.id);
        Some(gone)
    }
}

/// A change to the set of keyspaces. On disk: never renumber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyspaceEdit {
    /// 1: a keyspace exists from here on; 4: one whose operands are in buckets.
    Create {
        /// Its number.
        id: KeyspaceId,
        /// Its name.
        name: String,
        /// Its settings.
        settings: KeyspaceSettings,
    },
    /// 2: a keyspace does not exist any more.
    Drop {
        /// Its number.
        id: KeyspaceId,
    },
    /// 3: the largest number ever given out (in snapshots, where the last ones were dropped).
    LastId {
        /// That number.
        id: u32,
    },
}

impl KeyspaceEdit {
    /// The edit as a section.
    pub(crate) fn encode(edits: &[Self]) -> Section {
        let mut payload = Vec::new();
        for edit in edits {
            match edit {
                Self::Create { id, name, settings } => {
                    payload.push(if settings.deltas == Some(Deltas::Buckets) { 4 } else { 1 });
                    put_varint(&mut payload, u64::from(id.0));
                    put_bytes(&mut payload, name.as_bytes());
                    payload.push(settings.index as u8);
                    put_bytes(
                        &mut payload,
                        settings.merge_operator.as_deref().unwrap_or("").as_bytes(),
                    );
                    put_varint(&mut payload, settings.compression.len() as u64);
                    payload.extend(settings.compression.iter().map(|&c| c as u8));
                    // Zero: values are never separated.
                    let separate_at = settings.separate_at.map_or(0, |bytes| u64::from(bytes) + 1);
                    put_varint(&mut payload, separate_at);
                    payload.push(settings.value_compression as u8);
                }
                Self::Drop { id } => {
                    payload.push(2);
                    put_varint(&mut payload, u64::from(id.0));
                }
                Self::LastId { id } => {
                    payload.push(3);
                    put_varint(&mut payload, u64::from(*id));
                }
            }
        }
        Section { tag: SectionTag::KEYSPACES, payload }
    }

    /// The edits of a section.
    pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Self>> {
        let mut reader = Reader::new(payload);
        let mut edits = Vec::new();
        while !reader.is_empty() {
            edits.push(match reader.u8()? {
                1 => Self::decode_create(&mut reader, Deltas::Inline)?,
                4 => Self::decode_create(&mut reader, Deltas::Buckets)?,
                2 => Self::Drop { id: KeyspaceId(reader.varint_u32()?) },
                3 => Self::LastId { id: reader.varint_u32()? },
                other => {
                    return Err(Error::corruption(format!("unknown keyspace edit {other}")));
                }
            });
        }
        Ok(edits)
    }

    fn decode_create(reader: &mut Reader<'_>, deltas: Deltas) -> Result<Self> {
        let id = KeyspaceId(reader.varint_u32()?);
        let name = text(reader.bytes()?)?;
        let index = match reader.u8()? {
            1 => IndexKind::Lsm,
            2 => IndexKind::Naive,
            3 => IndexKind::Flex,
            other => {
                let message = format!("keyspace '{name}' has an index of unknown kind {other}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        let operator = text(reader.bytes()?)?;
        let levels = reader.varint()?;
        let levels = usize::try_from(levels).unwrap_or(usize::MAX);
        let compression =
            reader.take(levels)?.iter().map(|&c| Compression::from_u8(c)).collect::<Result<_>>()?;
        let merge_operator = (!operator.is_empty()).then_some(operator);
        let separate_at = match reader.varint()?.checked_sub(1).map(u32::try_from) {
            None => None,
            Some(Ok(bytes)) => Some(bytes),
            Some(Err(_)) => {
                let message = format!("keyspace '{name}' separates values that nobody can store");
                return Err(Error::corruption(message));
            }
        };
        let value_compression = Compression::from_u8(reader.u8()?)?;
        let settings = KeyspaceSettings {
            index,
            merge_operator,
            compression,
            separate_at,
            value_compression,
            deltas: Some(deltas),
        };
        Ok(Self::Create { id, name, settings })
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::corruption("a name is not UTF-8"))
}

/// Refuses names that are empty, overlong or hold control characters.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > KEYSPACE_NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a keyspace's name has 1 to {KEYSPACE_NAME_BYTES_MAX} bytes, not {}",
            name.len()
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid("a keyspace's name has no control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
