//! An append that the operating system executes partly and then refuses. The test runs itself a
//! second time under a limit on file sizes, and ignores the signal that would otherwise end it.

use std::path::Path;
use std::process::Command;

use zerohop_disk::FilesDisk;
use zerohop_engine::disk::{Disk, DiskError, OpenMode};

const CHILD_ROOT: &str = "ZEROHOP_APPEND_TEST_ROOT";

/// Under a limit of 32 or 64 KiB, depending on the shell.
fn append_past_the_limit(root: &Path) {
    let mut disk = FilesDisk::open(root).unwrap();
    let file = disk.open("f", OpenMode::Create).unwrap();
    disk.append(file, &[1; 20_000]).unwrap();
    for _ in 0..2 {
        let refused = disk.append(file, &[2; 100_000]);
        assert!(matches!(refused, Err(DiskError::Full)), "{refused:?}");
        assert_eq!(disk.bytes(file), Ok(20_000), "readers see all or nothing");
        assert_eq!(std::fs::metadata(root.join("f")).unwrap().len(), 20_000, "and so does the next process");
    }
    disk.append(file, &[3; 100]).unwrap();
    disk.sync(file).unwrap();
    let mut bytes = vec![0; 20_100];
    disk.read_at(file, 0, &mut bytes).unwrap();
    assert!(bytes[..20_000] == [1; 20_000] && bytes[20_000..] == [3; 100]);
}

#[test]
fn refused_append_leaves_no_bytes() {
    if let Some(root) = std::env::var_os(CHILD_ROOT) {
        return append_past_the_limit(Path::new(&root));
    }
    let root = tempfile::tempdir().unwrap();
    // Its output goes through a pipe: the limit would apply to a file with the test's report.
    let child = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact append_fails::refused_append_leaves_no_bytes",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(CHILD_ROOT, root.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert_eq!(std::fs::metadata(root.path().join("f")).unwrap().len(), 20_100, "the child did its part");
}
