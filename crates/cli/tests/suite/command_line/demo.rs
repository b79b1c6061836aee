//! `zerohop demo` as a process, on small folders.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Output, Stdio};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::process::RunningProcess;
use crate::support::serving::{ServingProgram, code, pid, wait_until_exited, zerohop};
use crate::support::terminal::TerminalProgram;
use crate::support::wait_for;

/// Bytes of a file that is stored in chunks.
const LARGE: usize = (3 << 20) + 5;

/// Makes this many small files, a large one and one with an unusual name.
fn make_files(root: &Path, small: usize) {
    std::fs::create_dir_all(root.join("sub/folder")).unwrap();
    std::fs::create_dir_all(root.join("target")).unwrap();
    std::fs::write(root.join("target/skipped"), "x").unwrap();
    for n in 0..small {
        let contents = format!("file {n} ").repeat(n % 500);
        std::fs::write(root.join(format!("sub/folder/{n:04}")), contents).unwrap();
    }
    let large: Vec<u8> = (0..LARGE).map(|n| (n / 3 + n / 70_000) as u8).collect();
    std::fs::write(root.join("large"), large).unwrap();
    std::fs::write(root.join(OsStr::from_bytes(b"odd \xff\n name")), "odd").unwrap();
}

fn demo(dir: &Path, more: &[&str]) -> Output {
    let more = more.iter().map(OsStr::new);
    zerohop(&["demo".as_ref(), dir.as_os_str()].into_iter().chain(more).collect::<Vec<_>>()).output().unwrap()
}

