//! Readers at hand under a scheduler that may switch threads at every access.

use super::*;
use crate::base::compress::Compression;
use crate::base::entry::Kind;
use crate::base::sync::schedules::check;
use crate::base::sync::thread;
use crate::table::testing::{Bench, UUID, item};

/// Room for one of two tables beside one that stays: whoever opens one pushes the other out. The
/// cache keeps nothing that fills all of it, so that room for one alone would be room for none.
#[test]
fn shuttle_what_is_at_hand_is_in_the_cache() {
    check("tables_at_hand", || {
        let bench = Bench::new();
        let items = [item(b"key", 5, Kind::Put, b"value")];
        let write = |file| {
            let options = Bench::options(file, Compression::None, 200);
            (bench.write(options, &items, &[]).unwrap(), Arc::new(AtHand::default()))
        };
        let files = Arc::new([write(1), write(2), write(3)]);
        let path = PathBuf::from("/db");
        let cache = TableCache::new(&bench.io, path, UUID, &bench.cache, 2, 1 << 20, false);
        let cache = Arc::new(cache);
        cache.get(&files[2].0, &files[2].1).unwrap();
        cache.get(&files[0].0, &files[0].1).unwrap();
        assert!(cache.cache.peek(&files[0].0.file).is_some());
        let threads: Vec<_> = [vec![0, 1, 0], vec![1, 0, 1, 0]]
            .map(|order| {
                let (cache, files) = (Arc::clone(&cache), Arc::clone(&files));
                let run = move || {
                    for number in order {
                        let (meta, at_hand) = &files[number];
                        assert_eq!(cache.get(meta, at_hand).unwrap().file_id(), meta.file);
                        let reader = at_hand.load();
                        let reader = reader.as_ref().as_ref();
                        assert!(reader.is_none_or(|reader| reader.file_id() == meta.file));
                    }
                };
                thread::spawn("reader", run).unwrap()
            })
            .into();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for (meta, at_hand) in &*files {
            let (kept, reader) = (cache.cache.peek(&meta.file), at_hand.load());
            assert!(reader.as_ref().as_ref().is_none_or(|reader| {
                kept.is_some_and(|open| Arc::ptr_eq(&open.reader, reader))
            }));
        }
        assert!(cache.open_files() <= 2, "{} open", cache.open_files());
        files.iter().for_each(|(meta, _)| cache.evict(meta.file));
        assert!(files.iter().all(|(_, at_hand)| at_hand.load().is_none()));
        assert_eq!(cache.open_files(), 0);
    });
}
