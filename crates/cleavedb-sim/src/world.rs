//! Where a run happens: a simulated disk, clock and stepper, or a real directory.
//!
//! The one file that knows how the engine's seams are called. Cheap to clone; clones are the same
//! world.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cleavedb::Options;
use cleavedb::sim::{Environment, FaultDisk, MemoryDisk, SimulatedClock, Stepper};

use crate::form::Form;

/// Directory of the database on a simulated disk.
pub const SIMULATED_PATH: &str = "/db";

/// A disk, a clock and a stepper.
#[derive(Clone)]
pub struct World {
    /// Directory of the database.
    pub path: PathBuf,
    place: Place,
}

#[derive(Clone)]
enum Place {
    Simulated(Simulated),
    Native(
        #[expect(dead_code, reason = "removes the directory when dropped")] Arc<tempfile::TempDir>,
    ),
}

#[derive(Clone)]
struct Simulated {
    disk: MemoryDisk,
    clock: SimulatedClock,
    stepper: Stepper,
    environment: Environment,
}

impl World {
    /// An empty simulated disk.
    #[must_use]
    pub fn simulated(seed: u64) -> Self {
        Self::on(MemoryDisk::new(), seed)
    }

    /// A simulated disk with contents.
    #[must_use]
    pub fn on(disk: MemoryDisk, seed: u64) -> Self {
        let (clock, stepper) = (SimulatedClock::new(), Stepper::new(seed));
        let environment = Environment::simulated(&disk, &stepper, &clock);
        Self::of(Simulated { disk, clock, stepper, environment })
    }

    /// A simulated disk whose calls can be made to fail.
    #[must_use]
    pub fn with_faults(disk: MemoryDisk, seed: u64) -> (Self, FaultDisk) {
        let (clock, stepper) = (SimulatedClock::new(), Stepper::new(seed));
        let faults = FaultDisk::over(&disk);
        let environment = Environment::with_disk_faults(&faults, &stepper, &clock);
        (Self::of(Simulated { disk, clock, stepper, environment }), faults)
    }

    fn of(simulated: Simulated) -> Self {
        Self { path: PathBuf::from(SIMULATED_PATH), place: Place::Simulated(simulated) }
    }

    /// A fresh directory on a real disk.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn native() -> std::io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("cleavedb-sim").tempdir()?;
        Ok(Self { path: directory.path().join("db"), place: Place::Native(Arc::new(directory)) })
    }

    /// The world that a form asks for.
    ///
    /// # Errors
    /// Those of [`World::native`].
    pub fn for_form(form: &Form, seed: u64) -> std::io::Result<Self> {
        if form.native { Self::native() } else { Ok(Self::simulated(seed)) }
    }

    /// Options of a form in this world.
    #[must_use]
    pub fn options(&self, form: &Form) -> Options {
        match &self.place {
            Place::Simulated(simulated) => {
                form.options().environment(simulated.environment.clone())
            }
            Place::Native(_) => form.options(),
        }
    }

    /// The simulated disk, if this is one.
    #[must_use]
    pub fn disk(&self) -> Option<&MemoryDisk> {
        match &self.place {
            Place::Simulated(simulated) => Some(&simulated.disk),
            Place::Native(_) => None,
        }
    }

    /// Runs up to `count` steps of background work.
    pub fn step(&self, count: u8) {
        if let Place::Simulated(simulated) = &self.place {
            for _ in 0..count {
                if !simulated.stepper.run_one() {
                    break;
                }
            }
        }
    }

    /// Runs all background work there is, at most `limit` steps; false if some is left.
    #[must_use]
    pub fn settle(&self, limit: u32) -> bool {
        match &self.place {
            Place::Simulated(simulated) => (0..limit).any(|_| !simulated.stepper.run_one()),
            Place::Native(_) => true,
        }
    }

    /// Moves the clock on; real time passes by itself.
    pub fn advance(&self, duration: Duration) {
        if let Place::Simulated(simulated) = &self.place {
            simulated.clock.advance(duration);
        }
    }

    /// Names of the files in the database directory.
    #[must_use]
    pub fn file_names(&self) -> Vec<String> {
        match &self.place {
            Place::Simulated(simulated) => names_below(&simulated.disk, &self.path),
            Place::Native(_) => {
                let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
            }
        }
    }

    /// Removes a directory and what is in it.
    ///
    /// # Errors
    /// Those of the real file system.
    pub fn remove_directory(&self, path: &Path) -> Result<(), String> {
        match &self.place {
            Place::Simulated(simulated) => {
                for name in names_below(&simulated.disk, path) {
                    let removed = simulated.disk.remove(path.join(name));
                    removed.map_err(|error| error.to_string())?;
                }
                Ok(())
            }
            Place::Native(_) => std::fs::remove_dir_all(path).map_err(|error| error.to_string()),
        }
    }

    /// Calls `before` before each call that changes the simulated disk.
    pub fn observe(&self, before: impl Fn(u64, &MemoryDisk) + Send + Sync + 'static) {
        if let Place::Simulated(simulated) = &self.place {
            simulated.disk.set_observer(Some(Arc::new(before)));
        }
    }

    /// Stops observing.
    pub fn unobserve(&self) {
        if let Place::Simulated(simulated) = &self.place {
            simulated.disk.set_observer(None);
        }
    }
}

fn names_below(disk: &MemoryDisk, directory: &Path) -> Vec<String> {
    let files = disk.files();
    let names = files.iter().filter_map(|(path, _)| path.strip_prefix(directory).ok());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}
