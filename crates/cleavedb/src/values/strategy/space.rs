//! How much garbage there is, whether that is too much, and which files to do something about.
//! Pure functions over figures of the file table.
//!
//! Space amplification is bytes of value files by bytes of live records. A file that the index does
//! not know wholly yet counts as live; one that is being collected, or waits to be removed, counts
//! as nothing: what can be done about it is being done. Files of large values are among them:
//! never collected, since such a file is live or dead as a whole, but their bytes count.
//!
//! How much of a file is live is known only up to what compaction has dropped from the index; an
//! estimate (`values::sample`) says of the rest how much of it has been superseded already.
//!
//! Invariants: G1 where collection is urgent, there is a file to collect or to drop; where it is
//! due, too, unless the strategy waits for files that are worth more. G2 a file is collected only
//! if that frees a share worth the rewriting. G3 only files that grow no more and that the index
//! knows wholly are touched (rules R8, R9).

use crate::base::codec::varint_len;
use crate::base::entry::{FileId, Seq};
use crate::values::file_table::{ContainerEntry, LargeEntry, MovedFile, TableEntry, ValueFiles};
use crate::values::strategy::Strategy;

/// Collection begins at this share of the garbage allowed, in percent.
const DUE_PERCENT: u64 = 60;
/// It is urgent from this share on.
const URGENT_PERCENT: u64 = 85;
/// Writers are slowed down from this share on.
const PACED_PERCENT: u64 = 100;
/// A file is worth collecting if its own share is at least this: half of where collection is due,
/// so that some file always is when it is due (G1).
pub(super) const WORTH_PERCENT: u64 = DUE_PERCENT / 2;
/// One with holes, of which the rest is hard to get, is worth it only from here on, the most that
/// G1 allows: if all files were just below it, collection would not be due.
const PUNCHED_WORTH_PERCENT: u64 = DUE_PERCENT;

/// Bytes that a live record needs in any file besides its own: its line in the footer.
const ENTRY_BYTES: u64 = 16;
/// Bytes of a file, as collection leaves it, that are no records: header, footer, a few frames.
/// What no collection could free must not look like garbage, or small files would be rewritten for
/// ever.
const FILE_BYTES: u64 = 320;

/// A file is mostly dead, and always worth collecting, if so many parts of so many are garbage.
const MOSTLY_DEAD: (u64, u64) = (3, 4);

/// What a decision needs to know of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFigures {
    /// Number of the file.
    pub(crate) id: FileId,
    /// Its bytes.
    pub(crate) file_bytes: u64,
    /// Bytes that its live records need, as far as is known or estimated.
    pub(crate) live_bytes: u64,
    /// Whether it is known that no index entry names it, so that it can go away unread.
    pub(crate) is_dead: bool,
    /// Whether it grows no more and the index knows all that is in it.
    pub(crate) is_settled: bool,
    /// Whether it is being collected, or waits to be removed.
    pub(crate) is_taken: bool,
    /// Whether dead records of it were given back as holes.
    pub(crate) is_punched: bool,
    /// How often its records were rewritten.
    pub(crate) rewrites: u32,
    /// Seq of its newest record; 0 while it grows.
    pub(crate) newest_seq: Seq,
}

impl FileFigures {
    /// The figures of a file of the table where everything up to `flushed` is in the index and an
    /// estimate says that `live_share` of its records' bytes is live.
    pub(crate) fn of(
        entry: &TableEntry,
        flushed: Seq,
        live_share: Option<f64>,
        is_taken: bool,
    ) -> Self {
        let state = &entry.state;
        let file_bytes = entry.disk_bytes();
        Self {
            id: entry.file.id(),
            file_bytes,
            live_bytes: needed_bytes(state.refs, state.ref_bytes, entry.records_left(), live_share)
                .min(file_bytes),
            is_dead: state.is_dead(flushed),
            is_settled: state.is_settled(flushed),
            is_taken,
            is_punched: entry.punched.is_some(),
            rewrites: 0,
            newest_seq: state.sealed.map_or(0, |values| values.totals.largest_seq),
        }
    }

    /// The figures of the file of one large value, which is live or dead as a whole.
    pub(crate) fn of_large(entry: &LargeEntry, flushed: Seq, is_taken: bool) -> Self {
        let file_bytes = entry.file.readable();
        let is_dead = entry.is_dead(flushed);
        let live_bytes = if is_dead { 0 } else { file_bytes };
        let is_settled = entry.is_settled(flushed);
        Self {
            id: entry.file.id(),
            file_bytes,
            live_bytes,
            is_dead,
            is_settled,
            is_taken,
            is_punched: false,
            rewrites: 0,
            newest_seq: 0,
        }
    }

