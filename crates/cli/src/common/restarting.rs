//! The file in which `zerohop up` names the nodes that it is about to start again, for commands that reach none of them.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::other_nodes::{NODES_MAX, with_number};

/// Its name in the data folder.
const RESTARTING_FILE: &str = "restarting";

/// The longest file that is read.
const BYTES_MAX: u64 = NODES_MAX as u64 * 100;

/// The file. `zerohop up` locks it: one that a killed process has left says nothing.
#[derive(Debug, Default)]
pub(crate) struct RestartingNodes {
    /// `None`: no node is restarting, or the folder cannot be written.
    file: Option<(PathBuf, File)>,
}

impl RestartingNodes {
    /// Names these nodes of the cluster in `root`, and where their managers listen. Without a node it removes the file.
    pub(crate) fn name(&mut self, root: &Path, nodes: &[(u32, SocketAddr)]) {
        self.remove();
        if !nodes.is_empty() {
            let path = root.join(RESTARTING_FILE);
            // Without the file, commands only say less.
            self.file = write(&path, nodes).ok().map(|file| (path, file));
        }
    }

    fn remove(&mut self) {
        if let Some((path, _)) = self.file.take() {
            // One that stays is no longer locked.
            drop(fs::remove_file(path));
        }
    }
}

impl Drop for RestartingNodes {
    fn drop(&mut self) {
        self.remove();
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of this program, not of a node")]
fn write(path: &Path, nodes: &[(u32, SocketAddr)]) -> io::Result<File> {
    let mut file = File::create(path)?;
    file.lock()?;
    let lines: String = nodes.iter().map(|(node, at)| format!("{node} {at}\n")).collect();
    file.write_all(lines.as_bytes())?;
    Ok(file)
}

/// The node at one of these endpoints that a running `zerohop up` is about to start again, with its data in `root`.
pub(crate) fn restarting_node(root: &Path, endpoints: &[&str]) -> Option<u32> {
    #[expect(clippy::disallowed_methods, reason = "a file of this program, not of a node")]
    let file = File::open(root.join(RESTARTING_FILE)).ok()?;
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return None;
    }
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    let mut nodes = text.lines().filter_map(|line| line.split_once(' '));
    let is_named = |at: &str| endpoints.iter().any(|endpoint| with_number(endpoint) == at);
    nodes.find(|(_, at)| is_named(at))?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_nodes_only_while_up_has_it() {
        let root = tempfile::tempdir().unwrap();
        let found = |endpoints: &[&str]| restarting_node(root.path(), endpoints);
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut nodes = RestartingNodes::default();
        assert_eq!(found(&["127.0.0.1:7400"]), None);
        nodes.name(root.path(), &[(1, at(7400)), (3, at(7404))]);
        assert_eq!((found(&["localhost:7404"]), found(&["127.0.0.1:7402"])), (Some(3), None));
        nodes.name(root.path(), &[(1, at(7400))]);
        assert_eq!((found(&["x:1", "127.0.0.1:7400"]), found(&["127.0.0.1:7404"])), (Some(1), None));
        nodes.name(root.path(), &[]);
        assert_eq!(found(&["127.0.0.1:7400"]), None);
        nodes.name(root.path(), &[(1, at(7400))]);
        let (path, copy) = (root.path().join(RESTARTING_FILE), root.path().join("copy"));
        fs::copy(&path, &copy).unwrap();
        drop(nodes);
        assert!(!path.exists());
        // A process that was killed leaves the file, and no lock.
        fs::rename(copy, path).unwrap();
        assert_eq!(found(&["127.0.0.1:7400"]), None);
    }
}
