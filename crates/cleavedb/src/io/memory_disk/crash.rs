//! What a crash leaves: a choice, by mode and seed, among the unsynced changes.
//!
//! Pure functions over a borrowed state; unchanged files are shared with the disk they come from.
//!
//! I1: whatever was synced survives in every mode. I2: in the image nothing is pending, and live
//! and durable are the same.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::runs::Run;
use crate::base::sync::Arc;
use crate::io::memory_disk::image::Image;
use crate::io::memory_disk::state::{
    DataChange, DataKind, FileNode, InodeId, NameChange, NameKind, Node, Side, State, apply_name,
};
use crate::io::seeded::Seeded;

/// Which of the unsynced changes survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CrashMode {
    /// None of them.
    None,
    /// All of them, as after a kill of the process.
    All,
    /// Those before a random call, names and contents alike.
    PrefixByCall,
    /// In each file and each directory, those before a random one of its own.
    PrefixByFile,
    /// Each 512-byte sector of a file in a random version since its last sync, with a random one
    /// of the lengths; each change of a name by chance. What was never written reads as zero.
    Sectors,
    /// All calls before a random unsynced write, and a part of that write: cut at any byte where
    /// the file then ends, at a sector boundary where older bytes or zeros lie behind the cut.
    Torn,
    /// All names and a random one of each file's lengths since its last sync, but no contents.
    SizeWithoutData,
    /// All names, nothing of any file's contents or length.
    NamesOnly,
}

impl CrashMode {
    /// Every mode.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::All,
        Self::PrefixByCall,
        Self::PrefixByFile,
        Self::Sectors,
        Self::Torn,
        Self::SizeWithoutData,
        Self::NamesOnly,
    ];
}

/// The unit a device writes as a whole.
const SECTOR_BYTES: u64 = 512;

/// How the surviving changes are chosen, with what the seed drew for the whole disk.
enum Choice {
    Nothing,
    Everything,
    /// Calls below this number.
    Before(u64),
    PerFile,
    /// Chance in percent that the next version of a sector, and a change of a name, survives.
    Sectors {
        data: u64,
        names: u64,
    },
    /// Calls below this number, and a part of the write of this number.
    Torn(u64),
    Sizes,
    Names,
}

/// The state after a crash.
pub(super) fn crash_state(state: &State, mode: CrashMode, seed: u64) -> State {
    let mut seeded = Seeded::new(seed ^ ((mode as u64) << 56));
    let choice = choose(state, mode, &mut seeded);
    let mut nodes: BTreeMap<InodeId, Node> = state
        .nodes
        .iter()
        .map(|(&inode, node)| {
            let node = match node {
                Node::File(file) => {
                    let image = surviving_image(file, &choice, &mut seeded);
                    Node::File(FileNode {
                        durable: image.clone(),
                        live: image,
                        ..FileNode::default()
                    })
                }
                Node::Directory(directory) => Node::Directory(directory.clone()),
            };
            (inode, node)
        })
        .collect();
    for change in surviving_names(&state.pending_names, &choice, &mut seeded) {
        apply_name(&mut nodes, &change.kind, Side::Durable);
    }
    for node in nodes.values_mut() {
        if let Node::Directory(directory) = node {
            directory.live.clone_from(&directory.durable);
        }
    }
    let mut after = State::with_nodes(nodes, state.next_inode());
    after.sweep();
    after
}

/// Numbers of the calls whose changes are unsynced, in order.
fn pending_calls(state: &State, writes_only: bool) -> Vec<u64> {
    let mut calls = BTreeSet::new();
    if !writes_only {
        calls.extend(state.pending_names.iter().map(|change| change.call));
    }
    for node in state.nodes.values() {
        let Node::File(file) = node else { continue };
        let chosen = file
            .pending
            .iter()
            .filter(|change| !writes_only || matches!(change.kind, DataKind::Write { .. }));
        calls.extend(chosen.map(|change| change.call));
    }
    calls.into_iter().collect()
}

