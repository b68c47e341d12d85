//! The memtable under a scheduler that may switch threads at every atomic and every lock.

use super::*;
use crate::base::sync::schedules::check;
use crate::base::sync::thread;
use crate::memory::skip_list::height_of as tower_height;

const KEYSPACE: KeyspaceId = KeyspaceId(1);
const MEMTABLE_BYTES: u64 = 64 << 10;

/// Keys and seqs of a keyspace, walking forwards or backwards.
fn walk(memtable: &Arc<Memtable>, backwards: bool) -> Vec<(Vec<u8>, Seq)> {
    let mut cursor = memtable.cursor(KEYSPACE);
    let mut all = Vec::new();
    if backwards { cursor.seek_last() } else { cursor.seek_first() }.unwrap();
    while cursor.valid() {
        assert_eq!(cursor.value(), cursor.seq().to_le_bytes());
        all.push((cursor.key().to_vec(), cursor.seq()));
        if backwards { cursor.prev() } else { cursor.next() }.unwrap();
    }
    all
}

fn put(memtable: &Memtable, key: u8, seq: Seq) {
    memtable.insert(KEYSPACE, &[key], seq, Kind::Put, &seq.to_le_bytes());
}

#[test]
fn shuttle_inserts_at_one_place_and_readers() {
    check("skip_list_insert_and_read", || {
        let memtable = Memtable::new(1, MEMTABLE_BYTES);
        put(&memtable, 9, 1);
        // Neighbouring places, towers of several heights, and the hint in every state.
        let writers: Vec<_> = [[(5u8, 2u64), (3, 3), (4, 4)], [(4, 5), (5, 6), (6, 7)]]
            .into_iter()
            .map(|entries| {
                let memtable = Arc::clone(&memtable);
                thread::spawn("writer", move || {
                    for (key, seq) in entries {
                        put(&memtable, key, seq);
                        let mut lookup = Lookup::new(seq);
                        assert!(memtable.get(KEYSPACE, &[key], &mut lookup));
                        assert_eq!(lookup.found.unwrap().seq, seq);
                    }
                })
                .unwrap()
            })
            .collect();
        let reader = {
            let memtable = Arc::clone(&memtable);
            thread::spawn("reader", move || {
                let seen = walk(&memtable, false);
                assert!(seen.windows(2).all(|pair| {
                    pair[0].0 < pair[1].0 || (pair[0].0 == pair[1].0 && pair[0].1 > pair[1].1)
                }));
                for (key, seq) in &seen {
                    let mut lookup = Lookup::new(*seq);
                    assert!(memtable.get(KEYSPACE, key, &mut lookup), "a get misses what was seen");
                    assert_eq!(lookup.found.unwrap().seq, *seq);
                }
                let mut seen_later = walk(&memtable, true);
                seen_later.reverse();
                assert!(seen_later.is_sorted_by(|a, b| a.0 < b.0 || (a.0 == b.0 && a.1 > b.1)));
                assert!(seen.iter().all(|entry| seen_later.contains(entry)));
            })
            .unwrap()
        };
        for thread in writers.into_iter().chain([reader]) {
            thread.join().unwrap();
        }
        let all = walk(&memtable, false);
        assert_eq!(all.len(), 7);
        let mut back = walk(&memtable, true);
        back.reverse();
        assert_eq!(all, back);
        assert_eq!((memtable.entries(), memtable.first_seq(), memtable.last_seq()), (7, 1, 7));
    });
}

#[test]
fn shuttle_the_same_entry_twice() {
    check("skip_list_same_entry_twice", || {
        let memtable = Memtable::new(1, MEMTABLE_BYTES);
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let memtable = Arc::clone(&memtable);
                thread::spawn("writer", move || {
                    for seq in [4, 2, 3] {
                        put(&memtable, 1, seq);
                    }
                })
                .unwrap()
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(memtable.entries(), 3);
        let seqs: Vec<Seq> = walk(&memtable, false).iter().map(|(_, seq)| *seq).collect();
        assert_eq!(seqs, [4, 3, 2]);
    });
}

