//! Tests of real files: the contract of all disks, and their own properties.

use std::path::Path;

use zerohop_engine::disk::contract::{check_against_model, check_contract};

use super::*;

fn disk() -> (tempfile::TempDir, FilesDisk) {
    let root = tempfile::tempdir().unwrap();
    let disk = FilesDisk::open(root.path()).unwrap();
    (root, disk)
}

fn create(disk: &mut FilesDisk, path: &str) -> FileId {
    disk.open(path, OpenMode::Create).unwrap()
}

/// Number of files that a disk of these tests keeps open.
const OPEN_MAX: usize = 192;

#[test]
fn keeps_the_contract() {
    let (_root, mut disk) = disk();
    check_contract(&mut disk);
}

#[test]
fn agrees_with_the_model() {
    for seed in 0..5 {
        let (_root, mut disk) = disk();
        check_against_model(&mut disk, seed, 300);
    }
}

#[test]
fn folder_and_lock_are_private_to_the_account() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let above = tempfile::tempdir().unwrap();
    let root = above.path().join("data/node-1");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    drop(FilesDisk::open(&root).unwrap());
    assert_eq!(
        (mode(&above.path().join("data")), mode(&root), mode(&root.join(LOCK_FILE))),
        (0o700, 0o700, 0o600)
    );
    // The state that an older version left.
    std::fs::set_permissions(root.join(LOCK_FILE), std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(FilesDisk::open(&root).unwrap());
    assert_eq!(mode(&root.join(LOCK_FILE)), 0o600);
}

#[test]
fn folder_in_use_is_refused_until_drop() {
    let (root, disk) = disk();
    let error = FilesDisk::open(root.path()).unwrap_err();
    assert_eq!(error, OpenDiskError::InUse { root: root.path().to_owned() });
    assert!(error.to_string().contains(root.path().to_str().unwrap()));
    drop(disk);
    FilesDisk::open(root.path()).unwrap();
}

#[test]
fn folder_is_created_with_its_parents() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("a/b/c");
    FilesDisk::open(&deep).unwrap();
    assert!(deep.join(LOCK_FILE).exists());
}

#[test]
fn bytes_and_names_survive_reopen() {
    let (root, mut disk) = disk();
    let file = create(&mut disk, "p/f");
    disk.append(file, b"some bytes").unwrap();
    drop(disk);
    let mut disk = FilesDisk::open(root.path()).unwrap();
    let file = disk.open("p/f", OpenMode::Existing).unwrap();
    let mut bytes = [0; 10];
    disk.read_at(file, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"some bytes");
    assert_eq!(disk.bytes(file), Ok(10));
}

#[test]
fn recycled_file_keeps_its_space_and_shows_old_bytes_only_when_opened_again() {
    let (root, mut disk) = disk();
    let old = create(&mut disk, "old");
    disk.append(old, &[1; 10_000]).unwrap();
    disk.sync(old).unwrap();
    let new = disk.open("new", OpenMode::Recycled { from: "old" }).unwrap();
    disk.append(new, &[2; 100]).unwrap();
    disk.sync(new).unwrap();
    assert_eq!(std::fs::metadata(root.path().join("new")).unwrap().len(), 10_000);
    assert_eq!(disk.bytes(new), Ok(100));
    drop(disk);
    let mut disk = FilesDisk::open(root.path()).unwrap();
    let new = disk.open("new", OpenMode::Existing).unwrap();
    let mut bytes = vec![0; disk.bytes(new).unwrap() as usize];
    disk.read_at(new, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [vec![2; 100], vec![1; 9_900]].concat());
}

#[test]
fn more_files_than_descriptors_can_be_open_written_synced_and_read() {
    let root = tempfile::tempdir().unwrap();
    let mut disk = FilesDisk::open_with(root.path(), OPEN_MAX).unwrap();
    let files: Vec<FileId> =
        (0..2 * OPEN_MAX).map(|number| create(&mut disk, &format!("f{number}"))).collect();
    for round in 0..3u8 {
        let mut tickets = Vec::new();
        for (number, file) in files.iter().enumerate() {
            disk.append(*file, &[number as u8 ^ round]).unwrap();
            if number % 3 == 0 {
                tickets.push(disk.sync_begin(*file).unwrap());
            }
        }
        disk.sync(files[1]).unwrap();
        for ticket in tickets {
            while !disk.sync_done(ticket).unwrap() {}
        }
    }
    for (number, file) in files.iter().enumerate() {
        let mut bytes = [0; 3];
        disk.read_at(*file, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 1, 2].map(|round| number as u8 ^ round));
    }
}

