//! The status of the cluster as one node sees it: the facts, and a sentence for people.

use std::fmt;

use zerohop_wire::ids::NodeId;
use zerohop_wire::plurals::{by_number, counted};

use crate::command::ManagerInfo;

/// The status of the cluster as one node sees it, at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// This node, once it has a number.
    pub node: Option<NodeId>,
    /// The leader of the control group; `None` if no leader is known to exist now.
    pub leader: Option<ManagerInfo>,
    /// The node of that leader, if the map has it.
    pub leader_node: Option<NodeId>,
    /// Milliseconds since a leader was known. A node outside the control group hears from the leader every
    /// second or so.
    pub leaderless_ms: u64,
    /// The control group decides, as far as this node knows: it has been without a leader for no longer than
    /// an election takes.
    pub has_quorum: bool,
    /// This node is a member of the control group.
    pub is_manager: bool,
    /// The control group, and whether each of its members answers this node.
    pub managers: Vec<(ManagerInfo, bool)>,
    /// Nodes that are up in the map and that have not answered this node for a while.
    pub silent: Vec<NodeId>,
    /// What this start waits for; `None` once the node has joined.
    pub waits_for: Option<String>,
}

impl ClusterStatus {
    /// Number of members of the control group that answer this node, and of all members.
    pub fn answering(&self) -> (usize, usize) {
        (self.managers.iter().filter(|(_, answers)| *answers).count(), self.managers.len())
    }

    /// Members of the control group that do not answer, by address.
    pub fn missing(&self) -> Vec<&str> {
        let missing = self.managers.iter().filter(|(_, answers)| !answers);
        missing.map(|(one, _)| one.addr.as_str()).collect()
    }
}

/// Why nothing is decided; for people.
impl fmt::Display for ClusterStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answering, all) = self.answering();
        let seconds = self.leaderless_ms / 1_000;
        match self.is_manager {
            true => write!(
                f,
                "no quorum: {answering} of {} of the control group {}",
                counted(all, "manager"),
                by_number(answering, "answers", "answer")
            )?,
            false => write!(f, "no quorum: the control group's leader does not answer")?,
        }
        let node = self.node.map_or_else(|| "this node".to_owned(), |node| format!("node {node}"));
        write!(f, ", as {node} sees it, and nothing has been decided for {seconds} s")?;
        match &self.missing()[..] {
            [] => Ok(()),
            missing => write!(f, "; no answer from the managers at {}", missing.join(", ")),
        }
    }
}
