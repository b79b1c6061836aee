//! The shell in which a guide runs.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::process::{Signal, kill_process_group};

use crate::support::process::RunningProcess;
use crate::support::{GIVE_UP_AFTER, report, wait_for};

/// Printed behind each command, with its exit code.
const END: &str = "--- ended:";

pub(crate) struct Shell {
    child: RunningProcess,
    input: ChildStdin,
    lines: Receiver<String>,
    folder: PathBuf,
    backgrounds: usize,
}

impl Shell {
    /// Starts a shell in this folder, which is its home too, with the program in its path.
    pub(crate) fn start(folder: &Path) -> Shell {
        let program = Path::new(env!("CARGO_BIN_EXE_zerohop")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = bash();
        command.args(["--noprofile", "--norc"]).current_dir(folder).env("HOME", folder).env("PATH", path);
        command.env(crate::guides::programs::VARIABLE, std::env::current_exe().unwrap());
        for name in ["ZEROHOP_ENDPOINT", "ZEROHOP_SECRET_FILE", "ZEROHOP_TOKEN_FILE", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        // The shell has a process group of its own, so that all of its children can be ended.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = RunningProcess::start(&mut command);
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"exec 2>&1\n").unwrap();
        let mut shell = Shell { child, input, lines, folder: folder.to_owned(), backgrounds: 0 };
        // In a new network namespace the loopback is down. In the machine's namespace the command
        // fails, and nothing is to be done.
        drop(shell.run("ip link set lo up"));
        shell
    }

    /// Runs a command to its end; returns its output and its exit code.
    pub(crate) fn run(&mut self, command: &str) -> (Vec<String>, i32) {
        // The line feed comes first, as the command's output may end within a line.
        write!(self.input, "{command}\nprintf '\\n{END}%s\\n' \"$?\"\n").unwrap();
        let mut printed = Vec::new();
        let started = Instant::now();
        loop {
            let left = GIVE_UP_AFTER.saturating_sub(started.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no end of `{command}`, which printed {printed:#?}")
            };
            if let Some(code) = line.strip_prefix(END) {
                while printed.last().is_some_and(String::is_empty) {
                    printed.pop();
                }
                return (printed, code.parse().unwrap());
            }
            printed.push(line);
        }
    }

    /// Runs a server in the background, until it has printed this many lines (or reports that it is
    /// ready, if the number is zero).
    pub(crate) fn background(&mut self, command: &str, lines: usize) -> Vec<String> {
        self.backgrounds += 1;
        let file = format!("background-{}", self.backgrounds);
        let command = command.split(" #").next().unwrap();
        let (_, code) = self.run(&format!(": > {file}; {command} > {file} 2>&1 &"));
        assert_eq!(code, 0);
        let look = || std::fs::read_to_string(self.folder.join(&file)).unwrap();
        let text = wait_for(&format!("`{command}` is ready"), look, |text| {
            let is_ready = text.to_lowercase().contains("ready") || text.contains("serves");
            text.lines().count() >= lines.max(1) && (is_ready || lines > 0)
        });
        text.lines().map(str::to_owned).collect()
    }

    /// The processes of the shell's group that have not ended.
    fn group(&self) -> Vec<u32> {
        let all = std::fs::read_dir("/proc").unwrap();
        let all = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        all.filter(|one| report::is_of_group(*one, self.child.id())).collect()
    }
}

/// A shell with its own network namespace, if that is permitted.
fn bash() -> Command {
    for own in [["--net", "--"].as_slice(), &["--net", "--map-root-user", "--"]] {
        let tried = Command::new("unshare").args(own).arg("true").stderr(Stdio::null()).status();
        if tried.is_ok_and(|status| status.success()) {
            let mut command = Command::new("unshare");
            command.args(own).arg("bash");
            return command;
        }
    }
    Command::new("bash")
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = self.child.pid();
        // The group is asked first, so that nodes end cleanly. The shell is waited for only then,
        // so that no other group gets its number.
        let _ = kill_process_group(group, Signal::TERM);
        if !std::thread::panicking() {
            let left = std::panic::catch_unwind(AssertUnwindSafe(|| {
                wait_for("the end of all that the guide has started", || self.group(), Vec::is_empty);
            }));
            assert!(left.is_ok(), "processes of the guide outlive it: {:?}", self.group());
        }
        let _ = kill_process_group(group, Signal::KILL);
    }
}
