//! Waits until the partitions of a cluster that has just started are served. After a crash of all nodes the control group chooses a log for each.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};
use zerohop_client::ClientTls;
use zerohop_wire::plurals::{by_number, counted};

use crate::common::http;
use crate::local::LocalNode;
use crate::output::StatusLine;

/// How long to wait: the control group declares a missing node down and replaces its primaries within that time.
const SERVED_WAIT: Duration = Duration::from_secs(20);

/// The pause between two questions to all nodes.
const QUERY_PAUSE: Duration = Duration::from_millis(50);

/// Partitions of the cluster, as the node sees them that has the fewest served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ServedPartitions {
    total: u64,
    served: u64,
}

/// Waits until all nodes see all partitions served, for a limited time. `None`: some node has not said what it sees.
pub(super) async fn wait_until_served(
    nodes: &[LocalNode],
    tls: Option<&ClientTls>,
) -> Option<ServedPartitions> {
    let due = Instant::now() + SERVED_WAIT;
    let line = StatusLine::new();
    let mut seen = None;
    loop {
        let Ok(worst) = timeout_at(due, query_all(nodes, tls)).await else { return seen };
        seen = worst;
        match seen {
            Some(all) if all.unserved() == 0 => return seen,
            Some(some) => line.show(&format!("waiting: {} …", some.words())),
            None => line.show("waiting until the nodes serve …"),
        }
        if Instant::now() >= due {
            return seen;
        }
        sleep(QUERY_PAUSE).await;
    }
}

/// The worst of the answers: a node may not know yet that another has started again.
async fn query_all(nodes: &[LocalNode], tls: Option<&ClientTls>) -> Option<ServedPartitions> {
    let mut worst: Option<ServedPartitions> = None;
    for node in nodes {
        let health = http::health(&node.ready.manager, tls).await?;
        let own = ServedPartitions::of(&health)?;
        worst = worst.into_iter().chain([own]).max_by_key(|one| one.unserved());
    }
    worst
}

impl ServedPartitions {
    /// The partitions in the body of `/health`.
    fn of(health: &Value) -> Option<Self> {
        let count = |name| health.get("partitions")?.get(name)?.as_u64();
        Some(ServedPartitions { total: count("total")?, served: count("served")? })
    }

    fn unserved(self) -> u64 {
        self.total.saturating_sub(self.served)
    }

    fn words(self) -> String {
        let unserved = self.unserved();
        format!(
            "{unserved} of {} {} not served yet",
            counted(self.total, "partition"),
            by_number(unserved, "is", "are")
        )
    }
}

/// The first words of the line that says that the cluster is ready.
pub(super) fn ready_words(served: Option<ServedPartitions>) -> String {
    match served {
        Some(all) if all.unserved() == 0 => "Ready.".to_owned(),
        Some(some) => format!("Ready, but {}: `zerohop status` says why.", some.words()),
        None => "Ready, but not all nodes say what they serve: `zerohop status` says why.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_line_names_the_partitions_that_are_not_served() {
        let words = |body: Value| ready_words(ServedPartitions::of(&body));
        let of = |served| serde_json::json!({"partitions": {"total": 256, "served": served}});
        assert_eq!(words(of(256)), "Ready.");
        let some = "Ready, but 44 of 256 partitions are not served yet: `zerohop status` says why.";
        assert_eq!(words(of(212)), some);
        assert!(words(serde_json::json!({"status": "waiting"})).starts_with("Ready, but not all nodes"));
    }
}
