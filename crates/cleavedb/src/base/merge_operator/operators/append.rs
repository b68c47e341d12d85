//! Concatenation with an optional separator. Stateless after construction.
//!
//! Invariant: the separator stands between neighbours only, and an existing empty value counts as
//! a neighbour; this makes the operation associative.

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::limits::VALUE_BYTES_MAX;
use crate::base::merge_operator::MergeOperator;

/// Longest separator: it is part of the operator's stored name, four characters a byte at worst.
const SEPARATOR_BYTES_MAX: usize = 64;

const PREFIX: &str = "append:";

/// Appends operands, `separator` in between.
pub(super) struct Append {
    name: String,
    separator: Vec<u8>,
}

impl Append {
    /// The operator with this separator, under its canonical name.
    pub(super) fn new(separator: &[u8]) -> Result<Self> {
        if separator.len() > SEPARATOR_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("separator of {} bytes, at most {SEPARATOR_BYTES_MAX}", separator.len()),
            ));
        }
        let name = if separator.is_empty() {
            super::APPEND.to_owned()
        } else {
            format!("{PREFIX}{}", separator.escape_ascii())
        };
        Ok(Self { name, separator: separator.to_vec() })
    }

    /// The operator that a name stands for; it keeps the name as it was spelled.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let separator = match name.strip_prefix(PREFIX) {
            Some(text) => unescape(text)?,
            None if name == super::APPEND => Vec::new(),
            None => return None,
        };
        (separator.len() <= SEPARATOR_BYTES_MAX).then(|| Self { name: name.to_owned(), separator })
    }
}

/// Bytes of a text with the escapes of `escape_ascii`; `None` for a malformed escape.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'0' => 0,
            quoted @ (b'\\' | b'\'' | b'"') => quoted,
            b'x' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                (high * 16 + low) as u8
            }
            _ => return None,
        });
    }
    Some(out)
}

impl MergeOperator for Append {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Vec<u8>, String> {
        let parts = || existing.iter().chain(operands);
        let bytes: usize = parts().map(|part| part.len() + self.separator.len()).sum();
        if bytes > VALUE_BYTES_MAX {
            return Err(format!("the value would have {bytes} bytes"));
        }
        let mut out = Vec::with_capacity(bytes);
        for (index, part) in parts().enumerate() {
            if index > 0 {
                out.extend_from_slice(&self.separator);
            }
            out.extend_from_slice(part);
        }
        Ok(out)
    }

    fn partial_merge(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let bytes = older.len() + self.separator.len() + newer.len();
        (bytes <= VALUE_BYTES_MAX).then(|| [older, &self.separator, newer].concat())
    }
}
