//! A connection to the manager's port, as long as it is served.

use std::rc::Rc;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use zerohop_reactor::UnprovenSlot;
use zerohop_system::descriptors::CountedConnection;

use super::shared::ManagerShared;

/// A connection, which counts as long as this value lives.
#[derive(Debug)]
pub(super) struct ManagerConnectionGuard {
    pub(super) shared: Rc<ManagerShared>,
    key: u64,
    slot: UnprovenSlot,
    /// When it is closed if it is still unauthenticated.
    pub(super) due: Instant,
    _counted: CountedConnection,
}

impl ManagerConnectionGuard {
    pub(super) fn new(
        shared: &Rc<ManagerShared>,
        key: u64,
        place: UnprovenSlot,
        counted: CountedConnection,
    ) -> ManagerConnectionGuard {
        let due = Instant::now() + shared.about.connections.unproven_time_out;
        ManagerConnectionGuard { shared: Rc::clone(shared), key, slot: place, due, _counted: counted }
    }

    /// Sets the task that must end if the place is needed.
    pub(super) fn is_served_by(shared: &ManagerShared, (key, place): (u64, UnprovenSlot), task: AbortHandle) {
        if !task.is_finished() {
            shared.door.borrow_mut().is_served_by((key, place), task);
        }
    }

    /// Records that the connection has authenticated itself.
    pub(super) fn is_known(&self) {
        self.shared.door.borrow_mut().is_known(self.key, self.slot);
    }
}

impl Drop for ManagerConnectionGuard {
    fn drop(&mut self) {
        self.shared.door.borrow_mut().leave(self.key, self.slot);
    }
}
