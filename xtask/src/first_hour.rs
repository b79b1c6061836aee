//! `cargo xtask first-hour`: the guides of a new user, typed line by line on a pseudo-terminal.
//!
//! They are the three guides of five minutes and `docs/guide/first-hour.sh`, with the program of this tree
//! and its Python package. The test `guides` of the program plays one guide; this prints a row for each.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use crate::built_artifacts;
use crate::environment::{self, Set};
use crate::python;
use crate::workspace::{Failure, Workspace, cannot_start};

/// A guide, and the programs that it needs beside zerohop.
#[derive(Clone, Copy, Debug)]
struct Guide {
    path: &'static str,
    needs: &'static [&'static str],
}

const GUIDES: [Guide; 4] = [
    Guide { path: "docs/guide/start-python.md", needs: &["bash", "python3"] },
    Guide { path: "docs/guide/start-redis.md", needs: &["bash", "redis-cli"] },
    Guide { path: "docs/guide/start-cluster.md", needs: &["bash", "curl"] },
    Guide { path: "docs/guide/first-hour.sh", needs: &["bash", "python3"] },
];

/// The result of one guide.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GuideRow {
    path: &'static str,
    /// The number of commands, and seconds; `None`: it ended before its last command.
    played: Option<(usize, u64)>,
    /// The first command with another effect than the guide says, and the difference.
    difference: Option<String>,
}

/// Plays all guides, and prints a row for each.
pub fn run(workspace: &Workspace) -> Result<(), Failure> {
    environment::system(workspace)?;
    let kept = environment::install(workspace, Set::Test)?;
    built_artifacts::program(workspace)?;
    let python = python::install(workspace, &kept)?;
    let bin = python.parent().unwrap_or(Path::new("")).display();
    let path = format!("{bin}:{}", env::var("PATH").unwrap_or_default());
    for guide in GUIDES {
        missing(&guide, OsStr::new(&path))?;
    }
    let wheel = python::packed_wheel(workspace)?;
    let mut rows = Vec::new();
    for guide in GUIDES {
        println!("xtask: {} …", guide.path);
        let mut tests =
            built_artifacts::tests(workspace, "guides::guide_commands_give_the_documented_output");
        tests
            .env("ZEROHOP_GUIDES", guide.path)
            .env("ZEROHOP_GUIDES_ON_TERMINAL", "1")
            .env("ZEROHOP_WHEEL", &wheel)
            .env("RUST_TEST_NOCAPTURE", "1")
            .env("PATH", &path);
        let output = tests.stdin(Stdio::null()).output().map_err(|error| cannot_start(&tests, &error))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        rows.push(row(guide.path, output.status.success(), &text));
    }
    for row in &rows {
        print!("{}", line(row));
    }
    match rows.iter().filter(|row| row.difference.is_some()).count() {
        0 => Ok(()),
        failed => Err(Failure::new(format!(
            "{failed} of {} guides say what is not so, shown above: correct the guide or the program",
            rows.len()
        ))),
    }
}

/// Refuses a guide without one of its programs.
fn missing(guide: &Guide, path: &OsStr) -> Result<(), Failure> {
    let is_there = |program: &str| env::split_paths(path).any(|folder| folder.join(program).is_file());
    match guide.needs.iter().find(|program| !is_there(program)) {
        None => Ok(()),
        Some(program) => Err(Failure::new(format!(
            "{} needs `{program}`, which is not on the PATH: install it from the system's packages",
            guide.path
        ))),
    }
}

/// The row of a guide, from the output of the test that played it.
fn row(path: &'static str, is_ok: bool, output: &str) -> GuideRow {
    let played = output.lines().find_map(|line| {
        let (commands, seconds) = line.strip_prefix(path)?.strip_prefix(": ")?.split_once(" commands in ")?;
        Some((commands.parse().ok()?, seconds.strip_suffix(" s")?.parse().ok()?))
    });
    let difference = match (is_ok, played) {
        (true, Some(_)) => None,
        (true, None) => Some("it was not played: the test is not there".to_owned()),
        (false, _) => Some(first_difference(path, output)),
    };
    GuideRow { path, played, difference }
}

/// The message of the test about the guide, else all of its output.
fn first_difference(path: &str, output: &str) -> String {
    let begin = format!("{path}, line ");
    let Some(at) = output.find(&begin) else { return output.trim_end().to_owned() };
    let is_message =
        |line: &&str| ["stack backtrace:", "note: run with"].iter().all(|end| !line.starts_with(end));
    output[at..].lines().take_while(is_message).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn line(row: &GuideRow) -> String {
    let verdict = row.difference.as_deref().unwrap_or("ok");
    match row.played {
        Some((commands, seconds)) => {
            format!("{:28} {commands:>3} commands {seconds:>4} s  {verdict}\n", row.path)
        }
        None => format!("{:28} FAILED  {verdict}\n", row.path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = "docs/guide/start-redis.md";

    #[test]
    fn guide_without_its_program_is_an_error_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let guide = Guide { path: GUIDE, needs: &["bash", "redis-cli"] };
        std::fs::write(folder.path().join("bash"), "").unwrap();
        let text = missing(&guide, folder.path().as_os_str()).unwrap_err().to_string();
        assert!(text.contains(GUIDE) && text.contains("`redis-cli`") && text.contains("install"), "{text}");
        std::fs::write(folder.path().join("redis-cli"), "").unwrap();
        missing(&guide, folder.path().as_os_str()).unwrap();
    }

    #[test]
    fn row_has_commands_seconds_and_first_difference() {
        let output = "docs/guide/start-redis.md\ndocs/guide/start-redis.md: 7 commands in 12 s\n";
        let ok = row(GUIDE, true, output);
        assert_eq!(line(&ok), "docs/guide/start-redis.md      7 commands   12 s  ok\n");
        let output = "thread 'x' panicked at a.rs:1:\ndocs/guide/start-redis.md, line 20: `get a`\nblue\n\
                      stack backtrace:\n 0: rust\n";
        let failed = row(GUIDE, false, output);
        assert_eq!(failed.difference.as_deref(), Some("docs/guide/start-redis.md, line 20: `get a`\nblue"));
        assert!(line(&failed).contains("FAILED  docs/guide/start-redis.md, line 20"));
    }

    #[test]
    fn guide_that_was_not_played_is_no_pass() {
        assert!(row(GUIDE, true, "0 passed; 400 filtered out\n").difference.is_some());
        assert_eq!(row(GUIDE, false, "error: no\n").difference.as_deref(), Some("error: no"));
    }

    #[test]
    fn guides_of_new_users_are_there() {
        let workspace = Workspace::find().unwrap();
        for guide in GUIDES {
            assert!(workspace.root.join(guide.path).is_file(), "{}", guide.path);
        }
    }
}
