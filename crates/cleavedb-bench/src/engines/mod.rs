//! The engines that can be measured. Another one is a file here and a line in [`ALL`].

mod cleave;
mod memory;

use std::path::Path;

use anyhow::{Result, bail};

use crate::engine::{Engine, Opener, Settings};

/// Name and opener of every engine. `memory` keeps a map in memory and nothing on disk: it shows
/// what the workload itself costs.
pub const ALL: &[(&str, Opener)] = &[("cleavedb", cleave::open), ("memory", memory::open)];

/// Opens the engine called `name` in `dir`.
///
/// # Errors
/// An unknown name, or the engine's own error.
pub fn open(name: &str, dir: &Path, settings: &Settings) -> Result<Box<dyn Engine>> {
    match ALL.iter().find(|(known, _)| *known == name) {
        Some((_, opener)) => opener(dir, settings),
        None => {
            let known: Vec<_> = ALL.iter().map(|(name, _)| *name).collect();
            bail!("there is no engine '{name}'; choose one of {}", known.join(", "))
        }
    }
}
