//! The node that is killed.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::PATIENCE;
use crate::values::random;

/// Instances of the node.
const INSTANCES: u16 = 2;

pub(crate) struct Node {
    port: u16,
    data: PathBuf,
    child: Option<Child>,
    output: Option<ChildStdout>,
}

/// A split that was asked for; the asking ends with it.
pub(crate) struct Split(Child);

impl Node {
    /// Starts one at ports that it keeps through all kills, below those that outgoing connections are given.
    pub(crate) async fn start(folder: &Path) -> Node {
        let is_free = |port: &u16| {
            (0..=INSTANCES).all(|behind| TcpListener::bind(("127.0.0.1", port + behind)).is_ok())
        };
        let first = random(u64::from(std::process::id()), 0) % 4000;
        let port = (0..200).map(|step| 10_000 + (first as u16 + step * 3) % 9000).find(is_free).unwrap();
        let mut node = Node { port, data: folder.join("data"), child: None, output: None };
        node.spawn();
        node.ready().await;
        node
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn spawn(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["node", "--json", "--log-level", "error", "--listen", &self.endpoint()]);
        command.args(["--instances", &INSTANCES.to_string(), "--data"]).arg(&self.data);
        command.args(["--ends-with-parent", &std::process::id().to_string()]);
        command.env("ZEROHOP_TEST_DISK", "hold-unsynced").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        self.output = child.stdout.take();
        self.child = Some(child);
    }

    /// Waits until it serves, away from the thread on which the clients run.
    pub(crate) async fn ready(&mut self) {
        let output = self.output.take().unwrap();
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).unwrap();
            line
        });
        let line = tokio::time::timeout(PATIENCE, read).await.expect("the node does not start").unwrap();
        assert!(line.contains("\"manager\""), "the node did not start: {line:?}");
    }

    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// At the end it must still be able to stop as it should.
    pub(crate) fn stop_in_order(mut self) {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < PATIENCE, "the node does not stop");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }

    /// Has a keyspace split, and does not wait for it.
    pub(crate) fn split_keyspace(&self, name: &str) -> Split {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["keyspace", "split", name]).stdout(Stdio::null()).stderr(Stdio::null());
        Split(command.env("ZEROHOP_ENDPOINT", self.endpoint()).spawn().unwrap())
    }

    pub(crate) fn create_keyspace(&self, name: &str, durability: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["keyspace", "create", name, "--partitions", "16", "--durability", durability]);
        let output = command.env("ZEROHOP_ENDPOINT", self.endpoint()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Drop for Split {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
