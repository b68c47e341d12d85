//! Move money between accounts, all or nothing, while a snapshot keeps seeing one moment.

use std::error::Error;

use cleavedb::{Db, Durability, Keyspace, KeyspaceOptions, Snapshot};

/// The sum of all accounts at one moment.
fn total(moment: &Snapshot, accounts: &Keyspace) -> Result<u64, Box<dyn Error>> {
    let mut total = 0;
    for pair in moment.prefix(accounts, "") {
        let (_, balance) = pair?;
        total += u64::from_le_bytes(balance.as_bytes().try_into()?);
    }
    Ok(total)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let db = Db::open(folder.path().join("bank"))?;
    let accounts = db.keyspace("accounts", KeyspaceOptions::default())?;
    let history = db.keyspace("history", KeyspaceOptions::default())?;

    let mut batch = db.batch();
    for owner in ["ada", "grace", "mary"] {
        batch.put(&accounts, owner, 100u64.to_le_bytes());
    }
    assert_eq!(batch.len(), 3);
    batch.commit(Durability::Sync)?;
    assert!(batch.is_empty(), "ready for reuse");

    let before = db.snapshot();
    // Two keyspaces, one commit: no crash and no reader ever sees a part of it.
    batch.put(&accounts, "ada", 70u64.to_le_bytes());
    batch.put(&accounts, "grace", 130u64.to_le_bytes());
    batch.put(&history, 1u64.to_be_bytes(), "ada -> grace: 30");
    batch.commit(Durability::Sync)?;

    let after = db.snapshot();
    assert!(after.seq() > before.seq());
    assert_eq!(total(&before, &accounts)?, 300);
    assert_eq!(total(&after, &accounts)?, 300);
    let balance = |moment: &Snapshot| moment.get(&accounts, "ada");
    assert_eq!(balance(&before)?.as_deref(), Some(100u64.to_le_bytes().as_slice()));
    assert_eq!(balance(&after)?.as_deref(), Some(70u64.to_le_bytes().as_slice()));

    // A snapshot outlives whatever the engine does with its files.
    accounts.delete_range("a".."z")?;
    db.flush()?;
    db.compact()?;
    assert_eq!(accounts.iter().count(), 0);
    assert_eq!(total(&before, &accounts)?, 300);
    assert_eq!(history.iter().count(), 1);
    println!("the total was 300 at every moment");
    Ok(())
}
