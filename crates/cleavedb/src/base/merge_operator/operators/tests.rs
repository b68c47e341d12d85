//! Built-in operators: known answers, refusals, and the law that grouping does not matter.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn operator(name: &str) -> Arc<dyn MergeOperator> {
    by_name(name).unwrap_or_else(|| panic!("no operator '{name}'"))
}

fn full(name: &str, existing: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
    operator(name).full_merge(b"k", existing, operands)
}

#[test]
fn every_builtin_operator_is_found_by_its_own_name() {
    let all = builtin();
    assert_eq!(all.len(), 8);
    for operator in all {
        assert_eq!(by_name(operator.name()).expect("found").name(), operator.name());
    }
    for unknown in ["", "u64", "append:\\", "append:\\x4", "append:\\q", "appending"] {
        assert!(by_name(unknown).is_none(), "{unknown}");
    }
}

#[test]
fn unsigned_sum_stops_at_the_top_and_signed_sum_wraps() {
    let bytes = |n: u64| n.to_le_bytes();
    let top = bytes(u64::MAX - 1);
    assert_eq!(full(U64_ADD, Some(&top), &[&bytes(5)]), Ok(bytes(u64::MAX).to_vec()));
    assert_eq!(full(U64_ADD, None, &[&bytes(5), &bytes(6)]), Ok(bytes(11).to_vec()));
    let minus = (-3i64).to_le_bytes();
    assert_eq!(full(I64_ADD, Some(&minus), &[&bytes(1)]), Ok((-2i64).to_le_bytes().to_vec()));
    let most = i64::MAX.to_le_bytes();
    assert_eq!(full(I64_ADD, Some(&most), &[&bytes(1)]), Ok(i64::MIN.to_le_bytes().to_vec()));
}

#[test]
fn largest_and_smallest_compare_as_numbers() {
    let (low, high) = (255u64.to_le_bytes(), 256u64.to_le_bytes());
    assert_eq!(full(U64_MAX, Some(&low), &[&high, &low]), Ok(high.to_vec()));
    assert_eq!(full(U64_MIN, None, &[&high, &low]), Ok(low.to_vec()));
}

#[test]
fn malformed_input_is_an_error_in_full_and_no_answer_in_part() {
    let good_set = encode_set(["a"]);
    let number = 1u64.to_le_bytes();
    let cases: [(&str, &[u8], &[u8]); 5] = [
        (U64_ADD, &number, b"1234567"),
        (SET_UNION, &good_set, b"\x05abc"),
        (SET_UNION, &good_set, b"\x01b\x01a"),
        (PATCH, b"\0\0\0\0x", b"\0\0"),
        (JSON_MERGE_PATCH, b"{}", b"{"),
    ];
    for (name, good, bad) in cases {
        let operator = operator(name);
        assert!(operator.full_merge(b"k", None, &[good]).is_ok(), "{name}");
        assert!(operator.full_merge(b"k", Some(good), &[bad]).is_err(), "{name}");
        assert_eq!(operator.partial_merge(b"k", good, bad), None, "{name}");
        assert_eq!(operator.partial_merge(b"k", bad, good), None, "{name}");
        if name != PATCH {
            assert!(operator.full_merge(b"k", Some(bad), &[good]).is_err(), "{name}");
        }
    }
}

#[test]
fn append_separates_neighbours_only() {
    assert_eq!(full(APPEND, Some(b"a"), &[b"b", b""]), Ok(b"ab".to_vec()));
    assert_eq!(full("append:,", None, &[b"a", b"b"]), Ok(b"a,b".to_vec()));
    assert_eq!(full("append:,", Some(b""), &[b"a"]), Ok(b",a".to_vec()));
    assert_eq!(full("append:\\x00\\\\", None, &[b"a", b"b"]), Ok(b"a\0\\b".to_vec()));
    assert!(super::append(&[b'-'; 65]).is_err());
}

#[test]
fn patch_fills_with_zeros_and_refuses_to_grow_without_bound() {
    let patch = |offset, bytes: &[u8]| encode_patch(offset, bytes).expect("in range");
    assert_eq!(full(PATCH, None, &[&patch(2, b"x")]), Ok(b"\0\0x".to_vec()));
    assert_eq!(full(PATCH, Some(b"abc"), &[&patch(1, b"")]), Ok(b"abc".to_vec()));
    let top = PATCH_GROWTH_END_MAX as u32;
    assert!(full(PATCH, None, &[&patch(top - 1, b"x")]).is_ok());
    assert!(full(PATCH, None, &[&patch(top, b"x")]).is_err());
    let long = vec![0; PATCH_GROWTH_END_MAX + 1];
    assert_eq!(full(PATCH, Some(&long), &[&patch(top, b"x")]).expect("inside").last(), Some(&b'x'));
    assert!(encode_patch(u32::MAX, b"x").is_err());
    let hostile = (1u32 << 31 | 0x7fff_ffff).to_le_bytes();
    assert!(full(PATCH, None, &[&hostile]).is_err());
}

#[test]
fn the_examples_of_rfc_7396_hold() {
    let cases = [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
        ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ];
    for (target, patch, wanted) in cases {
        let got = full(JSON_MERGE_PATCH, Some(target.as_bytes()), &[patch.as_bytes()]);
        assert_eq!(got, Ok(wanted.as_bytes().to_vec()), "{target} with {patch}");
    }
}

