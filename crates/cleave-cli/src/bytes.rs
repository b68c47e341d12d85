//! Keys and values as arguments and as printed text.
//!
//! Text form (used by `scan` and TSV): bytes as they are, except `\t`, `\n`, `\r`, `\\` for tab,
//! newline, carriage return and backslash, and `\xHH` for other control characters and for bytes
//! that are not UTF-8. [`unescape`] takes exactly what [`escape`] gives, so the form round-trips.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::failure::{Failure, Result};

/// The bytes an argument stands for; hexadecimal digits with `hex`.
pub fn parse(argument: &OsStr, hex: bool) -> Result<Vec<u8>> {
    if !hex {
        return Ok(argument.as_bytes().to_vec());
    }
    from_hex(argument.as_bytes()).map_err(|problem| {
        let shown = argument.to_string_lossy();
        Failure::usage(format!("'{shown}' is not hexadecimal: {problem}; write two digits a byte"))
    })
}

/// Bytes from hexadecimal digits, upper or lower case.
pub fn from_hex(digits: &[u8]) -> Result<Vec<u8>, String> {
    if !digits.len().is_multiple_of(2) {
        return Err(format!("it has an odd number of digits, {}", digits.len()));
    }
    let nibble = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .map(|value| value as u8)
            .ok_or_else(|| format!("'{}' is not a digit", digit.escape_ascii()))
    };
    digits
        .chunks_exact(2)
        .map(|pair| match pair {
            [high, low] => Ok(nibble(*high)? << 4 | nibble(*low)?),
            _ => Err("a digit is missing".to_owned()),
        })
        .collect()
}

/// Lower-case hexadecimal digits of bytes.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    text
}

/// Appends bytes in text form, or as hexadecimal digits.
pub fn show(bytes: &[u8], hex: bool, text: &mut String) {
    if hex {
        text.push_str(&to_hex(bytes));
    } else {
        escape(bytes, text);
    }
}

/// Appends bytes in text form.
pub fn escape(bytes: &[u8], text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => {
                    let mut buffer = [0u8; 4];
                    c.encode_utf8(&mut buffer).bytes().for_each(|byte| push_escaped(byte, text));
                }
                c => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_escaped(byte, text));
    }
}

fn push_escaped(byte: u8, text: &mut String) {
    text.push_str("\\x");
    text.push_str(&to_hex(&[byte]));
}

/// The bytes that a text form stands for.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let Some((&kind, after)) = rest.split_first() else {
            return Err("a backslash stands at the end; write \\\\ for a backslash".to_owned());
        };
        rest = after;
        match kind {
            b't' => bytes.push(b'\t'),
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b'\\' => bytes.push(b'\\'),
            b'x' => {
                let (digits, after) = rest.split_at_checked(2).ok_or("\\x needs two digits")?;
                bytes.extend(from_hex(digits).map_err(|problem| format!("in \\x: {problem}"))?);
                rest = after;
            }
            other => {
                return Err(format!(
                    "unknown escape \\{}; known are \\t \\n \\r \\\\ \\xHH",
                    other.escape_ascii()
                ));
            }
        }
    }
    Ok(bytes)
}

/// A number of bytes with an optional unit: `4096`, `64k`, `512MiB`, `1G`. Units are powers of
/// 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse_number(text, 1024, "a size such as 4096, 64KiB, 512MiB or 1GiB")
}

/// A count with an optional unit: `1000`, `50k`, `10M`. Units are powers of 1000.
pub fn parse_count(text: &str) -> Result<u64, String> {
    parse_number(text, 1000, "a count such as 1000, 50k or 10M")
}

fn parse_number(text: &str, unit: u64, wanted: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not {wanted}");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (digits, suffix) = text.split_at_checked(end).ok_or_else(wrong)?;
    let number: u64 = digits.replace('_', "").parse().map_err(|_| wrong())?;
    let suffix = suffix.trim().to_ascii_lowercase();
    let power = match suffix.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong()),
    };
    unit.checked_pow(power).and_then(|factor| number.checked_mul(factor)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
