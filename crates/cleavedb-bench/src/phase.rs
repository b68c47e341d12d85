//! The phases of a run and their names.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Items in one batch of `fillbatch` and `fillsorted`.
pub const FILL_BATCH: usize = 1_000;

/// One phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// What the device itself can do, beside the store.
    Device,
    /// Every item once, in key order.
    FillSeq,
    /// Every item once, in random order.
    FillRandom,
    /// Uniformly chosen items again, with new values.
    Overwrite,
    /// Zipfian items again, with new values.
    OverwriteZipf,
    /// Uniformly chosen items.
    ReadRandom,
    /// Zipfian items.
    ReadZipf,
    /// Keys that do not exist, between those that do.
    ReadMissing,
    /// A seek to a uniformly chosen item and the next pairs.
    SeekRandom,
    /// A seek to a uniformly chosen item and the pairs before it.
    SeekReverse,
    /// All pairs upwards, in long runs.
    Scan,
    /// All pairs downwards, in long runs.
    ScanReverse,
    /// Uniformly chosen items are deleted.
    DeleteRandom,
    /// Uniformly chosen counters are added to.
    MergeRandom,
    /// The mix of a service that counts (UP2X): 92.5 % additions, 7.5 % reads, zipfian counters
    /// with keys of its lengths.
    Up2x,
    /// Several uniformly chosen items in one call.
    MultiGet,
    /// Every item once, in random order, 1,000 in a batch.
    FillBatch,
    /// The same batches, each in key order within itself.
    FillSorted,
    /// Uniformly chosen counters are added to by get and put instead of a merge.
    RmwRandom,
    /// YCSB A: half reads, half updates, zipfian.
    YcsbA,
    /// YCSB B: 95 % reads, 5 % updates, zipfian.
    YcsbB,
    /// YCSB C: reads, zipfian.
    YcsbC,
    /// YCSB D: 95 % reads of the latest, 5 % insertions. As in YCSB, the latest are those that
    /// were stored last, wherever their keys sort: of the load, those that `fillrandom` ends with.
    YcsbD,
    /// YCSB E: 95 % short scans, 5 % insertions, zipfian.
    YcsbE,
    /// YCSB F: half reads, half read-modify-writes, zipfian.
    YcsbF,
    /// As many puts as there are items, each of a uniformly chosen one: some twice, some never.
    FillReplace,
    /// Different items are deleted, in random order.
    DeleteOnce,
    /// Items in key order, one by one.
    ReadSeq,
    /// Items of hot neighbourhoods again, with new values.
    OverwriteComposite,
    /// Items of hot neighbourhoods.
    ReadComposite,
    /// Reads, puts, and changes of a part of a value as get and put, zipfian.
    MixPut,
    /// Reads, puts, and changes of a part of a value as merge, zipfian.
    MixMerge,
    /// Items in random order, each at most once, so that no cache of values can serve one.
    ReadOnce,
    /// The same, several in one call.
    MultiGetOnce,
    /// No engine: the load's pairs by a bare `write` each, a file for each thread.
    BareWrites,
    /// No engine: the same, each file synced after every 64 MiB, as what bounds its log has to.
    BareWritesSynced,
    /// No engine: the load's pairs past the page cache, 1 MiB at a time, a file for each thread.
    BareWritesDirect,
    /// No engine: random pages of 4 KiB past the page cache, one at a time for each thread.
    BareReads,
    /// All items are deleted in one call for their range.
    DeleteRange,
    /// The keyspace with all items is dropped. Nothing but resting can follow.
    DropKeyspace,
    /// Everything is compacted to the bottom, by one call.
    Compact,
    /// Nothing is called: the engine is left to itself until its files change no more.
    Rest,
    /// One value grows by a short part at its end, as merges.
    AppendOne,
    /// That value.
    ReadAppended,
    /// One counter is added to, and between any two additions another counter, each of those once.
    CountHot,
    /// The one counter.
    ReadHot,
}

