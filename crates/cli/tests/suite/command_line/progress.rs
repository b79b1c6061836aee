//! The progress of `zerohop backup`, `restore` and `verify` after the first second, and of
//! `doctor`: shown on a terminal, and nowhere else.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::serving::{ServingProgram, code, stdout};
use crate::support::terminal::TerminalProgram;
use crate::support::wait_for;

/// The sequence that returns to the beginning of a line and clears it.
const AGAIN: &str = "\r\u{1b}[K";

/// On a terminal the log of a node has only its own lines, with coloured levels, and no other
/// output.
#[test]
fn node_start_writes_only_own_text_to_terminal() {
    let other = ServingProgram::in_memory();
    let node = TerminalProgram::start(
        &other,
        &["node", "--memory", "--listen", "127.0.0.1:0", "--log-level", "info"],
    );
    let is_over = |screen: &String| screen.contains("ready_after_ms") || screen.contains("panicked");
    wait_for("the node is ready", || node.output(), is_over);
    node.signal(Signal::TERM);
    let (screen, _, output) = node.end();
    assert_eq!(code(&output), 0, "{screen}");
    let has_level = |line: &str| [" INFO", " WARN"].iter().any(|level| line.contains(level));
    assert!(screen.lines().filter(|line| !line.trim().is_empty()).all(has_level), "{screen}");
    assert!(screen.contains("\u{1b}[32m INFO"), "levels are in colour: {screen:?}");
}

/// The expected output of one run.
struct ProgramRun<'w> {
    arguments: &'w [&'w str],
    /// The beginnings of progress lines, each of which must occur.
    progress_lines: &'w [&'w str],
    /// Whether they have a total.
    totals: bool,
    /// The final output.
    final_output: &'w str,
}

/// A slowed program shows its progress on a terminal, and none without a terminal.
fn check_progress(
    cluster: &ServingProgram,
    ProgramRun { arguments, progress_lines: tells, totals, final_output: says }: &ProgramRun<'_>,
) {
    let mut slow = TerminalProgram::start(cluster, arguments);
    slow.slow_until(tells);
    let (screen, took, output) = slow.end();
    assert_eq!(code(&output), 0, "{arguments:?}: {screen:?} {output:?}");
    assert!(took > Duration::from_secs(1), "{arguments:?}: {took:?}, slowed down too little");
    let lines: Vec<&str> = screen.split(AGAIN).collect();
    let (first, lines) = lines.split_first().unwrap();
    let (last, lines) = lines.split_last().unwrap();
    assert_eq!((*first, *last), ("", ""), "{arguments:?}: the line is cleared at the end: {screen:?}");
    assert!(tells.iter().all(|text| screen.contains(text)), "{arguments:?}: progress is missing: {screen:?}");
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let rest = tells.iter().find_map(|begin| line.strip_prefix(begin));
        let words: Vec<&str> = rest.unwrap_or_default().split(' ').collect();
        // `12, 34 MB, 5 MB/s`, or with a total `12 of 40 (30 %), 34 MB, 5 MB/s, 12 s left`, or `34 of 40 MB (85 %), 5 MB/s, 2 s left`
        let has_total = matches!(words[..], [_, "of", _, ..]) && line.contains(" %), ");
        let has_none = matches!(words[..], [_, _, _, _, "MB/s"]) && words[0].ends_with(',');
        assert!(if *totals { has_total } else { has_none }, "{line:?} in {screen:?}");
    }
    assert!(stdout(&output).contains(says), "{output:?}");
    assert!(!stdout(&output).contains(AGAIN), "{output:?}");
}

fn write_records(cluster: &ServingProgram) {
    let large = vec![7; 1 << 20];
    for n in 0..40 {
        assert_eq!(code(&cluster.run_with(&["blob", "put", &format!("large-{n}")], &large)), 0);
    }
}

