//! A control group founded again by one node that is left of it, on the operator's word that the others are gone. The node does not
//! run meanwhile: only its control log is another afterwards.

use std::path::Path;

use zerohop_control::manager::RaftManager;
use zerohop_wire::ids::NodeId;

use super::error::StartError;
use super::folder::NodeFolder;

/// What is found in a folder, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedCluster {
    /// The node.
    pub node: NodeId,
    /// Where the managers were that it knows, its own too.
    pub managers: Vec<String>,
    /// Where its own is.
    pub own: String,
    /// How many decisions it knows.
    pub decisions: u64,
    /// The nodes of the map.
    pub nodes: usize,
}

/// Has the manager of the node in this folder found a control group of its own, from what it knows; with `is_meant` unset it only
/// says what would be. The other managers cannot come back into it with what they promised: it has another number, and counts on from
/// far ahead.
///
/// # Errors
/// There is no such node, it runs, or it has no manager.
pub fn found_again(root: &Path, is_meant: bool) -> Result<ForcedCluster, StartError> {
    let cluster = |reason: String| StartError::Cluster { reason };
    if !root.is_dir() {
        return Err(cluster(format!("{}: there is no such folder", root.display())));
    }
    let (mut folder, _) = NodeFolder::open(root)?;
    let member = folder.read_member()?;
    let node = member.and_then(|member| member.node);
    let node = node.ok_or_else(|| cluster(format!("{}: it is of no node of a cluster", root.display())))?;
    let log = folder.read_control_log()?.filter(|log| !log.is_empty());
    let log = log.ok_or_else(|| {
        cluster(format!("{}: node {node} is no manager: take the folder of one that was", root.display()))
    })?;
    let (again, known, state) = RaftManager::found_again(&log, node)
        .map_err(|error| cluster(format!("the control log in {} cannot be used: {error}", root.display())))?;
    if is_meant {
        folder.replace_control_log(&again).map_err(StartError::NotSaved)?;
    }
    let addresses = |managers: &[zerohop_control::command::ManagerInfo]| -> Vec<String> {
        managers.iter().map(|one| one.addr.as_str().to_owned()).collect()
    };
    Ok(ForcedCluster {
        node,
        managers: addresses(known.managers()),
        own: addresses(state.managers()).remove(0),
        decisions: known.mark(),
        nodes: known.map().nodes().count(),
    })
}
