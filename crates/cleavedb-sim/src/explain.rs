//! Answers that differ, in words short enough for one line.
//!
//! Pure functions.

use crate::model::{Answer, Pair};
use crate::progress::brief;

/// Says how what was found differs from what was expected; `None` is a missing keyspace.
#[must_use]
pub fn explain(expected: Option<&Answer>, found: Option<&Answer>) -> String {
    let show = |answer: Option<&Answer>| match answer {
        None => "no keyspace".to_owned(),
        Some(Answer::Value(value)) => value.as_deref().map_or("absent".to_owned(), brief),
        Some(Answer::Exists(exists)) => exists.to_string(),
        Some(Answer::Values(values)) => {
            let shown: Vec<String> = values
                .iter()
                .map(|value| value.as_deref().map_or("absent".to_owned(), brief))
                .collect();
            shown.join(", ")
        }
        Some(Answer::Pairs(pairs)) => format!("{} pairs", pairs.len()),
        Some(Answer::Places(places)) => format!("{} places", places.len()),
    };
    let mut text = format!("expected {}, found {}", show(expected), show(found));
    let differing = match (expected, found) {
        (Some(Answer::Pairs(want)), Some(Answer::Pairs(have))) => {
            let wrap = |pairs: &[Pair]| pairs.iter().cloned().map(Some).collect::<Vec<_>>();
            first_difference(&wrap(want), &wrap(have))
        }
        (Some(Answer::Places(want)), Some(Answer::Places(have))) => first_difference(want, have),
        _ => None,
    };
    if let Some(differing) = differing {
        text.push_str(&differing);
    }
    text
}

fn first_difference(want: &[Option<Pair>], have: &[Option<Pair>]) -> Option<String> {
    let show = |pair: Option<&Option<Pair>>| match pair.and_then(Option::as_ref) {
        None => "the end".to_owned(),
        Some((key, value)) => format!("{} = {}", key.escape_ascii(), brief(value)),
    };
    let index =
        (0..want.len().max(have.len())).find(|&index| want.get(index) != have.get(index))?;
    let (want, have) = (show(want.get(index)), show(have.get(index)));
    Some(format!("; at {index}: expected {want}, found {have}"))
}
