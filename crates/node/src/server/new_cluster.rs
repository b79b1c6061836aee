//! A copy of a data folder made a cluster of its own: all of its nodes get another cluster id, so that they and those of the original
//! do not take each other for one. Nothing runs meanwhile, and nothing else of the data changes.

use std::path::{Path, PathBuf};

use zerohop_wire::messages::ClusterId;

use super::clustered::{address, name_of};
use super::error::StartError;
use super::folder::NodeFolder;
use super::identity::SavedMember;
use super::local::{LocalCluster, holds_data, node_folder};
use super::persisted::SavedNode;
use crate::entropy::random_bytes;

/// The most folders of nodes that are looked for in the folder of a local cluster.
const FOLDERS_MAX: usize = 64;

/// What a node's folder remembers.
enum SavedFolder {
    Alone(SavedNode),
    Member(SavedMember),
}

/// Gives all nodes whose folders lie in `root`, or the node whose folder that is, another cluster id: `id`, or a random one. Says how many
/// folders it has changed, and the id. If it is interrupted, it is to be done once more.
///
/// # Errors
/// There is no data, a node of it runs, or it cannot be read or written.
pub fn new_cluster(root: &Path, id: Option<ClusterId>) -> Result<(usize, ClusterId), StartError> {
    let refused = |reason: &str| StartError::Cluster { reason: format!("{}: {reason}", root.display()) };
    let in_it = (0..FOLDERS_MAX).map(|place| node_folder(root, place)).filter(|folder| holds_data(folder));
    let mut roots: Vec<PathBuf> = in_it.collect();
    if roots.is_empty() && holds_data(root) {
        roots.push(root.to_owned());
    }
    if roots.is_empty() {
        return Err(refused("there is no data of a node in it"));
    }
    // All are locked before any is changed: of a cluster that runs nothing is.
    let mut folders = Vec::new();
    for root in &roots {
        let (mut folder, saved) = NodeFolder::open(root)?;
        let saved = match folder.read_member()? {
            Some(member) => Some(SavedFolder::Member(member)),
            None => saved.map(SavedFolder::Alone),
        };
        folders.push((folder, saved));
    }
    let cluster = match LocalCluster::read(root)? {
        None => id.map_or_else(|| super::random(random_bytes()).map(ClusterId), Ok)?,
        Some(_) if id.is_some() => {
            return Err(refused("it is the folder of a local cluster, which draws its id: leave it out"));
        }
        Some(file) => {
            let file = LocalCluster { is_founded: file.is_founded, ..LocalCluster::new(file.founded_at)? };
            file.write(root)?;
            // Nodes of it that have not begun yet will call it the same.
            let founded_at = file.founded_at.iter().map(|at| address(*at)).collect::<Result<Vec<_>, _>>()?;
            name_of(&file.name(), &founded_at)
        }
    };
    for (folder, saved) in &mut folders {
        match saved {
            Some(SavedFolder::Alone(saved)) => folder.save(&SavedNode { cluster, ..saved.clone() }),
            Some(SavedFolder::Member(saved)) => folder.save_member(&SavedMember { cluster, ..saved.clone() }),
            None => Ok(()),
        }
        .map_err(StartError::NotSaved)?;
    }
    Ok((folders.len(), cluster))
}
