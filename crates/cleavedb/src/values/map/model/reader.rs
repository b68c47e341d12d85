//! A reader in sub-steps: registration, view, memtables, map, record or index.

use crate::base::entry::Seq;
use crate::values::map::Answer;
use crate::values::map::place::Version;

use super::Lapse;
use super::world::{Form, View, What, World};

/// Where a read is.
enum Stage {
    Registered,
    Viewed(View),
    Told(View, Version),
    Absent(View, Seq),
}

/// A read of one key.
pub(super) struct Reader {
    id: u64,
    key: u8,
    snapshot: Seq,
    stage: Stage,
}

impl Reader {
    pub(super) fn new(world: &mut World, id: u64, key: u8) -> Self {
        let snapshot = match world.snapshots.len() {
            0 => world.next_seq - 1,
            _ if world.random.chance(50) => world.next_seq - 1,
            count => world.snapshots[world.random.index(count)],
        };
        if !world.has(Lapse::UnregisteredRead) {
            world.reads.push((id, snapshot));
        }
        Self { id, key, snapshot, stage: Stage::Registered }
    }

    /// One step; `None` when it is done, an error when the answer is wrong.
    pub(super) fn step(self, world: &mut World) -> Result<Option<Self>, String> {
        let Self { id, key, snapshot, stage } = self;
        let next = match stage {
            Stage::Registered => {
                if world.flush.as_ref().is_some_and(|flush| flush.is_between()) {
                    world.mark("view_between_touch_and_publication");
                }
                Stage::Viewed(world.view())
            }
            Stage::Viewed(view) => match ask(world, key, view, snapshot)? {
                Some(stage) => stage,
                None => return Ok(end(world, id)),
            },
            Stage::Told(view, version) => match world.read(&version.place) {
                Some(record) if (record.key, record.seq) != (key, version.seq) => {
                    return Err(format!("{version:?} of key {key} is {record:?}"));
                }
                Some(record) => {
                    check(world, key, snapshot, "the map", Some(record.id))?;
                    world.mark("answered_by_map");
                    return Ok(end(world, id));
                }
                None => {
                    let again = world.with_key(key, |key| world.map.lookup(key, snapshot));
                    if again == Answer::Found(version) {
                        return Err(format!("key {key} at {snapshot}: {version:?} is gone"));
                    }
                    world.mark("looked_up_again");
                    Stage::Viewed(view)
                }
            },
            Stage::Absent(view, since) => {
                ask_index(world, key, &view, snapshot, since)?;
                return Ok(end(world, id));
            }
        };
        Ok(Some(Self { id, key, snapshot, stage: next }))
    }
}

fn end(world: &mut World, id: u64) -> Option<Reader> {
    world.reads.retain(|(other, _)| *other != id);
    None
}

fn check(
    world: &World,
    key: u8,
    snapshot: Seq,
    from: &str,
    found: Option<u64>,
) -> Result<(), String> {
    let truth = world.truth(key, snapshot);
    if found == truth {
        return Ok(());
    }
    Err(format!("key {key} at {snapshot}: {from} says {found:?}, the truth is {truth:?}"))
}

/// Asks the memtables of the view, then the map; nothing is left if the memtables answer.
fn ask(world: &mut World, key: u8, view: View, snapshot: Seq) -> Result<Option<Stage>, String> {
    let recent = view.recent.iter().filter(|op| op.key == key && op.seq <= snapshot);
    if let Some(newest) = recent.max_by_key(|op| op.seq) {
        let found = (newest.what != What::Delete).then_some(newest.id);
        check(world, key, snapshot, "a memtable", found)?;
        return Ok(None);
    }
    Ok(Some(match world.with_key(key, |key| world.map.lookup(key, snapshot)) {
        Answer::Found(version) => {
            if world.with_key(key, |key| world.map.lookup(key, Seq::MAX)) != Answer::Found(version)
            {
                world.mark("found_in_chain");
            }
            Stage::Told(view, version)
        }
        Answer::Absent { since } => Stage::Absent(view, since),
        Answer::Waiting => {
            world.mark("shard_waits");
            Stage::Viewed(view)
        }
    }))
}

fn ask_index(
    world: &mut World,
    key: u8,
    view: &View,
    snapshot: Seq,
    since: Seq,
) -> Result<(), String> {
    let versions = view.manifest.index.get(&key).map(Vec::as_slice).unwrap_or_default();
    let seen = versions.iter().rev().find(|version| version.seq <= snapshot);
    if since > 0 {
        world.mark("absent_since");
    }
    match seen {
        Some(version) if version.form == Form::Bare => {
            Err(format!("key {key} at {snapshot}: bare {version:?} is not in the map"))
        }
        Some(version) if version.seq < since => {
            Err(format!("key {key} at {snapshot}: {version:?}, but absent since {since}"))
        }
        Some(version) => {
            if version.form == Form::Handle {
                world.mark("answered_by_handle");
            }
            let found = (version.form != Form::Deleted).then_some(version.id);
            check(world, key, snapshot, "the index", found)
        }
        None => check(world, key, snapshot, "the index", None),
    }
}
