//! Snapshot installs of partitions in a shared log; see [`crate::store::shared_install`].

use super::{Engine, Handle, store_of};
use crate::disk::Disk;
use crate::disk::crash_point::CrashPoint;
use crate::error::{EngineError, EngineResult};
use crate::planted::{Bug, is_planted};
use crate::store::snapshot_install::{InstallState, InstalledRun};

impl<D: Disk> Engine<D> {
    /// See [`Engine::begin_install`].
    pub(super) fn begin_shared_install(&mut self, handle: Handle) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        store.check_going()?;
        let log = io.logs.view(store.handle);
        if !log.is_unused() {
            return Err(EngineError::NotNext { last: log.last() });
        }
        store.incoming = InstallState::Runs;
        io.disk.reached(CrashPoint::InstallBegun);
        Ok(())
    }

    /// See [`Engine::install_run`].
    pub(super) fn install_shared_run(
        &mut self,
        handle: Handle,
        begins: bool,
        bytes: &[u8],
    ) -> EngineResult<u64> {
        let Engine { io, partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        let installed = store.install_shared_run(io, begins, bytes).map_err(|error| io.full_or(error))?;
        maintenance.wrote(handle, store, installed.bytes);
        io.disk.reached(CrashPoint::InstallRun);
        if !io.logs.view(store.handle).is_in_memory_only() {
            maintenance.sync_later(handle, store.durability.sync_after_ms());
        }
        let InstalledRun { newest, .. } = installed;
        self.evict();
        Ok(newest)
    }

    /// See [`Engine::end_install`].
    pub(super) fn end_shared_install(&mut self, handle: Handle) -> EngineResult<()> {
        let (io, store) = self.store(handle)?;
        let is_on_disk = !io.logs.view(store.handle).is_in_memory_only();
        if let Some(shared) = io.logs.shared_mut() {
            shared.end_install(store.handle)?;
        }
        if is_on_disk && !is_planted(Bug::InstallEndNotSynced) {
            self.flush_shared(true)?;
        }
        self.io.disk.reached(CrashPoint::InstallEnded);
        let Engine { partitions, maintenance, .. } = self;
        let store = store_of(partitions, handle)?;
        store.incoming = InstallState::No;
        if is_on_disk {
            // A mark must confirm what was synced.
            store.is_dirty = true;
            maintenance.sync_later(handle, store.durability.sync_after_ms());
        }
        Ok(())
    }
}
