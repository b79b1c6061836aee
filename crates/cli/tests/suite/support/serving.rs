//! Clusters that live as long as a test, and the program with such a cluster as its endpoint.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::folder::{TestFolder, folder};
use super::patience::patient;
use super::process::RunningProcess;
use super::{report, wait_for};

/// The program with these arguments.
pub(crate) fn zerohop(arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
    // Variables of the user's environment must not affect the tests.
    command.args(patient(arguments)).env_remove("ZEROHOP_ENDPOINT").env("ZEROHOP_SECRET_FILE", "");
    for variable in ["ZEROHOP_TLS_CERT", "ZEROHOP_TLS_KEY", "ZEROHOP_TLS_CA", "ZEROHOP_TLS_CLIENT_CA"] {
        command.env_remove(variable);
    }
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command
}

/// A serving program; it ends with the test.
pub(crate) struct ServingProgram {
    process: RunningProcess,
    /// The line that it printed once it served.
    pub(crate) ready: Value,
    log: PathBuf,
    /// The folder of its log, unless the log is elsewhere.
    _folder: Option<TestFolder>,
}

impl ServingProgram {
    /// Starts `zerohop up` on free ports, with additional arguments.
    pub(crate) fn up(arguments: &[impl AsRef<OsStr>]) -> ServingProgram {
        let mut command = zerohop(&["up", "--nodes", "1", "--port", "0", "--json"]);
        command.args(arguments);
        ServingProgram::start(command)
    }

    /// Starts it with all data in memory.
    pub(crate) fn in_memory() -> ServingProgram {
        ServingProgram::up(&["--memory", "--instances", "2"])
    }

    pub(crate) fn start(command: Command) -> ServingProgram {
        let folder = folder();
        let log = folder.path().join("log");
        let mut serving = ServingProgram::start_with_log(command, &log);
        serving._folder = Some(folder);
        serving
    }

    /// Starts a program whose log the test reads.
    pub(crate) fn start_with_log(mut command: Command, log: &Path) -> ServingProgram {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(log).unwrap());
        let mut process = RunningProcess::start(&mut command);
        let line = process.first_line();
        let Ok(ready) = serde_json::from_str(&line) else {
            let log_bytes = std::fs::read(log).unwrap();
            panic!(
                "it did not serve: {line:?}, {}: {}",
                process.ended(),
                String::from_utf8_lossy(&log_bytes)
            );
        };
        ServingProgram { process, ready, log: log.to_owned(), _folder: None }
    }

    pub(crate) fn endpoint(&self) -> &str {
        self.ready["endpoint"].as_str().unwrap()
    }

    /// The process of its only node.
    pub(crate) fn node_pid(&self) -> Pid {
        pid(self.ready["nodes"][0]["pid"].as_u64().unwrap())
    }

    pub(crate) fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// The processes of its nodes, if it is not a node itself.
    fn nodes(&self) -> Vec<Pid> {
        let nodes = self.ready["nodes"].as_array().into_iter().flatten();
        nodes.filter_map(|node| node["pid"].as_u64()).map(pid).collect()
    }

    /// Runs the program with it as the endpoint.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Output {
        self.run_with(arguments, b"")
    }

    /// Runs the program with this standard input.
    pub(crate) fn run_with(&self, arguments: &[impl AsRef<OsStr>], input: &[u8]) -> Output {
        let mut command = zerohop(arguments);
        command.env("ZEROHOP_ENDPOINT", self.endpoint());
        output(command, input)
    }

    /// Runs the program, which must succeed, and returns its output.
    pub(crate) fn ok(&self, arguments: &[impl AsRef<OsStr>]) -> String {
        let output = self.run(arguments);
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{output:?}");
        stdout(&output)
    }

    /// Runs the program with `--json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Runs a command that prints a list: its lines of JSON as one array.
    pub(crate) fn list(&self, arguments: &[&str]) -> Value {
        let printed = self.ok(&[arguments, &["--json"]].concat());
        printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect()
    }

    /// Sends a signal, waits, and returns the exit code.
    pub(crate) fn end_with(mut self, signal: Signal) -> Option<i32> {
        kill_process(self.pid(), signal).unwrap();
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.process.ended().code()
    }
}

impl Drop for ServingProgram {
    fn drop(&mut self) {
        let own = ("the cluster".to_owned(), Some(self.process.id()), self.log.as_path());
        report::if_failed(std::iter::once(own), || {
            let mut status = zerohop(&["status", "--timeout", "10s"]);
            // For a single node, its manager.
            let manager = self.ready["manager"].as_str();
            status.env("ZEROHOP_ENDPOINT", manager.or(self.ready["endpoint"].as_str()).unwrap_or_default());
            status
        });
        // The program is asked first, so that its nodes end too; one that has ended needs no
        // signal.
        if self.process.try_wait().unwrap().is_none() {
            kill_process(self.pid(), Signal::TERM).unwrap();
        }
        if std::thread::panicking() {
            // It is killed when this function returns, and its nodes end with it; a node that the
            // test has stopped must be continued for that.
            self.nodes().into_iter().for_each(|node| {
                let _ = kill_process(node, Signal::CONT);
            });
            return;
        }
        self.process.ended();
        self.nodes().into_iter().for_each(wait_until_exited);
    }
}

/// Runs a command to its end.
pub(crate) fn output(mut command: Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that ends without reading all of its input is no failure of the test.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// Waits until the process does not exist.
pub(crate) fn wait_until_exited(pid: Pid) {
    wait_for(&format!("the end of process {pid:?}"), || report::is_alive(pid), |is_alive| !is_alive);
}

pub(crate) fn pid(number: u64) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
