//! Buckets of a single key that are longer than a bucket should be: what is done so that none stays
//! so for longer than snapshots want it.
//!
//! Any thread. A collection writes such a bucket only where one key has that much, and asks for
//! that key to be folded; the flush of the fold's put meets the bucket full and rewrites it, less
//! what the put hides. What a snapshot keeps of it stays until somebody comes by once the snapshot
//! is gone, which is what is seen to here. What an opening finds too long was being folded perhaps:
//! it is collected anew, too. Invariants: LB-1 a bucket that is too long is collected again only
//! once a snapshot is gone that its last collection minded, so that none is rewritten for nothing.

use std::collections::BTreeMap;

use crate::base::entry::{FileId, Seq};
use crate::base::sync::{Arc, Mutex};
use crate::deltas::bucket::{Bucket, BucketInfo};
use crate::deltas::collect::Limits;
use crate::deltas::directory::Directory;

/// What is known of buckets that are too long.
#[derive(Default)]
pub(super) struct LongBuckets {
    /// The snapshots that were live when each was written.
    minded: Mutex<BTreeMap<FileId, Arc<[Seq]>>>,
}

/// Whether a bucket is longer than its capacity: one of a single key.
pub(super) fn is_long(info: &BucketInfo, limits: &Limits) -> bool {
    u64::from(info.bytes) > limits.capacity_bytes
}

/// Whether any of these snapshots is not live any more.
fn is_any_gone(minded: &[Seq], live: &[Seq]) -> bool {
    minded.iter().any(|seq| live.binary_search(seq).is_err())
}

impl LongBuckets {
    /// Takes up what a flush or a collection wrote, minding these snapshots.
    pub(super) fn note(&self, made: &[Arc<Bucket>], snapshots: &[Seq], limits: &Limits) {
        let long = made.iter().map(|bucket| bucket.info()).filter(|info| is_long(info, limits));
        let mut minded = self.minded.lock();
        minded.extend(long.map(|info| (info.id, Arc::from(snapshots))));
    }

    /// Forgets those that are not there any more.
    pub(super) fn retain(&self, directory: &Directory, limits: &Limits) {
        let mut minded = self.minded.lock();
        if !minded.is_empty() {
            let there = directory.iter().map(|bucket| bucket.info());
            let there = there.filter(|info| is_long(info, limits));
            let old = std::mem::take(&mut *minded);
            minded.extend(there.filter_map(|info| Some((info.id, Arc::clone(old.get(&info.id)?)))));
        }
    }

    /// Whether one may be shorter now, with these snapshots live.
    pub(super) fn are_due(&self, live: impl FnOnce() -> Vec<Seq>) -> bool {
        let minded = self.minded.lock();
        if minded.values().all(|minded| minded.is_empty()) {
            return false;
        }
        let live = live();
        minded.values().any(|minded| is_any_gone(minded, &live))
    }

    /// Whether a bucket is too long and may be shorter now.
    pub(super) fn is_due(&self, info: &BucketInfo, live: &[Seq], limits: &Limits) -> bool {
        let minded = self.minded.lock();
        is_long(info, limits) && minded.get(&info.id).is_none_or(|minded| is_any_gone(minded, live))
    }
}
