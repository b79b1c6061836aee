//! Nodes whose folders are missing: the others are served without them if they are a majority.

use std::path::PathBuf;

use zerohop_wire::plurals::{by_number, counted};

use super::UpArguments;
use super::folder::DataFolder;
use crate::common::ending::CommandError;
use crate::common::names;
use crate::local::{LocalNode, NodePlan};

/// The plans of these nodes, which are not started.
#[derive(Debug)]
pub(super) struct MissingNodes(Vec<NodePlan>);

impl MissingNodes {
    /// Removes the plans of nodes whose folders are missing.
    ///
    /// # Errors
    /// The remaining nodes are no majority: they would wait for the others.
    pub(super) fn remove_from(
        plans: &mut Vec<NodePlan>,
        folder: &DataFolder,
    ) -> Result<MissingNodes, CommandError> {
        let places = folder.missing();
        let all = plans.len();
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for (place, plan) in plans.drain(..).enumerate() {
            if places.contains(&place) { missing.push(plan) } else { there.push(plan) }
        }
        *plans = there;
        let missing = MissingNodes(missing);
        if plans.len() * 2 > all {
            return Ok(missing);
        }
        let folders = missing.folders();
        let Some(first) = plans.first().and_then(|plan| plan.data.as_deref()) else {
            return Err(CommandError::Node(format!(
                "{folders} missing or empty, so that no node of this cluster is left: bring the folders back, or name another folder \
                 with --data for a new cluster"
            )));
        };
        Err(CommandError::Node(format!(
            "{folders} missing or empty, and {} of {all} cannot serve without the others: bring the folders back, and start again. If \
             they are permanently lost, `zerohop recover --control-group {}` says what is left",
            counted(plans.len(), "node"),
            names::in_shell(first)
        )))
    }

    /// Their folders, with the verb.
    fn folders(&self) -> String {
        let folders = self.0.iter().filter_map(|plan| plan.data.as_deref()).map(names::path);
        let folders: Vec<String> = folders.collect();
        format!("{} {}", folders.join(" and "), by_number(folders.len(), "is", "are"))
    }

    /// What the user can do, now that the other nodes are served; `None`: no node is missing.
    pub(super) fn advice(&self, arguments: &UpArguments, nodes: &[LocalNode]) -> Option<String> {
        let manager = nodes.first().filter(|_| !self.0.is_empty())?.ready.manager.as_str();
        let options = format!("{}{}", arguments.secret.option(), arguments.tls.node_options());
        let starts: Vec<String> =
            self.0.iter().filter_map(|plan| start_command(plan, manager, &options)).collect();
        let reach = arguments.endpoint_options(manager);
        Some(format!(
            "{} missing or empty; the other nodes are served. If a folder is elsewhere, stop this command, bring the folder back, and \
             start again. If it is lost, start a new node in its place: {}. Once its copies are made again, in about a minute, remove \
             the node that `zerohop node list{reach}` shows as down: `zerohop node remove ID{reach}`",
            self.folders(),
            starts.join(" and "),
        ))
    }
}

/// The command that starts a new node in place of this one.
fn start_command(plan: &NodePlan, manager: &str, options: &str) -> Option<String> {
    let folder: &PathBuf = plan.data.as_ref()?;
    let instances = plan.instances.map_or(String::new(), |count| format!(" --instances {count}"));
    Some(format!(
        "`zerohop node --data {} --listen {}{instances} --join {manager}{options}`",
        names::in_shell(folder),
        plan.listen
    ))
}
