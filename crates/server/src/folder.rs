//! The data folder of a node: its lock, its contents, and the state file, which is replaced atomically.
//!
//! ```text
//!   DATA/node/lock       locked while a process has the folder
//!   DATA/node/state      identity and map of a standalone node           (persisted.rs, docs/formats/node-folder.md)
//!   DATA/node/losses     data that a standalone node may have lost       (losses.rs, the same)
//!   DATA/node/member     identity and map of a node in a cluster         (identity.rs, the same)
//!   DATA/node/control.log    its part in the control group               (docs/formats/control-log.md)
//!   DATA/node/reserve    space for these files once the disk is full     (disk_reserve.rs)
//!   DATA/instance-00/    the engine of its first instance         (docs/formats/README.md), and its `life`
//! ```

use std::path::{Path, PathBuf};

use tracing::warn;
use zerohop_disk::{EMBEDDED_SETTINGS_FILE, LOCK_FILE, NodeDisk, OpenDiskError};
use zerohop_engine::disk::{Disk, DiskError, DiskResult, FileId, OpenMode};
use zerohop_wire::ids::Incarnation;

use crate::disk_reserve::DiskReserve;
use crate::error::StartError;
use crate::node_files::clean_shutdown::read as closed_mark;
use crate::node_files::identity::{MEMBER_BYTES_MAX, SavedMember};
use crate::node_files::losses::{LOSSES_BYTES_MAX, SavedLosses};
use crate::node_files::persisted::{SAVED_BYTES_MAX, SavedNode};

pub(crate) const NODE_FOLDER: &str = "node";
pub(crate) const STATE_FILE: &str = "state";
const LOSSES_FILE: &str = "losses";
pub(crate) const MEMBER_FILE: &str = "member";
pub(crate) const CONTROL_LOG: &str = "control.log";
/// The suffix of a file that is not complete.
const UNFINISHED: &str = ".tmp";
pub(crate) const INSTANCE_PREFIX: &str = "instance-";

/// The node's part of a data folder, or of memory.
#[derive(Debug)]
pub(crate) struct NodeFolder {
    /// `None`: everything is in memory.
    root: Option<PathBuf>,
    disk: NodeDisk,
    control_log: Option<FileId>,
    reserve: DiskReserve,
}

impl NodeFolder {
    /// The folder of a node in memory.
    pub(crate) fn in_memory() -> Self {
        NodeFolder {
            root: None,
            disk: NodeDisk::in_memory(),
            control_log: None,
            reserve: DiskReserve::default(),
        }
    }

    /// Opens the data folder `root`, creates it if it does not exist, and reads the node's saved state.
    ///
    /// # Errors
    /// The folder is in use, has other contents, or its contents cannot be read.
    pub(crate) fn open(root: &Path) -> Result<(Self, Option<SavedNode>), StartError> {
        check(root)?;
        let mut disk = NodeDisk::open(&root.join(NODE_FOLDER)).map_err(|error| match error {
            OpenDiskError::InUse { .. } => StartError::Folder(OpenDiskError::InUse { root: root.to_owned() }),
            error => StartError::Folder(error),
        })?;
        let reserve = DiskReserve::find(&mut disk);
        let mut folder = NodeFolder { root: Some(root.to_owned()), disk, control_log: None, reserve };
        let saved = folder.read()?;
        let is_member = || folder.path(MEMBER_FILE).exists();
        if saved.is_none()
            && !is_member()
            && let Some(instance) = names(root).into_iter().find(|name| name.starts_with(INSTANCE_PREFIX))
        {
            let reason = format!(
                "it contains {instance} and no {NODE_FOLDER}/{STATE_FILE}, so the owner of this data is not known: restore \
                 the file from a copy, or name another folder"
            );
            return Err(StartError::ForeignFolder { root: root.to_owned(), reason });
        }
        Ok((folder, saved))
    }

    /// Replaces the saved state of a standalone node. The new state survives a crash once this has succeeded; after an error the old state
    /// or the new one is there.
    pub(crate) fn save(&mut self, saved: &SavedNode) -> DiskResult<()> {
        self.replace(STATE_FILE, &saved.encode())
    }

