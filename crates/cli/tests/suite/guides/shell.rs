//! The shell in which a guide runs.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::process::{Signal, kill_process_group};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::guides::screen;
use crate::support::process::RunningProcess;
use crate::support::terminal::PseudoTerminal;
use crate::support::{GIVE_UP_AFTER, report, wait_for};

/// Printed behind each command, with its exit code.
const END: &str = "--- ended:";

pub(crate) struct Shell {
    child: RunningProcess,
    input: Box<dyn Write>,
    lines: Receiver<String>,
    folder: PathBuf,
    backgrounds: usize,
    /// The terminals of the shell and of its servers; none if it reads a pipe.
    terminals: Vec<File>,
    is_python: bool,
}

impl Shell {
    /// Starts a shell in this folder, which is its home too, with the program in its path.
    pub(crate) fn start(folder: &Path) -> Shell {
        let mut command = prepared(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = RunningProcess::start(&mut command);
        let (sender, lines) = channel();
        pass_lines(child.stdout.take().unwrap(), sender);
        let input = Box::new(child.stdin.take().unwrap());
        let mut shell = Shell::with(folder, child, input, lines);
        shell.input.write_all(b"exec 2>&1\n").unwrap();
        shell.begin();
        shell
    }

    /// Starts a shell to which all commands are typed on a terminal.
    pub(crate) fn on_terminal(folder: &Path) -> Shell {
        let PseudoTerminal { controller, terminal, .. } = silent_terminal();
        let mut command = prepared(folder);
        // Its prompts would stand before the output.
        command.arg("--noediting").envs([("PS1", ""), ("PS2", ""), ("TERM", "xterm")]);
        let copy = || terminal.try_clone().unwrap();
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = RunningProcess::start(&mut command);
        let (sender, lines) = channel();
        pass_lines(controller.try_clone().unwrap(), sender);
        let mut shell = Shell::with(folder, child, Box::new(controller), lines);
        shell.terminals.push(terminal);
        shell.input.write_all(b"set +mH\n").unwrap();
        shell.begin();
        shell
    }

    fn with(folder: &Path, child: RunningProcess, input: Box<dyn Write>, lines: Receiver<String>) -> Shell {
        let folder = folder.to_owned();
        Shell { child, input, lines, folder, backgrounds: 0, terminals: Vec::new(), is_python: false }
    }

    /// In a new network namespace the loopback is down. In the machine's namespace the command
    /// fails, and nothing is to be done.
    fn begin(&mut self) {
        drop(self.run("ip link set lo up"));
    }

    /// Goes to Python's prompt, or back to the shell's.
    pub(crate) fn at_prompt_of_python(&mut self, is_python: bool) {
        let line = match (self.is_python, is_python) {
            // Isolated, it reads lines as they are, without an editor.
            (false, true) => "python3 -I -q\nimport sys; sys.ps1 = sys.ps2 = ''",
            (true, false) => "exit()",
            _ => return,
        };
        self.is_python = is_python;
        drop(self.run(line));
    }

    /// Runs a command to its end; returns its output and its exit code.
    pub(crate) fn run(&mut self, command: &str) -> (Vec<String>, i32) {
        // The line feed comes first, as the command's output may end within a line.
        let end = match self.is_python {
            true => format!("\nprint('\\n{END}0')"),
            false => format!("printf '\\n{END}%s\\n' \"$?\""),
        };
        writeln!(self.input, "{command}\n{end}").unwrap();
        let mut printed = String::new();
        let started = Instant::now();
        loop {
            let left = GIVE_UP_AFTER.saturating_sub(started.elapsed());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no end of `{command}`, which printed {printed:#?}")
            };
            if let Some(code) = line.trim_end().strip_prefix(END) {
                let mut printed = self.shown(&printed);
                while printed.last().is_some_and(String::is_empty) {
                    printed.pop();
                }
                return (printed, code.parse().unwrap());
            }
            printed.push_str(&line);
            printed.push('\n');
        }
    }

    fn shown(&self, printed: &str) -> Vec<String> {
        match self.terminals.is_empty() {
            true => printed.lines().map(str::to_owned).collect(),
            false => screen::shown(printed),
        }
    }

    /// Runs a server in the background, until it has printed this many lines (or reports that it is
    /// ready, if the number is zero). If the shell has a terminal, the server has another.
    pub(crate) fn background(&mut self, command: &str, lines: usize) -> Vec<String> {
        self.backgrounds += 1;
        let command = command.split(" #").next().unwrap();
        let (text, look): (String, Box<dyn Fn() -> String>) = if self.terminals.is_empty() {
            let file = self.folder.join(format!("background-{}", self.backgrounds));
            let shown = file.display();
            let text = format!(": > '{shown}'; {command} > '{shown}' 2>&1 &");
            (text, Box::new(move || std::fs::read_to_string(&file).unwrap()))
        } else {
            let PseudoTerminal { controller, terminal, path } = silent_terminal();
            self.terminals.push(terminal);
            let printed = Arc::new(Mutex::new(String::new()));
            let (sender, lines) = channel::<String>();
            pass_lines(controller, sender);
            std::thread::spawn({
                let printed = Arc::clone(&printed);
                move || lines.iter().for_each(|line| *printed.lock().unwrap() += &format!("{line}\n"))
            });
            let shown = path.display();
            let text = format!("{command} < {shown} > {shown} 2>&1 &");
            (text, Box::new(move || printed.lock().unwrap().clone()))
        };
        let (printed, code) = self.run(&text);
        assert_eq!(code, 0, "{printed:?}");
        let text = wait_for(&format!("`{command}` is ready"), look, |text| {
            let is_ready = text.to_lowercase().contains("ready") || text.contains("serves");
            text.lines().count() >= lines.max(1) && (is_ready || lines > 0)
        });
        self.shown(&text)
    }

    /// The processes of the shell's group that have not ended.
    fn group(&self) -> Vec<u32> {
        let all = std::fs::read_dir("/proc").unwrap();
        let all = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        all.filter(|one| report::is_of_group(*one, self.child.id())).collect()
    }
}

/// A shell in this folder. It has a process group of its own, so that all of its children can be ended.
fn prepared(folder: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_zerohop")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = bash();
    command.args(["--noprofile", "--norc"]).current_dir(folder).env("HOME", folder).env("PATH", path);
    command.env(crate::guides::programs::VARIABLE, std::env::current_exe().unwrap()).process_group(0);
    for name in ["ZEROHOP_ENDPOINT", "ZEROHOP_SECRET_FILE", "ZEROHOP_TOKEN_FILE", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    command
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

/// A terminal of the usual size that does not repeat what is typed.
fn silent_terminal() -> PseudoTerminal {
    let opened = PseudoTerminal::open();
    let mut modes = tcgetattr(&opened.terminal).unwrap();
    modes.local_modes -= LocalModes::ECHO;
    tcsetattr(&opened.terminal, OptionalActions::Now, &modes).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&opened.terminal, size).unwrap();
    opened
}

/// Passes on the lines, as long as they come. The end of a terminal is an error.
fn pass_lines(output: impl Read + Send + 'static, sender: Sender<String>) {
    std::thread::spawn(move || {
        let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
        lines.map(|line| String::from_utf8_lossy(&line).into_owned()).try_for_each(|line| sender.send(line))
    });
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = self.child.pid();
        // The group is asked first, so that nodes end cleanly. The shell is waited for only then,
        // so that no other group gets its number.
        let _ = kill_process_group(group, Signal::TERM);
        // With a terminal a shell does not end then.
        if !self.terminals.is_empty() {
            let _ = self.input.write_all(b"exit\n");
        }
        if !std::thread::panicking() {
            let left = std::panic::catch_unwind(AssertUnwindSafe(|| {
                wait_for("the end of all that the guide has started", || self.group(), Vec::is_empty);
            }));
            assert!(left.is_ok(), "processes of the guide outlive it: {:?}", self.group());
        }
        let _ = kill_process_group(group, Signal::KILL);
    }
}
