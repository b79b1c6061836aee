//! What the node must remember of its cluster, on disk: the control log and the member file. On a thread of its own, as a
//! disk may be slow and the agent must not be.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use tokio::sync::mpsc;
use tracing::error;

use super::Input;
use crate::server::{NodeFolder, SavedMember};

/// Writes that wait for the disk: what the agent persists without waiting is a few at a time.
const WRITES_MAX: usize = 1_024;

/// Something to be written.
#[derive(Debug)]
pub(super) enum Write {
    /// Of the control log: added to it, or in place of it.
    Log { number: u64, bytes: Vec<u8>, replace: bool },
    /// The member file.
    Member(Box<SavedMember>),
}

/// The way to the thread. Dropping it waits until all is written.
#[derive(Debug)]
pub(super) struct Store {
    writes: Option<SyncSender<Write>>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// Starts the thread; the log has so many bytes that are good.
    pub(super) fn start(
        mut folder: NodeFolder,
        log_bytes: u64,
        inputs: mpsc::Sender<Input>,
    ) -> std::io::Result<Store> {
        let (writes, writes_in) = sync_channel(WRITES_MAX);
        let thread = Builder::new().name("zerohop-store".to_owned()).spawn(move || {
            let result = folder.cut_control_log(log_bytes).map_err(|error| error.to_string());
            let result = result.and_then(|()| serve(&mut folder, &writes_in, &inputs));
            if let Err(reason) = result {
                error!(reason, "the node cannot write what it must remember, and stops");
                // Whoever is not there any more need not be told.
                drop(inputs.blocking_send(Input::StoreFailed(reason)));
            }
        })?;
        Ok(Store { writes: Some(writes), thread: Some(thread) })
    }

    /// Hands something over. What cannot be handed over is told by [`Input::StoreFailed`], or has been.
    pub(super) fn write(&self, write: Write) {
        if let Some(writes) = &self.writes {
            // Waits only where a thousand writes wait already: the agent has nothing better to do then.
            drop(writes.send(write));
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.writes = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Writes what comes; what waits together is synced together.
fn serve(
    folder: &mut NodeFolder,
    writes: &Receiver<Write>,
    inputs: &mpsc::Sender<Input>,
) -> Result<(), String> {
    while let Ok(first) = writes.recv() {
        let (mut persisted, mut unsynced, mut member) = (None, false, None);
        let mut next = Some(first);
        while let Some(write) = next {
            match write {
                Write::Log { number, bytes, replace: true } => {
                    folder.replace_control_log(&bytes).map_err(|error| error.to_string())?;
                    (persisted, unsynced) = (Some(number), false);
                }
                Write::Log { number, bytes, replace: false } => {
                    folder.append_control_log(&bytes).map_err(|error| error.to_string())?;
                    (persisted, unsynced) = (Some(number), true);
                }
                Write::Member(saved) => member = Some(saved),
            }
            next = writes.try_recv().ok();
        }
        if unsynced {
            folder.sync_control_log().map_err(|error| error.to_string())?;
        }
        if let Some(number) = persisted
            && inputs.blocking_send(Input::Persisted(number)).is_err()
        {
            return Ok(());
        }
        // After the log, on which others wait: an older map in the member file does no harm.
        if let Some(saved) = member {
            folder.save_member(&saved).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