#[test]
fn disk_drop_waits_for_background_syncs_and_unlocks_folder() {
    let (root, mut disk) = disk();
    let file = create(&mut disk, "f");
    for _ in 0..50 {
        disk.append(file, &[1; 4096]).unwrap();
        disk.sync_begin(file).unwrap();
    }
    drop(disk);
    FilesDisk::open(root.path()).unwrap();
}

#[test]
fn more_syncs_than_the_threads_take_wait_for_earlier_ones() {
    let (_root, mut disk) = disk();
    let file = create(&mut disk, "f");
    let mut tickets = Vec::new();
    for number in 0..2 * SYNCS_BEGUN_MAX + 10 {
        // What is synced already needs no thread.
        disk.append(file, &[number as u8]).unwrap();
        tickets.push(disk.sync_begin(file).unwrap());
    }
    for ticket in tickets {
        disk.sync_wait(ticket).unwrap();
    }
}

#[test]
fn a_failed_background_sync_fails_every_later_sync_of_the_file() {
    let (_root, mut disk) = disk();
    let file = create(&mut disk, "f");
    let ticket = disk.sync_begin(file).unwrap();
    let (_, open) = disk.files.get(file, "test").unwrap();
    open.sync_failed(Errno::IO);
    // The failure was reported to another descriptor or thread: this ticket must not succeed.
    let answer = loop {
        match disk.sync_done(ticket) {
            Ok(false) => {}
            answer => break answer,
        }
    };
    assert!(matches!(answer, Err(DiskError::Failed { .. })), "{answer:?}");
    assert!(disk.sync(file).is_err());
    assert!(disk.sync_begin(file).is_err());
    disk.append(file, b"still readable and writable").unwrap();
}

#[test]
fn the_lock_and_foreign_names_are_not_of_the_disk() {
    let (root, mut disk) = disk();
    std::fs::create_dir(root.path().join("lost+found")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.path().join("link")).unwrap();
    assert_eq!(disk.list(""), Ok(vec![]));
    for mode in [OpenMode::Create, OpenMode::Existing] {
        assert!(matches!(disk.open(LOCK_FILE, mode), Err(DiskError::Failed { .. })));
    }
    assert!(disk.remove(LOCK_FILE).is_err());
    create(&mut disk, "f");
    assert!(disk.rename("f", LOCK_FILE).is_err());
    assert!(disk.open("link", OpenMode::Existing).is_err(), "links are not followed");
}

#[test]
fn short_and_interrupted_writes_and_reads_are_carried_on() {
    let mut file = vec![0; 10];
    let mut calls = 0;
    write_all(b"0123456", 3, |piece, at| {
        calls += 1;
        if calls % 2 == 0 {
            return Err(Errno::INTR);
        }
        let piece = &piece[..piece.len().min(3)];
        file[at as usize..at as usize + piece.len()].copy_from_slice(piece);
        Ok(piece.len())
    })
    .unwrap();
    assert_eq!(file, b"\0\0\x000123456");

    let mut into = [0; 7];
    read_all(&mut into, 3, |piece, at| {
        let expected = piece.len().min(2);
        piece[..expected].copy_from_slice(&file[at as usize..at as usize + expected]);
        Ok(expected)
    })
    .unwrap();
    assert_eq!(&into, b"0123456");
    assert_eq!(read_all(&mut into, 0, |_, _| Ok(0)), Err(None));
}

#[test]
fn partial_write_without_space_reports_full_disk() {
    let mut left = 1;
    let result = write_all(&[1; 10], 0, |_, _| {
        left -= 1;
        if left >= 0 { Ok(4) } else { Err(Errno::NOSPC) }
    });
    assert_eq!(refused("f", "append", result.unwrap_err()), DiskError::Full);
    assert_eq!(refused("f", "append", Errno::DQUOT), DiskError::Full);
    assert_eq!(refused("f", "append", Errno::FBIG), DiskError::Full);
}

#[test]
fn folder_sync_syncs_parent_folders_once() {
    let (_root, mut disk) = disk();
    create(&mut disk, "a/b/f");
    disk.sync_dir("a/b").unwrap();
    assert_eq!(disk.durable_folders.iter().collect::<Vec<_>>(), ["a", "a/b"]);
    disk.remove("a/b/f").unwrap();
    disk.remove("a/b").unwrap();
    assert_eq!(disk.durable_folders.iter().collect::<Vec<_>>(), ["a"], "a new a/b would not be durable");
    assert!(disk.free_bytes().unwrap() > 0);
}

