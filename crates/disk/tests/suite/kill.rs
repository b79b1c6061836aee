//! What a killed process leaves on each kind of disk. Each test runs itself a second time as a
//! child, waits until it is ready, and kills it with SIGKILL.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use zerohop_disk::{FilesDisk, HOLD_UNSYNCED, NodeDisk, OpenDiskError, TEST_DISK_VARIABLE};
use zerohop_engine::disk::{Disk, OpenMode};

const CHILD_ROOT: &str = "ZEROHOP_KILL_TEST_ROOT";
const READY: &str = "the child is ready to be killed";

/// What the child does before it is killed.
fn work(disk: &mut impl Disk) {
    let log = disk.open("log", OpenMode::Create).unwrap();
    disk.append(log, b"synced").unwrap();
    disk.sync(log).unwrap();
    let cut = disk.open("cut", OpenMode::Create).unwrap();
    disk.append(cut, b"long").unwrap();
    disk.sync(cut).unwrap();
    for path in ["d/removed", "d/renamed"] {
        let file = disk.open(path, OpenMode::Create).unwrap();
        disk.append(file, path.as_bytes()).unwrap();
        disk.sync(file).unwrap();
    }
    disk.sync_dir("").unwrap();
    disk.sync_dir("d").unwrap();

    let ticket = {
        disk.append(log, b" begun").unwrap();
        disk.sync_begin(log).unwrap()
    };
    while !disk.sync_done(ticket).unwrap() {}

    // From here on nothing is covered by a sync.
    disk.append(log, b" unsynced").unwrap();
    disk.truncate(cut, 1).unwrap();
    disk.remove("d/removed").unwrap();
    disk.rename("d/renamed", "d/new-name").unwrap();
    let nameless = disk.open("e/nameless", OpenMode::Create).unwrap();
    disk.append(nameless, b"bytes synced, name not").unwrap();
    disk.sync(nameless).unwrap();
    assert_eq!(state(disk), AFTER_ALL, "the child itself sees everything it did");
}

const AFTER_ALL: &str =
    "cut=l; d/; d/new-name=d/renamed; e/; e/nameless=bytes synced, name not; log=synced begun unsynced; ";
const AFTER_SYNCED: &str = "cut=long; d/; d/removed=d/removed; d/renamed=d/renamed; log=synced begun; ";

/// Everything on the disk, as text.
fn state(disk: &mut impl Disk) -> String {
    fn walk(disk: &mut impl Disk, folder: &str, text: &mut String) {
        for entry in disk.list(folder).unwrap() {
            let path = if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
            if entry.is_dir {
                text.push_str(&format!("{path}/; "));
                walk(disk, &path, text);
            } else {
                let id = disk.open(&path, OpenMode::Existing).unwrap();
                let mut bytes = vec![0; disk.bytes(id).unwrap() as usize];
                disk.read_at(id, 0, &mut bytes).unwrap();
                text.push_str(&format!("{path}={}; ", String::from_utf8_lossy(&bytes)));
            }
        }
    }
    let mut text = String::new();
    walk(disk, "", &mut text);
    text
}

/// In the child: does the work, reports, and waits to be killed. Ends if its parent is gone.
fn be_the_child(root: &Path) {
    let mut disk = NodeDisk::open(root).unwrap();
    work(&mut disk);
    println!("\n{READY}");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    std::process::exit(1);
}

/// In the parent: runs the test of this name as a child on a disk of this kind, kills it when it is
/// ready, and returns what is on the disk.
fn killed_child_leaves(test: &str, kind: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD_ROOT, root.path())
        .env(TEST_DISK_VARIABLE, kind)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let ready = output.lines().any(|line| line.unwrap() == READY);
    let in_use = FilesDisk::open(root.path()).map(|_| ());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready, "the child failed before it was ready");
    assert_eq!(in_use, Err(OpenDiskError::InUse { root: root.path().to_owned() }));
    state(&mut FilesDisk::open(root.path()).unwrap())
}

#[test]
fn kill_keeps_only_synced_data_on_test_disk() {
    if let Some(root) = std::env::var_os(CHILD_ROOT) {
        return be_the_child(Path::new(&root));
    }
    let test = "kill::kill_keeps_only_synced_data_on_test_disk";
    assert_eq!(killed_child_leaves(test, HOLD_UNSYNCED), AFTER_SYNCED);
}

#[test]
fn a_killed_process_leaves_unsynced_bytes_too_on_real_files() {
    if let Some(root) = std::env::var_os(CHILD_ROOT) {
        return be_the_child(Path::new(&root));
    }
    let test = "kill::a_killed_process_leaves_unsynced_bytes_too_on_real_files";
    assert_eq!(killed_child_leaves(test, ""), AFTER_ALL);
}
