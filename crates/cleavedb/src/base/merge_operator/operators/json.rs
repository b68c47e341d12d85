//! JSON merge patch (RFC 7396). Stateless; shared by all threads.
//!
//! Invariants: J1 keys of a result are sorted, so its bytes do not depend on the order in which
//! patches added them. J2 two patches are combined only where one patch has the effect of both.

use serde_json::{Map, Value};

use crate::base::merge_operator::MergeOperator;

/// Applies merge patches.
pub(super) struct JsonMergePatch;

fn parse(what: &str, bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("{what} is not JSON: {error}"))
}

fn print(mut value: Value) -> Result<Vec<u8>, String> {
    value.sort_all_objects();
    serde_json::to_vec(&value).map_err(|error| error.to_string())
}

/// RFC 7396, section 2.
fn apply(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.swap_remove(&key);
        } else {
            apply(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// One patch with the effect of `older` and then `newer`, or `None`: an object patch merges into
/// what it meets, so "replace by this object" (an object over something that is none) has no form.
fn combine(older: Value, newer: Value) -> Option<Value> {
    let Value::Object(newer) = newer else { return Some(newer) };
    let Value::Object(mut older) = older else { return None };
    for (key, value) in newer {
        let combined = match older.swap_remove(&key) {
            Some(old) => combine(old, value)?,
            None => value,
        };
        older.insert(key, combined);
    }
    Some(Value::Object(older))
}

impl MergeOperator for JsonMergePatch {
    fn name(&self) -> &str {
        super::JSON_MERGE_PATCH
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        let mut target = match existing {
            Some(bytes) => parse("the value", bytes)?,
            None => Value::Null,
        };
        for operand in operands {
            apply(&mut target, parse("an operand", operand)?);
        }
        print(target)
    }

    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let older = parse("", older).ok()?;
        let newer = parse("", newer).ok()?;
        print(combine(older, newer)?).ok()
    }
}
