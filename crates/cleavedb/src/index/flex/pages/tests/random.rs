//! Random changes, checkpoints, drafts given up, reopening, and crashes at any call of the disk:
//! the published root, and a draft's once it is handed out, always lead to their trees.

use super::*;
use crate::base::sync::Mutex;
use crate::io::memory_disk::CrashMode;

/// What an edit has made durable.
struct Durable {
    root: PageAddress,
    extents: Vec<Placed>,
}

fn check(image: &MemoryDisk, durable: &Durable, what: &str) {
    let context = context_over(io(image), SHORT, 1 << 40);
    let store = PageStore::open(&context, durable.root, Purpose::Recovery);
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(all(store.tree().unwrap()), durable.extents, "{what}");
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

fn run(seed: u64) -> usize {
    let mut random = Seeded::new(seed);
    let mut disk = disk();
    let mut context = context(&disk, SHORT);
    let mut store = PageStore::new(&context);
    let mut tree = scattered(TINY, random.below(60));
    let mut durable: Option<Durable> = None;
    let mut states = 0;
    for round in 0..25 {
        (0..random.below(30)).for_each(|_| change(&mut tree, &mut random));
        let what = format!("seed {seed}, round {round}");
        let (draft, images) = crashes(&disk, random.next(), || store.checkpoint(&tree, b"x"));
        let draft = draft.unwrap();
        states += images.len();
        if let Some(durable) = &durable {
            images.iter().for_each(|image| check(image, durable, &what));
        }
        if random.chance(20) {
            continue;
        }
        let next = Durable { root: draft.root(), extents: all(&tree) };
        for (number, mode) in CrashMode::ALL.into_iter().enumerate() {
            let image = disk.crash_image(mode, random.next());
            check(&image, &next, &format!("{what}, mode {number}"));
            states += 1;
        }
        store.publish(draft).unwrap();
        for (_, id) in context.obsolete.take() {
            context.io.disk.remove_file(&path(id.0)).unwrap();
        }
        durable = Some(next);
        if random.chance(30) {
            // What was not published is gone with the crash, and new numbers are beyond all others.
            let mode = CrashMode::ALL[random.index(CrashMode::ALL.len())];
            disk = disk.crash_image(mode, random.next());
            let ids = context.ids.peek().0 + 1;
            context = context_over(io(&disk), SHORT, ids);
            store = reopened(&context, store.root().unwrap());
            tree = store.tree().unwrap().clone();
        }
    }
    states
}

#[test]
fn every_crash_state_leads_to_a_published_tree() {
    let states: usize = (0..12).map(run).sum();
    println!("flex pages: crash_states={states} lost=0");
    assert!(states > 2000, "only {states} crash states");
}
