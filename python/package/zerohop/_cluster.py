"""Keyspaces and nodes of a cluster, as control requests report them; shared by `zerohop` and
`zerohop.aio`."""

from __future__ import annotations

from typing import Any, NamedTuple


class KeyspaceInfo(NamedTuple):
    """The settings of a keyspace. `replicas` is the total number of copies, of which `min_in_sync` must store a write.
    `dropping`: it is being dropped."""

    name: str
    durability: str
    replicas: int
    min_in_sync: int
    partitions: int
    chunk_bytes: int
    dropping: bool


class NodeInfo(NamedTuple):
    """A node. `state` is `up`, `draining`, `down`, or `silent`: it does not answer. `in_control`: its manager belongs
    to the control group. The last three fields are numbers of partitions."""

    id: int
    state: str
    manager: str
    instances: list[str]
    in_control: bool
    primary: int
    in_sync: int
    following: int


class ClusterStatus(NamedTuple):
    """The state of a cluster, as the node `seen_by` knows it.

    `quorum`: the control group can decide. Of all `partitions`, `unserved` do not serve all requests, `below_min_in_sync` have too
    few copies for a write, `rebuilding` have fewer or more copies than configured, `moving` have a copy that is being
    moved, and `lost` wait for a node that is down. `warnings` are those of `zerohop status`.
    """

    map_epoch: int
    nodes: list[NodeInfo]
    keyspaces: list[KeyspaceInfo]
    partitions: int
    unserved: int
    below_min_in_sync: int
    rebuilding: int
    moving: int
    lost: int
    quorum: bool
    warnings: list[str]
    seen_by: int

    @property
    def is_served(self) -> bool:
        """Whether all partitions serve requests."""
        return self.quorum and self.unserved == 0

    @property
    def is_whole(self) -> bool:
        """Whether all partitions serve requests and have all their copies, on nodes that are up."""
        missing = any(
            node.state in ("down", "silent") and node.primary + node.in_sync + node.following > 0
            for node in self.nodes
        )
        return self.is_served and self.rebuilding == 0 and not missing


def cluster_status(found: Any) -> ClusterStatus:
    map_epoch, nodes, keyspaces, counts, quorum, warnings, seen_by = found
    nodes = [NodeInfo(*node[:-1], *node[-1]) for node in nodes]
    keyspaces = [KeyspaceInfo(*keyspace) for keyspace in keyspaces]
    return ClusterStatus._make((map_epoch, nodes, keyspaces, *counts, quorum, warnings, seen_by))
