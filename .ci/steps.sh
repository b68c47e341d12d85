# The steps of .ci/run, in order. Each is a function step_NAME that fails by a failing command.
# note TEXT puts one line into the final table; absent WHY marks a tool that cannot be had.

STEPS=(
    toolchain fetch fmt clippy test doc examples demo io_uring
    harness fuzz_replay asan shuttle miri fuzz_build
)

# Those that build in folders of their own and are on one core: two lanes that may run beside the
# others. (The address sanitizer takes both cores, and would wait for Miri.)
BESIDE=(shuttle fuzz_build)
BESIDE_TOO=(miri)

# Seconds after which a step is left out, and says so: on a machine that is so slow all of it would
# end by no result at all. The step by its name runs at any time.
declare -A BEGUN_BY=([asan]=4200 [miri]=3900)

HOST=$(rustc -vV | sed -n 's/^host: //p')

note() {
    echo "note: $*"
    echo "$*" >>"${CI_NOTE:-/dev/null}"
}

absent() { note "absent: $*"; }

# Number of tests that passed in a log of cargo test; fails where none ran, since a filter that
# matches nothing would otherwise pass in silence.
count_tests() {
    local passed
    passed=$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$1" | awk '{ sum += $1 } END { print sum + 0 }')
    [ "${passed:-0}" -gt 0 ] || { echo "no test ran" >&2; return 1; }
    note "$passed tests"
}

# Runs a command, keeps what it prints in $LOG as well.
LOG=${TMPDIR:-/tmp}/cleavedb-ci-$$.log
logged() { "$@" 2>&1 | tee "$LOG"; }
trap 'rm -f "$LOG"' EXIT

step_toolchain() {
    local component
    for component in rustfmt clippy; do
        cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$component"
    done
    rustc --version
    cargo --version
    note "$(rustc --version), $(nproc) cores, $(uname -sr)"
}

step_fetch() { cargo fetch --locked; }

step_fmt() { cargo fmt --all --check; }

# All features, the engines compared with among them (that they compile is all that is asked of
# those here), then the engine and the tool as users build them: alone, with no feature of others.
step_clippy() {
    cargo clippy --locked --workspace --features cleavedb-bench/peers --all-targets -- -D warnings
    cargo clippy --locked -p cleavedb --all-targets -- -D warnings
    cargo clippy --locked -p cleave-cli -- -D warnings
    local tree="cargo tree --locked -p cleavedb-bench -e normal --prefix none"
    note "$($tree | sort -u | wc -l) crates without peers, $($tree --features peers | sort -u | wc -l) with"
}

# The command of the README: unit tests, those of the folders, and the examples in the docs. The
# planted bugs are among them: each must be caught. Later steps name the whole workspace too, so
# that they find what was built here.
step_test() {
    logged cargo test --locked --workspace
    count_tests "$LOG"
}

step_doc() { RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps; }

# The examples as the tests were built, so that nothing is compiled twice.
step_examples() {
    local example name count=0
    cargo build --locked --workspace --examples
    for example in crates/cleavedb/examples/*.rs; do
        name=$(basename "$example" .rs)
        echo "example $name"
        "target/debug/examples/$name"
        count=$((count + 1))
    done
    note "$count examples"
}

# The optimised binaries that steps run, by one command: asked for one by one, each had the engine
# compiled for itself, with its own features.
build_optimised() { cargo build --locked --release -p cleave-cli -p cleavedb-sim --bins; }

# The command line tool, optimised, on a folder that everybody has. (The engine in it has the
# harness' features too; without them the tool is compiled by the step clippy.)
step_demo() {
    local store
    build_optimised
    store=$(mktemp -d)
    target/release/cleave demo docs
    target/release/cleave load "$store/db" docs
    target/release/cleave verify "$store/db"
    note "$(target/release/cleave count "$store/db") files of docs/ loaded and verified"
    rm -rf "$store"
}

# Where the kernel allows io_uring, batched reads must have used it.
step_io_uring() {
    logged cargo test --locked --workspace --lib io::native -- --nocapture
    count_tests "$LOG"
    local mode
    mode=$(sed -n 's/.*batched reads by \([a-z_]*\).*/\1/p' "$LOG" | head -1)
    [ -n "$mode" ] || { echo "the tests of io::native did not say how they read" >&2; return 1; }
    if [ "$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo 2)" = 0 ] &&
        [ "$mode" != io_uring ]; then
        absent "io_uring is enabled here, but a filter refuses it: $mode"
    else
        note "batched reads by $mode"
    fi
}

