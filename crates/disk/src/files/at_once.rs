//! A sync in the caller's thread: the system has no thread or memory for the threads that execute syncs in the background.

use std::os::fd::OwnedFd;
use std::task::Waker;

use rustix::fs::fsync;
use rustix::io::retry_on_intr;
use zerohop_engine::disk::{DiskResult, FileId, SyncTicket};

use super::{FilesDisk, PendingFileSync};
use crate::open_files::failed;

/// Syncs the file, then these folders, and returns a ticket of a sync that is done.
pub(super) fn sync_at_once(
    disk: &mut FilesDisk,
    file: FileId,
    mut begun: PendingFileSync,
    folders: &[OwnedFd],
    waker: Option<Waker>,
) -> DiskResult<SyncTicket> {
    let (_, open) = disk.files.get(file, "sync_begin")?;
    open.sync()?;
    for (folder, name) in folders.iter().zip(&begun.folders) {
        retry_on_intr(|| fsync(folder)).map_err(|errno| failed(name, "sync_dir", errno))?;
    }
    disk.durable_folders.extend(begun.folders.drain(..).filter(|folder| !folder.is_empty()));
    begun.result = Some(Ok(()));
    let ticket = disk.next_ticket;
    disk.next_ticket += 1;
    disk.begun.insert(ticket, begun);
    waker.into_iter().for_each(Waker::wake);
    Ok(SyncTicket(ticket))
}
