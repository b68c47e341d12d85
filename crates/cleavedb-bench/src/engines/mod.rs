//! The engines that can be measured. Another one is a file here and a line in [`ALL`].

mod cleave;
mod memory;

use std::path::Path;

use anyhow::{Result, bail};

use crate::engine::{Engine, Opener, Settings};

/// An engine that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its name on the command line.
    pub name: &'static str,
    /// Opens it.
    pub open: Opener,
    /// Whether it can read and write past the page cache.
    pub direct: bool,
}

/// The engines of the default build. `cleavedb` is a store as it comes, of strategy `unified`;
/// `cleavedb-wisckey`, `cleavedb-novkv` and `cleavedb-wayfinder` are of these, `cleavedb-inline`
/// keeps all values in the index, `cleavedb-flex` does so in a Flex index. All of them keep merge
/// operands in buckets; `cleavedb-inline-deltas`, `cleavedb-wisckey-inline-deltas` and
/// `cleavedb-all-inline` are the same stores as three of them, with the operands in the index.
/// `memory` keeps a map in memory and nothing on disk: what the workload itself costs.
pub const ALL: &[Known] = &[
    Known { name: "cleavedb", open: cleave::open, direct: true },
    Known { name: "cleavedb-wisckey", open: cleave::open_wisckey, direct: true },
    Known { name: "cleavedb-novkv", open: cleave::open_novkv, direct: true },
    Known { name: "cleavedb-wayfinder", open: cleave::open_wayfinder, direct: true },
    Known { name: "cleavedb-inline", open: cleave::open_inline, direct: true },
    Known { name: "cleavedb-flex", open: cleave::open_flex, direct: true },
    Known { name: "cleavedb-inline-deltas", open: cleave::open_inline_deltas, direct: true },
    Known {
        name: "cleavedb-wisckey-inline-deltas",
        open: cleave::open_wisckey_inline_deltas,
        direct: true,
    },
    Known { name: "cleavedb-all-inline", open: cleave::open_all_inline, direct: true },
    Known { name: "memory", open: memory::open, direct: false },
];

/// Every engine of this build, peers included.
pub fn all() -> impl Iterator<Item = &'static Known> {
    #[cfg(feature = "peers")]
    let peers = crate::peers::ALL;
    #[cfg(not(feature = "peers"))]
    let peers: &[Known] = &[];
    ALL.iter().chain(peers)
}

/// The engine called `name`.
///
/// # Errors
/// A sentence that names those there are.
pub fn find(name: &str) -> Result<Known> {
    match all().find(|known| known.name == name) {
        Some(known) => Ok(*known),
        None => {
            let names: Vec<_> = all().map(|known| known.name).collect();
            bail!("there is no engine '{name}'; choose one of {}", names.join(", "))
        }
    }
}

/// Opens the engine called `name` in `dir`.
///
/// # Errors
/// An unknown name, or the engine's own error.
pub fn open(name: &str, dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    (find(name)?.open)(dir, settings)
}
