//! The demo's own node, which is stopped, killed and started again on the same ports.

use std::path::Path;

use zerohop_disk::{HOLD_UNSYNCED, TEST_DISK_VARIABLE};

use super::limits::PORTS;
use crate::common::ending::CommandError;
use crate::common::tls::NodeTls;
use crate::local::{LocalNode, NodePlan, ReservedPorts};

/// A node of the demo.
#[derive(Debug)]
pub(super) struct DemoNode {
    node: LocalNode,
    plan: NodePlan,
    /// It keeps them through all of its starts.
    ports: ReservedPorts,
}

impl DemoNode {
    /// Starts a node whose data is in the folder `node-1` of `work`, as with `zerohop up --data`.
    pub(super) async fn start(work: &Path) -> Result<Self, CommandError> {
        let ports = ReservedPorts::find(PORTS)
            .ok_or_else(|| CommandError::Node("no free ports were found for the demo's node".to_owned()))?;
        let plan = NodePlan {
            listen: ports.first(),
            data: Some(work.join("node-1")),
            instances: None,
            hosts: Vec::new(),
            secret_file: None,
            tls: NodeTls::none(),
            name: String::new(),
            local: None,
            join: None,
            log_name: "node-1".to_owned(),
            log_level: "error".to_owned(),
            redis_timeout: None,
            environment: vec![(TEST_DISK_VARIABLE, "")],
        };
        Ok(DemoNode { node: LocalNode::start(&plan).await?, plan, ports })
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.node.ready.manager
    }

    pub(super) fn instances(&self) -> u64 {
        self.node.ready.instances.len() as u64
    }

    /// Stops it cleanly, and starts it on a disk that loses unsynced data when the node is killed.
    pub(super) async fn restart_on_a_forgetful_disk(self) -> Result<Self, CommandError> {
        let DemoNode { node, mut plan, ports } = self;
        node.stop().await?;
        plan.environment = vec![(TEST_DISK_VARIABLE, HOLD_UNSYNCED)];
        Ok(DemoNode { node: LocalNode::start(&plan).await?, plan, ports })
    }

    /// Kills it with SIGKILL, and starts it on an ordinary disk.
    pub(super) async fn kill_and_start(self) -> Result<Self, CommandError> {
        let DemoNode { node, mut plan, ports } = self;
        node.kill().await?;
        plan.environment = vec![(TEST_DISK_VARIABLE, "")];
        Ok(DemoNode { node: LocalNode::start(&plan).await?, plan, ports })
    }

    pub(super) async fn stop(self) -> Result<(), CommandError> {
        self.node.stop().await
    }
}
