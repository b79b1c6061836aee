//! The data folder of a local cluster: the number of its nodes, and the owner of each of its folders.
//!
//! ```text
//!   DATA/cluster          number of nodes, written before the first of their folders                      (docs/formats/node-folder.md)
//!   DATA/node-1/ …        the folder of each node                                                      (folder.rs)
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use zerohop_control::command::ManagerId;
use zerohop_control::manager::RaftManager;
use zerohop_disk::replace_file;
use zerohop_system::entropy::random_bytes;
use zerohop_wire::checksum::crc32c;
use zerohop_wire::escaped::shown_path;
use zerohop_wire::ids::NodeId;
use zerohop_wire::messages::ClusterId;

use crate::error::StartError;
use crate::folder::{CONTROL_LOG, INSTANCE_PREFIX, MEMBER_FILE, NODE_FOLDER, STATE_FILE};
use crate::node_files::identity::SavedMember;
use crate::node_files::persisted::SavedNode;

const MAGIC: [u8; 8] = *b"zerohopu";
const VERSION: u32 = 1;
/// Magic number, version, state, name, number of nodes.
const HEADER_BYTES: usize = 8 + 4 + 4 + 16 + 4;
/// Maximum number of nodes in the file.
const NODES_MAX: usize = 64;
/// Every address has at most 255 bytes.
const FILE_BYTES_MAX: u64 = (HEADER_BYTES + NODES_MAX * 256 + 4) as u64;
const FILE: &str = "cluster";

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalCluster {
    /// Distinguishes it from other clusters at the same addresses; random.
    pub name: [u8; 16],
    /// The addresses of its managers at the bootstrap, in the order of the nodes' folders.
    pub bootstrap_addresses: Vec<SocketAddr>,
    /// All nodes have served together: from now on none of them bootstraps the control group.
    pub is_bootstrapped: bool,
}

/// Start options that the process of a local cluster passes to each of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalStart {
    /// See [`LocalCluster::bootstrap_addresses`].
    pub bootstrap_addresses: Vec<SocketAddr>,
    /// The cluster has not been bootstrapped: a bootstrap node without a control log has made no promise.
    pub is_first: bool,
    /// The managers of the control group, by their numbers in it, with their current addresses.
    pub managers: Vec<(u64, SocketAddr)>,
}

/// The owner of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderOwner {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its number, once it has joined.
    pub node: Option<NodeId>,
    /// The number of its manager in the control group, if it has one.
    pub manager: Option<u64>,
    /// The address of its manager when it served last.
    pub listened_at: Option<String>,
    /// The number of nodes in the newest map that it has saved; 0: it has none.
    pub nodes_in_map: usize,
}

