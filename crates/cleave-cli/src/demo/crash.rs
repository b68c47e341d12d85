//! The demo's crash: a child process writes batches and reports each acknowledged one through a
//! pipe until it is killed; then the store must hold a whole number of batches, at least those
//! acknowledged.
//!
//! - C1: batch `n` puts [`KEYS`] keys of its own, sets the key `last` to `n`, and deletes the first
//!   key of batch `n - DELETED_LATER`. So the state after batch `n` is known exactly.
//! - C2: a batch is reported only after its commit has returned.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use cleavedb::{Db, Durability, Keyspace, KeyspaceOptions};
use cleavedb_bench::distribution::mix;

use crate::args::{Demo, DemoWriter};
use crate::demo::report::{Kill, Report};
use crate::failure::{Failure, Result};
use crate::progress;
use crate::store::{self, Access};

/// Keyspace of the batches.
const KEYSPACE: &str = "crash";

/// Keys that each batch puts.
const KEYS: u64 = 8;

/// How many batches later a batch's first key is deleted.
const DELETED_LATER: u64 = 5;

/// Every so many batches one is `Sync`, the others are `Buffered`.
const SYNC_EVERY: u64 = 3;

/// Most batches acknowledged before a kill, and least.
const ACKNOWLEDGED: std::ops::Range<u64> = 200..1500;

/// Sizes of most values, in bytes.
const VALUE_BYTES: u64 = 2000;

/// One value in so many is [`LARGE_BYTES`] long, so that flushes happen.
const LARGE_EVERY: u64 = 100;

/// Size of a large value.
const LARGE_BYTES: u64 = 200_000;

/// Seed of sizes and contents.
const SEED: u64 = 0xc1ea7e;

fn key(batch: u64, place: u64) -> Vec<u8> {
    format!("batch/{batch:012}/{place}").into_bytes()
}

fn value(seed: u64, batch: u64, place: u64) -> Vec<u8> {
    let hash = mix(seed ^ mix(batch * KEYS + place));
    let length = match hash % LARGE_EVERY {
        0 => LARGE_BYTES,
        _ => (hash >> 20) % VALUE_BYTES,
    };
    let mut value = hash.to_le_bytes().to_vec();
    let mut state = hash;
    while (value.len() as u64) < length {
        state = mix(state);
        value.extend_from_slice(&state.to_le_bytes());
    }
    value
}

/// `cleave demo-writer`: writes until killed, or until nobody listens.
pub fn write_until_killed(args: &DemoWriter) -> Result<()> {
    let db = store::open(&args.dir, Access::Write)?;
    let keyspace = db.keyspace(KEYSPACE, KeyspaceOptions::new())?;
    let mut pipe = std::io::stdout().lock();
    for number in args.first.. {
        let mut batch = db.batch();
        for place in 0..KEYS {
            batch.put(&keyspace, key(number, place), value(args.seed, number, place));
        }
        batch.put(&keyspace, b"last", number.to_le_bytes());
        if let Some(earlier) = number.checked_sub(DELETED_LATER) {
            batch.delete(&keyspace, key(earlier, 0));
        }
        let durability =
            if number % SYNC_EVERY == 0 { Durability::Sync } else { Durability::Buffered };
        batch.commit(durability)?;
        writeln!(pipe, "{number}").and_then(|()| pipe.flush()).map_err(|e| Failure::output(&e))?;
    }
    Ok(())
}

/// Has a writer killed as often as asked, and checks the store after each.
pub fn kill_and_recover(
    args: &Demo,
    dir: &Path,
    open: &dyn Fn(Access) -> Result<Db>,
    report: &mut Report,
) -> Result<()> {
    let mut first = 0;
    let bar = progress::steps("kill and recover", u64::from(args.kills));
    for round in 0..args.kills {
        let wanted = ACKNOWLEDGED.start
            + mix(SEED ^ u64::from(round)) % (ACKNOWLEDGED.end - ACKNOWLEDGED.start);
        let acknowledged = run_writer(dir, first, wanted)?;
        let start = Instant::now();
        let db = open(Access::Write)?;
        let recovery_ms = start.elapsed().as_secs_f64() * 1e3;
        let recovered = check(&db, acknowledged, report)?;
        db.close()?;
        report.kills.push(Kill { acknowledged, recovered, recovery_ms });
        first = recovered;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Starts a writer at batch `first`, kills it after `wanted` batches, and returns the number of
/// batches acknowledged so far, those of earlier writers included.
fn run_writer(dir: &Path, first: u64, wanted: u64) -> Result<u64> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::no(format!("finding this program failed: {error}")))?;
    let mut child = Command::new(program)
        .arg("demo-writer")
        .arg(dir)
        .args([first.to_string(), SEED.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::no(format!("starting the writer failed: {error}")))?;
    let outcome = listen(&mut child, first, wanted);
    // After listening it is dead already, unless listening failed; both must not leave it behind.
    let _ = child.kill();
    let _ = child.wait();
    outcome
}

fn listen(child: &mut Child, first: u64, wanted: u64) -> Result<u64> {
    let told = |error: std::io::Error| Failure::no(format!("hearing the writer failed: {error}"));
    let pipe = child.stdout.take().ok_or_else(|| Failure::no("the writer has no output"))?;
    let mut pipe = BufReader::new(pipe);
    let mut acknowledged = first;
    let mut killed = false;
    let mut line = String::new();
    loop {
        line.clear();
        if pipe.read_line(&mut line).map_err(told)? == 0 {
            break;
        }
        // A number without its newline was cut by the kill; the one before it counts.
        if let Some(number) = line.strip_suffix('\n').and_then(|text| text.parse::<u64>().ok()) {
            acknowledged = number + 1;
        }
        if !killed && acknowledged >= first + wanted {
            child.kill().map_err(told)?;
            killed = true;
        }
    }
    if killed {
        Ok(acknowledged)
    } else {
        Err(Failure::no("the writing process of the demo ended by itself"))
    }
}

/// Compares the store with the state after as many batches as it says it has, and returns that
/// number.
fn check(db: &Db, acknowledged: u64, report: &mut Report) -> Result<u64> {
    let keyspace = db.keyspace(KEYSPACE, KeyspaceOptions::new())?;
    let batches = batches_in(&keyspace)?;
    if batches < acknowledged {
        report.differ(format!("{acknowledged} batches were acknowledged, {batches} are there"));
    }
    let mut expected = (0..batches).flat_map(|batch| {
        let first = u64::from(batch + DELETED_LATER < batches);
        (first..KEYS).map(move |place| (batch, place))
    });
    for pair in keyspace.prefix(b"batch/") {
        let (found, bytes) = pair?;
        let Some((batch, place)) = expected.next() else {
            report.differ(format!("key '{}' of a batch that is not there", found.escape_ascii()));
            return Ok(batches);
        };
        if found != key(batch, place) || bytes != value(SEED, batch, place) {
            report.differ(format!("batch {batch} of {batches} is not whole"));
            return Ok(batches);
        }
    }
    if let Some((batch, place)) = expected.next() {
        report.differ(format!("key {place} of batch {batch} of {batches} is gone"));
    }
    Ok(batches)
}

/// The number of batches according to the key that every batch sets.
fn batches_in(keyspace: &Keyspace) -> Result<u64> {
    let last = keyspace.get(b"last")?;
    let number = last.and_then(|last| <[u8; 8]>::try_from(last.as_bytes()).ok());
    Ok(number.map_or(0, |number| u64::from_le_bytes(number) + 1))
}
