//! Files that are not what they should be: an error that names the file and the way out, and nothing lost.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use mailweir::store::{SqliteOptions, SqliteStore, Store, StoreError};

use crate::support::*;

/// Opens it; it must not work. The error names the file, and nothing in the folder changes but the lock.
#[track_caller]
fn refused(place: &Place) -> StoreError {
    let before = contents(place);
    let options = SqliteOptions::new().lock_wait(Duration::ZERO);
    let error = SqliteStore::open_with(place.file(), options).map(drop).expect_err("it is not an outbox of ours");
    assert!(error.to_string().contains("outbox.db"), "names the file: {error}");
    let after = contents(place);
    let names =
        |files: &[(String, Vec<u8>)]| files.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before), "{error}");
    assert!(after == before, "changed a byte: {error}");
    error
}

fn contents(place: &Place) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap());
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    let files = entries.filter(|entry| !["-lock", "-shm"].iter().any(|end| name(entry).ends_with(end)));
    let mut files: Vec<_> = files.map(|entry| (name(&entry), fs::read(entry.path()).unwrap())).collect();
    // An empty log says nothing.
    files.retain(|(name, bytes)| !name.ends_with("-wal") || !bytes.is_empty());
    files.sort();
    files
}

#[track_caller]
fn assert_damaged(error: &StoreError, word: &str) {
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(!error.is_retryable());
    assert!(error.to_string().contains(word), "{error}");
    assert!(error.to_string().contains("restore a backup"), "names the way out: {error}");
}

#[test]
fn a_missing_file_is_made_and_found_again() {
    let place = Place::new();
    block_on(async {
        let store = place.open();
        store.insert(vec![new(1)]).await.unwrap();
        assert_eq!(store.kind(), "sqlite");
        store.close().await.unwrap();
        let store = place.open();
        assert_eq!(found(&store, 1).await, Some(new(1).first_row()));
        assert_eq!(store.claim(vec![claim(1, 1, 5)]).await, Ok(vec![Some(new(1).email)]));
    });
}

#[test]
fn a_crash_while_a_file_was_made_leaves_none_and_the_next_start_makes_it() {
    let place = Place::new();
    fs::write(place.folder().join("outbox.db-new"), b"half of an outbox").unwrap();
    drop(place.open());
    assert!(!place.folder().join("outbox.db-new").exists());
}

#[test]
fn a_file_of_no_bytes_is_refused() {
    let place = Place::new();
    fs::write(place.file(), b"").unwrap();
    assert_damaged(&refused(&place), "0 bytes");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let place = Place::new();
    fs::write(place.file(), "To whom it may concern: ".repeat(100)).unwrap();
    assert_damaged(&refused(&place), "not an SQLite file");
}

#[test]
fn a_database_of_another_program_is_refused() {
    let place = Place::new();
    let other = place.shell();
    other.execute_batch("CREATE TABLE diary (page TEXT); INSERT INTO diary VALUES ('dear diary')").unwrap();
    drop(other);
    assert_damaged(&refused(&place), "another program");
}

#[test]
fn a_file_of_a_newer_version_is_refused() {
    let place = Place::filled(3);
    place.shell().execute_batch("PRAGMA user_version = 99").unwrap();
    let error = refused(&place);
    assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("schema 99"), "{error}");
    assert!(error.to_string().contains("start that version"), "{error}");
    place.shell().execute_batch("PRAGMA user_version = 11").unwrap();
    assert!(block_on(found(&place.open(), 3)).is_some());
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let place = Place::filled(300);
    let length = fs::metadata(place.file()).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(place.file()).unwrap();
    file.set_len(length / 2).unwrap();
    assert_damaged(&refused(&place), "");
}

#[test]
fn damage_within_a_file_is_found_wherever_it_is() {
    for page in [0, 1, 2, 3, 5, 8, 13, 21] {
        let place = Place::filled(300);
        let mut bytes = fs::read(place.file()).unwrap();
        // The first page keeps the head that tells whose file it is.
        let start = page * 4_096 + if page == 0 { 100 } else { 0 };
        bytes[start..start + 512].fill(0xa5);
        fs::write(place.file(), bytes).unwrap();
        println!("page {page}");
        assert_damaged(&refused(&place), "");
    }
}

#[test]
fn a_log_without_its_file_is_refused() {
    let place = Place::new();
    fs::write(place.folder().join("outbox.db-wal"), vec![7; 4_096]).unwrap();
    assert_damaged(&refused(&place), "its log is still there");
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let place = Place::new();
    let error = SqliteStore::open(place.folder().join("nowhere").join("outbox.db")).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("nowhere") && error.to_string().contains("create it"), "{error}");
    let error = SqliteStore::open(place.folder()).unwrap_err();
    assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
}

#[test]
fn a_second_process_is_refused_while_the_first_lives() {
    let place = Place::filled(3);
    let (mut first, _acks) = crate::kill::spawn(&place.file());
    let error = refused_by_lock(&place);
    assert!(error.is_retryable() && error.to_string().contains("another process"), "{error}");
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(block_on(found(&place.open(), 3)).is_some(), "the lock dies with its process");
}

