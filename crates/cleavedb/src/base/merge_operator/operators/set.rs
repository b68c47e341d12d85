//! Union of sets of byte strings. Stateless; shared by all threads.
//!
//! Invariant: an encoded set is strictly ascending, so equal sets have equal bytes.

use std::collections::BTreeSet;

use crate::base::codec::{Reader, put_bytes};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::merge_operator::MergeOperator;

/// Unites sets.
pub(super) struct SetUnion;

/// Encodes a set of byte strings, in any order and with repetitions allowed, as operand or value
/// for [`SET_UNION`](super::SET_UNION): each member, ascending, as a LEB128 length and its bytes.
///
/// ```
/// use cleavedb::operators::{decode_set, encode_set};
///
/// let set = encode_set(["pear", "apple", "pear"]);
/// assert_eq!(set, b"\x05apple\x04pear");
/// assert_eq!(decode_set(&set).expect("just encoded"), [b"apple".as_slice(), b"pear"]);
/// ```
pub fn encode_set<M: AsRef<[u8]>>(members: impl IntoIterator<Item = M>) -> Vec<u8> {
    let members: Vec<M> = members.into_iter().collect();
    encode(&members.iter().map(AsRef::as_ref).collect())
}

/// The members of an encoded set, ascending.
///
/// # Errors
/// `InvalidArgument` where the bytes are not an encoded set (cut short, or not strictly ascending).
pub fn decode_set(bytes: &[u8]) -> Result<Vec<&[u8]>> {
    let mut members: Vec<&[u8]> = Vec::new();
    let mut reader = Reader::new(bytes);
    let invalid = |what: &str| Error::new(ErrorKind::InvalidArgument, format!("set: {what}"));
    while !reader.is_empty() {
        let member = reader.bytes().map_err(|error| invalid(error.message()))?;
        if members.last().is_some_and(|last| *last >= member) {
            return Err(invalid("members are not strictly ascending"));
        }
        members.push(member);
    }
    Ok(members)
}

fn encode(members: &BTreeSet<&[u8]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(members.iter().map(|member| member.len() + 2).sum());
    for member in members {
        put_bytes(&mut out, member);
    }
    out
}

impl MergeOperator for SetUnion {
    fn name(&self) -> &str {
        super::SET_UNION
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, String> {
        let mut union = BTreeSet::new();
        for part in existing.iter().chain(operands) {
            union.extend(decode_set(part).map_err(|error| error.message().to_owned())?);
        }
        Ok(encode(&union))
    }

    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let mut union: BTreeSet<&[u8]> = decode_set(older).ok()?.into_iter().collect();
        union.extend(decode_set(newer).ok()?);
        Some(encode(&union))
    }
}