impl LocalCluster {
    /// A cluster that is not bootstrapped yet.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn new(bootstrap_addresses: Vec<SocketAddr>) -> Result<LocalCluster, StartError> {
        let name = super::random(random_bytes())?;
        Ok(LocalCluster { name, bootstrap_addresses, is_bootstrapped: false })
    }

    /// Its name as text.
    #[must_use]
    pub fn name(&self) -> String {
        super::hex(&self.name)
    }

    /// Reads the file of the data folder `root`; `None`: there is no such file, as in folders of older programs.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(root: &Path) -> Result<Option<LocalCluster>, StartError> {
        let Some(bytes) = read(&root.join(FILE), FILE_BYTES_MAX)? else { return Ok(None) };
        let failed = |reason: &str| StartError::Member { path: root.join(FILE), reason: reason.to_owned() };
        LocalCluster::decode(&bytes).map(Some).map_err(failed)
    }

    /// Writes the file atomically; creates the folder if it does not exist. The file survives a crash once this has succeeded.
    ///
    /// # Errors
    /// Those of the system.
    #[expect(clippy::disallowed_methods, reason = "the parent of the folder is synced, in which no disk is")]
    pub fn write(&self, root: &Path) -> Result<(), StartError> {
        let failed = |error: std::io::Error| StartError::System {
            operation: "writing the cluster file of the data folder",
            reason: format!("{}: {error}", shown_path(&root.join(FILE))),
        };
        replace_file(root, FILE, &self.encode()).map_err(failed)?;
        // The folder itself may be new.
        match root.canonicalize().map_err(failed)?.parent() {
            Some(parent) => std::fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed),
            None => Ok(()),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + 32 * self.bootstrap_addresses.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u32::from(self.is_bootstrapped).to_le_bytes());
        bytes.extend_from_slice(&self.name);
        bytes.extend_from_slice(&(self.bootstrap_addresses.len() as u32).to_le_bytes());
        for address in &self.bootstrap_addresses {
            let text = address.to_string();
            // A numeric address has less than 80 bytes.
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
        let checksum = crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<LocalCluster, &'static str> {
        const DAMAGED: &str = "it is damaged: bring it back from a copy, or remove it, and the number of nodes is that of the folders";
        let Some((body, checksum)) = bytes.split_last_chunk::<4>() else { return Err(DAMAGED) };
        if body.len() < HEADER_BYTES || body[..8] != MAGIC {
            return Err(DAMAGED);
        }
        let number = |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        if number(8) != VERSION {
            return Err("it is of another format: use the zerohop that wrote it");
        }
        let (state, nodes) = (number(12), number(32) as usize);
        if crc32c(body) != u32::from_le_bytes(*checksum) || state > 1 || !(1..=NODES_MAX).contains(&nodes) {
            return Err(DAMAGED);
        }
        let mut name = [0; 16];
        name.copy_from_slice(&body[16..32]);
        let (mut bootstrap_addresses, mut rest) = (Vec::new(), &body[HEADER_BYTES..]);
        for _ in 0..nodes {
            let (length, behind) = rest.split_first().ok_or(DAMAGED)?;
            let (text, behind) = behind.split_at_checked(usize::from(*length)).ok_or(DAMAGED)?;
            let text = std::str::from_utf8(text).map_err(|_| DAMAGED)?;
            bootstrap_addresses.push(text.parse().map_err(|_| DAMAGED)?);
            rest = behind;
        }
        match rest {
            [] => Ok(LocalCluster { name, bootstrap_addresses, is_bootstrapped: state == 1 }),
            _ => Err(DAMAGED),
        }
    }
}

/// The folder of a node of a local cluster, by its index from zero.
#[must_use]
pub fn node_folder(root: &Path, place: usize) -> PathBuf {
    root.join(format!("node-{}", place + 1))
}

/// Whether a folder has data of a node. An empty folder, or one with only a lock, has none.
#[must_use]
pub fn holds_data(root: &Path) -> bool {
    let is_kept = |name: &str| root.join(NODE_FOLDER).join(name).exists();
    [STATE_FILE, MEMBER_FILE, CONTROL_LOG].into_iter().any(is_kept)
        || crate::folder::names(root).iter().any(|name| name.starts_with(INSTANCE_PREFIX))
}

