//! What an experiment of a paper asks of an engine beyond [`crate::Settings`]. An engine takes
//! what it has a setting for and says what it does not take.

use cleavedb::StrategyKind;
use serde::{Deserialize, Serialize};

/// Settings that only some engines have; `None` leaves the engine's own choice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// Bytes of one memtable.
    pub memtable_bytes: Option<u64>,
    /// Bytes of one table file.
    pub file_bytes: Option<u64>,
    /// Bytes of the cache of blocks; 0 for none.
    pub cache_bytes: Option<u64>,
    /// Bits of the filters for each key.
    pub filter_bits: Option<u8>,
    /// Size of a level by that of the one above.
    pub size_ratio: Option<u32>,
    /// Values of so many bytes and more are stored apart from the keys.
    pub separate_at: Option<u64>,
    /// How CleaveDB keeps, finds and collects values stored apart.
    pub strategy: Option<StrategyKind>,
    /// Bytes of one file of values stored apart.
    pub separated_file_bytes: Option<u64>,
    /// Whether room of values stored apart that are no longer valid is taken back.
    pub collects: Option<bool>,
    /// Share of the oldest value files that is cleaned along with compactions.
    pub age_cutoff: Option<f64>,
    /// Share of garbage from which value files are cleaned.
    pub garbage_share: Option<f64>,
    /// Bytes of files with values apart by bytes of the valid records in them, at most.
    pub space_amplification_max: Option<f64>,
    /// Bytes of unflushed log from which memtables are flushed.
    pub replay_bytes_max: Option<u64>,
    /// Bytes of CleaveDB's cache of combined merge operands; 0 for none.
    pub delta_cache_bytes: Option<u64>,
    /// Live bytes from which a bucket of operands is split, in percent of its capacity.
    pub bucket_split_percent: Option<u64>,
    /// Whether buckets of operands are split and merged, rather than rewritten only.
    pub bucket_splits: Option<bool>,
    /// Whether commits are logged, so that a store that was killed can be recovered.
    pub journaled: Option<bool>,
    /// Whether scans read values stored apart many at a time.
    pub prefetch: Option<bool>,
    /// Whether merges overwrite parts of values, rather than add to numbers.
    pub merges_parts: bool,
    /// Whether the engine counts its reads by where they end and how long they take, where that
    /// is extra work for it.
    pub statistics: bool,
}

impl Tuning {
    /// Name and value of everything that is asked for.
    #[must_use]
    pub fn asked(&self) -> Vec<(String, String)> {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else {
            return Vec::new();
        };
        let asked = fields.into_iter().filter(|(name, value)| {
            let off = ["merges_parts", "statistics"].contains(&name.as_str()) && *value == false;
            !value.is_null() && !off
        });
        asked.map(|(name, value)| (name, value.to_string())).collect()
    }

    /// A sentence for an engine's settings that names what it was asked for and has no setting
    /// like; empty where there is nothing.
    #[must_use]
    pub fn not_taken(&self, taken: &[&str]) -> String {
        let left = self.asked().into_iter().filter(|(name, _)| !taken.contains(&name.as_str()));
        let left: Vec<_> = left.map(|(name, value)| format!("{name}={value}")).collect();
        if left.is_empty() { String::new() } else { format!("; not taken: {}", left.join(" ")) }
    }
}

#[cfg(test)]
mod tests;
