//! Planted bugs: deliberate mistakes at real sites, compiled in only under feature `planted` and
//! switched on one at a time by name, which the harness must catch.
//!
//! `if planted!("skip_directory_sync") { .. }` is `if false` in every other build.

#[cfg(feature = "planted")]
mod switch {
    use std::sync::RwLock;

    static ACTIVE: RwLock<Option<String>> = RwLock::new(None);

    /// Switches one planted bug on for the whole process, or all off.
    pub fn plant(name: Option<&str>) {
        if let Ok(mut active) = ACTIVE.write() {
            *active = name.map(str::to_owned);
        }
    }

    /// Whether this bug is on.
    #[must_use]
    pub fn is_planted(name: &str) -> bool {
        ACTIVE.read().is_ok_and(|active| active.as_deref() == Some(name))
    }
}

#[cfg(feature = "planted")]
pub use switch::{is_planted, plant};

/// Whether the planted bug of this name is on: constant `false` without feature `planted`.
macro_rules! planted {
    ($name:literal) => {{
        #[cfg(feature = "planted")]
        {
            $crate::base::planted::is_planted($name)
        }
        #[cfg(not(feature = "planted"))]
        {
            false
        }
    }};
}
pub(crate) use planted;
