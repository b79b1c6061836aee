//! Clusters that live as long as a test, and the program run against them.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

/// How long anything here may take before the test fails: far longer than it does, also on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program with these arguments.
pub(crate) fn zerohop(arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
    // What whoever runs the tests has set is not for them.
    command.args(arguments).env_remove("ZEROHOP_ENDPOINT").env("ZEROHOP_SECRET_FILE", "");
    for variable in ["ZEROHOP_TLS_CERT", "ZEROHOP_TLS_KEY", "ZEROHOP_TLS_CA"] {
        command.env_remove(variable);
    }
    command
}

/// A program that serves; ended with the test.
pub(crate) struct Serving {
    child: Child,
    /// What it said once it served.
    pub(crate) ready: Value,
}

impl Serving {
    /// Starts `zerohop up` at free ports, with these arguments too.
    pub(crate) fn up(arguments: &[impl AsRef<OsStr>]) -> Serving {
        let mut command = zerohop(&["up", "--nodes", "1", "--port", "0", "--json"]);
        command.args(arguments);
        Serving::start(command)
    }

    /// With all data in memory.
    pub(crate) fn in_memory() -> Serving {
        Serving::up(&["--memory", "--instances", "2"])
    }

    pub(crate) fn start(mut command: Command) -> Serving {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(ready) = serde_json::from_str(&line) else {
            panic!("it did not serve: {line:?}, {:?}", child.wait());
        };
        Serving { child, ready }
    }

    pub(crate) fn endpoint(&self) -> &str {
        self.ready["endpoint"].as_str().unwrap()
    }

    /// The process of its only node.
    pub(crate) fn node_pid(&self) -> Pid {
        pid(self.ready["nodes"][0]["pid"].as_u64().unwrap())
    }

    pub(crate) fn pid(&self) -> Pid {
        pid(u64::from(self.child.id()))
    }

    /// Runs the program against it.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Output {
        self.run_with(arguments, b"")
    }

    /// The same, with this as standard input.
    pub(crate) fn run_with(&self, arguments: &[impl AsRef<OsStr>], input: &[u8]) -> Output {
        let mut command = zerohop(arguments);
        command.env("ZEROHOP_ENDPOINT", self.endpoint());
        output(command, input)
    }

    /// Runs the program, which must end well, and returns what it printed.
    pub(crate) fn ok(&self, arguments: &[impl AsRef<OsStr>]) -> String {
        let output = self.run(arguments);
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{output:?}");
        stdout(&output)
    }

    /// The same with `--json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// Sends a signal, waits, and returns the exit code.
    pub(crate) fn end_with(mut self, signal: Signal) -> Option<i32> {
        kill_process(self.pid(), signal).unwrap();
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Asked first, so that its nodes end too; whoever has ended needs no asking.
        let _ = kill_process(self.pid(), Signal::TERM);
        let started = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if started.elapsed() > PATIENCE {
                self.child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Runs a command to its end.
pub(crate) fn output(mut command: Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that ends without reading it all is no failure of the test.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// Waits until there is no such process.
pub(crate) fn wait_until_gone(pid: Pid) {
    let started = Instant::now();
    while test_kill_process(pid).is_ok() && !is_zombie(pid) {
        assert!(started.elapsed() < PATIENCE, "process {pid:?} was left behind");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ended, but nobody has asked how: who took the orphan over may never ask.
fn is_zombie(pid: Pid) -> bool {
    let mut status = String::new();
    let opened = std::fs::File::open(format!("/proc/{}/status", pid.as_raw_nonzero()));
    opened.and_then(|mut file| file.read_to_string(&mut status)).is_ok() && status.contains("State:\tZ")
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
