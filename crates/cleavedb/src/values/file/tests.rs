//! Which descriptor readers get, and how far they may read.

use super::*;
use crate::log::testing::values::{ValueLog, path};
use crate::log::testing::{disk, io};
use crate::values::testing::context;

#[test]
fn readers_share_the_writers_descriptor_until_it_is_given_up() {
    let io = io(&disk());
    let log = ValueLog::create(&io, 15);
    let file = ValueFile::new(&context(&io, false), FileKind::Value, FileId(15));
    let lent = log.writer.sync_handle();
    file.lend(Arc::clone(&lent));
    assert!(Arc::ptr_eq(&file.disk_file().unwrap(), &lent));
    file.close();
    let opened = file.disk_file().unwrap();
    assert!(!Arc::ptr_eq(&opened, &lent));
    assert!(Arc::ptr_eq(&file.disk_file().unwrap(), &opened), "it stays open");
    assert_eq!((file.path(), file.seed()), (&*path(15), log.writer.seed()));
}

#[test]
fn what_may_be_read_only_grows() {
    let file = ValueFile::new(&context(&io(&disk()), false), FileKind::Value, FileId(15));
    assert_eq!(file.readable(), 0);
    file.raise_readable(500);
    file.raise_readable(400);
    assert_eq!(file.readable(), 500);
    assert!(file.disk_file().is_err(), "there is no such file");
}

#[test]
fn few_files_are_open_at_a_time() {
    let io = io(&disk());
    let context = context(&io, false);
    let files: Vec<_> = (15..18)
        .map(|id| {
            drop(ValueLog::create(&io, id));
            ValueFile::new(&context, FileKind::Value, FileId(id))
        })
        .collect();
    let opened: Vec<_> = files.iter().map(|file| file.disk_file().unwrap()).collect();
    let open: Vec<bool> = files.iter().map(|file| file.handle.load().is_some()).collect();
    assert_eq!(open, [false, true, true], "the context allows two");
    assert!(!Arc::ptr_eq(&files[0].disk_file().unwrap(), &opened[0]), "opened anew");
}
