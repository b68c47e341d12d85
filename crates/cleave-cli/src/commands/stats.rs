//! `stats`: the engine's figures, as JSON or as a page.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use cleavedb::{CollectionStats, KeyspaceStats, Stats};
use cleavedb_bench::report::bytes;

use crate::failure::Result;
use crate::output::Output;
use crate::store::{self, Access};

/// `cleave stats`
pub fn stats(dir: &Path, json: bool) -> Result<()> {
    let db = store::open(dir, Access::Read)?;
    let stats = db.stats();
    let mut out = Output::new();
    if json {
        out.json(&stats)?;
    } else {
        page(&mut out, &stats)?;
    }
    out.finish()
}

fn page(out: &mut Output, stats: &Stats) -> Result<()> {
    row(out, "live", bytes(stats.live_bytes))?;
    row(out, "on disk", bytes(stats.disk_bytes))?;
    row(out, "space amplification", format_args!("{:.2}", stats.space_amplification))?;
    row(out, "last seq", stats.last_seq)?;
    row(out, "open files", stats.open_files)?;
    row(out, "batched reads", &stats.read_batch_mode)?;
    let values = &stats.values;
    row(
        out,
        "value files",
        format_args!(
            "{} ({} in key order), {}, {} live, strategy {}",
            values.files,
            values.containers,
            bytes(values.file_bytes),
            bytes(values.live_bytes),
            values.strategy
        ),
    )?;
    buckets(out, stats)?;
    memory(out, &stats.memory_bytes)?;
    for keyspace in &stats.keyspaces {
        keyspace_lines(out, keyspace)?;
    }
    out.line("since this command opened the store:")?;
    row(out, "  written by user", bytes(stats.user_bytes_written))?;
    sizes(out, "  written to files", &stats.bytes_written)?;
    sizes(out, "  read from files", &stats.bytes_read)?;
    row(out, "  write amplification", format_args!("{:.2}", stats.write_amplification))?;
    row(out, "  read amplification", format_args!("{:.2}", stats.read_amplification))?;
    let cache = &stats.cache;
    row(
        out,
        "  block cache",
        format_args!(
            "{} hits, {} misses, {} of {}",
            cache.hits,
            cache.misses,
            bytes(cache.bytes),
            bytes(cache.capacity_bytes)
        ),
    )?;
    value_files(out, stats)?;
    operands(out, stats)?;
    collection(out, &stats.collection)?;
    for (reason, stall) in &stats.stalls {
        if stall.count > 0 {
            let label = format!("  stalls, {reason}");
            row(out, &label, format_args!("{} times, {} us", stall.count, stall.micros))?;
        }
    }
    for (operation, latency) in &stats.latencies {
        if latency.count > 0 {
            let label = format!("  latency, {operation}");
            row(
                out,
                &label,
                format_args!(
                    "{} timed, p50 {:.1} us, p99 {:.1} us, max {:.1} us",
                    latency.count, latency.p50_us, latency.p99_us, latency.max_us
                ),
            )?;
        }
    }
    Ok(())
}

fn value_files(out: &mut Output, stats: &Stats) -> Result<()> {
    let values = &stats.values;
    if values.files > 0 {
        row(
            out,
            "  values",
            format_args!(
                "{} from memory, {} from files, {} read ahead, {} of them for nothing",
                values.cache_hits, values.cache_misses, values.prefetched, values.prefetched_unused
            ),
        )?;
    }
    if values.large_files > 0 {
        let bytes = values.large_bytes;
        row(out, "  large values", format_args!("{} files, {bytes} bytes", values.large_files))?;
    }
    let gc = &stats.collection;
    if values.hole_bytes > 0 {
        row(
            out,
            "  holes in value files",
            format_args!("{}, {} punched", bytes(values.hole_bytes), bytes(gc.bytes_punched)),
        )?;
    }
    if gc.files_removed + gc.files_collected > 0 {
        row(
            out,
            "  value files removed",
            format_args!(
                "{}, {} freed, {} moved",
                gc.files_removed,
                bytes(gc.bytes_freed),
                bytes(gc.bytes_moved)
            ),
        )?;
    }
    Ok(())
}

