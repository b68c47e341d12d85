//! The same memory for everything: a memory group of the kernel (cgroup, version 2) that counts a
//! run's page cache as well. Where there is none to be had, runs past the page cache are the
//! equal ones, and the reason is printed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Where the kernel's memory groups usually are.
pub const GROUPS: &str = "/sys/fs/cgroup";

/// A memory group of its own, removed when dropped.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    bytes: u64,
}

impl Group {
    /// Makes a group below `parent` that may have `bytes` of memory, page cache included.
    ///
    /// # Errors
    /// Why that is not possible on this machine.
    pub fn create(parent: &Path, bytes: u64) -> Result<Self> {
        let controllers = fs::read_to_string(parent.join("cgroup.controllers"))
            .with_context(|| format!("{} holds no memory groups of version 2", parent.display()))?;
        anyhow::ensure!(
            controllers.split_whitespace().any(|name| name == "memory"),
            "{} has no memory controller",
            parent.display(),
        );
        let path = parent.join(format!("cleavedb-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("no group below {}", parent.display()))?;
        let group = Self { path, bytes };
        group.set("memory.max", bytes)?;
        // Not every kernel counts swap; where it does not, there is nothing to forbid.
        if group.path.join("memory.swap.max").exists() {
            group.set("memory.swap.max", 0)?;
        }
        Ok(group)
    }

    fn set(&self, file: &str, figure: u64) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, figure.to_string()).with_context(|| format!("{}", path.display()))
    }

    /// Its folder, for [`join`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes it may have.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that still holds a process cannot go; it then stays until the machine restarts.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Puts this process into the group with the folder `group`.
///
/// # Errors
/// The kernel's.
pub fn join(group: &Path) -> Result<()> {
    let path = group.join("cgroup.procs");
    fs::write(&path, std::process::id().to_string()).with_context(|| format!("{}", path.display()))
}

#[cfg(test)]
mod tests;
