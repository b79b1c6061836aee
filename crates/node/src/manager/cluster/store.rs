//! What the node must remember of its cluster, on disk: the control log and the member file. On a thread of its own, as a
//! disk may be slow and the agent must not be. While the disk is full it waits, and what it has not written is not promised to
//! anybody: the other managers go on without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{error, info, warn};
use zerohop_engine::disk::{DiskError, DiskResult};

use super::Input;
use crate::server::{NodeFolder, SavedMember};

/// Writes that wait for the disk: what the agent persists without waiting is a few at a time. A node of which so many wait for room
/// is of no use to the control group, and ends.
const WRITES_MAX: usize = 4_096;

/// Between two tries to write on a disk that is full.
const ROOM_PAUSE: Duration = Duration::from_millis(100);

/// Something to be written.
#[derive(Debug)]
pub(super) enum StoreWrite {
    /// Of the control log: added to it, or in place of it.
    Log { number: u64, bytes: Vec<u8>, replace: bool },
    /// The member file.
    Member(Box<SavedMember>),
}

/// The way to the thread. Dropping it waits until all is written, but not for room on the disk.
#[derive(Debug)]
pub(super) struct ManagerStore {
    writes: Option<SyncSender<StoreWrite>>,
    thread: Option<JoinHandle<()>>,
    /// The node ends: nobody waits for room any more.
    ends: Arc<AtomicBool>,
}

/// The thread's side.
struct StoreWriter {
    folder: NodeFolder,
    inputs: mpsc::Sender<Input>,
    ends: Arc<AtomicBool>,
}

impl ManagerStore {
    /// Starts the thread; the log has so many bytes that are good.
    pub(super) fn start(
        folder: NodeFolder,
        log_bytes: u64,
        inputs: mpsc::Sender<Input>,
    ) -> std::io::Result<ManagerStore> {
        let (writes, writes_in) = sync_channel(WRITES_MAX);
        let ends = Arc::new(AtomicBool::new(false));
        let mut writer = StoreWriter { folder, inputs, ends: Arc::clone(&ends) };
        let thread = Builder::new().name("zerohop-store".to_owned()).spawn(move || {
            let result = writer.until_room(|folder| folder.cut_control_log(log_bytes));
            let result = result.and_then(|()| writer.serve(&writes_in));
            if let Err(reason) = result {
                error!(reason, "the node cannot write what it must remember, and stops");
                // Whoever is not there any more need not be told.
                drop(writer.inputs.blocking_send(Input::StoreFailed(reason)));
            }
        })?;
        Ok(ManagerStore { writes: Some(writes), thread: Some(thread), ends })
    }

    /// Hands something over. What cannot be written is told by [`Input::StoreFailed`], or has been.
    ///
    /// # Errors
    /// In words: too much waits.
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
    /// Writes what comes; what waits together is synced together.
    fn serve(&mut self, writes: &Receiver<StoreWrite>) -> Result<(), String> {
        while let Ok(first) = writes.recv() {
            let (mut persisted, mut unsynced, mut member) = (None, false, None);
            let mut next = Some(first);
            while let Some(write) = next {
                match write {
                    StoreWrite::Log { number, bytes, replace: true } => {
                        self.until_room(|folder| folder.replace_control_log(&bytes))?;
                        (persisted, unsynced) = (Some(number), false);
                    }
                    StoreWrite::Log { number, bytes, replace: false } => {
                        self.until_room(|folder| folder.append_control_log(&bytes))?;
                        (persisted, unsynced) = (Some(number), true);
                    }
                    StoreWrite::Member(saved) => member = Some(saved),
                }
                next = writes.try_recv().ok();
            }
            if unsynced {
                self.until_room(NodeFolder::sync_control_log)?;
            }
            if let Some(number) = persisted
                && self.inputs.blocking_send(Input::Persisted(number)).is_err()
            {
                return Ok(());
            }
            // After the log, on which others wait: an older map in the member file does no harm.
            if let Some(saved) = member {
                self.until_room(|folder| folder.save_member(&saved))?;
                if self.inputs.blocking_send(Input::MemberSaved).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Does something, again and again while the disk is full: a call that is refused for that has changed nothing.
    fn until_room(&mut self, mut act: impl FnMut(&mut NodeFolder) -> DiskResult<()>) -> Result<(), String> {
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
            std::thread::sleep(ROOM_PAUSE);
        }
    }
}
