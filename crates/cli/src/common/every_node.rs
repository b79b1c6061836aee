//! State that each node reports only of itself: its process and instances, its troubles, the room on
//! its disk, its descriptors, its copies of keyspaces, its watches. All nodes that are up are asked.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use zerohop_client::Client;
use zerohop_wire::admin::{Status, Watches};

use super::admin;
use super::ending::CommandError;
use super::target::ClusterTarget;

/// Most nodes that are asked.
const NODES_QUERIED_MAX: usize = 128;

/// How long a node may take; a node that does not answer in time is left out.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Adds the other nodes' reports to `status`, which is the answer of the first node: the row of
/// each node that answers, and its part of the figures of keyspaces. The states and roles of nodes
/// stay those that the first node reports.
pub(crate) async fn add_others(target: &ClusterTarget, status: &mut Status) {
    for (_, reply) in query_others(target, status, |client| async move { admin::status(&client).await }).await
    {
        if let Some(reply) = reply {
            merge(status, reply);
        }
    }
}

/// The watches of all nodes: those of the first node, which has reported `status`, and those that the others report. Returns the nodes that do not
/// report theirs, too.
pub(crate) async fn watches(
    target: &ClusterTarget,
    (client, status): (&Client, &Status),
    keyspace: &str,
) -> Result<(Vec<Watches>, Vec<u32>), CommandError> {
    let (mut found, mut missing) = (vec![admin::watches(client, keyspace).await?], Vec::new());
    let name = keyspace.to_owned();
    let query = move |client: Client| {
        let name = name.clone();
        async move { admin::watches(&client, &name).await }
    };
    for (node, reply) in query_others(target, status, query).await {
        match reply {
            Some(reply) => found.push(reply),
            None => missing.push(node),
        }
    }
    Ok((found, missing))
}

/// Asks all nodes that are up except the one that has reported `status`. `None`: the node has not answered in time.
async fn query_others<T: Send + 'static, F>(
    target: &ClusterTarget,
    status: &Status,
    query: impl Fn(Client) -> F + Clone + Send + 'static,
) -> Vec<(u32, Option<T>)>
where
    F: Future<Output = Result<T, CommandError>> + Send,
{
    let is_queried = |state: &str| state != "down" && state != "silent";
    let others = status.nodes.iter().filter(|node| is_queried(&node.state) && node.pid == 0);
    let mut queries = JoinSet::new();
    for node in others.take(NODES_QUERIED_MAX) {
        let (id, target, manager, query) = (node.id, target.clone(), node.manager.clone(), query.clone());
        queries.spawn(async move {
            let answer = timeout(ANSWER_MAX, async move {
                let client = target.connect_at(&manager).await?;
                query(client).await
            });
            (id, answer.await.ok().and_then(Result::ok))
        });
    }
    queries.join_all().await
}

/// Adds what another node reports of itself.
fn merge(status: &mut Status, reply: Status) {
    for own in reply.nodes.into_iter().filter(|node| node.pid != 0) {
        if let Some(node) = status.nodes.iter_mut().find(|node| node.id == own.id && node.pid == 0) {
            (node.pid, node.version, node.started_ms) = (own.pid, own.version, own.started_ms);
            (node.instances, node.troubles, node.damaged) = (own.instances, own.troubles, own.damaged);
            (node.disk_free_bytes, node.disk_total_bytes) = (own.disk_free_bytes, own.disk_total_bytes);
        }
    }
    for own in reply.descriptors {
        if status.descriptors.iter().all(|known| known.node != own.node) {
            status.descriptors.push(own);
        }
    }
    if let (Some(view), Some(own)) = (&mut status.view, &reply.view) {
        // Only the node of a primary knows that its log has failed, or that it waits for its split.
        view.log_failed += own.log_failed;
        view.not_split += own.not_split;
    }
    for own in reply.keyspaces {
        if let Some(keyspace) = status.keyspaces.iter_mut().find(|keyspace| keyspace.id == own.id) {
            keyspace.records += own.records;
            keyspace.log_bytes += own.log_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use zerohop_wire::admin::{DescriptorStatus, InstanceStatus, KeyspaceStatus, NodeStatus, NodeView};

    use super::*;

    #[test]
    fn each_node_adds_its_own_row_its_failed_logs_and_its_part_of_keyspaces() {
        let of = |own: u32| Status {
            nodes: [1, 2]
                .map(|id| NodeStatus {
                    id,
                    state: format!("as node {own} sees it"),
                    pid: if id == own { 100 + id } else { 0 },
                    instances: vec![InstanceStatus {
                        id,
                        entries: u64::from(10 * own),
                        ..InstanceStatus::default()
                    }],
                    ..NodeStatus::default()
                })
                .into(),
            view: Some(NodeView { log_failed: own, ..NodeView::default() }),
            descriptors: vec![DescriptorStatus {
                node: own,
                refused: own.into(),
                ..DescriptorStatus::default()
            }],
            keyspaces: vec![KeyspaceStatus {
                id: 7,
                records: own.into(),
                log_bytes: 5,
                ..KeyspaceStatus::default()
            }],
            ..Status::default()
        };
        let mut status = of(1);
        merge(&mut status, of(2));
        let rows: Vec<_> = status.nodes.iter().map(|node| (node.pid, node.instances[0].entries)).collect();
        assert_eq!(rows, [(101, 10), (102, 20)]);
        assert!(status.nodes.iter().all(|node| node.state == "as node 1 sees it"));
        let refused: Vec<_> = status.descriptors.iter().map(|one| (one.node, one.refused)).collect();
        assert_eq!(refused, [(1, 1), (2, 2)]);
        assert_eq!(status.view.map(|view| view.log_failed), Some(3));
        assert_eq!((status.keyspaces[0].records, status.keyspaces[0].log_bytes), (3, 10));
    }
}
