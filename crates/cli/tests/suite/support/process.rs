//! Processes that a test has started: each is ended by its handle, and none outlives it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{GIVE_UP_AFTER, wait_for};

/// A process that is killed with its handle, unless it has ended.
#[derive(Debug)]
pub(crate) struct RunningProcess(Child);

impl RunningProcess {
    pub(crate) fn start(command: &mut Command) -> RunningProcess {
        RunningProcess(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Waits until it has ended, by itself or on request.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait_for(
            &format!("the end of process {}", self.0.id()),
            || self.0.try_wait().unwrap(),
            Option::is_some,
        )
        .unwrap()
    }

    /// Waits for its end; returns its status with the output in its remaining pipes.
    pub(crate) fn output(mut self) -> Output {
        drop(self.0.stdin.take());
        let all = |pipe: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                pipe.map(|mut pipe| pipe.read_to_end(&mut bytes).unwrap());
                bytes
            })
        };
        let stdout = all(self.0.stdout.take().map(|pipe| Box::new(pipe) as _));
        let stderr = all(self.0.stderr.take().map(|pipe| Box::new(pipe) as _));
        Output { status: self.ended(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
    }

    /// The first line of its output. Empty: it has ended.
    pub(crate) fn first_line(&mut self) -> String {
        let output = self.0.stdout.take().expect("its output is taken once");
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            drop(BufReader::new(output).read_line(&mut line));
            drop(sender.send(line));
        });
        receiver.recv_timeout(GIVE_UP_AFTER).expect("a process neither says that it serves nor ends")
    }
}

impl Deref for RunningProcess {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for RunningProcess {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // If it has ended and was waited for, this does nothing.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Stops a process with SIGSTOP, and waits until each of its threads has stopped.
///
/// The signal is sent before the threads see it: on a busy machine one of them could go on, and
/// answer one more request.
pub(crate) fn pause(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
    let running = || -> Vec<String> {
        let tasks = std::fs::read_dir(&tasks).unwrap().map(|task| task.unwrap().path().join("stat"));
        // A thread that has ended since has no file.
        let states = tasks.filter_map(|stat| std::fs::read_to_string(stat).ok());
        states.filter(|stat| !state_in(stat).is_some_and(|state| matches!(state, "T" | "t" | "Z"))).collect()
    };
    wait_for("all threads of the process stop", running, Vec::is_empty);
}

/// The state in a line of `/proc/PID/stat`: it follows the name, which may contain anything.
fn state_in(stat: &str) -> Option<&str> {
    stat.rsplit(')').next()?.split_whitespace().next()
}

/// A node.
#[derive(Debug)]
pub(crate) struct NodeProcess(RunningProcess);

impl NodeProcess {
    /// Starts a node, whose log is appended to a file.
    pub(crate) fn start(mut command: Command, log: &Path) -> NodeProcess {
        let log = File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        NodeProcess(RunningProcess::start(&mut command))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it reports that it serves.
    pub(crate) fn ready(&mut self) -> Value {
        let line = self.0.first_line();
        let ready_line = serde_json::from_str(&line).ok();
        ready_line
            .filter(|ready_line: &Value| ready_line["manager"].is_string())
            .unwrap_or_else(|| panic!("the node did not start: {line:?}"))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.0.pid(), signal).unwrap();
    }

    /// Stops it with SIGSTOP, or continues it.
    pub(crate) fn pause(&self, is_paused: bool) {
        if is_paused { pause(self.0.pid()) } else { self.signal(Signal::CONT) }
    }

    /// Kills all running nodes at once, and then waits until each has ended.
    pub(crate) fn kill<'n>(nodes: impl IntoIterator<Item = &'n mut Option<NodeProcess>>) {
        let mut nodes: Vec<&mut Option<NodeProcess>> = nodes.into_iter().collect();
        running(&mut nodes).for_each(|node| node.0.kill().unwrap());
        for node in running(&mut nodes) {
            let ended = node.0.ended();
            assert!(!ended.success(), "process {} ended before it was killed: {ended}", node.id());
        }
        nodes.into_iter().for_each(|node| *node = None);
    }

    /// Asks all running nodes to end at once, and waits; each must end with success.
    pub(crate) fn stop<'n>(nodes: impl IntoIterator<Item = &'n mut Option<NodeProcess>>, signal: Signal) {
        let mut nodes: Vec<&mut Option<NodeProcess>> = nodes.into_iter().collect();
        running(&mut nodes).for_each(|node| node.signal(signal));
        for node in running(&mut nodes) {
            let ended = node.0.ended();
            assert_eq!(ended.code(), Some(0), "process {}, which was asked to stop: {ended}", node.id());
        }
        nodes.into_iter().for_each(|node| *node = None);
    }
}

fn running<'n>(nodes: &'n mut [&mut Option<NodeProcess>]) -> impl Iterator<Item = &'n mut NodeProcess> {
    nodes.iter_mut().filter_map(|node| node.as_mut())
}

/// The log file of a node.
pub(crate) fn log_of(folder: &Path, node: usize) -> PathBuf {
    folder.join(format!("node-{node}.log"))
}
