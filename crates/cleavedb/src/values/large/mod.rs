//! Large values: one value in a file of its own, written and read piece by piece, so that neither
//! side ever holds more of it in memory than a piece. `docs/format/large-value.md` has the bytes.

pub(crate) mod dump;
pub(crate) mod format;
pub(crate) mod reader;
pub(crate) mod writer;

#[cfg(test)]
mod tests;
