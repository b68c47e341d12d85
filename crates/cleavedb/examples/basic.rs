//! Open a database, write, read, close, and find everything again.

use std::error::Error;

use cleavedb::{Db, ErrorKind, KeyspaceOptions, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("db");

    let db = Db::open(&path)?;
    let users = db.keyspace("users", KeyspaceOptions::default())?;
    users.put("ada", "Lovelace")?;
    users.put("grace", "Hopper")?;
    users.put("empty", "")?;
    users.delete("nobody")?; // It need not exist.
    assert_eq!(users.get("ada")?.as_deref(), Some(b"Lovelace".as_slice()));
    assert_eq!(users.get("alan")?, None);
    assert!(users.contains("empty")?, "an empty value is a value");

    let found = users.multi_get(["grace", "alan", "ada"])?;
    let lengths: Vec<Option<usize>> = found.iter().map(|v| v.as_ref().map(|v| v.len())).collect();
    assert_eq!(lengths, [Some(6), None, Some(8)]);

    // One owner at a time.
    let second = Db::open(&path).err().map(|error| error.kind());
    assert_eq!(second, Some(ErrorKind::InUse));
    db.close()?;

    // Everything is there again; a handle of the closed database says so.
    let closed = users.get("ada").err().map(|error| error.kind());
    assert_eq!(closed, Some(ErrorKind::Closed));
    let db = Options::new().create_if_missing(false).open(&path)?;
    let names: Vec<String> = db.keyspaces().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["users"]);
    let users = db.keyspace("users", KeyspaceOptions::default())?;
    assert_eq!(users.iter().count(), 3);
    println!("3 users found again after closing");
    Ok(())
}
