//! Counters and sets without reading before writing: merge operators, built in and your own.

use std::error::Error;
use std::sync::Arc;

use cleavedb::{Db, KeyspaceOptions, MergeOperator, Options, operators};

/// Keeps the longest operand: an operator of one's own needs a permanent name and must give the
/// same value however operands are grouped.
struct Longest;

impl MergeOperator for Longest {
    fn name(&self) -> &str {
        "longest"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        let all = existing.into_iter().chain(operands.iter().copied());
        let longest = all.reduce(|a, b| if b.len() > a.len() { b } else { a });
        longest.map(<[u8]>::to_vec).ok_or_else(|| "nothing to choose from".to_owned())
    }

    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        Some(if newer.len() > older.len() { newer } else { older }.to_vec())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("db");
    let db = Options::new().merge_operator(Arc::new(Longest)).open(&path)?;
    let with = |name: &str| KeyspaceOptions::new().merge_operator(name);

    let visits = db.keyspace("visits", with(operators::U64_ADD))?;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| (0..250).try_for_each(|_| visits.merge("home", 1u64.to_le_bytes())))
            })
            .collect();
        writers.into_iter().try_for_each(|writer| writer.join().unwrap_or(Ok(())))
    })?;
    assert_eq!(visits.get("home")?.as_deref(), Some(1000u64.to_le_bytes().as_slice()));

    let tags = db.keyspace("tags", with(operators::SET_UNION))?;
    tags.merge("post:1", operators::encode_set(["rust", "storage"]))?;
    db.flush()?; // Operands may lie in different places; the value is the same.
    tags.merge("post:1", operators::encode_set(["ssd", "rust"]))?;
    let value = tags.get("post:1")?.ok_or("merged just now")?;
    assert_eq!(operators::decode_set(&value)?, [b"rust".as_slice(), b"ssd", b"storage"]);

    let users = db.keyspace("users", with(operators::JSON_MERGE_PATCH))?;
    users.put("ada", r#"{"name":"Ada","age":36}"#)?;
    users.merge("ada", r#"{"age":null,"born":1815}"#)?;
    assert_eq!(users.get("ada")?.as_deref(), Some(br#"{"born":1815,"name":"Ada"}"#.as_slice()));

    let words = db.keyspace("words", with("longest"))?;
    for word in ["log", "structured", "merge", "tree"] {
        words.merge("longest", word)?;
    }
    assert_eq!(words.get("longest")?.as_deref(), Some(b"structured".as_slice()));
    db.close()?;

    // The name is kept with the keyspace: without the operator it does not open.
    let db = Db::open(&path)?;
    assert!(db.keyspace("words", with("longest")).is_err());
    assert!(db.existing_keyspace("visits")?.is_some());
    println!("1000 visits counted by 4 threads without a read");
    Ok(())
}
