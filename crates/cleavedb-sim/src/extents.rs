//! The tree of extents by itself, beside a sorted array of them: how many operations a second of
//! those that the FlexTree paper (EuroSys'22, its table 1) measures, with the paper's figures.
//!
//! One thread, no file. Both are asked the same and must answer the same.

use std::hint::black_box;
use std::time::Instant;

use cleavedb::sim::tree::TreeProbe;

use crate::random::Random;
use crate::session::{Check, Violation};

/// Bytes of a record: a key of 27 bytes, a value of 127, lengths.
const RECORD_BYTES: u32 = 156;
/// Places of two neighbours are so many records apart, so that no two extents become one.
const STRIDE: u64 = 2;
/// Extents of a range.
const RANGE: u64 = 50;
/// Look-ups that are timed, and ranges.
const LOOK_UPS: u64 = 1_000_000;
const RANGES: u64 = 100_000;
/// Appends each of which is settled before the next one comes.
const APPENDS_ALONE: u64 = 10_000_000;
/// Insertions into the array, each of which moves half of it.
const ARRAY_INSERTIONS: u64 = 300;

/// One measurement, in operations a second.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done.
    pub name: &'static str,
    /// Extents in the tree then.
    pub extents: u64,
    /// Of the tree.
    pub tree: f64,
    /// Of the sorted array.
    pub array: f64,
    /// As published for FlexTree; `None` for another number of extents.
    pub published: Option<f64>,
}

/// A sorted array of extents: where each begins and where it stands.
struct Array(Vec<(u64, u64)>);

impl Array {
    /// So many records, as [`TreeProbe::append`] would have them.
    fn of(count: u64) -> Self {
        Self((0..count).map(|number| (number * u64::from(RECORD_BYTES), place(number))).collect())
    }

    fn index(&self, number: u64) -> usize {
        let offset = number * u64::from(RECORD_BYTES);
        self.0.partition_point(|&(start, _)| start < offset)
    }

    /// All that is behind moves on by one record.
    fn insert(&mut self, number: u64, physical: u64) {
        let index = self.index(number);
        for (start, _) in &mut self.0[index..] {
            *start += u64::from(RECORD_BYTES);
        }
        self.0.insert(index, (number * u64::from(RECORD_BYTES), physical));
    }

    fn physical(&self, number: u64) -> Option<u64> {
        self.0.get(self.index(number)).map(|&(_, physical)| physical)
    }

    fn sum(&self, first: u64) -> u64 {
        let from = self.index(first);
        let range = self.0.iter().skip(from).take(RANGE as usize);
        range.fold(0, |sum: u64, &(_, physical)| sum.wrapping_add(physical))
    }
}

/// Where the n-th record that comes is written.
fn place(number: u64) -> u64 {
    number * STRIDE * u64::from(RECORD_BYTES)
}

/// Operations a second of `count` calls.
fn rate(count: u64, mut operation: impl FnMut(u64) -> Check) -> Check<f64> {
    let start = Instant::now();
    for number in 0..count {
        operation(number)?;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64().max(f64::MIN_POSITIVE))
}

fn done(is_done: bool) -> Check {
    if is_done { Ok(()) } else { Err(Violation("the tree refused a record".to_owned())) }
}

fn same<T: PartialEq + std::fmt::Debug>(tree: T, array: T) -> Check {
    let differs = || Violation(format!("the tree says {tree:?}, the array {array:?}"));
    if tree == array { Ok(()) } else { Err(differs()) }
}

fn empty() -> Check<TreeProbe> {
    TreeProbe::new(RECORD_BYTES).ok_or_else(|| Violation("no tree".to_owned()))
}

/// The same, and what is done to it makes up a group.
fn grouped() -> Check<TreeProbe> {
    let mut tree = empty()?;
    tree.hold();
    Ok(tree)
}

/// Measures with trees of up to `extents_max` extents.
///
/// # Errors
/// Where tree and array differ.
pub fn run(seed: u64, extents_max: u64) -> Check<Vec<Row>> {
    let mut rows = Vec::new();
    for (extents, published) in [(100_000, 6.25e6), (1_000_000, 5.26e6)] {
        if extents <= extents_max {
            rows.push(insertions(seed, extents, published)?);
        }
    }
    rows.extend(of_large_tree(seed, extents_max)?);
    Ok(rows)
}