/// Checks that a folder is missing, or can be listed: what cannot be read is not taken for empty.
///
/// # Errors
/// It is another file, or the process may not read it.
pub fn check_readable(root: &Path) -> Result<(), StartError> {
    let instances = root.join(NODE_FOLDER);
    for folder in [root, &instances] {
        match std::fs::read_dir(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StartError::System {
                    operation: "reading the data folder",
                    reason: format!("{}: {error}", shown_path(folder)),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

/// The owner of the folder; `None`: it has none yet. Takes no lock and changes nothing.
///
/// # Errors
/// The node's saved state cannot be read.
pub fn owner(root: &Path) -> Result<Option<FolderOwner>, StartError> {
    let folder = root.join(NODE_FOLDER);
    let wrong = |name: &str, reason: String| StartError::Member { path: folder.join(name), reason };
    if let Some(bytes) = read(&folder.join(STATE_FILE), u64::MAX)? {
        let saved = SavedNode::decode(&bytes).map_err(|error| wrong(STATE_FILE, error.to_string()))?;
        let listened_at = saved.map.node(saved.node).map(|node| node.manager().to_owned());
        let (cluster, node, nodes_in_map) = (saved.cluster, Some(saved.node), saved.map.nodes().len());
        return Ok(Some(FolderOwner { cluster, node, manager: None, listened_at, nodes_in_map }));
    }
    let log = read(&folder.join(CONTROL_LOG), u64::MAX)?.filter(|log| !log.is_empty());
    // The node itself reports a log that cannot be read.
    let manager = log.and_then(|log| RaftManager::id_in(&log)).map(|ManagerId(id)| id);
    let Some(bytes) = read(&folder.join(MEMBER_FILE), u64::MAX)? else {
        let cluster = ClusterId::default();
        let owner = |_| FolderOwner { cluster, node: None, manager, listened_at: None, nodes_in_map: 0 };
        return Ok(manager.map(owner));
    };
    let SavedMember { cluster, node, map, .. } =
        SavedMember::decode(&bytes).map_err(|reason| wrong(MEMBER_FILE, reason.to_owned()))?;
    let listened_at = node.and_then(|node| map.node(node)).map(|node| node.manager().to_owned());
    Ok(Some(FolderOwner { cluster, node, manager, listened_at, nodes_in_map: map.nodes().len() }))
}

/// The process that has the original of the data folder `root` open, if the folder is a copy: see
/// [`zerohop_disk::process_of_original`].
#[must_use]
pub fn process_of_original(root: &Path) -> Option<u32> {
    zerohop_disk::process_of_original(&root.join(NODE_FOLDER))
}

/// The first bytes of a file, limited in number; `None`: the file does not exist.
#[expect(clippy::disallowed_methods, reason = "a disk would take the folder's lock")]
fn read(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, StartError> {
    use std::io::{ErrorKind, Read};
    let failed = |error: std::io::Error| StartError::System {
        operation: "reading the data folder",
        reason: format!("{}: {error}", shown_path(path)),
    };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 1, byte by byte: later programs must be able to read it.
    const PINNED: &[u8] = include_bytes!("../../tests/corpus/v1/cluster");

    fn sample() -> LocalCluster {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let bootstrap_addresses = vec![at(7400), at(7403), at(7406)];
        LocalCluster { name: *b"sixteen bytes id", bootstrap_addresses, is_bootstrapped: true }
    }

    #[test]
    fn version_1_bytes_decode_and_encode_unchanged() {
        assert_eq!(sample().encode(), PINNED);
        assert_eq!(LocalCluster::decode(PINNED), Ok(sample()));
    }

    #[test]
    fn local_cluster_file_roundtrips_and_changed_text_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("made");
        assert_eq!(LocalCluster::read(&data), Ok(None));
        let mut cluster = LocalCluster { is_bootstrapped: false, ..sample() };
        for is_bootstrapped in [false, true] {
            cluster.is_bootstrapped = is_bootstrapped;
            cluster.write(&data).unwrap();
            assert_eq!(LocalCluster::read(&data), Ok(Some(cluster.clone())));
        }
        for at in 0..PINNED.len() {
            let mut other = PINNED.to_vec();
            other[at] ^= 1;
            assert!(LocalCluster::decode(&other).is_err(), "{at}");
            assert!(LocalCluster::decode(&PINNED[..at]).is_err(), "{at}");
        }
        assert!(LocalCluster::decode(&[PINNED, b"x"].concat()).is_err());
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "makes folders as an interrupted start leaves them")]
    fn empty_folder_has_no_data() {
        let root = tempfile::tempdir().unwrap();
        assert!(!holds_data(root.path()) && !holds_data(&root.path().join("none")));
        assert!(check_readable(root.path()).is_ok() && check_readable(&root.path().join("none")).is_ok());
        std::fs::create_dir(root.path().join("node")).unwrap();
        std::fs::write(root.path().join("node/lock"), "").unwrap();
        std::fs::write(root.path().join("node/member.tmp"), "half").unwrap();
        assert!(!holds_data(root.path()));
        assert_eq!(owner(root.path()), Ok(None));
        std::fs::create_dir(root.path().join("instance-00")).unwrap();
        assert!(holds_data(root.path()));
    }
}
