//! Nodes of a local cluster: child processes of this one, each a `zerohop node` of the same program.
//!
//! ```text
//!   start ──spawn──> child: listens, recovers ──one line of JSON──> Ready
//!   stop: SIGQUIT, wait for a while, SIGKILL           kill: SIGKILL
//! ```
//!
//! No child outlives this process: a child asks the system for a signal when its parent is gone,
//! even if the parent was killed. The system watches the *thread* that started the child, so that
//! children are started from the main thread.

mod ports;
mod ready;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use zerohop_server::LocalStart;
use zerohop_server::limits::{OPEN_WAIT, STOP_WAIT};

pub(crate) use self::ports::{ReservedPorts, is_free};
pub(crate) use self::ready::{ReadyInstance, ReadyNode};

use crate::common::ending::CommandError;
use crate::common::failure::NO_PLACE;
use crate::common::secret;
use crate::common::tls::NodeTls;

/// How long a node may take until it serves: somewhat longer than its own limit.
const START_MAX: Duration = OPEN_WAIT.saturating_add(Duration::from_secs(10));

/// How long a node may take to end after a request: somewhat longer than its own limit.
pub(crate) const STOP_MAX: Duration = STOP_WAIT.saturating_add(Duration::from_secs(10));

/// How long the system may take to end a process that was killed.
const KILL_MAX: Duration = Duration::from_secs(10);

/// The longest line that reports the listening addresses.
const READY_BYTES_MAX: u64 = 1 << 20;

/// The configuration of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    /// The address of the manager; instances use the following ports.
    pub(crate) listen: SocketAddr,
    /// `None`: all data is in memory.
    pub(crate) data: Option<PathBuf>,
    /// `None`: one for each core.
    pub(crate) instances: Option<usize>,
    /// The manager addresses of all nodes, if several start together.
    pub(crate) hosts: Vec<SocketAddr>,
    /// A name that distinguishes its cluster from others at the same addresses; empty: no name.
    pub(crate) name: String,
    /// Information about the other nodes of its data folder, if there are any.
    pub(crate) local: Option<LocalStart>,
    /// The file of the cluster's secret, if it has one.
    pub(crate) secret_file: Option<PathBuf>,
    /// Its TLS options.
    pub(crate) tls: NodeTls,
    /// A manager of the cluster that it joins, if there is one.
    pub(crate) join: Option<SocketAddr>,
    /// The name at the beginning of each line of its log.
    pub(crate) log_name: String,
    /// The least severe messages that it logs, to the standard error of this process.
    pub(crate) log_level: String,
    /// The option for the time-out of commands of Redis clients, if it is given.
    pub(crate) redis_timeout: Option<String>,
    /// Additional variables of its environment.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
}

/// How a node ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeEnd {
    /// It shut down cleanly, because a signal asked it to.
    pub(crate) is_requested: bool,
    /// The exit status as text, and where its reason is.
    pub(crate) text: String,
}

/// A running node. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct LocalNode {
    child: Child,
    pub(crate) ready: ReadyNode,
}

/// A node that has been started and may not serve yet. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct StartingNode {
    child: Child,
    output: ChildStdout,
    listen: SocketAddr,
}

impl LocalNode {
    /// Starts a node and waits until it serves.
    pub(crate) async fn start(plan: &NodePlan) -> Result<Self, CommandError> {
        StartingNode::spawn(plan)?.ready().await
    }

    /// Waits until it ends by itself.
    pub(crate) async fn ended(&mut self) -> NodeEnd {
        use std::os::unix::process::ExitStatusExt;
        match self.child.wait().await {
            Ok(status) if status.success() => {
                NodeEnd { is_requested: true, text: "ended, because a signal asked it to".to_owned() }
            }
            Ok(status) => {
                let why = match status.signal() == Some(Signal::KILL.as_raw()) {
                    // It could print nothing.
                    true => "as by a user, or by the system for lack of memory",
                    false => "see its messages above",
                };
                NodeEnd { is_requested: false, text: format!("{} ({why})", exit_text(status)) }
            }
            Err(error) => NodeEnd { is_requested: false, text: format!("ended: {error}") },
        }
    }

    /// Asks it to end, without a handover to other nodes.
    pub(crate) fn request_end(&self) {
        if let Some(pid) = self.pid() {
            // The call fails only if the node has just ended.
            let _ = kill_process(pid, Signal::QUIT);
        }
    }

    /// Asks it to end and waits. Errors: it did not end in time, or ended with a failure; in both
    /// cases it is gone.
    pub(crate) async fn stop(mut self) -> Result<(), CommandError> {
        let id = self.ready.id;
        self.request_end();
        match timeout(STOP_MAX, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => {
                Err(CommandError::Node(format!("node {id} did not end well: it {}", exit_text(status))))
            }
            Ok(Err(error)) => Err(CommandError::system("waiting for a node", Path::new("zerohop"), &error)),
            Err(_) => {
                self.kill().await?;
                Err(CommandError::Node(format!(
                    "node {id} did not end within {STOP_MAX:?} of being asked to, and was killed"
                )))
            }
        }
    }