#[test]
fn json_patches_combine_unless_an_object_replaces_something_else() {
    let combine = |a: &str, b: &str| {
        let bytes = operator(JSON_MERGE_PATCH).partial_merge(b"k", a.as_bytes(), b.as_bytes())?;
        Some(String::from_utf8(bytes).expect("JSON is UTF-8"))
    };
    assert_eq!(
        combine(r#"{"a":1}"#, r#"{"a":null,"b":2}"#).as_deref(),
        Some(r#"{"a":null,"b":2}"#)
    );
    assert_eq!(combine(r#"{"a":1}"#, r#"{"a":{"b":2}}"#), None);
    assert_eq!(combine(r#"{"a":null}"#, r#"{"a":{"b":2}}"#), None);
    assert_eq!(combine("1", "{}"), None);
    assert_eq!(combine("{}", "1").as_deref(), Some("1"));
}

/// Values and operands of one operator.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    existing: Option<Vec<u8>>,
    operands: Vec<Vec<u8>>,
}

fn cases(
    name: &'static str,
    value: impl Strategy<Value = Vec<u8>> + 'static,
    operand: impl Strategy<Value = Vec<u8>> + 'static,
) -> BoxedStrategy<Case> {
    (proptest::option::of(value), vec(operand, 1..12))
        .prop_map(move |(existing, operands)| Case { name: name.to_owned(), existing, operands })
        .boxed()
}

fn json() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[a-c\"\\\\]{0,3}".prop_map(Into::into),
    ];
    let tree = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(serde_json::Value::Array),
            vec(("[a-c]", inner), 0..4).prop_map(|pairs| pairs.into_iter().collect()),
        ]
    });
    tree.prop_map(|value| serde_json::to_vec(&value).expect("prints"))
}

fn any_case() -> impl Strategy<Value = Case> {
    let bytes = || vec(any::<u8>(), 0..9);
    let number = || {
        prop_oneof![Just(0), Just(u64::MAX), 0..9u64, any::<u64>()]
            .prop_map(|n: u64| n.to_le_bytes().to_vec())
    };
    let set = || vec("[a-d]{0,2}", 0..5).prop_map(encode_set);
    let patch =
        || (0..40u32, bytes()).prop_map(|(at, bytes)| encode_patch(at, &bytes).expect("in range"));
    prop_oneof![
        cases(U64_ADD, number(), number()),
        cases(I64_ADD, number(), number()),
        cases(U64_MAX, number(), number()),
        cases(U64_MIN, number(), number()),
        cases(APPEND, bytes(), bytes()),
        cases("append:, ", bytes(), bytes()),
        cases(SET_UNION, set(), set()),
        cases(PATCH, bytes(), patch()),
        cases(PATCH, bytes(), bytes()),
        cases(JSON_MERGE_PATCH, json(), json()),
    ]
}

/// The operands after combining neighbours at the given places, as far as the operator can.
fn grouped(operator: &dyn MergeOperator, operands: &[Vec<u8>], places: &[usize]) -> Vec<Vec<u8>> {
    let mut operands = operands.to_vec();
    for place in places {
        let place = place % operands.len();
        if place + 1 < operands.len()
            && let Some(one) = operator.partial_merge(b"k", &operands[place], &operands[place + 1])
        {
            operands.splice(place..place + 2, [one]);
        }
    }
    operands
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn grouping_of_operands_does_not_change_the_value(
        case in any_case(),
        places in vec(0..12usize, 0..12),
    ) {
        let operator = operator(&case.name);
        let refs = |operands: &[Vec<u8>]| -> Result<Vec<u8>, String> {
            let refs: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
            operator.full_merge(b"k", case.existing.as_deref(), &refs)
        };
        let all = refs(&case.operands);
        let parts = refs(&grouped(operator.as_ref(), &case.operands, &places));
        match all {
            Ok(value) => prop_assert_eq!(parts, Ok(value)),
            Err(_) => prop_assert!(parts.is_err()),
        }
    }

    #[test]
    fn a_value_may_be_folded_at_any_point(case in any_case(), at in 0..12usize) {
        let operator = operator(&case.name);
        let refs: Vec<&[u8]> = case.operands.iter().map(Vec::as_slice).collect();
        let at = at % refs.len() + 1;
        let all = operator.full_merge(b"k", case.existing.as_deref(), &refs);
        let (head, tail) = refs.split_at(at);
        if let (Ok(all), Ok(base)) =
            (all, operator.full_merge(b"k", case.existing.as_deref(), head))
        {
            prop_assert_eq!(operator.full_merge(b"k", Some(&base), tail), Ok(all));
        }
    }

    #[test]
    fn sets_survive_their_encoding(members in vec(vec(any::<u8>(), 0..200), 0..20)) {
        let mut wanted = members.clone();
        wanted.sort();
        wanted.dedup();
        let encoded = encode_set(&members);
        prop_assert_eq!(decode_set(&encoded).expect("just encoded"), wanted);
    }

    #[test]
    fn arbitrary_bytes_never_make_an_operator_panic(
        existing in proptest::option::of(vec(any::<u8>(), 0..40)),
        operands in vec(vec(any::<u8>(), 0..40), 0..4),
    ) {
        let refs: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        for operator in builtin() {
            let _ = operator.full_merge(b"k", existing.as_deref(), &refs);
            if let [older, newer, ..] = refs.as_slice() {
                let _ = operator.partial_merge(b"k", older, newer);
            }
        }
    }
}
