//! The descriptors of nodes, as they report them.

use std::num::NonZeroU64;

use serde::Serialize;
use zerohop_wire::admin::{DescriptorStatus, Status};
use zerohop_wire::plurals::counted;

/// Open files of a node with some thousands of partitions and as many connections.
pub(crate) const LIMIT_LOW: u64 = 4096;

/// The descriptors of a node's process, as JSON.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct NodeDescriptors {
    /// Maximum number of the process; null: no limit.
    limit: Option<NonZeroU64>,
    /// Maximum number of connections; null: no limit.
    connections_max: Option<NonZeroU64>,
    connections: u64,
    /// Connections that were refused within the last minute.
    refused: u64,
}

impl NodeDescriptors {
    /// `None`: the node has not reported them.
    pub(crate) fn of(status: &Status, node: u32) -> Option<Self> {
        let found = status.descriptors.iter().find(|one| one.node == node)?;
        let DescriptorStatus { limit, connections_max, connections, refused, .. } = *found;
        let (limit, connections_max) = (NonZeroU64::new(limit), NonZeroU64::new(connections_max));
        Some(NodeDescriptors { limit, connections_max, connections, refused })
    }

    /// The node has refused connections within the last minute.
    pub(crate) fn are_short(self) -> bool {
        self.refused > 0
    }

    /// The limit is low for a node.
    pub(crate) fn is_limit_low(self) -> bool {
        self.limit.is_some_and(|limit| limit.get() < LIMIT_LOW)
    }

    /// The limit and the connections in words, to which the node is the subject.
    pub(crate) fn words(self) -> String {
        let NodeDescriptors { limit, connections_max, connections, refused } = self;
        let refused = match refused {
            0 => String::new(),
            some => format!("has refused {} within the last minute, and ", counted(some, "connection")),
        };
        let most = connections_max.map_or_else(String::new, |most| format!(" of at most {most}"));
        let limit = limit.map_or_else(
            || "any number of files and connections open".to_owned(),
            |limit| format!("{limit} files and connections open"),
        );
        format!("{refused}serves {}{most}: its process may have {limit}", counted(connections, "connection"))
    }
}

/// How to raise the limit.
pub(crate) fn advice() -> String {
    format!(
        "allow {LIMIT_LOW} or more: nofile in /etc/security/limits.conf, LimitNOFILE of a systemd unit, or `ulimit -Hn {LIMIT_LOW}` as root"
    )
}

/// How to end refusals of a node.
pub(crate) fn advice_for_node() -> String {
    format!("close connections that are not needed, or {}; then start the node again", advice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_that_refuses_connections_is_short_of_descriptors() {
        let of = |limit, connections_max, refused| {
            let one = DescriptorStatus { node: 2, limit, connections_max, connections: 90, refused };
            let status = Status { descriptors: vec![one], ..Status::default() };
            assert!(NodeDescriptors::of(&status, 1).is_none());
            NodeDescriptors::of(&status, 2).unwrap()
        };
        let short = of(128, 96, 17);
        assert!(short.are_short() && short.is_limit_low());
        let words = "has refused 17 connections within the last minute, and serves 90 connections of at most 96: its process may have 128 \
                     files and connections open";
        assert_eq!(short.words(), words);
        let unlimited = of(0, 0, 0);
        assert!(!unlimited.are_short() && !unlimited.is_limit_low());
        let words = "serves 90 connections: its process may have any number of files and connections open";
        assert_eq!(unlimited.words(), words);
        assert!(!of(LIMIT_LOW, 3_000, 0).is_limit_low());
    }
}
