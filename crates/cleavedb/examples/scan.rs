//! Ranges and prefixes, from either end; keys alone; a cursor that moves both ways.

use std::error::Error;

use cleavedb::{Db, KeyspaceOptions, RangeIter};

/// The keys of a scan as text.
fn keys(scan: RangeIter) -> Result<Vec<String>, Box<dyn Error>> {
    scan.keys().map(|key| Ok(String::from_utf8(key?.to_vec())?)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let db = Db::open(folder.path().join("db"))?;
    let words = db.keyspace("words", KeyspaceOptions::default())?;
    for word in ["ant", "bear", "bee", "cat", "deer", "dog"] {
        words.put(word, word.len().to_string())?;
    }

    assert_eq!(keys(words.range("b".."d"))?, ["bear", "bee", "cat"]);
    assert_eq!(keys(words.range("bee"..="dog"))?, ["bee", "cat", "deer", "dog"]);
    assert_eq!(keys(words.prefix("be"))?, ["bear", "bee"]);
    assert_eq!(keys(words.iter())?.len(), 6);

    // From the end, and from both ends of one iterator.
    let last = words.iter().next_back().ok_or("six words")??;
    assert_eq!((&*last.0, &*last.1), (b"dog".as_slice(), b"3".as_slice()));
    let mut both = words.iter();
    let (mut front, mut back) = (0, 0);
    while let Some(pair) = both.next() {
        pair?;
        front += 1;
        back += both.next_back().transpose()?.map_or(0, |_| 1);
    }
    assert_eq!((front, back), (3, 3));

    // Guards give the key at once and read the value only where it is wanted.
    let mut lengths = Vec::new();
    for guard in words.prefix("d").guards() {
        let guard = guard?;
        if guard.key().ends_with(b"r") {
            lengths.push(guard.value()?.to_vec());
        }
    }
    assert_eq!(lengths, [b"4".to_vec()]);

    let mut cursor = words.cursor()?;
    cursor.seek("c")?;
    assert_eq!(cursor.key(), Some(b"cat".as_slice()));
    cursor.prev()?;
    assert_eq!(cursor.key(), Some(b"bee".as_slice()));
    cursor.seek_for_prev("d")?;
    assert_eq!(cursor.key(), Some(b"cat".as_slice()));
    cursor.seek_last()?;
    cursor.next()?;
    assert!(!cursor.valid());

    // A scan sees the moment it began.
    let begun = words.iter();
    words.put("zebra", "5")?;
    words.delete("ant")?;
    assert_eq!(keys(begun)?.first().map(String::as_str), Some("ant"));
    assert_eq!(keys(words.iter())?.last().map(String::as_str), Some("zebra"));
    println!("six words, both ways");
    Ok(())
}