fn choose(state: &State, mode: CrashMode, seeded: &mut Seeded) -> Choice {
    match mode {
        CrashMode::None => Choice::Nothing,
        CrashMode::All => Choice::Everything,
        CrashMode::PrefixByCall => {
            let calls = pending_calls(state, false);
            let cut = calls.get(seeded.index(calls.len() + 1));
            cut.map_or(Choice::Everything, |&call| Choice::Before(call))
        }
        CrashMode::PrefixByFile => Choice::PerFile,
        CrashMode::Sectors => {
            const PERCENT: [u64; 5] = [10, 50, 80, 95, 100];
            let mut draw = || PERCENT.get(seeded.index(PERCENT.len())).copied().unwrap_or(50);
            Choice::Sectors { data: draw(), names: draw() }
        }
        CrashMode::Torn => {
            let calls = pending_calls(state, true);
            let cut = calls.get(seeded.index(calls.len()));
            cut.map_or(Choice::Everything, |&call| Choice::Torn(call))
        }
        CrashMode::SizeWithoutData => Choice::Sizes,
        CrashMode::NamesOnly => Choice::Names,
    }
}

fn surviving_image(file: &FileNode, choice: &Choice, seeded: &mut Seeded) -> Arc<Image> {
    let pending = &file.pending;
    if pending.is_empty() {
        return file.durable.clone();
    }
    let apply_first = |count: usize| {
        let mut image = file.durable.clone();
        if count > 0 {
            let image = Arc::make_mut(&mut image);
            pending.iter().take(count).for_each(|change| change.kind.apply(image));
        }
        image
    };
    let before = |call: u64| pending.partition_point(|change| change.call < call);
    match choice {
        Choice::Nothing | Choice::Names => file.durable.clone(),
        Choice::Everything => apply_first(pending.len()),
        Choice::Before(call) => apply_first(before(*call)),
        Choice::PerFile => apply_first(seeded.index(pending.len() + 1)),
        Choice::Torn(call) => {
            let kept = before(*call);
            let mut image = apply_first(kept);
            match pending.get(kept) {
                Some(change) if change.call == *call => {
                    tear(Arc::make_mut(&mut image), &change.kind, seeded);
                }
                _ => {}
            }
            image
        }
        Choice::Sectors { data, .. } => {
            let mut image = (*file.durable).clone();
            by_sectors(&mut image, pending, *data, seeded);
            Arc::new(image)
        }
        Choice::Sizes => {
            let mut image = (*file.durable).clone();
            sizes_only(&mut image, pending.iter().take(seeded.index(pending.len() + 1)));
            Arc::new(image)
        }
    }
}

/// Applies a part of a write.
fn tear(image: &mut Image, change: &DataKind, seeded: &mut Seeded) {
    let DataKind::Write { offset, bytes } = change else { return };
    let end = offset + bytes.len() as u64;
    let cut = offset + 1 + seeded.below(bytes.len() as u64);
    let ends_at_cut = cut >= image.len() && seeded.chance(50);
    let cut = if ends_at_cut || cut == end {
        cut
    } else {
        // The device writes sectors whole: what lies behind the cut begins at a boundary.
        (cut - cut % SECTOR_BYTES).max(*offset)
    };
    if let Some(kept) = bytes.get(..(cut - offset) as usize) {
        image.write(*offset, kept);
    }
    if !ends_at_cut && image.len() < end {
        image.set_len(end);
    }
}

/// Gives the file the length it had after these changes, and none of the bytes written.
fn sizes_only<'a>(image: &mut Image, changes: impl Iterator<Item = &'a DataChange>) {
    for change in changes {
        match &change.kind {
            DataKind::Write { offset, bytes } => {
                let end = offset + bytes.len() as u64;
                if end > image.len() {
                    image.set_len(end);
                }
            }
            DataKind::SetLen(len) => image.set_len(*len),
            DataKind::Punch { .. } => {}
        }
    }
}

