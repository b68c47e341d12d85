//! The rules that keep the map from ever giving a wrong answer, by name, so that tests can take one
//! away at a time and see the model of it fail. In every other build all of them hold.

/// A rule that can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// A version that is replaced while a snapshot needs it goes to the chains.
    Versions,
    /// The chains have no bound.
    ExactChain,
    /// Versions that came and went within one memtable go to the chains, too.
    HiddenVersions,
    /// A version is superseded by the key's smallest seq in the flush.
    SmallestSuperseding,
    /// A link of a chain serves snapshots of its interval only.
    ChainInterval,
    /// A flushed delete or inline value takes its key out.
    RemoveTouches,
    /// GC swings what stands at exactly the old place.
    ExactSwing,
    /// Links of chains are swung, too.
    SwingChains,
    /// GC asks for the snapshots after it has looked into the map.
    SnapshotsAfterMap,
    /// A checkpoint counts only with the generation that the database was opened at.
    FreshCheckpoint,
    /// No shard is written that has touches or swings of an edit that is not published.
    QuietCheckpoint,
    /// What flushes touched before a shard was loaded stands above what is loaded.
    RepeatTouches,
    /// A rebuild takes the record of exactly the bare entry's seq, not just one of the key.
    ExactRebuild,
}

/// Which guards are in force.
pub(crate) type Guards = crate::values::guards::Guards<Guard>;