/// Insertions at random until there are so many extents. Those into the array are the last ones.
fn insertions(seed: u64, extents: u64, published: f64) -> Check<Row> {
    let mut random = Random::new(seed);
    let mut tree = grouped()?;
    let tree_rate =
        rate(extents, |number| done(tree.insert(random.below(number + 1), place(number))))?;
    let before = extents - ARRAY_INSERTIONS.min(extents);
    let mut array = Array::of(before);
    let mut twin = empty()?;
    for number in 0..before {
        done(twin.append(place(number)))?;
    }
    let mut list = Vec::new();
    let array_rate = rate(extents - before, |number| {
        let at = random.below(before + number + 1);
        list.push((at, place(before + number)));
        array.insert(at, place(before + number));
        Ok(())
    })?;
    for (at, physical) in list {
        done(twin.insert(at, physical))?;
    }
    for number in (0..extents).step_by(97) {
        same(twin.physical(number), array.physical(number))?;
    }
    let (name, published) = ("random insertions", Some(published));
    Ok(Row { name, extents, tree: tree_rate, array: array_rate, published })
}

/// Appends up to so many extents, then look-ups and ranges at random.
fn of_large_tree(seed: u64, extents: u64) -> Check<[Row; 4]> {
    let mut tree = empty()?;
    let alone = extents.min(APPENDS_ALONE);
    let tree_rate_alone = rate(alone, |number| done(tree.append(place(number))))?;
    let mut tree = grouped()?;
    let tree_rate = rate(extents, |number| done(tree.append(place(number))))?;
    tree.settle();
    let start = Instant::now();
    let array = black_box(Array::of(extents));
    let array_rate = extents as f64 / start.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
    let of_paper = |figure| (extents == 100_000_000).then_some(figure);
    let row = |name, tree, array, published| Row { name, extents, tree, array, published };
    let appends = row("appends", tree_rate, array_rate, of_paper(14.6e6));
    let by_itself = "appends, each by itself";
    let appends_alone = Row { extents: alone, ..row(by_itself, tree_rate_alone, array_rate, None) };

    // The same questions to both.
    let mut sums = [0u64; 2];
    let mut random = Random::new(seed);
    let tree_rate = rate(LOOK_UPS, |_| {
        let found = tree.physical(random.below(extents)).unwrap_or_default();
        sums[0] = sums[0].wrapping_add(found);
        Ok(())
    })?;
    let mut random = Random::new(seed);
    let array_rate = rate(LOOK_UPS, |_| {
        let found = array.physical(random.below(extents)).unwrap_or_default();
        sums[1] = sums[1].wrapping_add(found);
        Ok(())
    })?;
    same(sums[0], sums[1])?;
    let look_ups = row("look-ups at random", tree_rate, array_rate, of_paper(11.7e6));

    let firsts = extents.saturating_sub(RANGE).max(1);
    let mut random = Random::new(seed);
    let tree_rate = rate(RANGES, |_| {
        let first = random.below(firsts);
        let sum = tree.sum(first..(first + RANGE).min(extents)).unwrap_or_default();
        sums[0] = sums[0].wrapping_add(sum);
        Ok(())
    })?;
    let mut random = Random::new(seed);
    let array_rate = rate(RANGES, |_| {
        sums[1] = sums[1].wrapping_add(array.sum(random.below(firsts)));
        Ok(())
    })?;
    same(sums[0], sums[1])?;
    let ranges = row("ranges of 50 extents", tree_rate, array_rate, of_paper(7.4e6));
    Ok([appends_alone, appends, look_ups, ranges])
}

/// The rows as a table, in millions a second.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text =
        "| operation, millions a second | extents | tree | sorted array | tree by array \
                    | the paper's FlexTree |\n|---|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for Row { name, extents, tree, array, published } in rows {
        let million = |rate: f64| format!("{:.4}", rate / 1e6);
        let published =
            published.map_or_else(|| "-".to_owned(), |rate| format!("{:.2}", rate / 1e6));
        let (tree_text, array_text, by) = (million(*tree), million(*array), tree / array);
        text += &format!(
            "| {name} | {extents} | {tree_text} | {array_text} | {by:.2} | {published} |\n"
        );
    }
    text
}

#[cfg(test)]
mod tests;