    /// Reads the record of what a standalone node may have lost; empty if there is no file. `None`: the file is corrupt.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read_losses(&mut self) -> Result<Option<SavedLosses>, StartError> {
        let found = self.read_file(LOSSES_FILE, LOSSES_BYTES_MAX as u64)?;
        Ok(found.map_or(Some(SavedLosses::default()), |bytes| SavedLosses::decode(&bytes)))
    }

    /// Replaces that record.
    pub(crate) fn save_losses(&mut self, losses: &SavedLosses) -> DiskResult<()> {
        self.replace(LOSSES_FILE, &losses.encode())
    }

    /// The process start that shut down cleanly, according to the disk of an instance.
    pub(crate) fn closed_mark(&self, place: usize) -> Option<Incarnation> {
        closed_mark(&Self::instance_folder(self.root()?, place))
    }

    /// Same as [`Self::save`], for a node in a cluster.
    pub(crate) fn save_member(&mut self, saved: &SavedMember) -> DiskResult<()> {
        self.replace(MEMBER_FILE, &saved.encode())
    }

    /// Reads the saved state of a node in a cluster, if there is one.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read_member(&mut self) -> Result<Option<SavedMember>, StartError> {
        let Some(bytes) = self.read_file(MEMBER_FILE, MEMBER_BYTES_MAX as u64 + 1)? else { return Ok(None) };
        SavedMember::decode(&bytes)
            .map(Some)
            .map_err(|reason| StartError::Member { path: self.path(MEMBER_FILE), reason: reason.to_owned() })
    }

    /// Reads the control log, if there is one.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(crate) fn read_control_log(&mut self) -> Result<Option<Vec<u8>>, StartError> {
        self.read_file(CONTROL_LOG, u64::MAX)
    }

    /// Cuts off a torn tail of the log, if there is a log. The caller must call this first.
    pub(crate) fn truncate_control_log(&mut self, bytes: u64) -> DiskResult<()> {
        if let Some(file) = self.control_log.take() {
            self.disk.close(file);
        }
        let file = match self.disk.open(CONTROL_LOG, OpenMode::Existing) {
            Ok(file) => file,
            Err(DiskError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.control_log = Some(file);
        if self.disk.bytes(file)? > bytes {
            self.disk.truncate(file, bytes)?;
            self.disk.sync(file)?;
        }
        Ok(())
    }

    /// Replaces the log.
    pub(crate) fn replace_control_log(&mut self, bytes: &[u8]) -> DiskResult<()> {
        if let Some(file) = self.control_log.take() {
            self.disk.close(file);
        }
        self.replace(CONTROL_LOG, bytes)?;
        self.control_log = Some(self.disk.open(CONTROL_LOG, OpenMode::Existing)?);
        Ok(())
    }

    /// Appends to the log; the caller must sync it.
    pub(crate) fn append_control_log(&mut self, bytes: &[u8]) -> DiskResult<()> {
        let Some(file) = self.control_log else {
            return Err(DiskError::NotFound { path: CONTROL_LOG.to_owned() });
        };
        self.with_reserve(|disk| disk.append(file, bytes))
    }

    /// Syncs the log, so that appended bytes survive a crash.
    pub(crate) fn sync_control_log(&mut self) -> DiskResult<()> {
        self.control_log.map_or(Ok(()), |file| self.disk.sync(file))
    }

    fn replace(&mut self, name: &str, bytes: &[u8]) -> DiskResult<()> {
        self.with_reserve(|disk| replace_file(disk, name, bytes))?;
        if self.root.is_some() {
            self.reserve.fill(&mut self.disk);
        }
        Ok(())
    }

    /// Repeats a write with the space of the reserve, if the disk is full.
    fn with_reserve(&mut self, mut write: impl FnMut(&mut NodeDisk) -> DiskResult<()>) -> DiskResult<()> {
        match write(&mut self.disk) {
            Err(DiskError::Full) if self.reserve.release(&mut self.disk) => {
                warn!(
                    "the disk of the node's folder is full: its state is written into the space kept for it; make room"
                );
                write(&mut self.disk)
            }
            outcome => outcome,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.clone().unwrap_or_default().join(NODE_FOLDER).join(name)
    }

    /// The disk of an instance, by its index in the node. Errors: as [`NodeDisk::open`].
    pub(crate) fn instance_disk(root: Option<&Path>, place: usize) -> Result<NodeDisk, OpenDiskError> {
        match root {
            Some(root) => NodeDisk::open(&Self::instance_folder(root, place)),
            None => Ok(NodeDisk::in_memory()),
        }
    }

    /// The folder of an instance.
    pub(crate) fn instance_folder(root: &Path, place: usize) -> PathBuf {
        root.join(format!("{INSTANCE_PREFIX}{place:02}"))
    }

    /// The data folder; `None`: there is none.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// A warning about the disk for the operator.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.disk.warning()
    }

    fn read(&mut self) -> Result<Option<SavedNode>, StartError> {
        // One byte more than the maximum is read, so that a longer file is refused.
        let Some(bytes) = self.read_file(STATE_FILE, SAVED_BYTES_MAX as u64 + 1)? else { return Ok(None) };
        SavedNode::decode(&bytes)
            .map(Some)
            .map_err(|error| StartError::State { path: self.path(STATE_FILE), error })
    }

    /// The first bytes of a file, limited in number; `None`: the file does not exist.
    fn read_file(&mut self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, StartError> {
        let failed = |error: DiskError| StartError::Folder(OpenDiskError::Disk(error));
        let file = match self.disk.open(name, OpenMode::Existing) {
            Ok(file) => file,
            Err(DiskError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let bytes = self.disk.bytes(file).and_then(|length| {
            let mut bytes = vec![0; length.min(bytes_max) as usize];
            self.disk.read_at(file, 0, &mut bytes).map(|()| bytes)
        });
        self.disk.close(file);
        bytes.map(Some).map_err(failed)
    }
}

fn replace_file(disk: &mut NodeDisk, name: &str, bytes: &[u8]) -> DiskResult<()> {
    let unfinished = format!("{name}{UNFINISHED}");
    match disk.remove(&unfinished) {
        Ok(()) | Err(DiskError::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let file = disk.open(&unfinished, OpenMode::Create)?;
    let written = disk.append(file, bytes).and_then(|()| disk.sync(file));
    disk.close(file);
    written?;
    disk.rename(&unfinished, name)?;
    disk.sync_dir("")
}

/// Refuses an existing folder that is not empty and does not belong to a node. Changes nothing.
fn check(root: &Path) -> Result<(), StartError> {
    let foreign = |reason: String| Err(StartError::ForeignFolder { root: root.to_owned(), reason });
    let names = names(root);
    if names.iter().any(|name| name == EMBEDDED_SETTINGS_FILE) {
        return foreign(format!(
            "it is an embedded store (it contains {EMBEDDED_SETTINGS_FILE}), which a program opens by itself: name another folder"
        ));
    }
    let is_ours = |name: &String| name == NODE_FOLDER || name.starts_with(INSTANCE_PREFIX);
    if names.iter().any(is_ours) {
        return Ok(());
    }
    // The root of a file system has a folder for recovered files.
    match names.iter().find(|name| *name != LOCK_FILE && *name != "lost+found") {
        Some(name) => {
            foreign(format!("it is not empty (it contains {name}) and not a node's: name another folder"))
        }
        None => Ok(()),
    }
}

pub(crate) fn names(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests put files where they do not belong")]
mod tests {
    use super::*;
    use crate::node_files::persisted::tests::sample;

    fn reason(root: &Path) -> String {
        NodeFolder::open(root).unwrap_err().to_string()
    }

    #[test]
    fn saved_state_is_read_and_replaced_atomically() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("made/by/it");
        let (mut folder, saved) = NodeFolder::open(&data).unwrap();
        assert_eq!(saved, None);
        folder.save(&sample()).unwrap();
        let newer = SavedNode { next_keyspace: 9.into(), ..sample() };
        folder.save(&newer).unwrap();
        drop(folder);
        // A crash during the replacement leaves this file.
        std::fs::copy(data.join("node/state"), data.join("node/state.tmp")).unwrap();
        let (mut folder, saved) = NodeFolder::open(&data).unwrap();
        assert_eq!(saved, Some(newer));
        folder.save(&sample()).unwrap();
    }

    #[test]
    fn a_folder_in_use_or_of_something_else_is_refused_with_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let (mut folder, _) = NodeFolder::open(root.path()).unwrap();
        folder.save(&sample()).unwrap();
        let in_use = reason(root.path());
        assert!(in_use.contains("another zerohop process") && !in_use.contains("/node"), "{in_use}");
        drop(folder);
        let state = root.path().join("node/state");
        let mut bytes = sample().encode();
        bytes[8] = 9;
        std::fs::write(&state, &bytes).unwrap();
        assert!(reason(root.path()).contains("of format 9"), "{}", reason(root.path()));
        std::fs::remove_file(&state).unwrap();
        std::fs::create_dir(root.path().join("instance-00")).unwrap();
        assert!(
            reason(root.path()).contains("the owner of this data is not known"),
            "{}",
            reason(root.path())
        );

        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("thesis.tex"), "x").unwrap();
        assert!(reason(other.path()).contains("thesis.tex"));
        assert!(!other.path().join("node").exists(), "nothing was touched");
        std::fs::write(other.path().join("store.txt"), "x").unwrap();
        assert!(reason(other.path()).contains("embedded store"));
    }
}