/// Each sector keeps a random number of the changes that touched it, in their order: the device
/// holds what the cache held at some moment. Lengths follow a random prefix of their own.
fn by_sectors(image: &mut Image, pending: &[DataChange], percent: u64, seeded: &mut Seeded) {
    let sized = seeded.index(pending.len() + 1);
    let mut lengths = image.clone();
    sizes_only(&mut lengths, pending.iter().take(sized));
    let mut frozen = BTreeSet::new();
    for (number, change) in pending.iter().enumerate() {
        match &change.kind {
            DataKind::Write { offset, bytes } => {
                let mut rest: &[u8] = bytes;
                for part in sector_parts(*offset, bytes.len() as u64) {
                    let Some((bytes, after)) = rest.split_at_checked(part.bytes() as usize) else {
                        break;
                    };
                    if reaches(part.start / SECTOR_BYTES, percent, &mut frozen, seeded) {
                        image.write(part.start, bytes);
                    }
                    rest = after;
                }
            }
            DataKind::Punch { offset, len } => {
                for part in sector_parts(*offset, *len) {
                    if reaches(part.start / SECTOR_BYTES, percent, &mut frozen, seeded) {
                        image.punch(part.start, part.bytes());
                    }
                }
            }
            DataKind::SetLen(len) if number < sized => {
                if *len < image.len() {
                    image.set_len(*len);
                    frozen.retain(|&sector| sector * SECTOR_BYTES < *len);
                }
            }
            DataKind::SetLen(_) => {}
        }
    }
    image.set_len(lengths.len());
}

/// The parts of a range that lie in one sector each.
fn sector_parts(offset: u64, len: u64) -> impl Iterator<Item = Run> {
    let end = offset.saturating_add(len);
    let mut start = offset;
    std::iter::from_fn(move || {
        let part = Run { start, end: (start - start % SECTOR_BYTES + SECTOR_BYTES).min(end) };
        start = part.end;
        (part.start < end).then_some(part)
    })
}

/// Whether the next change of a sector reaches the device; once one did not, none does.
fn reaches(sector: u64, percent: u64, frozen: &mut BTreeSet<u64>, seeded: &mut Seeded) -> bool {
    if frozen.contains(&sector) {
        return false;
    }
    let reaches = seeded.chance(percent);
    if !reaches {
        frozen.insert(sector);
    }
    reaches
}

/// The changes of names that survive.
fn surviving_names<'a>(
    pending: &'a [NameChange],
    choice: &Choice,
    seeded: &mut Seeded,
) -> Vec<&'a NameChange> {
    match choice {
        Choice::Nothing => Vec::new(),
        Choice::Everything | Choice::Sizes | Choice::Names => pending.iter().collect(),
        Choice::Before(call) | Choice::Torn(call) => {
            pending.iter().filter(|change| change.call < *call).collect()
        }
        Choice::Sectors { names, .. } => pending.iter().filter(|_| seeded.chance(*names)).collect(),
        Choice::PerFile => {
            let mut counts: BTreeMap<InodeId, u64> = BTreeMap::new();
            for change in pending {
                *counts.entry(home(change)).or_default() += 1;
            }
            let mut kept: BTreeMap<InodeId, u64> = counts
                .into_iter()
                .map(|(directory, count)| (directory, seeded.below(count + 1)))
                .collect();
            let survives = |change: &&NameChange| match kept.get_mut(&home(change)) {
                Some(0) | None => false,
                Some(left) => {
                    *left -= 1;
                    true
                }
            };
            pending.iter().filter(survives).collect()
        }
    }
}

/// The directory whose order a change of names follows.
fn home(change: &NameChange) -> InodeId {
    match &change.kind {
        NameKind::Link { slot, .. } | NameKind::Unlink { slot } => slot.directory,
        NameKind::Rename { to, .. } => to.directory,
    }
}
