//! The arguments of commands about one node.

use clap::Args;

use crate::common::target::ClusterTarget;

#[derive(Args, Debug)]
pub(crate) struct OneNode {
    /// The number of the node, as `zerohop node list` prints it.
    #[arg(value_parser = node_number)]
    pub(super) node: u32,
    #[command(flatten)]
    pub(super) target: ClusterTarget,
    /// Prints JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Parses the number of a node. For clap.
fn node_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "write the number of a node, which `zerohop node list` prints".to_owned())
}
