//! Operands and values of the built-in merge operators, as people write and read them.

use cleavedb::operators;

use crate::bytes;
use crate::failure::{Failure, Result};

/// The operand's bytes for `operator` from what was typed.
pub fn encode(operator: &str, typed: &[u8]) -> Result<Vec<u8>> {
    let text = || String::from_utf8_lossy(typed).into_owned();
    match operator {
        operators::U64_ADD | operators::U64_MAX | operators::U64_MIN => match text().parse::<u64>()
        {
            Ok(number) => Ok(number.to_le_bytes().to_vec()),
            Err(_) => Err(number_wanted(operator, &text(), "0 to 18446744073709551615")),
        },
        operators::I64_ADD => match text().parse::<i64>() {
            Ok(number) => Ok(number.to_le_bytes().to_vec()),
            Err(_) => Err(number_wanted(operator, &text(), "such as 5 or -5")),
        },
        operators::SET_UNION => Ok(operators::encode_set([typed])),
        operators::PATCH => encode_patch(typed).ok_or_else(|| {
            Failure::usage(format!(
                "operator patch takes OFFSET:BYTES, such as 4:abc, not '{}'",
                text()
            ))
        }),
        _ => Ok(typed.to_vec()),
    }
}

fn number_wanted(operator: &str, typed: &str, range: &str) -> Failure {
    Failure::usage(format!(
        "operator {operator} takes a whole number {range}, not '{typed}'; \
         use --hex to give its 8 bytes"
    ))
}

fn encode_patch(typed: &[u8]) -> Option<Vec<u8>> {
    let colon = typed.iter().position(|&byte| byte == b':')?;
    let (offset, rest) = typed.split_at_checked(colon)?;
    let offset = std::str::from_utf8(offset).ok()?.parse().ok()?;
    operators::encode_patch(offset, rest.strip_prefix(b":")?).ok()
}

/// A value of eight bytes.
pub fn eight_bytes(value: &[u8]) -> Result<[u8; 8]> {
    value.try_into().map_err(|_| {
        Failure::no(format!(
            "the value has {} bytes, not the 8 of a number; print it without --as",
            value.len()
        ))
    })
}

/// The members of a set in text form, one a line.
pub fn show_set(value: &[u8]) -> Result<String> {
    let members = operators::decode_set(value)
        .map_err(|_| Failure::no("the value is not a set; print it without --as"))?;
    let mut text = String::new();
    for (place, member) in members.into_iter().enumerate() {
        if place > 0 {
            text.push('\n');
        }
        bytes::escape(member, &mut text);
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
