//! `zerohop demo` as a process, on small folders.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, which makes the files it needs")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Bytes of one file that is stored in parts.
const LARGE: usize = (3 << 20) + 5;

/// Makes so many small files, one large and one with an odd name.
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

fn zerohop(arguments: &[&OsStr]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zerohop")).args(arguments).output().unwrap()
}

fn demo(dir: &Path, more: &[&str]) -> Output {
    let more = more.iter().map(OsStr::new);
    zerohop(&["demo".as_ref(), dir.as_os_str()].into_iter().chain(more).collect::<Vec<_>>())
}

fn report(dir: &Path, more: &[&str]) -> Value {
    let output = demo(dir, &[more, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing beside the report");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_report_tells_what_was_there_and_that_the_child_was_killed() {
    let root = tempfile::tempdir().unwrap();
    make_files(root.path(), 60);
    let report = report(root.path(), &[]);
    let small: usize = (0..60).map(|n| n * format!("file {n} ").len()).sum();
    assert_eq!(report["ok"], true);
    assert_eq!(report["killed"], true);
    assert_eq!(report["files"], 62);
    assert_eq!(report["bytes"], LARGE + small + 3);
    assert_eq!(report["read_whole"], 62);
    assert_eq!((&report["skipped_folders"], &report["unreadable"]), (&1.into(), &0.into()));
    let acknowledged = report["acknowledged"].as_u64().unwrap();
    assert!((31..=62).contains(&acknowledged), "{acknowledged}");
    assert_eq!(report["verified"], acknowledged);
    assert_eq!(report["faulty"], 0);
    assert_eq!(report["data"], Value::Null);
}

#[test]
fn what_was_acknowledged_is_whole_whenever_the_child_is_killed() {
    let root = tempfile::tempdir().unwrap();
    make_files(root.path(), 300);
    for round in 0..10 {
        let kill_after = 1 + round * 271 % 300;
        let report = report(root.path(), &["--kill-after", &kill_after.to_string()]);
        assert!(report["acknowledged"].as_u64().unwrap() >= kill_after, "{report}");
        assert_eq!(report["verified"], report["acknowledged"]);
    }
}

#[test]
fn people_get_a_few_lines_and_no_progress_where_there_is_no_terminal() {
    let root = tempfile::tempdir().unwrap();
    make_files(root.path(), 5);
    let output = demo(root.path(), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("7 files, 3.1 MB below "), "{text}");
    assert!(text.contains("(1 folders skipped)"), "{text}");
    assert!(text.ends_with("Nothing that was acknowledged is lost.\n"), "{text}");
    assert_eq!((text.lines().count(), output.stderr.len()), (9, 0), "{text}");
}

#[test]
fn an_empty_folder_is_well_and_a_file_or_nothing_is_told() {
    let root = tempfile::tempdir().unwrap();
    let report = report(root.path(), &[]);
    assert_eq!((&report["files"], &report["acknowledged"]), (&0.into(), &0.into()));
    let file = root.path().join("file");
    std::fs::write(&file, "x").unwrap();
    for bad in [file, root.path().join("nothing")] {
        let output = demo(&bad, &[]);
        assert_eq!(output.status.code(), Some(3));
        assert!(String::from_utf8_lossy(&output.stderr).contains("name a folder"), "{output:?}");
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn data_stays_where_it_was_asked_for_and_is_not_stored_itself() {
    let root = tempfile::tempdir().unwrap();
    make_files(root.path(), 3);
    let data = root.path().join("data");
    let report = report(root.path(), &["--data", data.to_str().unwrap()]);
    assert_eq!((&report["files"], &report["skipped_folders"]), (&5.into(), &2.into()));
    assert_eq!(report["data"], data.to_str().unwrap());
    let store = zerohop::open(data.join("first")).unwrap();
    assert!(store.lookup("sub/folder/0002").unwrap().unwrap().ends_with(b"file 2 file 2 "));
    assert!(zerohop::open(data.join("killed")).unwrap().keys().count() >= 2);

    let again = demo(root.path(), &["--data", data.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not empty"), "{again:?}");
}

#[test]
fn the_temporary_folder_is_removed_unless_it_is_to_be_kept() {
    let root = tempfile::tempdir().unwrap();
    make_files(root.path(), 3);
    let temporary = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.arg("demo").arg(root.path()).args(more).env("TMPDIR", temporary.path());
        assert!(command.output().unwrap().status.success());
        std::fs::read_dir(temporary.path()).unwrap().count()
    };
    assert_eq!(run(&[]), 0);
    assert_eq!(run(&["--keep"]), 1);
}

#[test]
fn a_folder_that_another_process_has_open_is_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let work = root.path().join("work");
    let store = zerohop::open(work.join("killed")).unwrap();
    std::fs::write(work.join("files-to-store"), "").unwrap();
    let mut other = Command::new(env!("CARGO_BIN_EXE_zerohop"))
        .arg("demo-child")
        .args([root.path(), &work])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut said).unwrap();
    // Ends when nobody holds its standard input any more.
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
    assert!(said.starts_with("failed") && said.contains("another zerohop process"), "{said}");
    assert!(said.contains(work.join("killed").to_str().unwrap()), "{said}");
    store.insert("k", "v").unwrap();
}

#[test]
fn a_wrong_command_line_and_a_call_for_help_end_as_documented() {
    for (arguments, code) in [
        (&["demo", "--no-such-thing"][..], 2),
        (&["no-such-command"], 2),
        (&["--help"], 0),
        (&["demo", "--help"], 0),
        (&["--version"], 0),
    ] {
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        assert_eq!(zerohop(&arguments).status.code(), Some(code), "{arguments:?}");
    }
}