#[test]
fn backup_commands_print_progress_only_on_a_terminal() {
    let folder = crate::support::folder();
    let [slow, quick] = ["slow", "quick"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let cluster = ServingProgram::in_memory();
    write_records(&cluster);
    let works = [
        ProgramRun {
            arguments: &["backup", &slow],
            progress_lines: &["backed up "],
            totals: false,
            final_output: "records and blobs",
        },
        ProgramRun {
            arguments: &["verify", &slow],
            progress_lines: &["checked files: "],
            totals: true,
            final_output: "intact",
        },
        ProgramRun {
            arguments: &["verify"],
            progress_lines: &["read "],
            totals: false,
            final_output: "all was read",
        },
        ProgramRun {
            arguments: &["restore", &slow, "--overwrite"],
            progress_lines: &["checked files: ", "restored "],
            totals: true,
            final_output: "records and blobs",
        },
    ];
    for work in &works {
        check_progress(&cluster, work);
        // Without a terminal there is no progress: `ok` requires an empty standard error.
        let arguments: Vec<&str> = work.arguments.to_vec();
        let again = if arguments[0] == "backup" { vec!["backup", &quick] } else { arguments };
        let printed = cluster.ok(&again);
        assert!(printed.contains(work.final_output) && !printed.contains('\u{1b}'), "{printed:?}");
    }
}

#[test]
fn blob_progress_has_total_percent_and_time_left() {
    let folder = crate::support::folder();
    let [file, got] = ["file", "got"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    std::fs::write(&file, vec![7; 40_000_000]).unwrap();
    let cluster = ServingProgram::in_memory();
    for (arguments, words) in
        [(["blob", "put", "b", &file], "stored: "), (["blob", "get", "b", &got], "read: ")]
    {
        let mut slow = TerminalProgram::start(&cluster, &arguments);
        slow.slow_until(&[words, " of 40 MB (", " left"]);
        let (screen, took, output) = slow.end();
        assert_eq!(code(&output), 0, "{screen:?} {output:?}");
        let lines: Vec<&str> = screen.split(AGAIN).filter(|line| !line.is_empty()).collect();
        let has_all = |line: &&str| {
            let rest = line.strip_prefix(words).and_then(|rest| rest.split_once(" of 40 MB ("));
            rest.and_then(|(_, rest)| rest.split_once(" %), "))
                .is_some_and(|(_, rest)| rest.contains(" MB/s"))
        };
        assert!(!lines.is_empty() && lines.iter().all(has_all), "{took:?}: {screen:?}");
    }
    assert!(std::fs::read(&file).unwrap() == std::fs::read(&got).unwrap(), "other bytes");
}

#[test]
fn fast_command_shows_no_progress() {
    let folder = crate::support::folder();
    let path = folder.path().join("backup").to_str().unwrap().to_owned();
    let cluster = ServingProgram::in_memory();
    cluster.ok(&["kv", "insert", "colour", "blue"]);
    for arguments in
        [&["backup", &path][..], &["verify", &path], &["verify"], &["restore", &path, "--overwrite"]]
    {
        let (screen, took, output) = TerminalProgram::start(&cluster, arguments).end();
        assert_eq!(code(&output), 0, "{output:?}");
        let is_clear = screen.replace(AGAIN, "").is_empty();
        assert!(is_clear || took > Duration::from_secs(1), "{arguments:?}, within {took:?}: {screen:?}");
    }
}

#[test]
fn interruption_is_reported_on_its_own_line() {
    let folder = crate::support::folder();
    let [half, whole] = ["half", "whole"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let cluster = ServingProgram::in_memory();
    write_records(&cluster);
    cluster.ok(&["backup", &whole]);
    let removed = "zerohop: interrupted; what was written of the backup is removed".to_owned();
    let restore = ["restore", "--timeout", "9m", "--as", "copy", "-k", "default", &whole, "--overwrite"];
    let again = format!(
        "zerohop: interrupted; keyspaces may be half restored: the same `zerohop restore --timeout 9m --as copy -k default {whole} \
         --overwrite` again makes them whole"
    );
    for (arguments, tells, printed) in
        [(&["backup", &half][..], "backed up ", removed), (&restore, "restored ", again)]
    {
        let mut slow = TerminalProgram::start(&cluster, arguments);
        slow.slow_until(&[tells]);
        // Unlike SIGINT, it is not ignored in background jobs.
        slow.signal(Signal::TERM);
        let (screen, _, output) = slow.end();
        assert_eq!(code(&output), 130, "{screen:?} {output:?}");
        assert!(screen.ends_with(&format!("{AGAIN}{printed}\r\n")), "{screen:?}");
    }
    assert!(!Path::new(&half).exists(), "something is left of it");
    // A check has changed nothing.
    for (arguments, tells) in
        [(&restore[..], "checked files: "), (&["verify", &whole], "checked files: "), (&["verify"], "read ")]
    {
        let mut slow = TerminalProgram::start(&cluster, arguments);
        slow.slow_until(&[tells]);
        slow.signal(Signal::TERM);
        let (screen, _, output) = slow.end();
        assert_eq!(output.status.code(), Some(130), "{arguments:?}: {screen:?} {output:?}");
        let printed = format!("{AGAIN}zerohop: interrupted; nothing was changed\r\n");
        assert!(screen.ends_with(&printed), "{arguments:?}: {screen:?}");
    }
}

#[test]
fn doctor_progress_is_printed_on_terminal_and_erased() {
    let cluster = ServingProgram::in_memory();
    let (screen, _, output) = TerminalProgram::start(&cluster, &["doctor"]).end();
    assert!(stdout(&output).contains("clock"), "{output:?}");
    let lines = ["asking the cluster", "asking 1 node for problems", "asking 1 node for health", ""];
    let shown: Vec<&str> = screen.split(AGAIN).skip(1).collect();
    assert!(
        shown.len() == lines.len() && shown.iter().zip(lines).all(|(shown, line)| shown.starts_with(line)),
        "{screen:?}"
    );
    assert_eq!(shown.last(), Some(&""), "nothing is left of it");
}
