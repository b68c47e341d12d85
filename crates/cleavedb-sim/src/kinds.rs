//! The indexes that the stores of a family have, in turn: an LSM-tree, a Flex index, or both in one
//! store, so that batches reach over both.
//!
//! Plain data. Invariant KI-1: the name of a form says which of them it has, so that a child
//! process finds the same form again.

use cleavedb::IndexKind;

use crate::form::Form;

/// Indexes of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// LSM-trees alone.
    Lsm,
    /// Flex indexes alone.
    Flex,
    /// An LSM-tree in even slots, a Flex index in odd ones.
    Both,
}

impl Kinds {
    /// All of them, in the order in which they take turns.
    pub const ALL: [Self; 3] = [Self::Lsm, Self::Flex, Self::Both];

    /// Whose turn it is.
    #[must_use]
    pub fn in_turn(number: u64) -> Self {
        match number % 3 {
            0 => Self::Lsm,
            1 => Self::Flex,
            _ => Self::Both,
        }
    }

    /// Whose turn it is behind these.
    #[must_use]
    pub fn after(self) -> Self {
        match self {
            Self::Lsm => Self::Flex,
            Self::Flex => Self::Both,
            Self::Both => Self::Lsm,
        }
    }

    /// As the names of forms say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lsm => "lsm",
            Self::Flex => "flex index",
            Self::Both => "lsm and flex index",
        }
    }

    /// The index of a slot.
    #[must_use]
    pub fn index(self, slot: u8) -> IndexKind {
        match self {
            Self::Both if slot % 2 == 1 => IndexKind::Flex,
            Self::Lsm | Self::Both => IndexKind::Lsm,
            Self::Flex => IndexKind::Flex,
        }
    }

    /// A form with these indexes.
    #[must_use]
    pub fn form(self, form: &Form) -> Form {
        let mut form = form.clone();
        form.index = self.index(0);
        form.odd_index = (self == Self::Both).then(|| self.index(1));
        if self != Self::Lsm {
            form.name = format!("{}: {}", self.name(), form.name);
        }
        form
    }

    /// What a form's name says of it, and the name without.
    #[must_use]
    pub fn of_name(name: &str) -> Option<(Self, &str)> {
        let stripped = |kinds: Self| {
            let rest = name.strip_prefix(kinds.name())?.strip_prefix(": ")?;
            Some((kinds, rest))
        };
        Self::ALL.into_iter().find_map(stripped)
    }
}

#[cfg(test)]
mod tests;
