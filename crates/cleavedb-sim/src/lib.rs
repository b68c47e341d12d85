//! The reliability harness of CleaveDB: a model, random operation lists, crash states, faults,
//! damage, kills, bounds and planted bugs. `docs/reliability.md` says what each check promises.
//!
//! Every run is a function of its seed; every failure prints it.
#![expect(clippy::indexing_slicing, reason = "a harness stops at the first surprise and shows it")]

pub mod allocator;
pub mod bounds;
pub mod branches;
pub mod closing;
pub mod crash;
pub mod damage;
pub mod explain;
pub mod extents;
pub mod family;
pub mod faults;
pub mod form;
pub mod full;
pub mod generator;
pub mod guards;
pub mod harness;
pub mod isolation;
pub mod kill;
pub mod kinds;
pub mod metamorphic;
pub mod model;
pub mod operation;
pub mod operators;
pub mod planted;
pub mod progress;
pub mod random;
pub mod rate;
pub mod session;
pub mod small;
pub mod sources;
pub mod store;
pub mod world;
