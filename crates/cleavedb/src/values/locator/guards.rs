//! The rules that keep the locator from ever giving a wrong answer, by name, so that tests can take
//! one away at a time and see the model of it fail. In every other build all of them hold.

/// A rule that can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// A flushed delete or inline value removes its match, too.
    RemoveTouches,
    /// A touch removes every entry that matches, not only the first one.
    TouchEveryMatch,
    /// A reader's offer counts only if no flush touched the shard since its note.
    ShardVersion,
    /// From the first touch on, until the flush's index is published, no offer counts.
    OddUntilPublished,
    /// An offer goes beside an entry only if that is another key's for certain.
    VerifiedSide,
    /// An offer is refused where the side map holds the key.
    OneHome,
    /// GC swings what stands at exactly the old place.
    ExactSwing,
    /// A link of a chain serves snapshots before its superseding seq only.
    ChainInterval,
    /// A link of a chain serves the key only whose flush made it.
    ExactChain,
    /// A checkpoint counts only with the generation that the database was opened at.
    FreshCheckpoint,
    /// Touches of a shard that is not loaded yet are repeated on it.
    RepeatTouches,
    /// Among these, removals: whether there will be a match is not known yet.
    RepeatRemovals,
    /// Once the window of container numbers is used up, it moves, and nothing of the old one stays.
    WindowRoll,
    /// An offer does not take the place of an entry of a newer container.
    NewerContainer,
}

/// Which guards are in force.
pub(crate) type Guards = crate::values::guards::Guards<Guard>;