    /// Kills it with SIGKILL, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Result<(), CommandError> {
        let failed = |error| CommandError::system("killing a node", Path::new("zerohop"), &error);
        match timeout(KILL_MAX, self.child.kill()).await {
            Ok(killed) => killed.map_err(failed),
            Err(_) => Err(CommandError::Node(format!(
                "node {} cannot be killed: is its disk stuck?",
                self.ready.id
            ))),
        }
    }

    /// `None` once it has ended and was waited for.
    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }
}

impl StartingNode {
    /// Starts the process.
    pub(crate) fn spawn(plan: &NodePlan) -> Result<Self, CommandError> {
        let program = std::env::current_exe()
            .map_err(|error| CommandError::system("finding the own program", Path::new("zerohop"), &error))?;
        let mut child = plan
            .command(&program)
            .spawn()
            .map_err(|error| CommandError::system("starting a node", &program, &error))?;
        let Some(output) = child.stdout.take() else {
            return Err(CommandError::Node("the node has no output".to_owned()));
        };
        Ok(StartingNode { child, output, listen: plan.listen })
    }

    /// Waits until it serves.
    pub(crate) async fn ready(self) -> Result<LocalNode, CommandError> {
        let StartingNode { mut child, output, listen } = self;
        match timeout(START_MAX, ReadyNode::read(output)).await {
            Ok(Ok(ready)) => Ok(LocalNode { child, ready }),
            // The node reports the reason in its line too, unless it was killed.
            Ok(Err(cause)) => match timeout(KILL_MAX, child.wait()).await {
                Ok(Ok(status)) => Err(match cause {
                    Some(FailedStart { reason, error }) => {
                        let text = format!("the node at {listen} did not start: {error}");
                        match reason == NO_PLACE {
                            true => CommandError::RefusedAs { word: NO_PLACE, reason: text },
                            false => CommandError::Node(text),
                        }
                    }
                    None => CommandError::Node(format!(
                        "the node at {listen} did not start (it {}): see its message above",
                        exit_text(status)
                    )),
                }),
                _ => Err(CommandError::Node(format!(
                    "the process started as a node at {} says nothing that this program understands",
                    listen
                ))),
            },
            Err(_) => Err(CommandError::Node(format!(
                "the node at {} did not serve within {START_MAX:?} and was ended: is its disk stuck?",
                listen
            ))),
        }
    }
}

impl NodePlan {
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(["node", "--json", "--listen"]).arg(self.listen.to_string());
        command.arg("--ends-with-parent").arg(std::process::id().to_string());
        command.args(["--log-level", &self.log_level, "--log-name", &self.log_name]);
        command.args(&self.redis_timeout);
        if self.hosts.len() > 1 {
            let hosts: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
            command.arg("--hosts").arg(hosts.join(","));
            if !self.name.is_empty() {
                command.args(["--cluster-name", &self.name]);
            }
        }
        if let Some(LocalStart { bootstrap_addresses, is_first, managers }) = &self.local {
            if !bootstrap_addresses.is_empty() {
                let bootstrap_addresses: Vec<String> =
                    bootstrap_addresses.iter().map(ToString::to_string).collect();
                command.arg("--bootstrap-addresses").arg(bootstrap_addresses.join(","));
            }
            command.args(is_first.then_some("--bootstrap"));
            command.args(
                managers.iter().flat_map(|(id, at)| ["--control-member".to_owned(), format!("{id}={at}")]),
            );
        }
        if let Some(join) = self.join {
            command.arg("--join").arg(join.to_string());
        }
        match &self.data {
            Some(folder) => command.arg("--data").arg(folder),
            None => command.arg("--memory"),
        };
        if let Some(instances) = self.instances {
            command.arg("--instances").arg(instances.to_string());
        }
        // The variable is set even without a secret: neither this process's variable nor the
        // default file is for this cluster.
        command.env(secret::VARIABLE, self.secret_file.as_deref().unwrap_or(Path::new("")));
        command.envs(self.tls.environment());
        if self.tls.is_only() {
            command.arg("--tls-only");
        }
        command.envs(self.environment.iter().copied());
        // With a process group of its own, Ctrl-C reaches only this process, which then ends its
        // children in order.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// The line of a node that does not start, as all commands print it.
#[derive(Debug, Deserialize)]
struct FailedStart {
    reason: String,
    error: String,
}

impl ReadyNode {
    /// Reads the line that a node prints once it serves. The error: it printed the reason why it
    /// ends, or something else.
    async fn read(output: ChildStdout) -> Result<ReadyNode, Option<FailedStart>> {
        let mut line = String::new();
        BufReader::new(output.take(READY_BYTES_MAX)).read_line(&mut line).await.map_err(|_| None)?;
        serde_json::from_str(&line).map_err(|_| serde_json::from_str(&line).ok())
    }
}

fn exit_text(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => format!("ended: {status}"),
    }
}