    /// The figures of a container, whose records are live as far as entries name them and an
    /// estimate of their share says. What is in it besides its records goes and stays with them, so
    /// that nothing is garbage where all live.
    pub(crate) fn of_container(
        entry: &ContainerEntry,
        files: &ValueFiles,
        live_share: Option<f64>,
        is_taken: bool,
    ) -> Self {
        let id = entry.container.id();
        let file_bytes = entry.container.sealed().bytes;
        // A record states its file here; handles of before know nothing of that.
        let of_file = |file: &MovedFile| {
            file.ref_bytes.saturating_add(file.refs.saturating_mul(varint_len(file.id.0) as u64))
        };
        let live: u64 = files.files_in(id).map(of_file).fold(0, u64::saturating_add);
        let records = entry.totals.record_bytes.max(1);
        let live_bytes = match live {
            0 => 0,
            _ => {
                let named = (live as f64 / records as f64).min(1.0);
                (file_bytes as f64 * named.min(live_share.unwrap_or(1.0))) as u64
            }
        };
        Self {
            id,
            file_bytes,
            live_bytes,
            is_dead: files.refs_in(id).0 == 0,
            is_settled: true,
            is_taken,
            is_punched: false,
            rewrites: files.files_in(id).map(|file| file.epoch).max().unwrap_or(0),
            newest_seq: entry.totals.largest_seq,
        }
    }

    /// The same file where so many records more live in it, which no index entry names;
    /// `container_bytes` are those of all its records, if it is a container.
    pub(crate) fn with_mapped(
        mut self,
        records: u64,
        bytes: u64,
        container_bytes: Option<u64>,
    ) -> Self {
        if records == 0 {
            return self;
        }
        let needed = match container_bytes {
            Some(all) => (self.file_bytes as f64 * (bytes as f64 / all.max(1) as f64)) as u64,
            None => bytes + records * ENTRY_BYTES + FILE_BYTES,
        };
        self.live_bytes = self.live_bytes.saturating_add(needed).min(self.file_bytes);
        self
    }

    /// The share of its bytes that is needed (the valid rate).
    pub(super) fn live_rate(&self) -> f64 {
        self.live_bytes as f64 / self.file_bytes.max(1) as f64
    }

    /// Bytes that are neither needed nor spoken for.
    pub(super) fn garbage_bytes(&self) -> u64 {
        if self.is_settled { self.file_bytes.saturating_sub(self.live_bytes) } else { 0 }
    }

    /// Whether putting its live records elsewhere costs little beside what that frees.
    pub(super) fn is_mostly_dead(&self) -> bool {
        let (parts, of) = MOSTLY_DEAD;
        self.garbage_bytes() / parts >= self.file_bytes / of && self.garbage_bytes() > FILE_BYTES
    }
}

/// Bytes that the live records of a file need in whatever file they stand, of so many that are
/// left in it by number and bytes.
pub(super) fn needed_bytes(
    refs: u64,
    ref_bytes: u64,
    records_left: Option<(u64, u64)>,
    live_share: Option<f64>,
) -> u64 {
    if refs == 0 {
        return 0;
    }
    let known = ref_bytes.saturating_add(refs.saturating_mul(ENTRY_BYTES));
    let estimated = records_left.zip(live_share).map(|((records, record_bytes), share)| {
        let all = record_bytes.saturating_add(records.saturating_mul(ENTRY_BYTES));
        (all as f64 * share) as u64
    });
    known.min(estimated.unwrap_or(u64::MAX)).saturating_add(FILE_BYTES)
}

/// Bytes of the records of a file that are still their keys' values, as far as is known where
/// everything up to `flushed` is in the index and an estimate says that `live_share` is live.
/// What the index does not know wholly yet counts as live, as it does when collection is decided.
pub(crate) fn live_record_bytes(entry: &TableEntry, flushed: Seq, live_share: Option<f64>) -> u64 {
    let Some((_, record_bytes)) = entry.records_left() else {
        return entry.file.readable();
    };
    if !entry.state.is_settled(flushed) {
        return record_bytes;
    }
    let estimated = live_share.map(|share| (record_bytes as f64 * share) as u64);
    entry.state.ref_bytes.min(estimated.unwrap_or(u64::MAX))
}

/// What the user allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SpaceLimits {
    /// Bytes of value files by bytes of live records, at most: `space_amplification_max`.
    pub(crate) amplification_max: f64,
    /// Garbage that is allowed in any case: files come and go whole, so a small store could keep
    /// no promise below some of them.
    pub(crate) slack_bytes: u64,
}

/// Sums over the value files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    /// Bytes of files that are not taken.
    pub(crate) file_bytes: u64,
    /// Bytes of live records in them.
    pub(crate) live_bytes: u64,
    /// What collection could free of them.
    pub(crate) garbage_bytes: u64,
}

impl Space {
    /// Sums up.
    pub(crate) fn of(files: &[FileFigures]) -> Self {
        let mut space = Self::default();
        for file in files.iter().filter(|file| !file.is_taken) {
            space.file_bytes += file.file_bytes;
            space.garbage_bytes += file.garbage_bytes();
            space.live_bytes += file.file_bytes - file.garbage_bytes().min(file.file_bytes);
        }
        space
    }