# The harness at CI size.
step_harness() {
    build_optimised
    WORKERS=${WORKERS:-$(nproc)} logged target/release/cleavedb-sim ci
    note "$(tail -n 1 "$LOG")"
}

# Models of threads over the real code, through random schedules. Some must fail, without a guard:
# a stack for each of them would bury what is not expected.
step_shuttle() {
    export SCHEDULES=${SCHEDULES:-10000} RUST_BACKTRACE=0
    RUSTFLAGS="--cfg shuttle" logged \
        cargo test --locked -p cleavedb --lib --target-dir target/shuttle shuttle -- --nocapture
    count_tests "$LOG"
    note "$(awk -F 'schedules=' '/^shuttle name=.* failures=0/ { models++; all += $2 + 0 }
        END { print models " models, " all " schedules" }' "$LOG")"
}

# The corpus, then at least ten seconds of mutations for each decoder.
step_fuzz_replay() {
    FUZZ_SECONDS=${FUZZ_SECONDS:-10} logged \
        cargo test --locked --workspace --test fuzz_replay -- --nocapture
    note "$(grep -o 'fuzz_replay entries.*' "$LOG" | tail -n 1)"
}

# The fuzz targets compile (fuzzing itself runs outside CI). libFuzzer is C++.
step_fuzz_build() {
    command -v c++ >/dev/null || { absent "no C++ compiler for libFuzzer"; return 0; }
    cargo check --manifest-path fuzz/Cargo.toml --target-dir target/fuzz
    note "$(grep -c '^\[\[bin\]\]' fuzz/Cargo.toml) targets compile"
}

# Address sanitizer over the engine's unit tests, on stable. Not optimised: half of the time to
# compile.
step_asan() {
    case $HOST in
        *-linux-gnu) ;;
        *) absent "no address sanitizer for $HOST"; return 0 ;;
    esac
    # Unsafe code is in io and memory alone. What is left out goes over the simulated disk ten
    # thousands of times, or over one structure of safe code: three quarters of the time, and no
    # memory that the other tests do not touch. The step "test" runs it.
    local test repeated=() skipped=(
        db::tests::collection db::tests::delta_reads db::tests::facts db::tests::flex_defects
        db::tests::holes db::tests::large:: db::tests::novkv:: db::tests::novkv_faults
        db::tests::relocation db::tests::reopen db::tests::space db::tests::unified
        deltas::model index::flex index::lsm::tests manifest::tests::every_crash_state
        values::drops values::locator::model values::locator::table::tests::it_grows
        values::map::tests::what_snapshots_see values::rewrite values::strategy
        for_which_there_is_no_room for_which_there_was_no_room
    )
    for test in "${skipped[@]}"; do repeated+=(--skip "$test"); done
    CARGO_PROFILE_DEV_OPT_LEVEL=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" \
        logged cargo test --locked -p cleavedb --features planted --lib \
        --target "$HOST" --target-dir target/asan -- "${repeated[@]}"
    count_tests "$LOG"
}

# Miri over the unsafe memory code (the block cache beside it has none).
step_miri() {
    if ! cargo +nightly miri --version >/dev/null 2>&1; then
        timeout 300 rustup toolchain install nightly --profile minimal --component miri,rust-src ||
            { absent "nightly with miri cannot be installed"; return 0; }
    fi
    cargo +nightly miri setup >/dev/null 2>&1 || { absent "miri's library cannot be built"; return 0; }
    MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_CASES=4 \
        logged cargo +nightly miri test --locked -p cleavedb --lib --target-dir target/miri -- \
        memory::arena memory::skip_list memory::memtable --skip memory::memtable::costs
    count_tests "$LOG"
}
