//! The house rules as tests: what reviewers would otherwise have to look for in every change.
//!
//! `UPDATE_DOCS=1 cargo test -p cleavedb --test house` rewrites the pages made from the code.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "helpers of tests: lints know only the test functions themselves"
)]

#[path = "house/docs.rs"]
mod docs;
#[path = "house/layers.rs"]
mod layers;
#[path = "house/options.rs"]
mod options;
#[path = "house/papers.rs"]
mod papers;
#[path = "house/source.rs"]
mod source;
#[path = "house/tidy.rs"]
mod tidy;
#[path = "house/unsafety.rs"]
mod unsafety;
