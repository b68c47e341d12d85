//! Large values as they are for users: on a real disk, at the true lengths.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::large::{assert_reads, assert_sound, long};
use super::*;
use crate::{ErrorKind, VALUE_BYTES_MAX};

/// Longest value that is logged with its batch.
const LOGGED_BYTES_MAX: usize = 8 << 20;

#[expect(
    clippy::disallowed_methods,
    reason = "a helper of tests: lints know only the test functions themselves"
)]
fn big_files(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|end| end == "big")).collect()
}

#[test]
fn they_come_back_direct_or_not_and_a_flipped_byte_is_an_error() {
    for direct in [false, true] {
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("db");
        let options = || Options::new().direct_reads(direct).reserve_bytes(0);
        let expected = [
            ("put".to_owned(), long(1, LOGGED_BYTES_MAX + 1)),
            ("short".to_owned(), long(2, LOGGED_BYTES_MAX)),
            ("streamed".to_owned(), long(3, (1 << 20) + 4097)),
        ];
        let db = options().open(&path).unwrap();
        let keyspace = db.keyspace("k", KeyspaceOptions::default()).unwrap();
        for (key, value) in &expected {
            match key.as_str() {
                "streamed" => {
                    let length = Some(value.len() as u64);
                    keyspace.put_reader(key, &mut value.as_slice(), length).unwrap();
                }
                _ => keyspace.put(key, value).unwrap(),
            }
        }
        assert_reads(&keyspace, &expected);
        drop(keyspace);
        db.close().unwrap();
        let db = options().open(&path).unwrap();
        let keyspace = db.keyspace("k", KeyspaceOptions::default()).unwrap();
        assert_reads(&keyspace, &expected);
        db.flush().unwrap();
        assert_reads(&keyspace, &expected);
        let report = db.verify(&mut |_, _| {}).unwrap();
        let large_bytes: u64 =
            big_files(&path).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert!(report.problems.is_empty() && report.bytes >= large_bytes, "{report:?}");
        assert_eq!(big_files(&path).len(), 2);
        let by_length = |path: &PathBuf| fs::metadata(path).unwrap().len();
        let damaged = big_files(&path).into_iter().max_by_key(by_length).unwrap();
        flip_and_look(&db, &keyspace, &damaged, &expected[0].1);
        drop(keyspace);
        db.close().unwrap();
    }
}

/// A bit deep in the file of "put": an error wherever it is met, and never a wrong byte.
fn flip_and_look(db: &Db, keyspace: &Keyspace, path: &Path, value: &[u8]) {
    let at = 5 << 20;
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x20], at).unwrap();
    let error = keyspace.get("put").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.file(), Some(path), "{error}");
    assert!(error.offset().is_some_and(|offset| offset <= at), "{error}");
    assert_eq!(keyspace.multi_get(["put"]).unwrap_err().kind(), ErrorKind::Corruption);
    let mut read = Vec::new();
    let mut stream = keyspace.get_reader("put").unwrap().unwrap();
    let cause = stream.read_to_end(&mut read).unwrap_err();
    assert_eq!(cause.kind(), io::ErrorKind::InvalidData, "{cause}");
    let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<crate::Error>()).unwrap();
    assert_eq!((inner.kind(), inner.file()), (ErrorKind::Corruption, Some(path)));
    assert_eq!(read.len(), 4 << 20, "the chunks in front of it");
    assert!(read == value[..read.len()]);
    let problems = db.verify(&mut |_, _| {}).unwrap().problems;
    assert!(problems.iter().any(|problem| problem.file.as_deref() == Some(path)), "{problems:?}");
    file.write_all_at(&byte, at).unwrap();
    assert_sound(db);
}

#[test]
fn what_is_too_large_for_one_piece_is_only_streamed() {
    let (_dir, path) = scratch();
    let db = Options::new().reserve_bytes(0).open(path).unwrap();
    let keyspace = db.keyspace("k", KeyspaceOptions::default()).unwrap();
    keyspace.put("a", "small").unwrap();
    let length = VALUE_BYTES_MAX as u64 + 1;
    keyspace.put_reader("b", &mut io::repeat(7).take(length), Some(length)).unwrap();
    keyspace.put("c", "small").unwrap();
    for _ in 0..2 {
        let error = keyspace.get("b").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        assert!(error.message().contains("get_reader"), "{error}");
        assert_eq!(keyspace.multi_get(["a", "b"]).unwrap_err().kind(), ErrorKind::TooLarge);
        let mut iter = keyspace.iter();
        assert_eq!(iter.next().unwrap().unwrap().1, "small");
        assert_eq!(iter.next().unwrap().unwrap_err().kind(), ErrorKind::TooLarge);
        assert!(keyspace.contains("b").unwrap());
        assert_eq!(keyspace.get("c").unwrap().unwrap(), "small");
        let mut stream = keyspace.get_reader("b").unwrap().unwrap();
        assert_eq!(stream.len(), length);
        assert_eq!(io::copy(&mut stream, &mut Sevens).unwrap(), length);
        db.flush().unwrap();
    }
    // In one piece it is not taken either.
    let error = keyspace.put("d", vec![0; VALUE_BYTES_MAX + 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    keyspace.delete("b").unwrap();
    db.reclaim(None, &mut |_| {}).unwrap();
    assert_eq!(db.stats().values.large_files, 0);
}

/// Takes bytes of value 7, and no others.
struct Sevens;

impl io::Write for Sevens {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(bytes.iter().all(|&byte| byte == 7));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
