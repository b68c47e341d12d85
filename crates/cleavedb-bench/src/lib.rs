//! Benchmarks of ordered key-value engines: workloads, the runner, the device probe, the report.
//!
//! A [`Plan`] names phases; [`run`] opens an [`engine::Engine`], drives the phases with seeded
//! generators on a number of threads, and returns a [`Report`] that a person or a program may
//! read. Workloads know nothing of engines and engines nothing of workloads: a new engine is one
//! implementation of [`engine::Engine`] and one line in [`engines`].

#[cfg(feature = "peers")]
pub mod compare;
#[cfg(feature = "peers")]
pub mod count;
pub mod data;
pub mod device;
pub mod distribution;
pub mod engine;
pub mod engines;
pub mod experiments;
pub mod limit;
pub mod measure;
#[cfg(feature = "peers")]
pub mod page;
pub mod pairs;
#[cfg(feature = "peers")]
pub mod peers;
pub mod phase;
pub mod report;
pub mod runner;
pub mod selftest;
pub mod tuning;
pub mod workload;

pub use engine::{Engine, EngineStats, Settings, WriteBatch};
pub use phase::Phase;
pub use report::{PhaseReport, Report};
pub use runner::{Observer, Plan, Silent, run};
pub use tuning::Tuning;
