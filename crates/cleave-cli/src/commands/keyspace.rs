//! `keyspace list|create|drop`.

use std::ffi::OsStr;
use std::path::Path;

use cleavedb::{Deltas, KeyspaceOptions};

use crate::args::Keyspace;
use crate::failure::{Failure, Result};
use crate::output::{Output, done};
use crate::store::{self, Access};

const USAGE: &str = "say `cleave keyspace list DIR`, `cleave keyspace create DIR NAME` or \
                     `cleave keyspace drop DIR NAME`";

/// `cleave keyspace`
pub fn keyspace(args: &Keyspace, json: bool) -> Result<()> {
    let words: Vec<&OsStr> = args.words.iter().map(AsRef::as_ref).collect();
    let is_action = |word: &OsStr| ["list", "create", "drop"].iter().any(|action| word == *action);
    let (action, dir, name) = match words.as_slice() {
        [action, dir] if is_action(action) => (*action, *dir, None),
        [action, dir, name] if is_action(action) => (*action, *dir, Some(*name)),
        [dir, action] if is_action(action) => (*action, *dir, None),
        [dir, action, name] if is_action(action) => (*action, *dir, Some(*name)),
        _ => return Err(Failure::usage(USAGE)),
    };
    let dir = Path::new(dir);
    let text = |name: &OsStr| {
        let shown = name.to_string_lossy().into_owned();
        name.to_str()
            .map(str::to_owned)
            .ok_or_else(|| Failure::usage(format!("'{shown}' is not UTF-8; choose another name")))
    };
    let creates = args.operator.is_some() || args.deltas.is_some();
    match (action.to_str(), name) {
        (Some("list"), None) if !creates => list(dir, json),
        (Some("create"), Some(name)) => create(dir, &text(name)?, args, json),
        (Some("drop"), Some(name)) if !creates => {
            let name = text(name)?;
            let db = store::open(dir, Access::Write)?;
            if db.keyspaces().iter().all(|info| info.name != name) {
                return Err(store::no_keyspace(&db, &name));
            }
            db.drop_keyspace(&name)?;
            db.close()?;
            done(json)
        }
        _ => Err(Failure::usage(USAGE)),
    }
}

fn list(dir: &Path, json: bool) -> Result<()> {
    let db = store::open(dir, Access::Read)?;
    let mut out = Output::new();
    for info in db.keyspaces() {
        let index = format!("{:?}", info.index).to_lowercase();
        let deltas = match (&info.merge_operator, info.deltas) {
            (None, _) => None,
            (Some(_), Deltas::Buckets) => Some("buckets"),
            (Some(_), _) => Some("inline"),
        };
        if json {
            out.json(&serde_json::json!({
                "name": info.name,
                "id": info.id,
                "index": index,
                "merge_operator": info.merge_operator,
                "deltas": deltas,
            }))?;
        } else {
            let operator = info.merge_operator.as_deref().unwrap_or("-");
            let deltas = deltas.unwrap_or("-");
            out.line(format_args!("{}\t{index}\t{operator}\t{deltas}", info.name))?;
        }
    }
    out.finish()
}

fn create(dir: &Path, name: &str, args: &Keyspace, json: bool) -> Result<()> {
    let db = store::open(dir, Access::Write)?;
    if db.keyspaces().iter().any(|info| info.name == name) {
        return Err(Failure::no(format!("there is a keyspace '{name}' already")));
    }
    let mut options = KeyspaceOptions::new();
    if let Some(operator) = &args.operator {
        options = options.merge_operator(operator);
    }
    if let Some(deltas) = args.deltas {
        options = options.deltas(deltas);
    }
    let _ = db.keyspace(name, options)?;
    db.close()?;
    done(json)
}
