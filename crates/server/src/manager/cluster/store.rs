//! The node's saved state of its cluster on disk: the control log and the member file. The store has a thread of its own, because a disk may be
//! slow and the agent must not be. While the disk is full it waits. The node promises nothing that is not written, and the other managers continue
//! without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{error, info, warn};
use zerohop_engine::disk::{DiskError, DiskResult};

use super::super::cluster_handle::Input;
use crate::folder::NodeFolder;
use crate::node_files::identity::SavedMember;

/// Maximum number of writes that wait for the disk: normally the agent has only a few. A node with so many pending writes is useless to the control
/// group, and ends.
const WRITES_MAX: usize = 4_096;

/// Pause between two attempts to write on a full disk.
const DISK_FULL_PAUSE: Duration = Duration::from_millis(100);

/// A write.
#[derive(Debug)]
pub(super) enum StoreWrite {
    /// Of the control log: appended to it, or replacing it.
    Log { number: u64, bytes: Vec<u8>, replace: bool },
    /// The member file.
    Member(Box<SavedMember>),
}

/// The handle of the thread. Dropping it waits until all writes are done, but not for room on the disk.
#[derive(Debug)]
pub(super) struct ManagerStore {
    writes: Option<SyncSender<StoreWrite>>,
    thread: Option<JoinHandle<()>>,
    /// The node is ending: the store no longer waits for room.
    ends: Arc<AtomicBool>,
}

/// The thread's state.
struct StoreWriter {
    folder: NodeFolder,
    inputs: mpsc::Sender<Input>,
    ends: Arc<AtomicBool>,
}

impl ManagerStore {
    /// Starts the thread; the log has this many valid bytes.
    pub(super) fn start(
        folder: NodeFolder,
        log_bytes: u64,
        inputs: mpsc::Sender<Input>,
    ) -> std::io::Result<ManagerStore> {
        let (writes, writes_in) = sync_channel(WRITES_MAX);
        let ends = Arc::new(AtomicBool::new(false));
        let mut writer = StoreWriter { folder, inputs, ends: Arc::clone(&ends) };
        let thread = Builder::new().name("zerohop-store".to_owned()).spawn(move || {
            let result = writer.retry_while_full(|folder| folder.truncate_control_log(log_bytes));
            let result = result.and_then(|()| writer.serve(&writes_in));
            if let Err(reason) = result {
                error!(reason, "the node cannot write its control state, and stops");
                // The receiver may have ended.
                drop(writer.inputs.blocking_send(Input::StoreFailed(reason)));
            }
        })?;
        Ok(ManagerStore { writes: Some(writes), thread: Some(thread), ends })
    }

    /// Passes a write to the thread. A failure is reported by [`Input::StoreFailed`].
    ///
    /// # Errors
    /// In words: too many writes are waiting.
    pub(super) fn write(&self, write: StoreWrite) -> Result<(), String> {
        let Some(writes) = &self.writes else { return Ok(()) };
        match writes.try_send(write) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err(format!(
                "{WRITES_MAX} changes of it wait for the disk, which has been full or stuck for too long: make room, and start \
                 the node again"
            )),
        }
    }
}

impl Drop for ManagerStore {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.writes = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl StoreWriter {
    /// Executes the writes; all that wait together share one sync.
    fn serve(&mut self, writes: &Receiver<StoreWrite>) -> Result<(), String> {
        while let Ok(first) = writes.recv() {
            let (mut persisted, mut unsynced, mut member) = (None, false, None);
            let mut next = Some(first);
            while let Some(write) = next {
                match write {
                    StoreWrite::Log { number, bytes, replace: true } => {
                        self.retry_while_full(|folder| folder.replace_control_log(&bytes))?;
                        (persisted, unsynced) = (Some(number), false);
                    }
                    StoreWrite::Log { number, bytes, replace: false } => {
                        self.retry_while_full(|folder| folder.append_control_log(&bytes))?;
                        (persisted, unsynced) = (Some(number), true);
                    }
                    StoreWrite::Member(saved) => member = Some(saved),
                }
                next = writes.try_recv().ok();
            }
            if unsynced {
                self.retry_while_full(NodeFolder::sync_control_log)?;
            }
            if let Some(number) = persisted
                && self.inputs.blocking_send(Input::Persisted(number)).is_err()
            {
                return Ok(());
            }
            // The member file comes after the log, for which other managers wait: an older map in it is harmless.
            if let Some(saved) = member {
                self.retry_while_full(|folder| folder.save_member(&saved))?;
                if self.inputs.blocking_send(Input::MemberSaved).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Repeats an action while the disk is full: a call that is refused for that reason has changed nothing.
    fn retry_while_full(
        &mut self,
        mut act: impl FnMut(&mut NodeFolder) -> DiskResult<()>,
    ) -> Result<(), String> {
        let mut waits = false;
        loop {
            let result = act(&mut self.folder);
            let is_full = result.as_ref().is_err_and(DiskError::is_temporary);
            if is_full && self.ends.load(Ordering::Relaxed) {
                return Err("the control log cannot be written just now, and the node ends".to_owned());
            }
            if std::mem::replace(&mut waits, is_full) != is_full {
                match is_full {
                    true => warn!(
                        reason = %result.as_ref().err().unwrap_or(&DiskError::Full),
                        "the node's part in the control group waits until its log can be written"
                    ),
                    false => info!("the log can be written again: the node takes part in the control group"),
                }
                if self.inputs.blocking_send(Input::StoreWaits(is_full)).is_err() {
                    return Ok(());
                }
            }
            if !is_full {
                return result.map_err(|error| error.to_string());
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "a thread of its own, which has nothing else to do"
            )]
            std::thread::sleep(DISK_FULL_PAUSE);
        }
    }
}
