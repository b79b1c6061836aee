//! The other nodes of the cluster in `zerohop-data`, for a command whose node does not answer.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;
use zerohop_server::{FolderOwner, node_folder, owner};
use zerohop_wire::messages::ClusterId;

/// The data folder that `zerohop up` uses by default.
pub(crate) const DATA_DEFAULT: &str = "zerohop-data";

/// The most nodes of a local cluster: more would only test the machine.
pub(crate) const NODES_MAX: u32 = 16;

/// Nodes of one cluster.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OtherNodes {
    pub(crate) cluster: ClusterId,
    /// The addresses at which their managers listened last.
    pub(crate) addresses: Vec<String>,
}

/// The other nodes of the cluster in `root`, if one of its nodes listened last at one of these endpoints. A folder of another user is not
/// considered, and no address of another machine.
pub(crate) fn of_folder(root: &Path, endpoints: &[&str]) -> Option<OtherNodes> {
    let metadata = std::fs::metadata(root).ok()?;
    if metadata.uid() != geteuid().as_raw() {
        return None;
    }
    let owners = (0..NODES_MAX as usize).filter_map(|place| owner(&node_folder(root, place)).ok().flatten());
    others(owners, endpoints)
}

fn others(owners: impl Iterator<Item = FolderOwner>, endpoints: &[&str]) -> Option<OtherNodes> {
    let endpoints: Vec<String> = endpoints.iter().map(|endpoint| with_number(endpoint)).collect();
    let all: Vec<(ClusterId, String)> =
        owners.filter_map(|owner| Some((owner.cluster, owner.listened_at?))).collect();
    let (cluster, _) = all.iter().find(|(_, address)| endpoints.contains(address))?;
    let is_other = |(of, address): &(ClusterId, String)| {
        let is_local = address.parse().is_ok_and(|address: SocketAddr| address.ip().is_loopback());
        of == cluster && is_local && !endpoints.contains(address)
    };
    let addresses: Vec<String> = all.iter().filter(|one| is_other(one)).map(|(_, at)| at.clone()).collect();
    (!addresses.is_empty()).then_some(OtherNodes { cluster: *cluster, addresses })
}

/// The endpoint with the number of this machine, at which `zerohop up` listens, in place of its name.
pub(crate) fn with_number(endpoint: &str) -> String {
    match endpoint.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => endpoint.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cluster: u8, address: Option<&str>) -> FolderOwner {
        FolderOwner {
            cluster: ClusterId([cluster; 16]),
            node: None,
            manager: None,
            listened_at: address.map(str::to_owned),
            nodes_in_map: 3,
        }
    }

    #[test]
    fn only_local_nodes_of_the_cluster_of_the_endpoint_are_others() {
        let nodes = [
            node(1, Some("127.0.0.1:7400")),
            node(1, Some("127.0.0.1:7402")),
            node(2, Some("127.0.0.1:7404")),
            node(1, Some("10.0.0.1:7406")),
            node(1, None),
        ];
        let found = |endpoints: &[&str]| others(nodes.iter().cloned(), endpoints);
        let wanted = OtherNodes { cluster: ClusterId([1; 16]), addresses: vec!["127.0.0.1:7402".to_owned()] };
        assert_eq!(found(&["127.0.0.1:7400"]), Some(wanted));
        assert_eq!(found(&["localhost:7402"]).unwrap().addresses, ["127.0.0.1:7400"]);
        assert_eq!(found(&["127.0.0.1:7400", "127.0.0.1:7402"]), None);
        assert_eq!((found(&["127.0.0.1:7404"]), found(&["127.0.0.1:9000"])), (None, None));
    }

    #[test]
    fn a_folder_that_is_missing_or_has_no_data_has_no_nodes() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(of_folder(root.path(), &["127.0.0.1:7400"]), None);
        assert_eq!(of_folder(&root.path().join("missing"), &["127.0.0.1:7400"]), None);
    }
}
