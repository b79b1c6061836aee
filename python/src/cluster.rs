//! Control requests: keyspaces and the status of the cluster.

use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use zerohop_client::{Client, Error};
use zerohop_wire::admin::{
    AdminAnswer, AdminQuestion, AdminRefusal, AdminReply, AdminRequest, KeyspaceStatus, Status, StatusGet,
};

use crate::problem::Problem;

/// Sends a request to a manager.
pub(crate) async fn request(client: &Client, query: AdminQuestion) -> Result<AdminReply, Problem> {
    let answer = client.admin(Bytes::from(AdminRequest::of(query).to_bytes())).await?;
    match AdminAnswer::from_bytes(&answer).ok().and_then(|answer| answer.answer) {
        Some(AdminReply::Refused(AdminRefusal { code, reason, .. })) => {
            Err(Problem::Client(Error::Refused { code: code.into(), reason: reason.into() }))
        }
        Some(answer) => Ok(answer),
        None => Err(Problem::Client(Error::Unexpected)),
    }
}

/// The status of the cluster, as the node knows it that is asked.
pub(crate) async fn status(client: &Client) -> Result<Box<Status>, Problem> {
    match request(client, AdminQuestion::Status(StatusGet {})).await? {
        AdminReply::Status(status) => Ok(status),
        _ => Err(Problem::Client(Error::Unexpected)),
    }
}

/// The arguments of `zerohop._cluster.KeyspaceInfo`.
pub(crate) fn keyspace(py: Python<'_>, found: KeyspaceStatus) -> PyResult<Py<PyAny>> {
    let KeyspaceStatus { name, durability, replicas, min_in_sync, partitions, chunk_bytes, dropping, .. } =
        found;
    (name, durability, replicas, min_in_sync, partitions, chunk_bytes, dropping).into_py_any(py)
}

/// The arguments of `zerohop._cluster.cluster_status`.
pub(crate) fn cluster_status(py: Python<'_>, found: Status) -> PyResult<Py<PyAny>> {
    let Status { map_epoch, nodes, keyspaces, groups, view, .. } = found;
    let (groups, view) = (groups.unwrap_or_default(), view.unwrap_or_default());
    let nodes: Vec<_> = nodes
        .into_iter()
        .map(|node| {
            let addresses: Vec<String> = node.instances.into_iter().map(|instance| instance.addr).collect();
            let shares = (node.primaries, node.in_sync, node.following);
            (node.id, node.state, node.manager, addresses, node.in_control, shares)
        })
        .collect();
    let keyspaces = keyspaces.into_iter().map(|one| keyspace(py, one)).collect::<PyResult<Vec<_>>>()?;
    // These sets overlap: the greatest of them is a lower bound, as in `zerohop status`.
    let stopped = view.no_primary + view.stuck + view.log_failed;
    let unserved =
        [stopped, groups.below_min_in_sync, groups.recovering, groups.down, groups.lost].into_iter().max();
    let unserved = unserved.unwrap_or(0).min(groups.groups);
    let counts =
        (groups.groups, unserved, groups.below_min_in_sync, groups.rebuilding, groups.moving, groups.lost);
    let quorum = view.quorum && view.waits_for.is_empty();
    (map_epoch, nodes, keyspaces, counts, quorum, view.warnings, view.node).into_py_any(py)
}
