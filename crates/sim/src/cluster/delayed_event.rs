//! Events that wait until the agent of a node may receive them.

use zerohop_control::agent::GroupRequest;
use zerohop_control::command::{KeyspaceDrained, LogReport};
use zerohop_shard::AnswerOrigin;
use zerohop_wire::ids::InstanceId;

use super::node_end::NodeEnd;

/// See [`super::SimulatedCluster::queue_agent_event`].
#[derive(Debug)]
pub(super) enum DelayedEvent {
    Opened { intact: bool, closed: bool },
    FetchMap,
    LogEnds(Vec<LogReport>),
    Asks { instance: InstanceId, place: AnswerOrigin, change: GroupRequest },
    Drained(KeyspaceDrained),
    End(NodeEnd),
}
