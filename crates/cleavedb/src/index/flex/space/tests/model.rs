//! Random operations, groups, checkpoints, reclaims, views and reopening beside a vector of bytes
//! with tags, with crashes at any call of the disk: what an edit names is there, all of it.

use super::*;
use crate::base::names::parse_file_name;
use crate::base::sync::Mutex;
use crate::io::memory_disk::CrashMode;
use crate::io::seeded::Seeded;

/// One entry for each byte of the space.
type Twin = Vec<(u8, Option<Tag>)>;

struct Durable {
    state: SpaceState,
    twin: Twin,
}

#[derive(Debug, Default)]
struct Met {
    states: usize,
    groups: u64,
    checkpoints: u64,
    segments: u64,
    walks: u64,
    reopened: u64,
    removed: usize,
}

fn seen(view: &View) -> Twin {
    let bytes = view.read(0..view.tree().length(), Purpose::Read).unwrap();
    (0u64..).zip(bytes).map(|(at, byte)| (byte, view.tree().tag(at))).collect()
}

fn check(image: &MemoryDisk, durable: &Durable, what: &str) {
    let context = context_over(io(image), SMALL, 1 << 30);
    let space = Space::open(&context, durable.state);
    let space = space.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(seen(&space.view()) == durable.twin, "{what}: other bytes");
}

/// How much there is in segments, all of them looked at.
fn counted(space: &Space, is_meant: impl Fn(FileId) -> bool) -> Sums {
    let mut sums = Sums::default();
    for (_, state) in space.segments().filter(|(id, _)| is_meant(*id)) {
        sums.bytes += state.bytes;
        sums.garbage_bytes += state.bytes - state.live_bytes;
    }
    sums
}

/// What is kept with each change is what looking at all of it gives.
fn check_kept(space: &Space, what: &str) {
    space.tree().check().unwrap();
    assert_eq!(space.sums(), counted(space, |_| true), "{what}");
    assert_eq!(space.closed_sums(), counted(space, |id| !space.is_open(id)), "{what}");
}

/// Images of crashes at some of the calls that a run makes.
fn crashes<T>(disk: &MemoryDisk, seed: u64, run: impl FnOnce() -> T) -> (T, Vec<MemoryDisk>) {
    let images = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&images);
    disk.set_observer(Some(Arc::new(move |call, disk: &MemoryDisk| {
        let mut random = Seeded::new(seed ^ call);
        let mode = CrashMode::ALL[random.index(CrashMode::ALL.len())];
        let image = disk.crash_image(mode, random.next());
        kept.lock().push(image);
    })));
    let done = run();
    disk.set_observer(None);
    let images = std::mem::take(&mut *images.lock());
    (done, images)
}

/// An operation on both.
fn operate(space: &mut Space, twin: &mut Twin, random: &mut Seeded) {
    let length = twin.len() as u64;
    let at = random.below(length + 1);
    let end = (at + random.below(300)).min(length);
    let fresh = vec![random.next() as u8; 1 + random.below(700) as usize];
    let owner = 1 + at / 1000;
    let untagged = |bytes: &[u8]| bytes.iter().map(|byte| (*byte, None)).collect::<Twin>();
    match random.below(12) {
        0..5 => {
            space.insert(at, &fresh, owner).unwrap();
            twin.splice(at as usize..at as usize, untagged(&fresh));
        }
        5 | 6 => {
            space.collapse(at..end).unwrap();
            twin.drain(at as usize..end as usize);
        }
        7 | 8 => {
            let tag = if at < end { twin[at as usize].1 } else { None };
            space.update(at..end, &fresh, owner).unwrap();
            twin.splice(at as usize..end as usize, untagged(&fresh));
            twin[at as usize].1 = tag;
        }
        9 if at < length => {
            let tag = Tag::new(random.below(3) as u16);
            space.set_tag(at, tag).unwrap();
            twin[at as usize].1 = tag;
        }
        10 => space.defragment(at..end, owner).unwrap(),
        _ if length > 12_000 => {
            let end = (at + 6000).min(length);
            space.collapse(at..end).unwrap();
            twin.drain(at as usize..end as usize);
        }
        _ => {
            let end = (at as usize + fresh.len()).min(twin.len());
            let tag = twin.get(at as usize).and_then(|(_, tag)| *tag);
            space.write(at, &fresh, owner).unwrap();
            twin.splice(at as usize..end, untagged(&fresh));
            twin[at as usize].1 = tag;
        }
    }
}

fn run(seed: u64, met: &mut Met) {
    let mut random = Seeded::new(seed);
    let mut disk = disk();
    let mut context = context(&disk, SMALL);
    let mut space = Space::new(&context).unwrap();
    let mut twin = Twin::new();
    let mut durable = Durable { state: SpaceState::default(), twin: Twin::new() };
    let mut views: Vec<(View, Twin)> = Vec::new();
    for round in 0..20 {
        let what = format!("seed {seed}, round {round}");
        let draw = random.next();
        let (prepared, images) = crashes(&disk, draw, || {
            let mut random = Seeded::new(draw);
            (0..1 + random.below(12)).for_each(|_| operate(&mut space, &mut twin, &mut random));
            if random.chance(40) {
                let find = |owner: u64| Some(owner.saturating_sub(1) * 1000..owner * 1000);
                let reclaimed = space.reclaim(8000, &find).unwrap();
                met.segments += reclaimed.segments;
                met.walks += reclaimed.walks;
            }
            let is_due = space.is_checkpoint_due();
            met.groups += 1;
            let prepared = space.commit().unwrap();
            if !is_due {
                return prepared;
            }
            space.publish(prepared).unwrap();
            met.checkpoints += 1;
            space.checkpoint().unwrap()
        });
        met.states += images.len();
        // The group of a checkpoint was published without an edit; its files are not removed yet.
        images.iter().for_each(|image| check(image, &durable, &what));
        durable = Durable { state: prepared.state(), twin: twin.clone() };
        for (number, mode) in CrashMode::ALL.into_iter().enumerate() {
            let image = disk.crash_image(mode, random.next());
            check(&image, &durable, &format!("{what}, mode {number}"));
            met.states += 1;
        }
        space.publish(prepared).unwrap();
        met.removed += sweep(&context);
        for (view, twin) in &views {
            assert!(seen(view) == *twin, "{what}: a view has changed");
        }
        if random.chance(30) {
            views.push((space.view(), twin.clone()));
        } else if views.len() > 2 {
            views.remove(0);
        }
        if random.chance(20) {
            views.clear();
            let mode = CrashMode::ALL[random.index(CrashMode::ALL.len())];
            disk = disk.crash_image(mode, random.next());
            context = context_over(io(&disk), SMALL, context.ids.peek().0 + 1);
            space = Space::open(&context, durable.state).unwrap();
            // What an unfinished group or a view has left behind.
            let wanted = space.files();
            for (path, _) in disk.files() {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap();
                let (_, id) = parse_file_name(name).unwrap();
                if !wanted.contains(&id) {
                    disk.remove(&path).unwrap();
                }
            }
            met.reopened += 1;
        }
        assert!(seen(&space.view()) == twin, "{what}: other bytes");
        check_kept(&space, &what);
    }
}

#[test]
fn every_crash_state_has_all_that_was_committed() {
    let mut met = Met::default();
    (0..10).for_each(|seed| run(seed, &mut met));
    println!("flex space: crash_states={} lost=0 {met:?}", met.states);
    assert!(met.states > 3000 && met.checkpoints > 10 && met.reopened > 10, "{met:?}");
    assert!(met.segments > 10 && met.walks > 0 && met.removed > 20, "{met:?}");
}