    /// The same with more of it garbage.
    pub(crate) fn expecting(mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.live_bytes);
        self.live_bytes -= bytes;
        self.garbage_bytes += bytes;
        self
    }

    /// Garbage that these limits allow.
    pub(crate) fn allowed_bytes(&self, limits: &SpaceLimits) -> u64 {
        allowed(self.live_bytes, limits).max(limits.slack_bytes)
    }

    /// The garbage as a share of what these limits allow.
    pub(crate) fn share(&self, limits: &SpaceLimits) -> f64 {
        self.garbage_bytes as f64 / self.allowed_bytes(limits).max(1) as f64
    }

    /// How pressing collection is.
    pub(crate) fn urgency(&self, limits: &SpaceLimits) -> Urgency {
        let allowed = self.allowed_bytes(limits);
        let reaches = |percent| is_share(self.garbage_bytes, allowed, percent);
        match self.garbage_bytes {
            0 => Urgency::None,
            _ if reaches(PACED_PERCENT) => Urgency::Paced,
            _ if reaches(URGENT_PERCENT) => Urgency::Urgent,
            _ if reaches(DUE_PERCENT) => Urgency::Due,
            _ => Urgency::None,
        }
    }
}

/// How pressing collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// There is little to gain.
    None,
    /// Worth doing when nothing else is.
    Due,
    /// More important than other background work.
    Urgent,
    /// Writers wait for it.
    Paced,
}

/// What to do about garbage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How pressing it is.
    pub(crate) urgency: Urgency,
    /// Files to remove unread: at once, whatever the urgency, since that needs no room.
    pub(crate) dead: Vec<FileId>,
    /// Files to collect, the first one first: those that are mostly dead, and where collection is
    /// due all that are worth it.
    pub(crate) victims: Vec<FileId>,
}

/// Decides what to do about garbage. `files` in any order; `expected_bytes` of what counts as live
/// is about to be known as garbage, which no file can be collected for yet.
pub(crate) fn plan(
    files: &[FileFigures],
    limits: &SpaceLimits,
    expected_bytes: u64,
    strategy: &dyn Strategy,
) -> Plan {
    let open = || files.iter().filter(|file| !file.is_taken);
    let mut dead: Vec<FileId> = open().filter(|file| file.is_dead).map(|file| file.id).collect();
    dead.sort_unstable();
    // Dead files go away by themselves: collection is decided by what they leave.
    let rest: Vec<FileFigures> = open().filter(|file| !file.is_dead).copied().collect();
    let policy = strategy.victims();
    let mut urgency = Space::of(&rest).expecting(expected_bytes).urgency(limits);
    let is_chosen = |file: &&FileFigures| match urgency {
        _ if file.is_mostly_dead() => true,
        Urgency::None => false,
        Urgency::Due => policy.is_worth_it_early(file, limits),
        Urgency::Urgent | Urgency::Paced => is_worth_it(file, limits),
    };
    let mut victims: Vec<FileFigures> = rest.iter().filter(is_chosen).copied().collect();
    urgency = match victims.is_empty() {
        // It waits for more garbage, in files that are worth it then.
        true => Urgency::None,
        false => urgency.max(Urgency::Due),
    };
    policy.sort(&mut victims);
    Plan { urgency, dead, victims: victims.into_iter().map(|file| file.id).collect() }
}

/// The files that are worth collecting however little garbage there is in all, in their order:
/// what to do where somebody asks for it.
pub(crate) fn worthwhile(
    files: &[FileFigures],
    limits: &SpaceLimits,
    strategy: &dyn Strategy,
) -> Vec<FileId> {
    let is_open = |file: &&FileFigures| !file.is_taken && !file.is_dead && file.is_settled;
    let mut victims: Vec<FileFigures> = files
        .iter()
        .filter(is_open)
        .filter(|file| file.is_mostly_dead() || is_worth_it(file, limits))
        .copied()
        .collect();
    strategy.victims().sort(&mut victims);
    victims.into_iter().map(|file| file.id).collect()
}

/// Whether collecting a file frees enough of it (G2).
pub(super) fn is_worth_it(file: &FileFigures, limits: &SpaceLimits) -> bool {
    is_worth(file, limits, if file.is_punched { PUNCHED_WORTH_PERCENT } else { WORTH_PERCENT })
}

/// Whether a file's garbage is at least this share of what is allowed beside its live bytes.
pub(super) fn is_worth(file: &FileFigures, limits: &SpaceLimits, worth_percent: u64) -> bool {
    let garbage = file.garbage_bytes();
    garbage > 0 && is_share(garbage, allowed(file.live_bytes, limits), worth_percent)
}

/// Whether collection would be due if so many bytes more were garbage, and they make a part of that
/// which is worth finding out.
pub(crate) fn is_due(space: &Space, expected_bytes: u64, limits: &SpaceLimits) -> bool {
    let allowed = space.allowed_bytes(limits);
    let garbage = space.garbage_bytes.saturating_add(expected_bytes);
    is_share(garbage, allowed, DUE_PERCENT) && is_share(expected_bytes, allowed, DUE_PERCENT / 2)
}

/// Garbage that these limits allow beside so many live bytes.
fn allowed(live_bytes: u64, limits: &SpaceLimits) -> u64 {
    let share = (limits.amplification_max - 1.0).max(0.0);
    // Saturates, also where the option is infinite.
    (live_bytes as f64 * share) as u64
}

/// Whether `part` is at least this share of `whole`.
fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

#[cfg(test)]
mod tests;
