# The one list of commands. CI runs the same ones: see .ci/steps.sh.

# Show this list.
default:
    @just --list

# Type-check what is built by default.
check:
    cargo check --all-targets

# All tests, as the README says.
test:
    cargo test --workspace

# The house rules.
house:
    cargo test -p cleavedb --test house

# Rewrite the pages made from code.
docs-update:
    UPDATE_DOCS=1 cargo test -p cleavedb --test house

# Format everything.
fmt:
    cargo fmt --all

# Lints, with all features and with none.
clippy:
    cargo clippy --workspace --features cleavedb-bench/peers --all-targets -- -D warnings
    cargo clippy -p cleavedb --all-targets -- -D warnings

# The engines compared with: their libraries, lints, self-tests.
peers:
    crates/cleavedb-bench/fetch-peers.sh
    cargo clippy -p cleavedb-bench --features peers --all-targets -- -D warnings
    CLEAVEDB_PEERS=$PWD/target/peers cargo test -p cleavedb-bench --features peers

# API pages; a broken link is an error.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# The examples, each of which asserts what it shows.
examples:
    for e in basic batches_and_snapshots counters scan compare_and_swap; do cargo run -q -p cleavedb --example "$e"; done

# The command line tool's demonstration.
demo:
    cargo run --release --bin cleave -- demo

# Random thread schedules over the engine's own locks.
shuttle:
    RUSTFLAGS="--cfg shuttle" cargo test -p cleavedb --lib --target-dir target/shuttle shuttle

# The fuzz corpus and seeded mutations of it, on stable.
fuzz-replay:
    cargo test --workspace --test fuzz_replay -- --nocapture

# One fuzz target for a while (needs nightly and cargo-fuzz).
fuzz target seconds="60":
    cargo +nightly fuzz run {{target}} -- -max_total_time={{seconds}} -rss_limit_mb=2048 -timeout=5

# Address sanitizer over the unit tests, on stable.
asan:
    .ci/run asan

# Interpreter for undefined behaviour over the unsafe layers (needs nightly with miri).
miri:
    .ci/run miri

# What each rule for values is worth: switched off in turn, in the models and in the engine.
guards:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo test -q -p cleavedb --lib is_needed -- --nocapture --test-threads 1 | grep '^|'
    cargo run -q --release -p cleavedb-sim -- guards

# The long runs of the harness; results go to docs.
campaign:
    cargo run --release -p cleavedb-sim -- campaign

# Everything CI does, with a table of timings at the end.
ci:
    .ci/run
