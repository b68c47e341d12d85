//! What RocksDB tells of its reads, taken from the texts it prints: there every figure stands
//! beside its name, while the numbers of its tickers differ between versions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Names of its tickers and what they count.
const TICKERS: [(&str, &str); 4] = [
    ("rocksdb.memtable.hit", "gets ended in memtables"),
    ("rocksdb.l0.hit", "gets ended in level 0"),
    ("rocksdb.l1.hit", "gets ended in level 1"),
    ("rocksdb.l2andup.hit", "gets ended in level 2 and deeper"),
];

/// Names of its histograms, what they count and what they add up.
const HISTOGRAMS: [(&str, &str, &str); 3] = [
    ("rocksdb.db.get.micros", "gets", "get micros"),
    ("rocksdb.blobdb.blob.file.read.micros", "blob file reads", "blob file read micros"),
    ("rocksdb.read.num.merge_operands", "gets of merged values", "operands applied"),
];

/// Levels that it can have.
pub(super) const LEVELS: usize = 7;

/// The number after `label` and a colon in a line.
fn figure(line: &str, label: &str) -> Option<u64> {
    let mut words = line.split_whitespace();
    words.find(|word| *word == label)?;
    words.next().filter(|word| *word == ":")?;
    words.next()?.parse().ok()
}

/// Counters from the text of the statistics and that of `rocksdb.cf-file-histogram`.
pub(super) fn counters(statistics: &str, files: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for line in statistics.lines() {
        let Some(name) = line.split_whitespace().next() else { continue };
        if let Some((_, counted)) = TICKERS.iter().find(|ticker| ticker.0 == name) {
            counters.extend(figure(line, "COUNT").map(|count| ((*counted).to_owned(), count)));
        }
        if let Some((_, counted, added)) = HISTOGRAMS.iter().find(|one| one.0 == name) {
            counters.extend(figure(line, "COUNT").map(|count| ((*counted).to_owned(), count)));
            counters.extend(figure(line, "SUM").map(|sum| ((*added).to_owned(), sum)));
        }
    }
    let mut level = None;
    for line in files.lines() {
        if let Some(rest) = line.strip_prefix("** Level ") {
            level = rest.split_whitespace().next().and_then(|word| word.parse::<usize>().ok());
        } else if let Some(rest) = line.strip_prefix("Count: ") {
            let count = rest.split_whitespace().next().and_then(|word| word.parse().ok());
            let at = level.take().map(|level| format!("file reads in level {level}"));
            counters.extend(at.zip(count));
        }
    }
    counters
}

/// Entries and operands of each level that has any, from the texts of
/// `rocksdb.aggregated-table-properties-at-level0` and on.
pub(super) fn tables(levels: &[String]) -> Value {
    let field = |text: &str, name: &str| {
        let mut fields = text.split(';').filter_map(|field| field.trim().split_once('='));
        fields.find(|field| field.0 == name).and_then(|field| field.1.trim().parse::<u64>().ok())
    };
    let one = |(level, text): (usize, &String)| {
        let entries = field(text, "# entries").filter(|entries| *entries > 0)?;
        let operands = field(text, "# merge operands")?;
        Some(json!({"level": level, "entries": entries, "operands": operands}))
    };
    levels.iter().enumerate().filter_map(one).collect()
}

#[cfg(test)]
mod tests;
