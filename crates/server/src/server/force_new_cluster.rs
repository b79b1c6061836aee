//! Forces a new control group from one surviving node, when the operator confirms that the others are lost. The node does not run meanwhile: only
//! its control log changes.

use std::path::Path;

use zerohop_control::manager::RaftManager;
use zerohop_wire::escaped::shown_path;
use zerohop_wire::ids::NodeId;

use crate::error::StartError;
use crate::folder::NodeFolder;

/// The contents of a folder, and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedCluster {
    /// The node.
    pub node: NodeId,
    /// The addresses of the managers that it knows, including its own.
    pub managers: Vec<String>,
    /// The address of its own manager.
    pub own: String,
    /// Number of decisions that it knows.
    pub decisions: u64,
    /// The nodes of the map.
    pub nodes: usize,
}

/// Creates a new control group with only the manager of the node in this folder, from its log. With `is_meant` unset it only returns what would
/// happen. The other managers cannot rejoin with their old promises: the new group has another number, and its epochs continue far ahead of theirs.
///
/// # Errors
/// There is no such node, it is running, or it has no manager.
pub fn force_new_control_group(root: &Path, is_meant: bool) -> Result<ForcedCluster, StartError> {
    let cluster = |reason: String| StartError::Cluster { reason };
    if !root.is_dir() {
        return Err(cluster(format!("{}: there is no such folder", shown_path(root))));
    }
    let (mut folder, _) = NodeFolder::open(root)?;
    let member = folder.read_member()?;
    let node = member.and_then(|member| member.node);
    let node = node.ok_or_else(|| cluster(format!("{}: it is of no node of a cluster", shown_path(root))))?;
    let log = folder.read_control_log()?.filter(|log| !log.is_empty());
    let log = log.ok_or_else(|| {
        cluster(format!("{}: node {node} is no manager: take the folder of one that was", shown_path(root)))
    })?;
    let (again, known, state) = RaftManager::force_new(&log, node).map_err(|error| {
        cluster(format!("the control log in {} cannot be used: {error}", shown_path(root)))
    })?;
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
        decisions: known.applied_count(),
        nodes: known.map().nodes().count(),
    })
}