#[test]
fn preallocated_space_reads_as_zeros() {
    let root = tempfile::tempdir().unwrap();
    let on_device = || std::fs::metadata(root.path().join("f")).unwrap().len();
    let mut disk = FilesDisk::open(root.path()).unwrap();
    let file = disk.open("f", OpenMode::Create).unwrap();
    disk.reserve(file, 2 << 20);
    disk.append(file, b"a").unwrap();
    // Work that is begun after it is done after it.
    let ticket = disk.sync_begin(file).unwrap();
    disk.sync_wait(ticket).unwrap();
    let before = on_device();
    assert!(before >= 256 << 10, "{before}");
    disk.append(file, b"b").unwrap();
    disk.sync(file).unwrap();
    assert_eq!((on_device(), disk.bytes(file)), (before, Ok(2)));
    drop(disk);
    let mut disk = FilesDisk::open(root.path()).unwrap();
    let file = disk.open("f", OpenMode::Existing).unwrap();
    let mut bytes = vec![1; disk.bytes(file).unwrap() as usize];
    disk.read_at(file, 0, &mut bytes).unwrap();
    assert!(bytes.starts_with(b"ab") && bytes[2..].iter().all(|&byte| byte == 0));
}

#[test]
fn only_prioritized_sync_calls_the_waker() {
    #[derive(Default)]
    struct WakeCounter(std::sync::Mutex<u32>, std::sync::Condvar);

    impl std::task::Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() += 1;
            self.1.notify_one();
        }
    }

    let (_root, mut disk) = disk();
    let woken = Arc::new(WakeCounter::default());
    disk.set_sync_waker(Waker::from(Arc::clone(&woken)));
    let file = disk.open("f", OpenMode::Create).unwrap();
    disk.append(file, b"a").unwrap();
    let ticket = disk.sync_begin(file).unwrap();
    disk.sync_wait(ticket).unwrap();
    assert_eq!(*woken.0.lock().unwrap(), 0, "no thread waits for it");
    disk.append(file, b"b").unwrap();
    let ticket = disk.sync_begin_awaited(file).unwrap();
    let patience = std::time::Duration::from_secs(10);
    let is_asleep = |count: &mut u32| *count == 0;
    drop(woken.1.wait_timeout_while(woken.0.lock().unwrap(), patience, is_asleep).unwrap());
    assert_eq!((*woken.0.lock().unwrap(), disk.sync_done(ticket)), (1, Ok(true)));
}

#[test]
fn large_append_is_stored_exactly() {
    let root = tempfile::tempdir().unwrap();
    let mut disk = FilesDisk::open(root.path()).unwrap();
    let file = disk.open("f", OpenMode::Create).unwrap();
    let mut expected = Vec::new();
    for (number, bytes) in [(1, 300 << 10), (2, 10), (3, (2 << 20) + 7)] {
        let block: Vec<u8> = (0..bytes).map(|byte| (byte * number / 251) as u8).collect();
        disk.append_pieces(file, &[&block[..], b"between", &block[..5]]).unwrap();
        expected.extend([&block[..], b"between", &block[..5]].concat());
        assert_eq!(disk.bytes(file), Ok(expected.len() as u64));
        assert_eq!(std::fs::metadata(root.path().join("f")).unwrap().len(), expected.len() as u64);
    }
    let mut found = vec![0; expected.len()];
    disk.read_at(file, 0, &mut found).unwrap();
    assert!(found == expected);
    disk.sync(file).unwrap();
    disk.truncate(file, 5).unwrap();
    disk.append_pieces(file, &[b"a", b"b"]).unwrap();
    let mut found = [0; 7];
    disk.read_at(file, 0, &mut found).unwrap();
    assert_eq!((&found[..5], &found[5..], disk.bytes(file)), (&expected[..5], &b"ab"[..], Ok(7)));
}

#[test]
fn sync_without_threads_is_done_at_once() {
    let (root, mut disk) = disk();
    let file = create(&mut disk, "folder/file");
    disk.append(file, b"data").unwrap();
    let (key, open) = disk.files.get(file, "test").unwrap();
    let (path, changes, names) = (open.path.clone(), open.changes, vec!["folder".to_owned(), String::new()]);
    let begun = PendingFileSync { path, file: key, changes, folders: names.clone(), result: None };
    let folders: Vec<OwnedFd> = names.iter().map(|name| disk.open_folder(name).unwrap()).collect();
    let ticket = at_once::sync_at_once(&mut disk, file, begun, &folders, None).unwrap();
    assert_eq!(disk.sync_done(ticket), Ok(true));
    assert!(disk.durable_folders.contains("folder"));
    let (_, open) = disk.files.get(file, "test").unwrap();
    assert_eq!(open.changes_synced, changes);
    drop(root);
}
