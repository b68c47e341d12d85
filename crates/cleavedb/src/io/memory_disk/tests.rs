//! The crash model, mode by mode, and the file system it pretends to be.

use std::collections::BTreeSet;

use super::*;

const PLAIN: OpenMode = OpenMode { direct: false, random: false };

fn disk_with(path: &str, synced: &[u8]) -> (MemoryDisk, Arc<dyn DiskFile>) {
    let disk = MemoryDisk::new();
    let file = disk.create(Path::new(path), PLAIN).unwrap();
    file.write_all_at(synced, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    (disk, file)
}

fn names(disk: &MemoryDisk) -> Vec<String> {
    disk.files().into_iter().map(|(path, _)| path.to_str().unwrap().to_owned()).collect()
}

#[test]
fn synced_contents_survive_every_mode_and_seed() {
    let (disk, file) = disk_with("a", &[1; 3000]);
    file.write_all_at(&[2; 700], 3000).unwrap();
    disk.remove_file(Path::new("b")).unwrap_err();
    for mode in CrashMode::ALL {
        for seed in 0..50 {
            let image = disk.crash_image(mode, seed);
            let bytes = image.contents("a");
            assert!(bytes.len() >= 3000 && bytes[..3000].iter().all(|&b| b == 1), "{mode:?}");
            assert_eq!(image.unsynced(), (0, 0));
        }
    }
}

#[test]
fn a_file_synced_without_its_directory_may_vanish() {
    let disk = MemoryDisk::new();
    let file = disk.create(Path::new("/a"), PLAIN).unwrap();
    file.write_all_at(b"abc", 0).unwrap();
    file.sync_data().unwrap();
    assert!(names(&disk.crash_image(CrashMode::None, 0)).is_empty());
    assert_eq!(disk.crash_image(CrashMode::NamesOnly, 0).contents("/a"), b"abc");
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(disk.crash_image(CrashMode::None, 0).contents("/a"), b"abc");
}

#[test]
fn a_name_synced_without_its_file_gives_an_empty_file() {
    let disk = MemoryDisk::new();
    let file = disk.create(Path::new("/a"), PLAIN).unwrap();
    file.write_all_at(b"abc", 0).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let image = disk.crash_image(CrashMode::None, 0);
    assert_eq!(image.files(), [(PathBuf::from("/a"), 0)]);
    let lengths: BTreeSet<usize> = (0..50)
        .map(|seed| {
            let bytes = disk.crash_image(CrashMode::SizeWithoutData, seed).contents("/a");
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.len()
        })
        .collect();
    assert_eq!(lengths, BTreeSet::from([0, 3]));
}

#[test]
fn a_directory_needs_its_parent_synced() {
    let disk = MemoryDisk::new();
    disk.create_dir(Path::new("d")).unwrap();
    drop(disk.create(Path::new("d/f"), PLAIN).unwrap());
    disk.sync_dir(Path::new("d")).unwrap();
    assert!(!disk.crash_image(CrashMode::None, 0).exists(Path::new("d")).unwrap());
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(names(&disk.crash_image(CrashMode::None, 0)), ["/d/f"]);
}

#[test]
fn a_rename_is_lost_or_done_as_a_whole() {
    let (disk, _) = disk_with("CURRENT", b"old");
    let file = disk.create(Path::new("tmp"), PLAIN).unwrap();
    file.write_all_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.rename(Path::new("tmp"), Path::new("CURRENT")).unwrap();
    let mut outcomes = BTreeSet::new();
    for mode in CrashMode::ALL {
        for seed in 0..50 {
            let image = disk.crash_image(mode, seed);
            outcomes.insert((image.contents("CURRENT"), image.contents("tmp")));
        }
    }
    let lost = (b"old".to_vec(), b"new".to_vec());
    let done = (b"new".to_vec(), Vec::new());
    assert_eq!(outcomes, BTreeSet::from([lost, done]));
}

#[test]
fn a_rename_between_directories_waits_for_both() {
    let (disk, _) = disk_with("a", b"x");
    disk.create_dir(Path::new("d")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.rename(Path::new("a"), Path::new("d/b")).unwrap();
    disk.sync_dir(Path::new("d")).unwrap();
    assert_eq!(names(&disk.crash_image(CrashMode::None, 0)), ["/a"]);
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(names(&disk.crash_image(CrashMode::None, 0)), ["/d/b"]);
}

#[test]
fn an_unlink_may_be_lost_and_the_file_returns_whole() {
    let (disk, file) = disk_with("a", b"abc");
    drop(file);
    disk.remove_file(Path::new("a")).unwrap();
    assert!(names(&disk).is_empty());
    assert_eq!(disk.crash_image(CrashMode::None, 0).contents("a"), b"abc");
    disk.sync_dir(Path::new("/")).unwrap();
    assert!(names(&disk.crash_image(CrashMode::None, 0)).is_empty());
}

#[test]
fn a_link_keeps_the_inode_of_a_removed_name() {
    let (disk, _) = disk_with("a", b"abc");
    disk.hard_link(Path::new("a"), Path::new("b")).unwrap();
    disk.remove_file(Path::new("a")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    let image = disk.crash_image(CrashMode::None, 0);
    assert_eq!((names(&image), image.contents("b")), (vec!["/b".to_owned()], b"abc".to_vec()));
}

#[test]
fn a_failed_sync_loses_what_reads_still_see() {
    let (disk, file) = disk_with("a", b"abc");
    file.write_all_at(b"XYZ", 0).unwrap();
    file.fail_sync();
    file.sync_data().unwrap();
    assert_eq!(disk.contents("a"), b"XYZ");
    assert_eq!(disk.crash_image(CrashMode::All, 0).contents("a"), b"abc");
}

#[test]
fn prefix_by_call_never_skips_a_call() {
    let (disk, a) = disk_with("a", b"");
    let b = disk.create(Path::new("b"), PLAIN).unwrap();
    for round in 0..4_u64 {
        a.write_all_at(b"a", round).unwrap();
        b.write_all_at(b"b", round).unwrap();
    }
    let mut states = BTreeSet::new();
    for seed in 0..200 {
        let image = disk.crash_image(CrashMode::PrefixByCall, seed);
        let (a, b) = (image.contents("a").len(), image.contents("b").len());
        assert!(a == b || a == b + 1, "{a} {b}");
        states.insert((a, b));
    }
    assert_eq!(states.len(), 9, "every prefix is met");
}

#[test]
fn prefix_by_file_cuts_files_independently() {
    let (disk, a) = disk_with("a", b"");
    let b = disk.create(Path::new("b"), PLAIN).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    for round in 0..2_u64 {
        a.write_all_at(b"a", round).unwrap();
        b.write_all_at(b"b", round).unwrap();
    }
    let states: BTreeSet<(usize, usize)> = (0..200)
        .map(|seed| disk.crash_image(CrashMode::PrefixByFile, seed))
        .map(|image| (image.contents("a").len(), image.contents("b").len()))
        .collect();
    assert_eq!(states.len(), 9);
}

#[test]
fn sectors_survive_one_by_one_in_some_version_they_had() {
    let (disk, file) = disk_with("a", &[1; 2048]);
    file.write_all_at(&[2; 2048], 0).unwrap();
    file.write_all_at(&[3; 2048], 0).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let bytes = disk.crash_image(CrashMode::Sectors, seed).contents("a");
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|&byte| byte == sector[0] && (1..=3).contains(&byte)));
        }
        seen.insert(bytes.chunks(512).map(|sector| sector[0]).collect::<Vec<_>>());
    }
    assert!(seen.len() > 40, "{} mixtures", seen.len());
}

