//! Which strategies there are, and how the manifest records the one of a store.

use serde::{Deserialize, Serialize};

use crate::base::codec::Reader;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::section::{Section, SectionTag};
use crate::base::sync::Arc;
use crate::values::strategy::Strategy;
use crate::values::strategy::novkv::Novkv;
use crate::values::strategy::unified::Unified;
use crate::values::strategy::wayfinder::Wayfinder;
use crate::values::strategy::wisckey::Wisckey;

/// Version of the section STORE. On disk: raised by every change.
const VERSION: u8 = 1;

/// How separated values are kept, found and collected. On disk: never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum StrategyKind {
    /// Garbage collection asks the index about each record and puts live values again (WiscKey,
    /// FAST'16).
    Wisckey = 1,
    /// Flush and compaction say what died, files are rewritten in key order, and the index is
    /// neither asked nor written for it (NovKV, MSST'20).
    Novkv = 2,
    /// Entries of the index are bare keys; an exact map in memory knows where each key's newest
    /// flushed value stands, and what it does not name is garbage (Wayfinder, SiMoD'24).
    Wayfinder = 3,
    /// As `novkv`, with a compact table in memory that finds a value without the index and says at
    /// flush what died (after Wayfinder's future work). The default.
    #[default]
    Unified = 4,
}

impl StrategyKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Wisckey, Self::Novkv, Self::Wayfinder, Self::Unified];

    /// Its name, as options, command line and figures have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Wisckey => "wisckey",
            Self::Novkv => "novkv",
            Self::Wayfinder => "wayfinder",
            Self::Unified => "unified",
        }
    }

    /// The strategy.
    pub(crate) fn strategy(self) -> Arc<dyn Strategy> {
        match self {
            Self::Wisckey => Arc::new(Wisckey),
            Self::Novkv => Arc::new(Novkv),
            Self::Wayfinder => Arc::new(Wayfinder),
            Self::Unified => Arc::new(Unified),
        }
    }

    /// The section that records it.
    pub(crate) fn encode(self) -> Section {
        Section { tag: SectionTag::STORE, payload: vec![VERSION, self as u8] }
    }

    /// What a section records.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let (version, number) = (reader.u8()?, reader.u8()?);
        if version != VERSION {
            let message = format!("STORE section of version {version}, this build knows {VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let kind = Self::ALL.into_iter().find(|kind| *kind as u8 == number);
        match kind {
            Some(kind) if reader.is_empty() => Ok(kind),
            Some(_) => Err(Error::corruption("a STORE section with more than it says")),
            None => {
                let message = format!("a store of strategy {number}, which this build lacks");
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }
}

impl std::fmt::Display for StrategyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for StrategyKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid(format!("there is no strategy '{name}'; choose one of {names}"))
        })
    }
}

#[cfg(test)]
mod tests;