impl Phase {
    /// All phases in the order they make sense in.
    pub const ALL: [Self; 25] = [
        Self::Device,
        Self::FillSeq,
        Self::FillRandom,
        Self::Overwrite,
        Self::ReadRandom,
        Self::ReadMissing,
        Self::MultiGet,
        Self::SeekRandom,
        Self::Scan,
        Self::ScanReverse,
        Self::MergeRandom,
        Self::YcsbA,
        Self::YcsbB,
        Self::YcsbC,
        Self::YcsbF,
        Self::YcsbD,
        Self::YcsbE,
        Self::DeleteRandom,
        // Later ones at the end: a phase's place is part of the seed of its choices.
        Self::OverwriteZipf,
        Self::ReadZipf,
        Self::Up2x,
        Self::FillBatch,
        Self::FillSorted,
        Self::RmwRandom,
        Self::SeekReverse,
    ];

    /// Phases that only the papers' experiments need; `all` leaves them out.
    pub const EXPERIMENTS: [Self; 21] = [
        Self::FillReplace,
        Self::DeleteOnce,
        Self::ReadSeq,
        Self::OverwriteComposite,
        Self::ReadComposite,
        Self::MixPut,
        Self::MixMerge,
        Self::ReadOnce,
        Self::MultiGetOnce,
        Self::BareWrites,
        Self::BareWritesSynced,
        Self::BareWritesDirect,
        Self::BareReads,
        Self::DeleteRange,
        Self::DropKeyspace,
        Self::Compact,
        Self::Rest,
        Self::AppendOne,
        Self::ReadAppended,
        Self::CountHot,
        Self::ReadHot,
    ];