/// What there is of merge operands apart from the index.
fn buckets(out: &mut Output, stats: &Stats) -> Result<()> {
    let deltas = &stats.deltas;
    if deltas.buckets > 0 {
        let size = bytes(deltas.bytes);
        row(out, "merge operands", format_args!("{} buckets, {size}", deltas.buckets))?;
    }
    Ok(())
}

/// Reads of buckets, and how many operands gets applied.
fn operands(out: &mut Output, stats: &Stats) -> Result<()> {
    let deltas = &stats.deltas;
    if deltas.cache_hits + deltas.cache_misses > 0 {
        row(
            out,
            "  look-ups of operands",
            format_args!(
                "{} from memory, {} not, {} reads",
                deltas.cache_hits, deltas.cache_misses, deltas.reads
            ),
        )?;
    }
    let gets = stats.operands_per_get.iter();
    let gets: Vec<_> = gets.map(|(most, gets)| format!("up to {most}: {gets}")).collect();
    if !gets.is_empty() {
        row(out, "  operands, by gets", gets.join(", "))?;
    }
    Ok(())
}

/// What garbage collection asked of the index and wrote into it, or what it was told.
fn collection(out: &mut Output, gc: &CollectionStats) -> Result<()> {
    if gc.index_reads + gc.index_writes > 0 {
        row(
            out,
            "  index, by collection",
            format_args!("{} look-ups, {} entries written", gc.index_reads, gc.index_writes),
        )?;
    }
    if gc.facts + gc.facts_waiting + gc.compactions_asked > 0 {
        row(
            out,
            "  facts for collection",
            format_args!(
                "{} stated, {} not read yet, {} compactions asked for",
                gc.facts, gc.facts_waiting, gc.compactions_asked
            ),
        )?;
        if gc.facts_files > 0 {
            let (files, on_disk) = (gc.facts_files, bytes(gc.facts_disk_bytes));
            row(out, "  facts on disk", format_args!("{on_disk} in {files} files"))?;
        }
    }
    if gc.records_held > 0 {
        row(out, "  held by snapshots", format_args!("{} records", gc.records_held))?;
    }
    Ok(())
}

fn keyspace_lines(out: &mut Output, keyspace: &KeyspaceStats) -> Result<()> {
    out.line(format_args!(
        "keyspace {}: {} on disk, {} live, {} entries",
        keyspace.name,
        bytes(keyspace.disk_bytes),
        bytes(keyspace.live_bytes),
        keyspace.entries
    ))?;
    for level in keyspace.levels.iter().filter(|level| level.files > 0) {
        let label = format!("  level {}", level.level);
        let target = match level.target_bytes {
            0 => String::new(),
            target => format!(" of {}", bytes(target)),
        };
        row(
            out,
            &label,
            format_args!(
                "{} files, {}{target}, {} entries",
                level.files,
                bytes(level.bytes),
                level.entries
            ),
        )?;
    }
    Ok(())
}

/// `total of budget: part, part`.
fn memory(out: &mut Output, parts: &BTreeMap<String, u64>) -> Result<()> {
    let named = |name: &str| bytes(parts.get(name).copied().unwrap_or(0));
    let shown: Vec<_> = parts
        .iter()
        .filter(|(part, size)| **size > 0 && *part != "total" && *part != "budget")
        .map(|(part, size)| format!("{part} {}", bytes(*size)))
        .collect();
    let list = if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) };
    row(out, "memory", format_args!("{} of {}{list}", named("total"), named("budget")))
}

fn sizes(out: &mut Output, label: &str, parts: &BTreeMap<String, u64>) -> Result<()> {
    let shown: Vec<_> = parts
        .iter()
        .filter(|(_, size)| **size > 0)
        .map(|(part, size)| format!("{part} {}", bytes(*size)))
        .collect();
    row(out, label, if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") })
}

fn row(out: &mut Output, label: &str, value: impl Display) -> Result<()> {
    out.line(format_args!("{label:<22} {value}"))
}
