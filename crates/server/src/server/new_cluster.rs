//! Turns a copy of a data folder into a separate cluster. All its nodes get a new cluster id, so that they and the
//! original nodes do not take each other for members. Nothing runs meanwhile, and no other data changes.

use std::path::{Path, PathBuf};

use zerohop_system::entropy::random_bytes;
use zerohop_wire::escaped::shown_path;
use zerohop_wire::messages::ClusterId;

use super::clustered::{address, name_of};
use super::local::{LocalCluster, holds_data, node_folder};
use crate::error::StartError;
use crate::folder::NodeFolder;
use crate::node_files::identity::SavedMember;
use crate::node_files::persisted::SavedNode;

/// Maximum number of node folders in the folder of a local cluster.
const FOLDERS_MAX: usize = 64;

/// The saved state of a node's folder.
enum SavedFolder {
    Standalone(SavedNode),
    Member(SavedMember),
}

/// Gives a new cluster id, `id` or a random one, to all nodes whose folders are in `root`, or to the node whose folder is `root`. Returns the
/// number of changed folders, and the id. After an interruption the call must be repeated.
///
/// # Errors
/// There is no data, a node of it is running, or the data cannot be read or written.
pub fn new_cluster(root: &Path, id: Option<ClusterId>) -> Result<(usize, ClusterId), StartError> {
    let refused = |reason: &str| StartError::Cluster { reason: format!("{}: {reason}", shown_path(root)) };
    let in_it = (0..FOLDERS_MAX).map(|place| node_folder(root, place)).filter(|folder| holds_data(folder));
    let mut roots: Vec<PathBuf> = in_it.collect();
    if roots.is_empty() && holds_data(root) {
        roots.push(root.to_owned());
    }
    if roots.is_empty() {
        return Err(refused("there is no data of a node in it"));
    }
    // All folders are locked before any is changed: if the cluster is running, nothing changes.
    let mut folders = Vec::new();
    for root in &roots {
        let (mut folder, saved) = NodeFolder::open(root)?;
        let saved = match folder.read_member()? {
            Some(member) => Some(SavedFolder::Member(member)),
            None => saved.map(SavedFolder::Standalone),
        };
        folders.push((folder, saved));
    }
    let cluster = match LocalCluster::read(root)? {
        None => id.map_or_else(|| super::random(random_bytes()).map(ClusterId), Ok)?,
        Some(_) if id.is_some() => {
            return Err(refused("it is the folder of a local cluster, which draws its id: leave it out"));
        }
        Some(file) => {
            let file = LocalCluster {
                is_bootstrapped: file.is_bootstrapped,
                ..LocalCluster::new(file.bootstrap_addresses)?
            };
            file.write(root)?;
            if file.bootstrap_addresses.iter().any(|at| at.port() == 0) {
                // The only node of a cluster, whose port the system has chosen: it reads its id from its folder.
                ClusterId(super::random(random_bytes())?)
            } else {
                // Nodes that have not started yet will use the same name.
                let bootstrap_addresses =
                    file.bootstrap_addresses.iter().map(|at| address(*at)).collect::<Result<Vec<_>, _>>()?;
                name_of(&file.name(), &bootstrap_addresses)
            }
        }
    };
    for (folder, saved) in &mut folders {
        match saved {
            Some(SavedFolder::Standalone(saved)) => folder.save(&SavedNode { cluster, ..saved.clone() }),
            Some(SavedFolder::Member(saved)) => folder.save_member(&SavedMember { cluster, ..saved.clone() }),
            None => Ok(()),
        }
        .map_err(StartError::NotSaved)?;
    }
    Ok((folders.len(), cluster))
}
