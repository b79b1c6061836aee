//! An append under a limit on file sizes. The tests run themselves a second time: with the limit from the start, and with a limit that is set after the
//! folder was opened, so that the operating system executes an append partly and then refuses it.

use std::path::Path;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zerohop_disk::FilesDisk;
use zerohop_engine::disk::{Disk, DiskError, FileId, OpenMode};

const CHILD_ROOT: &str = "ZEROHOP_APPEND_TEST_ROOT";

/// The limit in bytes.
const FILE_BYTES_MAX: u64 = 32 << 10;

fn append_past_the_limit(mut disk: FilesDisk, root: &Path, reserved_bytes: u64) {
    let file = disk.open("f", OpenMode::Create).unwrap();
    disk.reserve(file, reserved_bytes);
    disk.append(file, &[1; 20_000]).unwrap();
    for _ in 0..2 {
        let refused = disk.append(file, &[2; 100_000]);
        assert!(matches!(refused, Err(DiskError::Full)), "{refused:?}");
        assert_eq!(disk.bytes(file), Ok(20_000), "readers see all or nothing");
        if reserved_bytes == 0 {
            assert_eq!(
                std::fs::metadata(root.join("f")).unwrap().len(),
                20_000,
                "and so does the next process"
            );
        }
    }
    disk.append(file, &[3; 100]).unwrap();
    disk.sync(file).unwrap();
    let mut bytes = vec![0; 20_100];
    disk.read_at(file, 0, &mut bytes).unwrap();
    assert!(bytes[..20_000] == [1; 20_000] && bytes[20_000..] == [3; 100]);
    disk.truncate(file, 20_100).unwrap();
}

/// Runs one of the tests in a process of its own, after these commands of a shell.
fn run_alone(test: &str, shell: &str) {
    let root = tempfile::tempdir().unwrap();
    // Its output goes through a pipe: the limit would apply to a file with the test's report.
    let child = Command::new("sh")
        .args(["-c", &format!("{shell} exec \"$0\" --exact append_fails::{test}")])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD_ROOT, root.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{} {}", child.status, String::from_utf8_lossy(&child.stdout));
    assert!(std::fs::metadata(root.path().join("f")).is_ok(), "the child did its part");
}

#[test]
fn refused_append_leaves_no_bytes() {
    let Some(root) = std::env::var_os(CHILD_ROOT) else {
        return run_alone("refused_append_leaves_no_bytes", "trap '' XFSZ;");
    };
    let root = Path::new(&root);
    let disk = FilesDisk::open(root).unwrap();
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: Some(FILE_BYTES_MAX), maximum }).unwrap();
    append_past_the_limit(disk, root, 0);
}

/// Nothing ignores the signal here: a program that embeds a store, or Python, need not know of it.
#[test]
fn append_beyond_a_file_size_limit_does_not_end_the_process() {
    let Some(root) = std::env::var_os(CHILD_ROOT) else {
        // In units of 512 or 1024 bytes, depending on the shell.
        return run_alone("append_beyond_a_file_size_limit_does_not_end_the_process", "ulimit -f 64;");
    };
    let root = Path::new(&root);
    append_past_the_limit(FilesDisk::open(root).unwrap(), root, 1 << 20);
}

/// More files are open than have descriptors, and then the process has none left.
#[test]
fn process_without_descriptors_refuses_appends_and_finishes_syncs() {
    let test = "process_without_descriptors_refuses_appends_and_finishes_syncs";
    let Some(root) = std::env::var_os(CHILD_ROOT) else { return run_alone(test, "") };
    let mut disk = FilesDisk::open_with(Path::new(&root), 64).unwrap();
    let first = disk.open("f", OpenMode::Create).unwrap();
    disk.append(first, b"first").unwrap();
    let others: Vec<FileId> = (0..300)
        .map(|number| {
            let file = disk.open(&format!("other-{number}"), OpenMode::Create).unwrap();
            disk.append(file, b"other").unwrap();
            file
        })
        .collect();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
    assert!(matches!(disk.append(first, b"more"), Err(DiskError::Scarce { .. })));
    assert!(matches!(disk.open("new", OpenMode::Create), Err(DiskError::Scarce { .. })));
    // Its bytes were synced before its descriptor was closed.
    disk.sync(first).unwrap();
    let ticket = disk.sync_begin(first).unwrap();
    disk.sync_wait(ticket).unwrap();
    // This one has its descriptor, because it has unsynced bytes.
    disk.sync(others[299]).unwrap();
    setrlimit(Resource::Nofile, before).unwrap();
    disk.append(first, b" and more").unwrap();
    disk.sync(first).unwrap();
    let mut bytes = vec![0; 14];
    disk.read_at(first, 0, &mut bytes).unwrap();
    assert_eq!(bytes, b"first and more");
}
