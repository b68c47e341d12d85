//! Rules that keep a table in memory from ever giving a wrong answer, as a switch: tests take one
//! away at a time and see the table's model fail. In every other build all of them hold.

#[cfg(not(test))]
use std::marker::PhantomData;

/// Which guards are in force, of those that `G` names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guards<G> {
    #[cfg(test)]
    without: Option<G>,
    #[cfg(not(test))]
    of: PhantomData<G>,
}

impl<G> Default for Guards<G> {
    /// All.
    fn default() -> Self {
        Self {
            #[cfg(test)]
            without: None,
            #[cfg(not(test))]
            of: PhantomData,
        }
    }
}

impl<G: PartialEq> Guards<G> {
    /// All but one.
    #[cfg(test)]
    pub(crate) fn without(guard: G) -> Self {
        Self { without: Some(guard) }
    }

    /// Whether this one is in force: always, outside tests.
    #[inline]
    pub(crate) fn hold(self, guard: G) -> bool {
        #[cfg(test)]
        let holds = self.without != Some(guard);
        #[cfg(not(test))]
        let holds = {
            let _ = guard;
            true
        };
        holds
    }
}
