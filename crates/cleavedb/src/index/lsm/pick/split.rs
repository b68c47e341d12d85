//! Where a large merge is cut into parts that can run side by side.

use crate::base::sync::Arc;
use crate::index::lsm::shape::{FileShape, Hull, Shape};

/// Keys that cut the work into parts of about equal bytes, at bounds of files; none where the
/// work is small or only one part may run at a time.
pub(super) fn splits(
    shape: &Shape<'_>,
    input_level: usize,
    inputs: &[Arc<FileShape>],
    overlap: &[Arc<FileShape>],
    hull: &Hull,
) -> Vec<Vec<u8>> {
    let bytes_min = shape.widths.subcompaction_bytes_min.max(2);
    let total: u64 = inputs.iter().chain(overlap).map(|file| file.bytes).sum();
    if shape.parallelism < 2 || total < bytes_min {
        return Vec::new();
    }
    let parts = (total / (bytes_min / 2)).clamp(2, shape.parallelism as u64);
    // Runs of level 0 spread over everything: only where they begin is known, so the files of a
    // sorted level say more about where the bytes lie.
    let sorted: Vec<&Arc<FileShape>> = if input_level > 0 {
        inputs.iter().chain(overlap).collect()
    } else if overlap.len() > 1 {
        overlap.iter().collect()
    } else {
        inputs.iter().chain(overlap).collect()
    };
    let known: u64 = sorted.iter().map(|file| file.bytes).sum();
    let mut starts: Vec<(&[u8], u64)> =
        sorted.iter().map(|file| (&*file.hull.smallest, file.bytes)).collect();
    starts.sort();
    let mut cuts: Vec<Vec<u8>> = Vec::new();
    let mut before = 0;
    for (key, bytes) in starts {
        let part = cuts.len() as u64 + 1;
        let due = part < parts && before >= known * part / parts;
        if due && key > &*hull.smallest && cuts.last().is_none_or(|last| key > last.as_slice()) {
            cuts.push(key.to_vec());
        }
        before += bytes;
    }
    cuts
}
