//! One component's part of a manifest edit: a typed, length-prefixed section.

/// Who wrote a section. On disk: never renumber.
///
/// Bit 15 set means *optional*: a build that does not know the number may skip the section. An
/// unknown number without that bit refuses to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SectionTag(pub(crate) u16);

impl SectionTag {
    /// Engine: next file number, last seq, log floor, flushed seqs.
    pub(crate) const ENGINE: Self = Self(1);
    /// Keyspaces created and dropped.
    pub(crate) const KEYSPACES: Self = Self(2);
    /// Tables added to and removed from an LSM index.
    pub(crate) const LSM: Self = Self(3);
    /// The run of the naive index.
    pub(crate) const NAIVE: Self = Self(4);
    /// Sealed journal segments: length and checksum.
    pub(crate) const JOURNAL: Self = Self(5);
    /// Facts about dead separated values (rule R6).
    pub(crate) const FACTS: Self = Self(6);

    /// Value files added, sealed and removed, and how many index entries name each.
    pub(crate) const VALUES: Self = Self(7);

    /// What holds for the whole store from its creation on: the strategy.
    pub(crate) const STORE: Self = Self(8);

    /// What was done to the locator, and its checkpoint.
    pub(crate) const LOCATOR: Self = Self(9);

    /// Buckets of deltas added, grown and replaced.
    pub(crate) const DELTAS: Self = Self(10);

    /// The space of a Flex index.
    pub(crate) const FLEX: Self = Self(11);

    /// Whether this build knows the tag: every constant above is listed here.
    pub(crate) fn is_known(self) -> bool {
        matches!(
            self,
            Self::ENGINE
                | Self::KEYSPACES
                | Self::LSM
                | Self::NAIVE
                | Self::JOURNAL
                | Self::FACTS
                | Self::VALUES
                | Self::STORE
                | Self::LOCATOR
                | Self::DELTAS
                | Self::FLEX
        )
    }

    /// Whether a reader that does not know the tag may skip the section.
    pub(crate) fn is_optional(self) -> bool {
        self.0 & 0x8000 != 0
    }
}

/// One section of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// Whose it is.
    pub(crate) tag: SectionTag,
    /// The component's own encoding.
    pub(crate) payload: Vec<u8>,
}
