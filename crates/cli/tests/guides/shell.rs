//! The shell in which a guide is played.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long a command may take: far longer than any does. Those that wait until copies are made anew wait for half a minute.
const PATIENCE: Duration = Duration::from_secs(240);

/// Printed behind each command, with how it ended.
const END: &str = "--- ended:";

pub(crate) struct Shell {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    folder: PathBuf,
    backgrounds: usize,
}

impl Shell {
    /// A shell in this folder, which is its home too, that finds the program.
    pub(crate) fn start(folder: &Path) -> Shell {
        let program = Path::new(env!("CARGO_BIN_EXE_zerohop")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = bash();
        command.args(["--noprofile", "--norc"]).current_dir(folder).env("HOME", folder).env("PATH", path);
        command.env(crate::programs::VARIABLE, std::env::current_exe().unwrap());
        for name in ["ZEROHOP_ENDPOINT", "ZEROHOP_SECRET_FILE", "ZEROHOP_TOKEN_FILE", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        // A group of its own, with all that it starts: so nothing is left behind.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (told, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| told.send(line)));
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"exec 2>&1\n").unwrap();
        let mut shell = Shell { child, input, lines, folder: folder.to_owned(), backgrounds: 0 };
        // Down in a new name space; where it is the machine's there is nothing to be done, nor permitted.
        drop(shell.run("ip link set lo up"));
        shell
    }

    /// Runs a command to its end: what it printed, and its exit code.
    pub(crate) fn run(&mut self, command: &str) -> (Vec<String>, i32) {
        // The line feed first: a command may end within a line.
        write!(self.input, "{command}\nprintf '\\n{END}%s\\n' \"$?\"\n").unwrap();
        let mut printed = Vec::new();
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
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

    /// Runs a server in the background, until it has printed so many lines (or says that it is ready, if none is asked for).
    pub(crate) fn background(&mut self, command: &str, lines: usize) -> Vec<String> {
        self.backgrounds += 1;
        let file = format!("background-{}", self.backgrounds);
        let command = command.split(" #").next().unwrap();
        let (_, code) = self.run(&format!(": > {file}; {command} > {file} 2>&1 &"));
        assert_eq!(code, 0);
        let started = Instant::now();
        loop {
            let mut text = String::new();
            std::fs::File::open(self.folder.join(&file)).unwrap().read_to_string(&mut text).unwrap();
            let printed: Vec<String> = text.lines().map(str::to_owned).collect();
            let is_ready = text.to_lowercase().contains("ready") || text.contains("serves");
            if printed.len() >= lines.max(1) && (is_ready || lines > 0) {
                return printed;
            }
            assert!(started.elapsed() < PATIENCE, "`{command}` is not ready; it printed {printed:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A shell with network interfaces of its own, if that is permitted.
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
        let group = Pid::from_child(&self.child);
        // Asked first, so that nodes end in order.
        let _ = kill_process_group(group, Signal::TERM);
        let started = Instant::now();
        while test_kill_process_group(group).is_ok() && started.elapsed() < Duration::from_secs(10) {
            drop(self.child.try_wait());
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(group, Signal::KILL);
        drop(self.child.wait());
    }
}
