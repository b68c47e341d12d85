//! The probe measures something and cleans up.

use super::*;

#[test]
fn a_small_probe_measures_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let small = Probe {
        file_bytes: 4 << 20,
        read_time: Duration::from_millis(20),
        depths: vec![1, 4],
        syncs: 3,
        seed: 1,
    };
    let report = probe(dir.path(), &small).unwrap();
    assert!(report.sequential_write_megabytes_per_second > 0.0);
    assert_eq!(report.sync_latency_us.count, 3);
    assert!(report.random_reads.iter().all(|figures| figures.latency_us.count > 0));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(report.to_string().contains("fdatasync"));
}

#[test]
fn a_missing_directory_is_named() {
    let error = probe(Path::new("/nonexistent-directory"), &Probe::default()).unwrap_err();
    assert!(format!("{error:#}").contains("/nonexistent-directory"));
}
