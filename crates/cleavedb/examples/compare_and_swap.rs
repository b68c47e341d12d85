//! Optimistic updates: many threads change one value, and none of the changes is lost.

use std::error::Error;

use cleavedb::{Db, Keyspace, KeyspaceOptions, Result};

/// Adds `amount` to a decimal number with compare-and-swap; returns how many attempts it took.
fn add(ks: &Keyspace, key: &str, amount: u64) -> Result<u64> {
    for attempt in 1.. {
        let old = ks.get(key)?;
        let text = old.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        let new = text.parse::<u64>().unwrap_or(0) + amount;
        if ks.compare_and_swap(key, old.as_deref(), Some(new.to_string().as_bytes()))? {
            return Ok(attempt);
        }
    }
    Ok(0)
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let db = Db::open(folder.path().join("db"))?;
    let ks = db.keyspace("default", KeyspaceOptions::default())?;

    // Create only if absent; delete only if unchanged.
    assert!(ks.compare_and_swap("lock", None, Some(b"mine"))?);
    assert!(!ks.compare_and_swap("lock", None, Some(b"yours"))?);
    assert!(!ks.compare_and_swap("lock", Some(b"yours"), None)?);
    assert!(ks.compare_and_swap("lock", Some(b"mine"), None)?);
    assert!(!ks.contains("lock")?);

    let attempts: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..100).map(|_| add(&ks, "sum", 1)).sum::<Result<u64>>()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(0))).sum::<Result<u64>>()
    })?;
    assert_eq!(ks.get("sum")?.as_deref(), Some(b"400".as_slice()));
    assert!(attempts >= 400);
    println!("400 additions by 4 threads in {attempts} attempts");
    Ok(())
}
