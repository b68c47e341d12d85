//! `put`, `get`, `del`, `merge`: one key. Writes are durable when the command returns.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use cleavedb::{Durability, Keyspace, KeyspaceOptions};

use crate::args::{Del, Get, Merge, Put, ValueForm};
use crate::bytes;
use crate::commands::operands;
use crate::failure::{Failure, Result};
use crate::output::{Output, done};
use crate::records::{LineFormat, encode};
use crate::store::{self, Access};

/// Bytes printed at a time.
const PIECE_BYTES: usize = 64 << 10;

/// `cleave put`
pub fn put(args: Put, json: bool) -> Result<()> {
    let key = bytes::parse(&args.key, args.place.hex)?;
    // What is missing must not leave a new store behind.
    let mut value: Box<dyn Read> = match (&args.value, &args.file) {
        (Some(value), _) => Box::new(Cursor::new(bytes::parse(value, args.place.hex)?)),
        (None, Some(file)) => open_value(file)?,
        (None, None) => return Err(Failure::usage("no value given")),
    };
    let db = store::create(&args.place.dir, &args.creation)?;
    let keyspace = store::created(&db, &args.place.keyspace)?;
    let mut batch = db.batch();
    batch.put_reader(&keyspace, &key, &mut value).commit(Durability::Sync)?;
    db.close()?;
    done(json)
}

fn open_value(file: &Path) -> Result<Box<dyn Read>> {
    if file.as_os_str() == "-" {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let failed = |error| Failure::file("reading", file, &error);
    let opened = File::open(file).map_err(failed)?;
    if opened.metadata().map_err(failed)?.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok(Box::new(opened))
}

/// `cleave get`
pub fn get(args: &Get, json: bool) -> Result<()> {
    let key = bytes::parse(&args.key, args.place.hex)?;
    let db = store::open(&args.place.dir, Access::Read)?;
    let keyspace = store::existing(&db, &args.place.keyspace)?.ok_or_else(|| missing(&key))?;
    let mut out = Output::new();
    if matches!(args.form, ValueForm::Bytes) && !json && !args.place.hex {
        return stream(args, &keyspace, &key, out);
    }
    let value = keyspace.get(&key)?.ok_or_else(|| missing(&key))?;
    let number = match args.form {
        ValueForm::Bytes => None,
        ValueForm::U64 => Some(u64::from_le_bytes(operands::eight_bytes(&value)?).to_string()),
        ValueForm::I64 => Some(i64::from_le_bytes(operands::eight_bytes(&value)?).to_string()),
        ValueForm::Set => Some(operands::show_set(&value)?),
    };
    let shown: &[u8] = number.as_ref().map_or(&value, |text| text.as_bytes());
    if json {
        out.line(encode(LineFormat::Json, &key, Some(shown), args.place.hex))?;
        return out.finish();
    }
    if args.place.hex {
        out.bytes(bytes::to_hex(shown).as_bytes())?;
    } else {
        out.bytes(shown)?;
    }
    if !args.raw {
        out.bytes(b"\n")?;
    }
    out.finish()
}

/// Prints a value as it is, a piece at a time.
fn stream(args: &Get, keyspace: &Keyspace, key: &[u8], mut out: Output) -> Result<()> {
    let mut value = keyspace.get_reader(key)?.ok_or_else(|| missing(key))?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = value.read(&mut piece).map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<cleavedb::Error>());
            inner.map_or_else(|| Failure::usage(error.to_string()), |error| error.clone().into())
        })?;
        match piece.get(..count).filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => out.bytes(bytes)?,
            None => break,
        }
    }
    if !args.raw {
        out.bytes(b"\n")?;
    }
    out.finish()
}

/// `cleave del`
pub fn del(args: &Del, json: bool) -> Result<()> {
    let key = bytes::parse(&args.key, args.place.hex)?;
    let db = store::open(&args.place.dir, Access::Write)?;
    let Some(keyspace) = store::existing(&db, &args.place.keyspace)? else {
        return Err(missing(&key));
    };
    if !keyspace.contains(&key)? {
        return Err(missing(&key));
    }
    db.batch().delete(&keyspace, &key).commit(Durability::Sync)?;
    db.close()?;
    done(json)
}

/// `cleave merge`
pub fn merge(args: &Merge, json: bool) -> Result<()> {
    let key = bytes::parse(&args.key, args.place.hex)?;
    let name = &args.place.keyspace;
    // What is typed wrong must not leave a new store behind.
    let encoded = match (&args.operator, args.place.hex) {
        (_, true) => Some(bytes::parse(&args.operand, true)?),
        (Some(operator), false) => {
            Some(operands::encode(operator, &bytes::parse(&args.operand, false)?)?)
        }
        (None, false) => None,
    };
    let access = if args.operator.is_some() { Access::Create } else { Access::Write };
    let db = store::open_with(args.creation.options(), &args.place.dir, access)?;
    let known = db.keyspaces().into_iter().find(|info| info.name == *name);
    let operator = args.operator.clone().or(known.and_then(|info| info.merge_operator));
    let Some(operator) = operator else {
        return Err(Failure::usage(format!(
            "keyspace '{name}' has no merge operator; name one with --operator, such as u64-add"
        )));
    };
    let mut options = KeyspaceOptions::new().merge_operator(&operator);
    if let Some(deltas) = args.deltas {
        options = options.deltas(deltas);
    }
    let keyspace = db.keyspace(name, options)?;
    let operand = match encoded {
        Some(operand) => operand,
        None => operands::encode(&operator, &bytes::parse(&args.operand, false)?)?,
    };
    db.batch().merge(&keyspace, &key, &operand).commit(Durability::Sync)?;
    db.close()?;
    done(json)
}

fn missing(key: &[u8]) -> Failure {
    let mut text = String::new();
    bytes::escape(key, &mut text);
    Failure::no(format!("there is no key '{text}'"))
}
