//! `zerohop recover --control-group`: more than half of the managers are lost permanently, and a
//! remaining one forms a new control group alone.

use std::path::Path;

use serde::Serialize;
use zerohop_server::{ForcedCluster, force_new_control_group};
use zerohop_wire::plurals::counted;

use crate::common::ending::{CommandEnding, CommandError};
use crate::output;

/// The JSON.
#[derive(Serialize)]
struct ControlGroupOutput<'a> {
    node: u32,
    manager: &'a str,
    /// The other managers that it knows.
    other_managers: Vec<&'a str>,
    decisions: u64,
    nodes: usize,
    /// This manager has become the control group.
    is_created: bool,
}

pub(super) fn recover(folder: &Path, accept_loss: bool, json: bool) -> Result<CommandEnding, CommandError> {
    let found = force_new_control_group(folder, accept_loss)
        .map_err(|error| CommandError::Node(error.to_string()))?;
    let ForcedCluster { node, managers, own, decisions, nodes } = &found;
    let other_managers: Vec<&str> = managers.iter().filter(|one| *one != own).map(String::as_str).collect();
    let others = if other_managers.is_empty() { "none".to_owned() } else { other_managers.join(", ") };
    if json {
        let (node, manager, decisions, nodes) = (node.get(), own.as_str(), *decisions, *nodes);
        output::json(&ControlGroupOutput {
            node,
            manager,
            other_managers,
            decisions,
            nodes,
            is_created: accept_loss,
        })?;
    } else {
        output::result(&format!(
            "node {node}, manager {own}: it knows {} on a cluster of {}; other managers: {others}",
            counted(*decisions, "decision"),
            counted(*nodes, "node")
        ))?;
    }
    if accept_loss {
        if !json {
            output::result(&format!(
                "This manager is now the control group. Start its node again, and then the other nodes that are left, each with its \
                 folder and with `--join {own}`; `zerohop recover` lists the lost partitions."
            ))?;
        }
        return Ok(CommandEnding::Done);
    }
    Err(CommandError::Refused(
        "Nothing is changed. If the other managers run, or can be restored with their folders, do that. If they are permanently lost, \
         --accept-loss continues with this manager alone. Decisions that it has not received are then lost. If several managers are \
         left, use the one that knows the most decisions"
            .to_owned(),
    ))
}
