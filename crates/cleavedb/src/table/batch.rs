//! Point reads of many keys in many tables, with all device reads of a round submitted together.
//!
//! Pure use of [`TableReader`]; no state of its own. Invariant: while this thread holds the right
//! to read a block it never waits for another one, so two batches cannot wait for each other.

use crate::base::error::{Error, Result};
use crate::base::lookup::Lookup;
use crate::base::marks::mark;
use crate::io::disk::BatchRead;
use crate::io::{Io, Purpose};
use crate::memory::cache::{Begin, MissGuard};
use crate::table::CacheEntry;
use crate::table::block::Block;
use crate::table::reader::{BlockHandle, TableReader, reading};

/// One key to look up in one table.
pub(crate) struct TableRequest<'a> {
    /// The table.
    pub(crate) table: &'a TableReader,
    /// The key.
    pub(crate) key: &'a [u8],
    /// Its hash.
    pub(crate) hash: u64,
    /// Where the outcome is collected.
    pub(crate) lookup: &'a mut Lookup,
}

/// Reads that are wanted in this round.
struct Wanted<'a> {
    table: &'a TableReader,
    handle: BlockHandle,
    guard: Option<MissGuard<'a, CacheEntry>>,
    block: Option<Block>,
}

/// Offers what each table knows of its key to the request's lookup, as [`TableReader::get`] does.
/// Requests for one key must name it in one table only: rounds go table by table.
pub(crate) fn get_many(io: &Io, requests: &mut [TableRequest<'_>], purpose: Purpose) -> Result<()> {
    // (number of the request, block to search)
    let mut open: Vec<(usize, BlockHandle)> = Vec::with_capacity(requests.len());
    for (number, request) in requests.iter_mut().enumerate() {
        request.table.cover(request.key, request.lookup);
        let handle = request
            .table
            .may_contain(request.hash)
            .then(|| request.table.locate(request.key, request.lookup.snapshot))
            .flatten();
        match handle {
            Some(handle) => open.push((number, handle)),
            None => {
                request.lookup.end_source();
            }
        }
    }
    // More than one round only where the versions of a key spread over blocks.
    while !open.is_empty() {
        open = round(io, requests, open, purpose)?;
    }
    Ok(())
}

/// Reads and searches one block for each open request; returns those that go on.
fn round(
    io: &Io,
    requests: &mut [TableRequest<'_>],
    mut open: Vec<(usize, BlockHandle)>,
    purpose: Purpose,
) -> Result<Vec<(usize, BlockHandle)>> {
    // Requests for one block stand side by side and share one read.
    open.sort_by_key(|&(number, handle)| {
        (requests.get(number).map(|request| request.table.file_id()), handle.number)
    });
    let mut wanted: Vec<Wanted<'_>> = Vec::with_capacity(open.len());
    let mut places = Vec::with_capacity(open.len());
    for &(number, handle) in &open {
        let Some(request) = requests.get(number) else { continue };
        let table = request.table;
        let same = wanted
            .last()
            .is_some_and(|last| last.table.file_id() == table.file_id() && last.handle == handle);
        if !same {
            wanted.push(probe(table, handle));
        }
        places.push(wanted.len() - 1);
    }
    read_all(io, &mut wanted, purpose)?;
    let mut next = Vec::new();
    for (&(number, handle), place) in open.iter().zip(places) {
        let block = wanted.get(place).and_then(|wanted| wanted.block.as_ref());
        let (Some(request), Some(block)) = (requests.get_mut(number), block) else { continue };
        if request.table.search(block, handle, request.key, request.lookup)?.is_none() {
            match request.table.handle(handle.number + 1) {
                Some(handle) => next.push((number, handle)),
                None => {
                    request.lookup.end_source();
                }
            }
        }
    }
    Ok(next)
}

/// Takes a block from the cache, or the right to read it.
fn probe(table: &TableReader, handle: BlockHandle) -> Wanted<'_> {
    let key = (table.file_id(), handle.extent.offset);
    let (guard, block) = match table.cache.begin(&key, false) {
        Begin::Hit(entry) => (None, entry.into_block()),
        Begin::Miss(guard) => (Some(guard), None),
        Begin::Busy => {
            mark!("table_batch_reads_what_another_reads");
            (None, None)
        }
    };
    Wanted { table, handle, guard, block }
}

/// Reads all blocks that are missing in one submission.
fn read_all(io: &Io, wanted: &mut [Wanted<'_>], purpose: Purpose) -> Result<()> {
    let missing = || wanted.iter().filter(|wanted| wanted.block.is_none());
    let mut reads: Vec<BatchRead> = missing()
        .map(|wanted| BatchRead {
            file: wanted.table.disk_file().clone(),
            offset: wanted.handle.extent.offset,
            buffer: vec![0; wanted.handle.extent.len as usize],
            result: Ok(()),
        })
        .collect();
    match reads.as_mut_slice() {
        [] => return Ok(()),
        // A lone read needs no ring.
        [read] => read.result = read.file.read_exact_at(&mut read.buffer, read.offset),
        reads => {
            io.disk.read_batch(reads);
            io.meter.batch_submitted();
        }
    }
    let missing = wanted.iter_mut().filter(|wanted| wanted.block.is_none());
    for (wanted, read) in missing.zip(reads) {
        let table = wanted.table;
        read.result.map_err(|e| reading(table.path(), read.offset, e))?;
        io.meter.read(purpose, read.buffer.len() as u64);
        let block = table.decode_block(wanted.handle, &read.buffer)?;
        if let Some(guard) = wanted.guard.take() {
            guard.insert(CacheEntry::Block(block.clone()));
        }
        wanted.block = Some(block);
    }
    if wanted.iter().any(|wanted| wanted.block.is_none()) {
        return Err(Error::corruption("a batch of reads was answered in part"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