#[test]
fn unwritten_sectors_of_an_extended_file_read_as_zero() {
    let (disk, file) = disk_with("a", &[1; 100]);
    file.write_all_at(&[2; 1948], 100).unwrap();
    let mut holes = 0;
    for seed in 0..200 {
        let bytes = disk.crash_image(CrashMode::Sectors, seed).contents("a");
        assert!(bytes[..100].iter().all(|&byte| byte == 1));
        assert!(bytes[100..].iter().all(|&byte| byte == 2 || byte == 0));
        holes += usize::from(bytes.len() == 2048 && bytes[600] == 0 && bytes[1600] == 2);
    }
    assert!(holes > 0);
}

#[test]
fn an_append_tears_at_any_byte_but_an_overwrite_at_sectors() {
    let (disk, file) = disk_with("a", &[1; 100]);
    file.write_all_at(&[2; 1000], 100).unwrap();
    let lengths: BTreeSet<usize> =
        (0..400).map(|seed| disk.crash_image(CrashMode::Torn, seed).contents("a").len()).collect();
    assert!(lengths.len() > 100 && lengths.iter().any(|len| len % 512 != 0));

    let (disk, file) = disk_with("b", &[1; 4096]);
    file.write_all_at(&[2; 3000], 500).unwrap();
    for seed in 0..200 {
        let bytes = disk.crash_image(CrashMode::Torn, seed).contents("b");
        let end = bytes.iter().rposition(|&byte| byte == 2).map_or(500, |last| last + 1);
        assert!(end % 512 == 0 || end == 500 || end == 3500, "{end}");
        assert_eq!(bytes.len(), 4096);
    }
}

