//! Keys and values have the stated properties D1 to D6.

use std::collections::BTreeSet;

use super::*;

#[test]
fn items_sort_by_number_and_are_distinct() {
    let data = Dataset::new(1000, 64, 7);
    let keys: Vec<_> = (0..1000).map(|item| data.key(item)).collect();
    assert!(keys.is_sorted_by(|a, b| a < b));
}

#[test]
fn longer_keys_go_on_with_what_no_two_share() {
    for key_bytes in [16, 27, 28, 48, 100] {
        let data = Dataset::new(1000, 64, 7).with_key_bytes(key_bytes);
        let short = Dataset::new(1000, 64, 7);
        assert_eq!(data.key_bytes(), key_bytes.min(KEY_BYTES_MAX));
        let keys: Vec<_> = (0..2000).map(|item| data.key(item)).collect();
        assert!(keys[..1000].is_sorted_by(|a, b| a < b && **a < **b));
        let mut ends = BTreeSet::new();
        let mut value = Vec::new();
        let (first, end) = data.bounds();
        for (key, item) in keys.iter().zip(0..) {
            assert_eq!(key.len(), data.key_bytes());
            assert_eq!(key[..KEY_BYTES], *short.key(item));
            assert!(first.as_slice() <= &**key && **key < *end.as_slice());
            ends.insert(key[KEY_BYTES..].to_vec());
            data.value(item, 1, &mut value);
            assert!(data.is_value_of(key, &value));
        }
        assert!(key_bytes == KEY_BYTES || ends.len() == keys.len());
        assert_eq!(data.missing_key(3).len(), data.key_bytes());
        assert!(!Dataset::is_item_key(&data.counter_key(3)));
    }
    assert!(parse_key_bytes("15").is_err() && parse_key_bytes("49").is_err());
    assert_eq!(parse_key_bytes("48"), Ok(48));
}

#[test]
fn insertions_are_new_and_scattered() {
    let data = Dataset::new(1000, 64, 7);
    let mut seen: BTreeSet<_> = (0..1000).map(|item| data.key(item)).collect();
    let inserted: Vec<_> = (1000..5000).map(|item| data.key(item)).collect();
    for key in &inserted {
        assert!(seen.insert(*key));
    }
    let ascending = inserted.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((1500..2500).contains(&ascending), "{ascending} of 3999 ascend");
}

#[test]
fn missing_keys_are_missing_and_within_the_range() {
    let data = Dataset::new(1000, 64, 7);
    let present: BTreeSet<_> = (0..10_000).map(|item| data.key(item)).collect();
    for item in 0..1000 {
        let key = data.missing_key(item);
        assert!(!present.contains(&key));
        assert!(key > data.key(item));
        if item < 999 {
            assert!(key < data.key(item + 1));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let (a, b, c) = (Dataset::new(10, 500, 1), Dataset::new(10, 500, 1), Dataset::new(10, 500, 2));
    let bytes = |data: &Dataset, version| {
        let mut value = vec![1, 2, 3];
        data.value(5, version, &mut value);
        value
    };
    assert_eq!(bytes(&a, 0), bytes(&b, 0));
    assert_ne!(bytes(&a, 0), bytes(&a, 1));
    assert_ne!(bytes(&a, 0), bytes(&c, 0));
    assert_eq!(bytes(&a, 0).len(), 500);
}

#[test]
fn a_value_knows_its_item() {
    for size in [0, 3, 8, 16, 1000] {
        let data = Dataset::new(100, size, 3);
        let mut value = Vec::new();
        for item in [0, 1, 99, 100, 250] {
            data.value(item, 9, &mut value);
            assert!(data.is_value_of(&data.key(item), &value));
            if size >= 8 {
                assert!(!data.is_value_of(&data.key(item + 1), &value));
                value.pop();
                assert!(!data.is_value_of(&data.key(item), &value));
            }
        }
    }
}

#[test]
fn about_half_of_a_value_is_repetition() {
    let data = Dataset::new(100, 10_000, 3);
    let mut value = Vec::new();
    data.value(1, 1, &mut value);
    let half = PIECE_BYTES / 2;
    let repeated = (half..value.len()).filter(|&at| value[at] == value[at - half]).count();
    let share = repeated as f64 / value.len() as f64;
    assert!((0.45..0.55).contains(&share), "{share}");
}

#[test]
fn counters_sort_after_items() {
    let data = Dataset::new(100, 8, 3);
    assert!(data.counter_key(0) > data.key(99));
    assert!(Dataset::is_item_key(&data.key(99)));
    assert!(!Dataset::is_item_key(&data.counter_key(99)));
}

#[test]
fn short_keys_have_the_lengths_of_up2x_and_are_distinct() {
    let data = Dataset::new(100, 8, 3);
    let keys: BTreeSet<Vec<u8>> =
        (0..20_000).map(|item| data.short_counter_key(item).to_vec()).collect();
    assert_eq!(keys.len(), 20_000);
    assert!(keys.iter().all(|key| !Dataset::is_item_key(key) && key.len() < KEY_BYTES));
    let average = |figure: &dyn Fn(f64) -> f64| {
        keys.iter().map(|key| figure(key.len() as f64)).sum::<f64>() / keys.len() as f64
    };
    let mean = average(&|length| length);
    let deviation = average(&|length| (length - mean).powi(2)).sqrt();
    assert!((mean - 10.45).abs() < 0.05, "{mean}");
    assert!((deviation - 1.4).abs() < 0.1, "{deviation}");
}

#[test]
fn mixed_sizes_follow_item_and_version_and_are_checked() {
    let data = Dataset::new(100, 64 << 10, 3).with_mixed_sizes(true);
    let mut value = Vec::new();
    let mut sizes = Vec::new();
    for version in 0..20 {
        for item in 0..100 {
            data.value(item, version, &mut value);
            assert!(data.is_value_of(&data.key(item), &value));
            sizes.push(value.len());
            value.push(0);
            assert!(!data.is_value_of(&data.key(item), &value), "a byte too many");
        }
    }
    assert!(sizes.iter().all(|size| (MIXED_BYTES_MIN..=64 << 10).contains(size)));
    // Ten doublings: half of the values are below the middle of them.
    let small = sizes.iter().filter(|&&size| size < 2048).count();
    assert!((900..1100).contains(&small), "{small} of 2000");
    assert!(!data.is_value_of(&data.key(1), b"short"));
}
