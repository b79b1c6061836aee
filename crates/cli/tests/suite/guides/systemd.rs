//! The unit of `docs/guide/systemd.md`, started as by systemd: its command line, its environment,
//! its signal. The functions of systemd itself (restarts, lingering, the journal) are not tested.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Signal, kill_process};

use crate::guides::root;
use crate::support::ports::ports;
use crate::support::process::RunningProcess;

/// The unit of the guide: the lines of the block that begins with its name.
fn systemd_unit() -> Vec<String> {
    let guide = std::fs::read_to_string(root().join("docs/guide/systemd.md")).unwrap();
    let mut lines = guide.lines().skip_while(|line| *line != "# ~/.config/systemd/user/zerohop.service");
    assert!(lines.next().is_some(), "the guide has no unit");
    lines.take_while(|line| !line.starts_with("```")).map(str::to_owned).collect()
}

fn setting(unit: &[String], name: &str) -> String {
    let found = unit.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("the unit says no {name}: {unit:#?}")).to_owned()
}

#[test]
fn guide_unit_starts_node_that_stops_cleanly_and_restarts() {
    let unit = systemd_unit();
    let home = crate::support::folder();
    let bin = home.path().join(".local/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zerohop"), bin.join("zerohop")).unwrap();
    let program = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        command
    };
    let zerohop = bin.join("zerohop").display().to_string();
    let secret = home.path().join(".config/zerohop/secret").display().to_string();
    std::fs::create_dir_all(home.path().join(".config/zerohop")).unwrap();
    assert!(program(&[&zerohop, "secret", "new", &secret]).status().unwrap().success());
    // One host of this machine instead of three; the rest is unchanged.
    let free = format!("127.0.0.1:{}", ports(20));
    let line = setting(&unit, "ExecStart").replace("%h", &home.path().display().to_string());
    assert!(line.contains("node[1-3]:7400"), "{line}");
    let line = line.replace("node[1-3]:7400", &free);
    let words: Vec<&str> = line.split_whitespace().collect();
    let stop_within: u64 = setting(&unit, "TimeoutStopSec").parse().unwrap();
    assert!(stop_within > 0);
    assert_eq!(setting(&unit, "Restart"), "on-failure");
    // A clean shutdown is no failure. A kill is one, so that systemd restarts the node, which then
    // finds its data.
    for (signal, is_failure) in [(Signal::TERM, false), (Signal::KILL, true), (Signal::TERM, false)] {
        let mut command = program(&words);
        let log = home.path().join("log");
        let errors = std::fs::File::create(&log).unwrap();
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = RunningProcess::start(&mut command);
        // The node prints its endpoint once it serves.
        let ready = child.first_line();
        let status = program(&[&zerohop, "status", "--endpoint", &free]).output().unwrap();
        let log = std::fs::read_to_string(log).unwrap();
        assert!(status.status.success(), "`{line}` says {ready:?}: {log}{status:?}");
        kill_process(child.pid(), signal).unwrap();
        assert_eq!(!child.ended().success(), is_failure);
    }
    assert!(home.path().join("zerohop-data/node").is_dir(), "its data is where the unit says");
    // With an unusable folder the node ends at once, with an exit code that says so.
    let lock = words.iter().map(|word| match *word {
        data if data.ends_with("zerohop-data") => format!("{data}/node/member"),
        other => other.to_owned(),
    });
    let lock: Vec<String> = lock.collect();
    let refused = program(&lock.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
}

#[test]
fn guide_unit_passes_systemd_verification() {
    let unit = systemd_unit();
    for section in ["[Unit]", "[Service]", "[Install]"] {
        assert!(unit.iter().any(|line| line == section), "{section}: {unit:#?}");
    }
    let folder = crate::support::folder();
    let path = folder.path().join("zerohop.service");
    // The program is at the path of this test run.
    let text = unit.join("\n").replace("%h/.local/bin/zerohop", env!("CARGO_BIN_EXE_zerohop"));
    std::fs::write(&path, text).unwrap();
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output() {
        Ok(verified) => {
            let words = String::from_utf8_lossy(&verified.stderr).into_owned();
            let is_of_unit = |line: &&str| line.contains("zerohop.service");
            let wrong: Vec<&str> = words.lines().filter(is_of_unit).collect();
            assert!(wrong.is_empty(), "{wrong:#?}");
        }
        Err(_) => eprintln!("systemd: not asked about the unit, as systemd-analyze is not here"),
    }
}