#[track_caller]
fn refused_by_lock(place: &Place) -> StoreError {
    let options = SqliteOptions::new().lock_wait(Duration::ZERO);
    let error = SqliteStore::open_with(place.file(), options).expect_err("another process has it");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("outbox.db"), "{error}");
    error
}

#[test]
fn a_second_store_of_one_process_is_refused_until_the_first_is_closed() {
    let place = Place::new();
    let first = place.open();
    refused_by_lock(&place);
    // Another name of the same file is the same file.
    #[cfg(unix)]
    {
        let link = place.folder().join("link.db");
        std::os::unix::fs::symlink(place.file(), &link).unwrap();
        let options = SqliteOptions::new().lock_wait(Duration::ZERO);
        assert!(matches!(SqliteStore::open_with(link, options), Err(StoreError::Unavailable { .. })));
    }
    block_on(first.close()).unwrap();
    drop(place.open());
}

#[cfg(unix)]
#[test]
fn a_store_whose_lock_was_removed_writes_nothing_once_another_may_have_the_file() {
    let place = Place::new();
    let first = place.open();
    block_on(first.insert(vec![new(1)])).unwrap();
    fs::remove_file(place.folder().join("outbox.db-lock")).unwrap();
    let second = place.open();
    for error in [
        block_on(first.insert(vec![new(2)])).expect_err("it has lost its lock"),
        block_on(first.record([].into())).expect_err("nor is anything else written"),
    ] {
        assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
        assert!(error.to_string().contains("outbox.db-lock was removed or replaced"), "{error}");
    }
    block_on(second.insert(vec![new(3)])).unwrap();
    assert!(block_on(found(&second, 1)).is_some() && block_on(found(&second, 2)).is_none());
    block_on(first.close()).unwrap();
    block_on(second.insert(vec![new(4)])).unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_that_is_not_there_makes_no_new_outbox_in_its_place() {
    let place = Place::new();
    let (link, volume) = (place.folder().join("link.db"), place.folder().join("volume"));
    std::os::unix::fs::symlink(volume.join("outbox.db"), &link).unwrap();
    for mounted in [false, true] {
        let error = SqliteStore::open(&link).expect_err("nothing is there").to_string();
        assert!(error.contains("link.db") && error.contains("volume/outbox.db"), "{error}");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink(), "it is left as it was");
        if !mounted {
            // Its folder is there, and still it does not mean to be made anew.
            std::fs::create_dir(&volume).unwrap();
        }
    }
    assert_eq!(std::fs::read_dir(&volume).unwrap().count(), 0);
}

#[test]
fn a_store_that_is_dropped_lets_go_of_its_file_by_itself() {
    let place = Place::new();
    for key in 1..=3 {
        // Opening waits for the one before, which is still writing.
        let store = place.open();
        drop(futures::FutureExt::now_or_never(store.insert(vec![new(key)])));
    }
    let store = place.open();
    block_on(async {
        for key in 1..=3 {
            assert!(found(&store, key).await.is_some(), "operation {key}");
        }
    });
}

/// A file system of its own that this process may make read-only or fill, or `None` where it may not mount one.
pub(crate) struct Mounted {
    pub(crate) place: Place,
}

impl Mounted {
    pub(crate) fn tmpfs(size: &str) -> Option<Self> {
        let place = Place::new();
        let option = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &option, "outbox"]).arg(place.folder()).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self { place })
    }

    /// Makes it read-only, once the threads of a store that has just been dropped are gone.
    fn read_only(&self) {
        let remount = || Command::new("mount").args(["-o", "remount,ro"]).arg(self.place.folder()).output();
        let is_done = (0..1_000).any(|_| remount().is_ok_and(|output| output.status.success()));
        assert!(is_done, "somebody still writes there");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: threads of a store that is just ending may have it open.
        drop(Command::new("umount").arg("-l").arg(self.place.folder()).status());
    }
}

#[test]
fn a_read_only_place_is_refused_by_name() {
    let error = if let Some(mounted) = Mounted::tmpfs("4m") {
        block_on(async {
            let store = mounted.place.open();
            store.insert(vec![new(1)]).await.unwrap();
            store.close().await.unwrap();
        });
        mounted.read_only();
        SqliteStore::open(mounted.place.file()).unwrap_err()
    } else {
        let place = Place::filled(1);
        let mut permissions = fs::metadata(place.file()).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(place.file(), permissions).unwrap();
        let probe = fs::OpenOptions::new().write(true).open(place.file());
        let word =
            "NOT TESTED on a read-only file system: this user may not mount one. A read-only file stands in for it.";
        std::io::stderr().write_all(format!("{word}\n").as_bytes()).unwrap();
        assert!(probe.is_err(), "run as a user who can mount, or as one who is bound by permissions");
        SqliteStore::open(place.file()).unwrap_err()
    };
    assert!(matches!(error, StoreError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("outbox.db") && error.to_string().contains("writable"), "{error}");
}
