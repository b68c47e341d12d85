//! Which runs are judged, and how.

use super::*;

fn known_shape() -> Shape {
    Shape {
        threads: 2,
        num: 5_000_000,
        value_bytes: 1_024,
        mixed_values: false,
        batch: 1,
        sync: false,
        cut_short: false,
        operations: 5_000_000,
        memory_bytes: 2 << 30,
    }
}

#[test]
fn a_peer_must_reach_nine_tenths_of_its_known_speed() {
    let shape = known_shape();
    let of = |measured: &[f64]| judge(&shape, "rocksdb", Phase::ReadRandom, measured);
    assert_eq!(of(&[40.0]), Floor::Reached { known: 40.0, measured: 40.0 });
    assert_eq!(of(&[44.4]), Floor::Reached { known: 40.0, measured: 44.4 });
    assert_eq!(of(&[44.5]), Floor::Missed { known: 40.0, measured: 44.5 });
    assert!(of(&[44.5]).to_string().contains("at most 44.4 allowed"));
    // The cheapest form counts, and one without a figure is none.
    assert_eq!(of(&[60.0, 30.0, f64::NAN]), Floor::Reached { known: 40.0, measured: 30.0 });
    assert_eq!(of(&[f64::NAN]), Floor::Unknown);
    assert_eq!(judge(&shape, "surrealkv", Phase::ReadRandom, &[1.0]), Floor::Unknown);
    assert_eq!(judge(&shape, "rocksdb", Phase::Scan, &[1.0]), Floor::Unknown);
}

#[test]
fn figures_of_batches_judge_batches_only() {
    let single = known_shape();
    let batched = Shape { batch: FILL_BATCH, ..known_shape() };
    let of = |shape: &Shape, peer, phase| judge(shape, peer, phase, &[4.0]);
    let missed = Floor::Missed { known: 3.0, measured: 4.0 };
    assert_eq!(of(&single, "lmdb", Phase::FillRandom), Floor::Unknown);
    assert_eq!(of(&batched, "lmdb", Phase::FillRandom), missed);
    assert_eq!(of(&single, "lmdb", Phase::FillBatch), missed);
    // A load in sorted batches is another work.
    assert_eq!(of(&single, "lmdb", Phase::FillSorted), Floor::Unknown);
    assert_eq!(of(&batched, "rocksdb", Phase::FillRandom), Floor::Unknown);
    // Reads do not depend on it.
    assert_eq!(
        of(&batched, "lmdb", Phase::ReadRandom),
        Floor::Reached { known: 37.0, measured: 4.0 }
    );
}

#[test]
fn another_shape_is_not_judged() {
    let why = |change: fn(&mut Shape)| {
        let mut shape = known_shape();
        change(&mut shape);
        shape.differs()
    };
    assert_eq!(why(|_| ()), None);
    assert_eq!(why(|shape| shape.num = 4_000_000), None);
    assert_eq!(why(|shape| shape.value_bytes = 1_000), None);
    assert_eq!(why(|shape| shape.threads = 32), Some("32 threads instead of 2".to_owned()));
    let others: [fn(&mut Shape); 7] = [
        |shape| shape.num = 3_999_999,
        |shape| shape.num = 6_250_001,
        |shape| shape.value_bytes = 900,
        |shape| shape.mixed_values = true,
        |shape| shape.memory_bytes = 1 << 30,
        |shape| shape.sync = true,
        |shape| shape.cut_short = true,
    ];
    assert!(others.into_iter().all(|change| why(change).is_some()));
    assert!(why(|shape| shape.operations = 99_999).is_some());
    let shape = Shape { threads: 1, ..known_shape() };
    let judged = judge(&shape, "rocksdb", Phase::ReadRandom, &[999.0]);
    assert!(matches!(judged, Floor::OtherShape(_)));
}

#[test]
fn a_shape_is_read_from_a_line() {
    let run = serde_json::json!({
        "plan": {
            "num": 5_000_000, "threads": 2, "value_bytes": 1_024, "mixed_values": false,
            "batch": 1, "seconds": null, "operations": null, "settings": {"sync": false},
        },
        "round": {"memory_bytes": 2u64 << 30},
    });
    assert_eq!(Shape::of(&run, 0).differs(), None);
    let mut limited = run.clone();
    limited["plan"]["seconds"] = 5.0.into();
    assert!(Shape::of(&limited, 0).differs().is_some());
    // A limit that is not reached changes nothing; a phase cut short changes what follows.
    let phases = [false, true, false].map(|cut| serde_json::json!({"cut_short": cut}));
    limited["phases"] = phases.to_vec().into();
    let differ = [0, 1, 2].map(|place| Shape::of(&limited, place).differs().is_some());
    assert_eq!(differ, [false, true, true]);
    // A line of which too little is known is not judged.
    assert!(Shape::of(&Value::Null, 0).differs().is_some());
}
