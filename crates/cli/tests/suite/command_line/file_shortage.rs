//! A file system that has bytes, and can create few more files: writes are refused before data is accepted that finds no
//! file, and reports name the inodes.

use rustix::process::Signal;

use crate::support::disk::SmallDisk;
use crate::support::serving::{ServingProgram, code, stderr};
use crate::support::wait_for;

/// Nodes keep half of the files of so small a file system.
const RESERVED: u64 = 1_000;

#[test]
fn writes_are_refused_before_files_run_out() {
    let folder = crate::support::folder();
    let root = folder.path().join("disk");
    let Some(_disk) = SmallDisk::mount(&root, "300m,nr_inodes=2000") else {
        return crate::support::not_run("only root may mount a disk of 300 MiB");
    };
    let (data, spare) = (root.join("data"), root.join("spare"));
    let up = || ServingProgram::up(&["--data", data.to_str().unwrap(), "--instances", "2"]);
    let files_left = || rustix::fs::statvfs(&root).unwrap().f_favail;
    let cluster = up();
    let value = vec![b'x'; 30_000];
    let insert = |key: &str| cluster.run_with(&["kv", "insert", key, "-"], &value);
    assert_eq!(code(&insert("before")), 0);
    std::fs::create_dir(&spare).unwrap();
    for number in (0..).take_while(|_| files_left() > RESERVED + 20) {
        std::fs::write(spare.join(format!("{number}")), b"").unwrap();
    }
    // Each of the first keys of a partition takes a file or two.
    let keys: Vec<String> = (0..200).map(|number| format!("key-{number}")).collect();
    let written = keys.iter().take_while(|key| {
        let one = insert(key);
        assert!(code(&one) == 0 || code(&one) == 3, "{one:?}");
        code(&one) == 0
    });
    let written: Vec<&String> = written.collect();
    assert!(written.len() < keys.len() && files_left() > RESERVED / 2, "{} {}", written.len(), files_left());
    wait_for(
        "status names the inodes",
        || cluster.run(&["status"]),
        |status| String::from_utf8_lossy(&status.stdout).contains("df -i"),
    );
    let health = cluster.run(&["doctor"]);
    assert_ne!(code(&health), 0, "{}", stderr(&health));
    let (removed, kept) = written.split_at(written.len().min(5));
    for key in removed {
        cluster.ok(&["kv", "remove", key.as_str()]);
    }
    assert_eq!(cluster.end_with(Signal::TERM), Some(0), "it stops cleanly, and nothing is lost");
    let cluster = up();
    for key in kept {
        assert_eq!(cluster.ok(&["kv", "lookup", key.as_str()]).len(), value.len(), "{key}");
    }
    let insert = || cluster.run_with(&["kv", "insert", "after", "-"], &value);
    assert_eq!(code(&insert()), 3, "there are still few files");
    std::fs::remove_dir_all(&spare).unwrap();
    wait_for("writes are accepted", insert, |insert| code(insert) == 0);
}
