//! The node that is killed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::ports::ports;
use crate::support::process::{self, RunningProcess, log_of};
use crate::support::report;

/// Instances of the node.
const INSTANCES: u16 = 2;

pub(crate) struct KilledNode {
    port: u16,
    folder: PathBuf,
    process: Option<process::NodeProcess>,
}

/// A requested split; dropping this ends the request.
pub(crate) struct Split(#[expect(dead_code, reason = "it is held")] RunningProcess);

impl KilledNode {
    /// Starts a node on ports that it keeps through all kills.
    pub(crate) async fn start(folder: &Path) -> KilledNode {
        let mut node = KilledNode { port: ports(1 + INSTANCES), folder: folder.to_owned(), process: None };
        node.spawn();
        node.ready().await;
        node
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn spawn(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["node", "--json", "--log-level", "info", "--listen", &self.endpoint()]);
        command.args(["--instances", &INSTANCES.to_string(), "--data"]).arg(self.folder.join("data"));
        command.args(["--ends-with-parent", &std::process::id().to_string()]);
        command.env("ZEROHOP_TEST_DISK", "hold-unsynced");
        self.process = Some(process::NodeProcess::start(command, &log_of(&self.folder, 0)));
    }

    /// Waits until it serves, on another thread than the clients'.
    pub(crate) async fn ready(&mut self) {
        let mut node = self.process.take().unwrap();
        let ready = tokio::task::spawn_blocking(move || {
            node.ready();
            node
        });
        self.process = Some(ready.await.unwrap());
    }

    pub(crate) fn kill(&mut self) {
        process::NodeProcess::kill([&mut self.process]);
    }

    /// At the end it must still be able to stop cleanly.
    pub(crate) fn stop_in_order(mut self) {
        process::NodeProcess::stop([&mut self.process], Signal::TERM);
    }

    /// Requests a split of a keyspace, without waiting for it.
    pub(crate) fn split_keyspace(&self, name: &str) -> Split {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["keyspace", "split", name]).stdout(Stdio::null()).stderr(Stdio::null());
        Split(RunningProcess::start(command.env("ZEROHOP_ENDPOINT", self.endpoint())))
    }

    pub(crate) fn create_keyspace(&self, name: &str, durability: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zerohop"));
        command.args(["keyspace", "create", name, "--partitions", "16", "--durability", durability]);
        let output = command.env("ZEROHOP_ENDPOINT", self.endpoint()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Drop for KilledNode {
    fn drop(&mut self) {
        let log = log_of(&self.folder, 0);
        let node = (
            format!("node at {}", self.endpoint()),
            self.process.as_ref().map(process::NodeProcess::id),
            log.as_path(),
        );
        report::if_failed(std::iter::once(node), || {
            let mut status = Command::new(env!("CARGO_BIN_EXE_zerohop"));
            status.args(["status", "--timeout", "10s", "--endpoint", &self.endpoint()]);
            status
        });
    }
}