    /// Every phase there is, in the order that the seeds of their choices have.
    pub fn every() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::EXPERIMENTS)
    }

    /// The phases run where none are named.
    pub const USUAL: [Self; 8] = [
        Self::FillSeq,
        Self::FillRandom,
        Self::Overwrite,
        Self::ReadRandom,
        Self::ReadMissing,
        Self::SeekRandom,
        Self::Scan,
        Self::DeleteRandom,
    ];

    /// Its name, as given and printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::FillSeq => "fillseq",
            Self::FillRandom => "fillrandom",
            Self::Overwrite => "overwrite",
            Self::OverwriteZipf => "overwritezipf",
            Self::ReadRandom => "readrandom",
            Self::ReadZipf => "readzipf",
            Self::Up2x => "up2x",
            Self::ReadMissing => "readmissing",
            Self::SeekRandom => "seekrandom",
            Self::SeekReverse => "seekreverse",
            Self::Scan => "scan",
            Self::ScanReverse => "scanreverse",
            Self::DeleteRandom => "deleterandom",
            Self::MergeRandom => "mergerandom",
            Self::MultiGet => "multiget",
            Self::FillBatch => "fillbatch",
            Self::FillSorted => "fillsorted",
            Self::RmwRandom => "rmwrandom",
            Self::YcsbA => "ycsb-a",
            Self::YcsbB => "ycsb-b",
            Self::YcsbC => "ycsb-c",
            Self::YcsbD => "ycsb-d",
            Self::YcsbE => "ycsb-e",
            Self::YcsbF => "ycsb-f",
            Self::FillReplace => "fillreplace",
            Self::DeleteOnce => "deleteonce",
            Self::ReadSeq => "readseq",
            Self::OverwriteComposite => "overwritecomposite",
            Self::ReadComposite => "readcomposite",
            Self::MixPut => "mixput",
            Self::MixMerge => "mixmerge",
            Self::ReadOnce => "readonce",
            Self::MultiGetOnce => "multigetonce",
            Self::BareWrites => "barewrites",
            Self::BareWritesSynced => "barewritessynced",
            Self::BareWritesDirect => "barewritesdirect",
            Self::BareReads => "barereads",
            Self::DeleteRange => "deleterange",
            Self::DropKeyspace => "dropkeyspace",
            Self::Compact => "compact",
            Self::Rest => "rest",
            Self::AppendOne => "appendone",
            Self::ReadAppended => "readappended",
            Self::CountHot => "counthot",
            Self::ReadHot => "readhot",
        }
    }

    /// What one operation in its report is.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Scan | Self::ScanReverse => "pairs",
            Self::SeekRandom | Self::SeekReverse => "seeks",
            Self::MultiGet | Self::MultiGetOnce => "keys",
            Self::BareReads => "pages",
            Self::Rest => "looks",
            _ => "operations",
        }
    }

    /// Whether it asks no engine, only the device that holds the store: a limit for what follows.
    #[must_use]
    pub fn is_bare(self) -> bool {
        use Phase::{BareReads, BareWrites, BareWritesDirect, BareWritesSynced};
        matches!(self, BareWrites | BareWritesSynced | BareWritesDirect | BareReads)
    }

    /// Whether it writes, so that background work is waited for after it.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::FillSeq
                | Self::FillRandom
                | Self::Overwrite
                | Self::DeleteRandom
                | Self::MergeRandom
                | Self::OverwriteZipf
                | Self::Up2x
                | Self::FillBatch
                | Self::FillSorted
                | Self::RmwRandom
                | Self::YcsbA
                | Self::YcsbB
                | Self::YcsbD
                | Self::YcsbE
                | Self::YcsbF
                | Self::FillReplace
                | Self::DeleteOnce
                | Self::OverwriteComposite
                | Self::MixPut
                | Self::MixMerge
                | Self::DeleteRange
                | Self::DropKeyspace
                | Self::Compact
                | Self::AppendOne
                | Self::CountHot
        )
    }

    /// Whether single reads and writes take turns, so that their latencies are told apart.
    #[must_use]
    pub fn mixes(self) -> bool {
        matches!(
            self,
            Self::YcsbA | Self::YcsbB | Self::YcsbD | Self::YcsbF | Self::MixPut | Self::MixMerge
        )
    }

    /// Whether it stores every item once.
    #[must_use]
    pub fn fills(self) -> bool {
        matches!(self, Self::FillSeq | Self::FillRandom | Self::FillBatch | Self::FillSorted)
    }

    /// Whether it loads a store, so that what follows needs all of it.
    #[must_use]
    pub fn loads(self) -> bool {
        self.fills() || self == Self::FillReplace
    }

    /// Writes committed together, where the phase itself says how many.
    #[must_use]
    pub fn batch(self) -> Option<usize> {
        matches!(self, Self::FillBatch | Self::FillSorted).then_some(FILL_BATCH)
    }

    /// Parses a list like `fillrandom,readrandom`; `all`, `ycsb` and `usual` stand for several.
    ///
    /// # Errors
    /// A sentence naming what is unknown and what there is.
    pub fn parse_list(list: &str) -> Result<Vec<Self>, String> {
        let mut phases = Vec::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "all" => phases.extend(Self::ALL),
                "usual" => phases.extend(Self::USUAL),
                "ycsb" => phases.extend([
                    Self::YcsbA,
                    Self::YcsbB,
                    Self::YcsbC,
                    Self::YcsbF,
                    Self::YcsbD,
                    Self::YcsbE,
                ]),
                name => phases.push(name.parse()?),
            }
        }
        if phases.is_empty() {
            return Err("name at least one phase".to_owned());
        }
        Ok(phases)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let plain = name.to_ascii_lowercase();
        let short = plain.strip_prefix("ycsb").map(|rest| rest.trim_start_matches('-'));
        Self::every()
            .find(|phase| {
                phase.name() == plain
                    || short.is_some_and(|s| phase.name().strip_prefix("ycsb-") == Some(s))
            })
            .ok_or_else(|| {
                let known: Vec<_> = Self::every().map(Self::name).collect();
                format!(
                    "there is no phase '{name}'; choose from {}, or all, usual, ycsb",
                    known.join(", ")
                )
            })
    }
}

impl Serialize for Phase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Phase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
