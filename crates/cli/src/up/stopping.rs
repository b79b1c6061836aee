//! The end of a local cluster: all nodes end at once, and a node that takes long is named.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::timeout;

use crate::common::ending::CommandError;
use crate::local::{LocalNode, STOP_MAX};
use crate::output;

/// The time before the first words about a node that has not ended; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);

/// The wait for the end of a node.
type NodeEnding = Pin<Box<dyn Future<Output = Result<(), CommandError>>>>;

/// A node that was asked to end.
struct EndingNode {
    id: u32,
    pid: u32,
    /// Its end; `None`: it has ended.
    end: Option<NodeEnding>,
}

/// Asks all nodes to end, and waits until they have. Says after some seconds which nodes have not ended. If this is dropped, it kills
/// them.
pub(super) async fn stop(nodes: Vec<LocalNode>) -> Result<(), CommandError> {
    nodes.iter().for_each(LocalNode::request_end);
    let mut ending: Vec<EndingNode> = nodes.into_iter().map(EndingNode::new).collect();
    let (mut result, mut pause) = (Ok(()), FIRST_PAUSE);
    while timeout(pause, poll_fn(|context| poll_all(&mut ending, &mut result, context))).await.is_err() {
        let left: Vec<String> =
            ending.iter().filter(|node| node.end.is_some()).map(EndingNode::words).collect();
        output::problem(&format!(
            "zerohop: still waiting for {}; a second Ctrl-C kills {}, and after {} s that happens by itself",
            left.join(" and "),
            if left.len() == 1 { "it" } else { "them" },
            STOP_MAX.as_secs()
        ));
        pause *= 2;
    }
    result
}

/// Ready once all have ended. The first error is the result.
fn poll_all(
    ending: &mut [EndingNode],
    result: &mut Result<(), CommandError>,
    context: &mut Context<'_>,
) -> Poll<()> {
    for node in &mut *ending {
        if let Some(end) = &mut node.end
            && let Poll::Ready(ended) = end.as_mut().poll(context)
        {
            node.end = None;
            if result.is_ok() {
                *result = ended;
            }
        }
    }
    if ending.iter().all(|node| node.end.is_none()) { Poll::Ready(()) } else { Poll::Pending }
}

impl EndingNode {
    fn new(node: LocalNode) -> EndingNode {
        let (id, pid) = (node.ready.id, node.ready.pid);
        EndingNode { id, pid, end: Some(Box::pin(node.stop())) }
    }

    /// `node 2 (process 17), which is paused by a signal (`kill -CONT 17` continues it)`.
    fn words(&self) -> String {
        let EndingNode { id, pid, .. } = self;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        match is_paused(&stat) {
            true => {
                format!(
                    "node {id} (process {pid}), which is paused by a signal (`kill -CONT {pid}` continues it)"
                )
            }
            false => format!("node {id} (process {pid})"),
        }
    }
}

/// Whether the system has stopped the process with this line of states, as for SIGSTOP.
fn is_paused(stat: &str) -> bool {
    // The name of the program, in parentheses, may contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, states)| states.starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_a_process_is_read_behind_its_name() {
        assert!(is_paused("17 (zerohop) T 1 17"));
        assert!(!is_paused("17 (a) T b) S 1 17"));
        assert!(!is_paused(""), "it has ended");
    }
}
