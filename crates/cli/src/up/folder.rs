//! The data folder of a local cluster, as `zerohop up` finds it: the number of its nodes, and the
//! state after an interrupted start.
//!
//! ```text
//!   no file, no data     the file is written ──> nodes start ──> all serve: bootstrapped
//!   a file, no data      as before; the number of nodes may be another
//!   not yet, data        the same nodes start again: nodes without a log bootstrap, the others continue
//!   bootstrapped         the same nodes start again; those whose folders are missing do not
//!   no file, data        of a program before this file: as many nodes as there are folders with data
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use zerohop_server::{
    FolderOwner, LocalCluster, LocalStart, StartError, check_readable, holds_data, node_folder, owner,
};

use zerohop_wire::messages::ClusterId;

use crate::common::ending::CommandError;
use crate::common::failure::NO_PLACE;
use crate::common::names;
use crate::common::other_nodes::NODES_MAX;
use crate::local::NodePlan;

/// See the module.
#[derive(Debug)]
pub(super) struct DataFolder {
    root: PathBuf,
    file: Option<LocalCluster>,
    /// The node of each folder, by position: only folders with data.
    owners: Vec<(usize, Option<FolderOwner>)>,
}

impl DataFolder {
    /// Reads a folder, which need not exist.
    pub(super) fn read(root: PathBuf) -> Result<DataFolder, CommandError> {
        let file = LocalCluster::read(&root).map_err(failed)?;
        let mut owners = Vec::new();
        for place in 0..NODES_MAX as usize {
            let folder = node_folder(&root, place);
            check_readable(&folder).map_err(failed)?;
            if holds_data(&folder) {
                owners.push((place, owner(&folder).map_err(failed)?));
            }
        }
        let folder = DataFolder { root, file, owners };
        folder.is_of_one_cluster()?;
        folder.has_each_node_once()?;
        folder.has_majority()?;
        Ok(folder)
    }

    /// Checks that the folders of a cluster without a file are those of a majority of its nodes: fewer would wait for the others.
    fn has_majority(&self) -> Result<(), CommandError> {
        // The saved map may be older than the cluster's. Managers have numbers from 1.
        let known = |owner: &FolderOwner| owner.nodes_in_map.max(owner.manager.unwrap_or(0) as usize);
        let all = self.owners().map(|(_, owner)| known(owner)).max().unwrap_or(0);
        if self.file.is_some() || all == 0 || self.owners.len() * 2 > all {
            return Ok(());
        }
        Err(CommandError::Node(format!(
            "{} has the data of {} of at least {all} nodes of a cluster, and no file `cluster`: bring the whole folder back. To start one of \
             these nodes beside the others, use `zerohop node --data DIR`, with its own folder",
            names::path(&self.root),
            self.owners.len(),
        )))
    }

    /// Checks that all folders are of one cluster: nodes of several would not find each other.
    fn is_of_one_cluster(&self) -> Result<(), CommandError> {
        let named = || self.owners().filter(|(_, owner)| owner.cluster != ClusterId::default());
        let Some((first, of)) = named().next() else { return Ok(()) };
        match named().find(|(_, owner)| owner.cluster != of.cluster) {
            None => Ok(()),
            Some((other, _)) => Err(CommandError::Node(format!(
                "{} and {} are of different clusters. If `zerohop folder new-cluster {}` was interrupted, do it once more; else \
                 bring the right folders back",
                names::path(&first),
                names::path(&other),
                names::path(&self.root)
            ))),
        }
    }

    /// Checks that no node has two folders, of which one is a copy: it would speak with two voices.
    fn has_each_node_once(&self) -> Result<(), CommandError> {
        let mut nodes = BTreeMap::new();
        let mut managers = BTreeMap::new();
        for (folder, owner) in self.owners() {
            let node = owner.node.and_then(|node| Some((node, nodes.insert(node, folder.clone())?)));
            let manager = owner.manager.and_then(|one| Some((one, managers.insert(one, folder.clone())?)));
            let twice = node.map(|(node, first)| (format!("node {node}"), first));
            let Some((whose, first)) =
                twice.or(manager.map(|(manager, first)| (format!("manager {manager}"), first)))
            else {
                continue;
            };
            return Err(CommandError::Node(format!(
                "{} and {} are both of {whose}: one is a copy in the place of another node. Bring the right folder back, or remove the \
                 copy: the node whose folder is missing can be replaced",
                names::path(&first),
                names::path(&folder),
            )));
        }
        Ok(())
    }

    /// The number of nodes of its data; zero: there is no data.
    pub(super) fn nodes(&self) -> u32 {
        match &self.file {
            Some(file) if file.is_bootstrapped || !self.owners.is_empty() => {
                file.bootstrap_addresses.len() as u32
            }
            Some(_) => 0,
            None => self.owners.last().map_or(0, |(place, _)| *place as u32 + 1),
        }
    }