#[test]
fn a_cut_then_growth_shows_zeros_where_bytes_were() {
    let (disk, file) = disk_with("a", &[9; 9000]);
    file.set_len(4500).unwrap();
    file.set_len(9000).unwrap();
    let bytes = disk.contents("a");
    assert!(bytes[..4500].iter().all(|&b| b == 9) && bytes[4500..].iter().all(|&b| b == 0));
    assert_eq!(disk.crash_image(CrashMode::None, 0).contents("a"), [9; 9000]);
    assert_eq!(disk.crash_image(CrashMode::All, 0).contents("a"), bytes);
}

#[test]
fn crash_images_are_independent_of_the_disk_and_of_each_other() {
    let (disk, file) = disk_with("a", &[1; 5000]);
    let image = disk.crash_image(CrashMode::None, 0);
    let other = disk.crash_image(CrashMode::None, 1);
    let digest = image.digest();
    assert_eq!(digest, other.digest());
    file.write_all_at(&[2; 10], 0).unwrap();
    file.sync_data().unwrap();
    other.open_write(Path::new("a")).unwrap().write_all_at(&[3; 10], 4990).unwrap();
    assert_eq!(image.digest(), digest);
    assert_ne!(other.digest(), digest);
    assert_ne!(disk.digest(), digest);
}

#[test]
fn the_observer_sees_the_disk_before_each_mutating_call() {
    let disk = MemoryDisk::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    disk.set_observer(Some(Arc::new(move |call, disk: &MemoryDisk| {
        let image = disk.crash_image(CrashMode::All, 0);
        log.lock().push((call, image.files().len(), image.contents("a").len()));
    })));
    let file = disk.create(Path::new("a"), PLAIN).unwrap();
    file.write_all_at(b"abc", 0).unwrap();
    file.sync_data().unwrap();
    file.read_at(&mut [0; 3], 0).unwrap();
    disk.set_observer(None);
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(*seen.lock(), [(1, 0, 0), (2, 1, 0), (3, 1, 3)]);
    assert_eq!(disk.mutations(), 4);
}

#[test]
fn locks_are_exclusive_end_with_the_guard_and_do_not_survive_a_crash() {
    let disk = MemoryDisk::new();
    let exclusive = |disk: &MemoryDisk, path: &str| disk.lock(Path::new(path), LockMode::Exclusive);
    let guard = exclusive(&disk, "LOCK").unwrap();
    let again = exclusive(&disk, "/LOCK").err().unwrap();
    assert_eq!(again.kind(), io::ErrorKind::WouldBlock);
    drop(exclusive(&disk.crash_image(CrashMode::All, 0), "LOCK").unwrap());
    drop(guard);
    drop(exclusive(&disk, "LOCK").unwrap());
}

#[test]
fn shared_locks_go_together_and_create_nothing() {
    let disk = MemoryDisk::new();
    let (path, kind) = (Path::new("LOCK"), |error: io::Error| error.kind());
    let missing = disk.lock(path, LockMode::Shared).err().map(kind);
    assert_eq!((missing, disk.mutations()), (Some(io::ErrorKind::NotFound), 0));
    let writer = disk.lock(path, LockMode::Exclusive).unwrap();
    assert_eq!(disk.lock(path, LockMode::Shared).err().map(kind), Some(io::ErrorKind::WouldBlock));
    drop(writer);
    let first = disk.lock(path, LockMode::Shared).unwrap();
    let second = disk.lock(path, LockMode::Shared).unwrap();
    drop(first);
    let refused = disk.lock(path, LockMode::Exclusive).err().map(kind);
    assert_eq!(refused, Some(io::ErrorKind::WouldBlock));
    drop(second);
    drop(disk.lock(path, LockMode::Exclusive).unwrap());
}

#[test]
fn an_open_file_outlives_its_name_but_not_its_last_handle() {
    let disk = MemoryDisk::new();
    for number in 0..1_000 {
        let path = PathBuf::from(format!("f{number}"));
        let file = disk.create(&path, PLAIN).unwrap();
        disk.remove_file(&path).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        file.write_all_at(b"still here", 0).unwrap();
        assert_eq!(file.len().unwrap(), 10);
    }
    assert!(disk.shared.state.lock().nodes.len() < 200);
}

