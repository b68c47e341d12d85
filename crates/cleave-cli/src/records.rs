//! Pairs as lines: JSON objects and TSV, as `scan`, `export` and `load` share them.
//!
//! JSON: `{"key":..,"value":..}`; `key_hex` and `value_hex` stand in for what is not UTF-8.
//! TSV: key, tab, value in the text form of [`crate::bytes`].

use serde::{Deserialize, Serialize};

use crate::bytes;

/// One line form of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// A JSON object a line.
    Json,
    /// Key, tab, value.
    Tsv,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
}

/// Key and value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The line for a pair (`value` `None`: a key alone), without its newline.
pub fn encode(format: LineFormat, key: &[u8], value: Option<&[u8]>, hex: bool) -> String {
    match format {
        LineFormat::Json => encode_json(key, value, hex),
        LineFormat::Tsv => {
            let mut line = String::new();
            bytes::show(key, hex, &mut line);
            if let Some(value) = value {
                line.push('\t');
                bytes::show(value, hex, &mut line);
            }
            line
        }
    }
}

fn encode_json(key: &[u8], value: Option<&[u8]>, hex: bool) -> String {
    let mut record = JsonRecord::default();
    (record.key, record.key_hex) = text_or_hex(key, hex);
    if let Some(value) = value {
        (record.value, record.value_hex) = text_or_hex(value, hex);
    }
    serde_json::to_string(&record).unwrap_or_default()
}

fn text_or_hex(bytes: &[u8], hex: bool) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !hex => (Some(text.to_owned()), None),
        _ => (None, Some(bytes::to_hex(bytes))),
    }
}

/// The pair in a line (without its newline), or what is wrong with it. An empty line is no pair.
pub fn decode(format: LineFormat, line: &[u8], hex: bool) -> Result<Option<Pair>, String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Ok(None);
    }
    match format {
        LineFormat::Json => decode_json(line).map(Some),
        LineFormat::Tsv => decode_tsv(line, hex).map(Some),
    }
}

fn decode_json(line: &[u8]) -> Result<Pair, String> {
    let record: JsonRecord = serde_json::from_slice(line).map_err(|error| {
        format!("{error}; a line is {{\"key\":\"..\",\"value\":\"..\"}}, or key_hex, value_hex")
    })?;
    let key = one_of("key", record.key, record.key_hex)?;
    let value = one_of("value", record.value, record.value_hex)?;
    Ok((key, value))
}

fn one_of(name: &str, text: Option<String>, hex: Option<String>) -> Result<Vec<u8>, String> {
    match (text, hex) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(hex)) => {
            bytes::from_hex(hex.as_bytes()).map_err(|problem| format!("{name}_hex: {problem}"))
        }
        (None, None) => Err(format!("there is neither \"{name}\" nor \"{name}_hex\"")),
        (Some(_), Some(_)) => Err(format!("there are both \"{name}\" and \"{name}_hex\"")),
    }
}

fn decode_tsv(line: &[u8], hex: bool) -> Result<Pair, String> {
    let tab = line.iter().position(|&byte| byte == b'\t');
    let (key, value) = tab
        .and_then(|at| line.split_at_checked(at))
        .ok_or("there is no tab between key and value")?;
    let value = value.strip_prefix(b"\t").unwrap_or(value);
    let decode = if hex { bytes::from_hex } else { bytes::unescape };
    Ok((
        decode(key).map_err(|problem| format!("key: {problem}"))?,
        decode(value).map_err(|problem| format!("value: {problem}"))?,
    ))
}

#[cfg(test)]
mod tests;