    /// The number of nodes that an interrupted start has recorded.
    pub(super) fn intended(&self) -> Option<u32> {
        self.file.as_ref().map(|file| file.bootstrap_addresses.len() as u32)
    }

    /// The nodes of its folders.
    pub(super) fn owners(&self) -> impl Iterator<Item = (PathBuf, &FolderOwner)> {
        let owners = self.owners.iter();
        owners.filter_map(|(place, owner)| Some((node_folder(&self.root, *place), owner.as_ref()?)))
    }

    /// The positions of nodes that have served, and whose folders have no data now.
    pub(super) fn missing(&self) -> Vec<usize> {
        let Some(file) = self.file.as_ref().filter(|file| file.is_bootstrapped) else { return Vec::new() };
        let is_missing = |place: &usize| !self.owners.iter().any(|(owned, _)| owned == place);
        (0..file.bootstrap_addresses.len()).filter(is_missing).collect()
    }

    /// The positions of nodes that have joined later, in place of lost ones, and have no manager: as bootstrap members they would be refused.
    fn joined_later(&self) -> Vec<usize> {
        if !self.file.as_ref().is_some_and(|file| file.is_bootstrapped) {
            return Vec::new();
        }
        let has_no_manager = |owner: &FolderOwner| owner.node.is_some() && owner.manager.is_none();
        let owners = self.owners.iter();
        owners
            .filter(|(_, owner)| owner.as_ref().is_some_and(has_no_manager))
            .map(|(place, _)| *place)
            .collect()
    }

    /// Records the number of nodes before the first of their folders is made. Returns the start
    /// information for each node, and the name of the cluster.
    fn begin(&mut self, hosts: &[SocketAddr]) -> Result<(LocalStart, String), CommandError> {
        if self.nodes() == 0 {
            let file = LocalCluster::new(hosts.to_vec()).map_err(failed)?;
            file.write(&self.root).map_err(failed)?;
            self.file = Some(file);
        }
        let manager = |(place, owner): &(usize, Option<FolderOwner>)| {
            Some((owner.as_ref()?.manager?, *hosts.get(*place)?))
        };
        let managers = self.owners.iter().filter_map(manager);
        let mut local = LocalStart { managers: managers.collect(), ..LocalStart::default() };
        let Some(file) = &self.file else { return Ok((local, String::new())) };
        (local.bootstrap_addresses, local.is_first) =
            (file.bootstrap_addresses.clone(), !file.is_bootstrapped);
        Ok((local, file.name()))
    }

    /// Completes the plans of all nodes, in the order of their folders, and records their number as [`DataFolder::begin`] does.
    pub(super) fn complete(&mut self, plans: &mut [NodePlan]) -> Result<(), CommandError> {
        let listen: Vec<SocketAddr> = plans.iter().map(|plan| plan.listen).collect();
        let (local, name) = self.begin(&listen)?;
        for plan in plans.iter_mut() {
            (plan.local, plan.name) = (Some(local.clone()), name.clone());
        }
        let later = self.joined_later();
        let contact = local.managers.first().map(|(_, at)| *at);
        for (place, plan) in plans.iter_mut().enumerate() {
            if contact.is_some() && later.contains(&place) {
                (plan.join, plan.hosts, plan.local) = (contact, Vec::new(), None);
            }
        }
        Ok(())
    }

    /// The plan of a node that has served and starts again while others serve; `plans` has the nodes of all folders.
    ///
    /// # Errors
    /// Its folder is missing or cannot be read.
    pub(super) fn plan_again(
        root: PathBuf,
        mut plans: Vec<NodePlan>,
        place: usize,
    ) -> Result<NodePlan, CommandError> {
        let mut folder = DataFolder::read(root)?;
        if !folder.owners.iter().any(|(owned, _)| *owned == place) {
            let path = names::path(&node_folder(&folder.root, place));
            let reason = format!(
                "{path} is missing or empty. If the folder is elsewhere, stop the cluster, bring the folder back, and start again"
            );
            return Err(CommandError::RefusedAs { word: NO_PLACE, reason });
        }
        folder.complete(&mut plans)?;
        Ok(plans.swap_remove(place))
    }

    /// Records that all nodes serve together.
    pub(super) fn record_bootstrapped(&mut self) -> Result<(), CommandError> {
        match &mut self.file {
            Some(file) if !file.is_bootstrapped => {
                file.is_bootstrapped = true;
                file.write(&self.root).map_err(failed)
            }
            _ => Ok(()),
        }
    }
}

fn failed(error: StartError) -> CommandError {
    CommandError::Node(error.to_string())
}