#[test]
fn errors_are_those_of_a_file_system() {
    let (disk, _file) = disk_with("a", b"x");
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    let (a, b, d) = (Path::new("a"), Path::new("b"), Path::new("d"));
    disk.create_dir(d).unwrap();
    drop(disk.create(Path::new("d/f"), PLAIN).unwrap());
    assert_eq!(kind(disk.create(a, PLAIN).map(drop)), io::ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.open(b, PLAIN).map(drop)), io::ErrorKind::NotFound);
    assert_eq!(kind(disk.remove_dir(d)), io::ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(disk.remove_file(d)), io::ErrorKind::IsADirectory);
    assert_eq!(kind(disk.create_dir(d)), io::ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.hard_link(a, a)), io::ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.rename(a, d)), io::ErrorKind::IsADirectory);
    let read_only = disk.open(a, PLAIN).unwrap();
    assert_eq!(kind(read_only.write_all_at(b"y", 0)), io::ErrorKind::PermissionDenied);
    let mut short = [0; 2];
    assert_eq!(kind(read_only.read_exact_at(&mut short, 0)), io::ErrorKind::UnexpectedEof);
}

#[test]
fn damage_helpers_replace_and_remove_durably() {
    let (disk, _) = disk_with("a", b"abc");
    let before = disk.deep_clone();
    disk.replace("a", *b"damaged").unwrap();
    disk.replace("/new", *b"n").unwrap();
    assert_eq!(disk.crash_image(CrashMode::None, 0).contents("a"), b"damaged");
    disk.remove("a").unwrap();
    assert_eq!(names(&disk.crash_image(CrashMode::None, 0)), ["/new"]);
    assert_eq!(before.contents("a"), b"abc");
}

#[test]
fn a_full_disk_cuts_a_write_short_and_takes_more_once_there_is_room() {
    let (disk, file) = disk_with("/a", &[1; 100]);
    disk.set_capacity(Some(150));
    assert_eq!(file.write_at(&[2; 80], 100).unwrap(), 50);
    assert_eq!(file.write_at(&[2; 30], 150).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.allocate(151).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.write_at(&[3; 100], 0).unwrap(), 100, "overwriting needs no room");
    let other = disk.create(Path::new("/b"), PLAIN).unwrap();
    assert!(other.write_at(b"x", 0).is_err());
    disk.remove_file(Path::new("/a")).unwrap();
    assert_eq!(disk.room(), 150);
    assert_eq!(other.write_at(&[4; 60], 0).unwrap(), 60);
    assert_eq!(disk.crash_image(CrashMode::All, 0).room(), u64::MAX);
}

#[test]
fn a_hole_may_or_may_not_survive_and_nothing_else_changes() {
    let (disk, file) = disk_with("a", &[1; 20_000]);
    disk.set_capacity(Some(21_000));
    file.punch(4096, 8192 + 100).unwrap();
    assert_eq!((file.len().unwrap(), disk.room()), (20_000, 1000 + 8192));
    let zeros = |bytes: &[u8]| -> BTreeSet<usize> {
        bytes.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at).collect()
    };
    assert_eq!(zeros(&disk.contents("a")), (4096..12_388).collect());
    let (mut whole, mut none, mut partial) = (0, 0, 0);
    for mode in CrashMode::ALL {
        for seed in 0..50 {
            let bytes = disk.crash_image(mode, seed).contents("a");
            assert_eq!(bytes.len(), 20_000);
            let zeros = zeros(&bytes);
            assert!(zeros.iter().all(|at| (4096..12_388).contains(at)), "{mode:?}");
            match zeros.len() {
                8292 => whole += 1,
                0 => none += 1,
                _ => partial += 1,
            }
        }
    }
    assert!(whole > 20 && none > 20 && partial > 5, "{whole} {none} {partial}");
    file.sync_data().unwrap();
    let image = disk.crash_image(CrashMode::None, 0);
    assert_eq!(zeros(&image.contents("a")).len(), 8292, "a sync covers it");
    disk.hard_link(Path::new("a"), Path::new("b")).unwrap();
    let footprint = file.footprint().unwrap();
    assert_eq!((footprint.links, footprint.allocated_bytes), (2, 20_000 - 8192));
    file.write_all_at(&[2; 10], 4096).unwrap();
    assert_eq!(file.footprint().unwrap().allocated_bytes, 20_000 - 4096, "it fills again");
}
