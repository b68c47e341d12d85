//! Both ways give the file that inserting into a vector gives.

use super::*;

fn page(number: u8) -> Vec<u8> {
    vec![number; PAGE_BYTES as usize]
}

#[test]
fn pages_are_where_they_were_inserted() {
    for way in Way::ALL {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pages");
        // Above a chunk, so that the tail is moved in several.
        let mut pages = Pages::create(&path, 2 * CHUNK_BYTES + 5 * PAGE_BYTES, 1).unwrap();
        let mut wanted = fs::read(&path).unwrap();
        assert_eq!(wanted.len() as u64, pages.bytes);
        let blocks = pages.bytes / PAGE_BYTES;
        for (number, block) in [0, blocks - 1, 3, 260, 1].into_iter().enumerate() {
            let (place, page) = (block * PAGE_BYTES, page(number as u8));
            if !pages.insert(way, place, &page).unwrap() {
                assert_eq!(way, Way::Range);
                assert_eq!(number, 0, "refused after it was granted");
                break;
            }
            let place = place as usize;
            wanted.splice(place..place, page);
            assert!(fs::read(&path).unwrap() == wanted, "{way:?}, {number}");
        }
    }
}

#[test]
fn a_run_inserts_as_many_as_it_should_and_ends_in_time() {
    let inserts = Inserts { file_bytes: 100_000, operations: 20, seconds: 1e9, seed: 1 };
    for way in Way::ALL {
        let dir = tempfile::tempdir().unwrap();
        let report = run(way, &inserts, &dir.path().join("store")).unwrap();
        if report["refused"].is_string() {
            assert_eq!((way, &report["phases"]), (Way::Range, &json!([])));
            continue;
        }
        let phase = &report["phases"][0];
        assert_eq!((&phase["operations"], &phase["cut_short"]), (&json!(20), &json!(false)));
        assert_eq!(phase["latency_us"]["count"], 20);
        let bytes = fs::metadata(dir.path().join("store/pages")).unwrap().len();
        assert_eq!(bytes, (25 + 20) * PAGE_BYTES);
        let none = Inserts { seconds: 0.0, ..inserts.clone() };
        let report = run(way, &none, &dir.path().join("other")).unwrap();
        assert_eq!(report["phases"][0]["operations"], 0);
        assert_eq!(report["phases"][0]["cut_short"], true);
    }
}