fn report(dir: &Path, more: &[&str]) -> Value {
    let output = demo(dir, &[more, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing beside the report");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn report_shows_contents_and_kill() {
    let root = crate::support::folder();
    make_files(root.path(), 60);
    let report = report(root.path(), &[]);
    let small: usize = (0..60).map(|n| n * format!("file {n} ").len()).sum();
    assert_eq!((&report["ok"], &report["killed"]), (&true.into(), &true.into()), "{report}");
    assert_eq!(report["files"], 62);
    assert_eq!(report["bytes"], LARGE + small + 3);
    for whole in ["read_whole", "first_whole", "again_files", "again_whole"] {
        assert_eq!(report[whole], 62, "{whole}: {report}");
    }
    assert_eq!((&report["skipped_folders"], &report["unreadable"]), (&1.into(), &0.into()));
    let acknowledged = report["acknowledged"].as_u64().unwrap();
    assert!((31..=62).contains(&acknowledged), "{acknowledged}");
    assert_eq!(report["verified"], acknowledged);
    assert_eq!((&report["faulty"], &report["foreign_keys"]), (&0.into(), &0.into()));
    assert_eq!(report["data"], Value::Null);
    // Three nodes of which one is killed, a fourth, and one that is drained.
    let cluster = &report["cluster"];
    for (what, is) in [("nodes", 3), ("replicas", 3), ("min_in_sync", 2), ("files", 62), ("whole", 62)] {
        assert_eq!(cluster[what], is, "{what}: {cluster}");
    }
    assert_eq!(cluster["verified"], cluster["acknowledged"]);
    assert!(cluster["join_copies"].as_u64() > Some(0), "{cluster}");
}

#[test]
fn acknowledged_files_are_intact_after_any_kill() {
    let root = crate::support::folder();
    make_files(root.path(), 300);
    for kill_after in [1, 40, 302, 1_000_000] {
        let report = report(root.path(), &["--one-node", "--kill-after", &kill_after.to_string()]);
        assert!(report["acknowledged"].as_u64().unwrap() >= kill_after.min(302), "{report}");
        assert_eq!(report["verified"], report["acknowledged"]);
        assert_eq!(report["again_whole"], 302);
    }
}

#[test]
fn demo_prints_short_report_without_progress_off_terminal() {
    let root = crate::support::folder();
    make_files(root.path(), 5);
    let output = demo(root.path(), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("7 files, 3.1 MB below "), "{text}");
    assert!(text.contains("(1 folders skipped)"), "{text}");
    assert!(text.ends_with("Nothing that was acknowledged is lost.\n"), "{text}");
    assert_eq!((text.lines().count(), output.stderr.len()), (21, 0), "{text}");
    // The first line has the path of the folder.
    assert!(text.lines().skip(1).all(|line| line.len() <= 80), "{text}");
}

#[test]
fn folder_that_is_empty_or_missing_is_reported_before_nodes_start() {
    let root = crate::support::folder();
    let empty = demo(root.path(), &["--data", root.path().join("data").to_str().unwrap()]);
    assert_eq!((code(&empty), empty.stdout.len()), (3, 0), "{empty:?}");
    assert!(String::from_utf8_lossy(&empty.stderr).contains("has no files to store"), "{empty:?}");
    let file = root.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for bad in [file, root.path().join("nothing")] {
        let output = demo(&bad, &[]);
        assert_eq!(code(&output), 3);
        assert!(String::from_utf8_lossy(&output.stderr).contains("name a folder"), "{output:?}");
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn demo_keeps_given_data_folder_and_does_not_store_it() {
    let root = crate::support::folder();
    make_files(root.path(), 3);
    let data = root.path().join("data");
    let report = report(root.path(), &["--one-node", "--data", data.to_str().unwrap()]);
    assert_eq!((&report["files"], &report["skipped_folders"]), (&5.into(), &2.into()));
    assert_eq!(report["data"], data.to_str().unwrap());
    let again = demo(root.path(), &["--data", data.to_str().unwrap()]);
    assert_eq!(code(&again), 3);
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"), "{again:?}");

    let cluster = ServingProgram::up(&["--data", data.to_str().unwrap()]);
    for keyspace in ["demo-first", "demo-again"] {
        let record = cluster.run(&["kv", "lookup", "-k", keyspace, "sub/folder/0002"]);
        assert!(record.stdout.ends_with(b"file 2 file 2 "), "{record:?}");
    }
}

#[test]
fn temporary_folder_is_removed_unless_keep_is_given() {
    let root = crate::support::folder();
    make_files(root.path(), 3);
    let temporary = crate::support::folder();
    let run = |more: &[&str]| {
        let mut command = zerohop(&["demo"]);
        command.arg(root.path()).arg("--one-node").args(more).env("TMPDIR", temporary.path());
        assert!(command.output().unwrap().status.success());
        std::fs::read_dir(temporary.path()).unwrap().count()
    };
    assert_eq!(run(&[]), 0);
    assert_eq!(run(&["--keep"]), 1);
}

#[test]
fn ctrl_c_removes_the_folder_and_ends_the_node() {
    let root = crate::support::folder();
    make_files(root.path(), 2000);
    let temporary = crate::support::folder();
    let mut command = zerohop(&["demo"]);
    command.arg(root.path()).env("TMPDIR", temporary.path()).stdout(Stdio::piped());
    let mut child = RunningProcess::start(&mut command);
    // Once its node has data, the demo is at work.
    let has_data = || {
        let mut folders = std::fs::read_dir(temporary.path()).unwrap();
        folders.any(|one| one.unwrap().path().join("node-1").exists())
    };
    let look = || (children(child.id()).first().copied(), has_data());
    let (node, _) = wait_for("a node at work", look, |(node, has_data)| node.is_some() && *has_data);
    kill_process(child.pid(), Signal::INT).unwrap();
    let status = child.ended();
    assert_eq!(status.code(), Some(130));
    wait_until_exited(pid(node.unwrap()));
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

/// The child processes of a process.
fn children(of: u32) -> Vec<u64> {
    let list = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    list.split_whitespace().map(|one| one.parse().unwrap()).collect()
}

#[test]
fn demo_progress_on_a_terminal_has_the_time_left() {
    let folder = crate::support::folder();
    for number in 0..400 {
        std::fs::write(folder.path().join(format!("file-{number}")), vec![7; 2000]).unwrap();
    }
    let mut demo = TerminalProgram::all_of(zerohop(&["demo".as_ref(), folder.path().as_os_str()]));
    demo.slow_until(&["storing: ", " of 400 files, ", " left"]);
    demo.signal(Signal::INT);
    let (screen, _, _) = demo.end();
    let has_time = |line: &str| line.contains(" of 400 files, ") && line.trim_end().ends_with("s left");
    assert!(screen.split("\r\u{1b}[K").any(has_time), "{screen:?}");
}