#[test]
fn shuttle_searches_from_samples_while_samples_are_made() {
    check("skip_list_samples", || {
        let memtable = Memtable::new(1, MEMTABLE_BYTES);
        // Each of these ends up in an array sooner or later; two make the first one.
        let tall: Vec<Seq> = (1..).filter(|seq| tower_height(*seq) > 2).take(6).collect();
        let mut halves = tall.chunks(3).zip([[10_u8, 30, 50], [20, 40, 60]]);
        let writers: Vec<_> = halves
            .by_ref()
            .map(|(seqs, keys)| {
                let memtable = Arc::clone(&memtable);
                let entries: Vec<_> = keys.into_iter().zip(seqs.iter().copied()).collect();
                thread::spawn("writer", move || {
                    for (key, seq) in entries {
                        put(&memtable, key, seq);
                        // Where the search for this one begins is another thread's doing.
                        put(&memtable, key + 1, seq + 1000);
                        for (key, seq) in [(key, seq), (key + 1, seq + 1000)] {
                            assert_eq!(memtable.newest_seq(KEYSPACE, &[key]), seq);
                        }
                    }
                })
                .unwrap()
            })
            .collect();
        let reader = {
            let memtable = Arc::clone(&memtable);
            thread::spawn("reader", move || {
                for (key, seq) in walk(&memtable, false) {
                    let [key] = key[..] else { panic!("a key of one byte") };
                    assert_eq!(memtable.newest_seq(KEYSPACE, &[key]), seq);
                }
            })
            .unwrap()
        };
        for thread in writers.into_iter().chain([reader]) {
            thread.join().unwrap();
        }
        let all = walk(&memtable, false);
        assert!(all.len() == 12 && all.is_sorted_by(|a, b| a.0 < b.0));
    });
}

#[test]
fn shuttle_arena_blocks_change_hands() {
    check("arena_block_change", || {
        let memtable = Memtable::new(1, MEMTABLE_BYTES);
        let threads: Vec<_> = (0..3u8)
            .map(|thread| {
                let memtable = Arc::clone(&memtable);
                thread::spawn("writer", move || {
                    for i in 0..3u8 {
                        let value = [thread; 180];
                        let seq = Seq::from(thread * 3 + i + 1);
                        memtable.insert(KEYSPACE, &[thread, i], seq, Kind::Put, &value);
                    }
                })
                .unwrap()
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let mut cursor = memtable.cursor(KEYSPACE);
        cursor.seek_first().unwrap();
        for thread in 0..3u8 {
            for i in 0..3u8 {
                assert_eq!(cursor.key(), [thread, i]);
                assert_eq!(cursor.value(), [thread; 180]);
                cursor.next().unwrap();
            }
        }
        assert!(!cursor.valid());
    });
}

#[test]
fn shuttle_range_deletes_are_seen_once_inserted() {
    check("range_delete_publication", || {
        let memtable = Memtable::new(1, MEMTABLE_BYTES);
        put(&memtable, 5, 1);
        let writers: Vec<_> = [[(0u8, 9u8, 2u64), (5, 6, 4)], [(4, 6, 3), (1, 3, 5)]]
            .into_iter()
            .map(|tombstones| {
                let memtable = Arc::clone(&memtable);
                thread::spawn("writer", move || {
                    for (start, end, seq) in tombstones {
                        memtable.insert_range_delete(KEYSPACE, &[start], &[end], seq);
                        let mut lookup = Lookup::new(SEQ_MAX);
                        assert!(memtable.get(KEYSPACE, &[start], &mut lookup));
                        assert!(lookup.found.unwrap().seq >= seq);
                        assert!(memtable.fragments(KEYSPACE).cover_seq(&[start], seq) == seq);
                    }
                })
                .unwrap()
            })
            .collect();
        let reader = {
            let memtable = Arc::clone(&memtable);
            thread::spawn("reader", move || {
                let mut newest = 0;
                for _ in 0..3 {
                    let mut lookup = Lookup::new(SEQ_MAX);
                    assert!(memtable.get(KEYSPACE, &[5], &mut lookup));
                    assert!(lookup.newest_seq >= newest);
                    newest = lookup.newest_seq;
                }
            })
            .unwrap()
        };
        for thread in writers.into_iter().chain([reader]) {
            thread.join().unwrap();
        }
        assert_eq!(memtable.tombstones(KEYSPACE).len(), 4);
        assert_eq!(memtable.newest_seq(KEYSPACE, &[5]), 4);
    });
}
