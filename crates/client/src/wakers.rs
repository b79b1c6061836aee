//! Wakers of the sockets: each socket has its own waker, which records its position and wakes the driver.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// The positions of the sockets that are ready, and the waker of the driver.
#[derive(Debug, Default)]
pub(crate) struct ReadySockets(Mutex<ReadyState>);

#[derive(Debug, Default)]
struct ReadyState {
    ready: Vec<usize>,
    driver: Option<Waker>,
}

impl ReadySockets {
    /// The waker of the socket at this position.
    pub(crate) fn waker(self: &Arc<Self>, place: usize) -> Waker {
        Arc::new(SocketWaker { ready: Arc::clone(self), socket_index: place }).into()
    }

    /// Moves the recorded positions into `into`, and sets the waker that the next event wakes.
    pub(crate) fn take_ready(&self, driver: &Waker, into: &mut Vec<usize>) {
        into.clear();
        let mut noted = self.lock();
        std::mem::swap(&mut noted.ready, into);
        match &mut noted.driver {
            Some(waker) => waker.clone_from(driver),
            none => *none = Some(driver.clone()),
        }
    }

    fn record_ready(&self, place: usize) {
        let mut noted = self.lock();
        if !noted.ready.contains(&place) {
            noted.ready.push(place);
        }
        let driver = noted.driver.clone();
        drop(noted);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReadyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct SocketWaker {
    ready: Arc<ReadySockets>,
    socket_index: usize,
}

impl Wake for SocketWaker {
    fn wake(self: Arc<Self>) {
        self.ready.record_ready(self.socket_index);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready.record_ready(self.socket_index);
    }
}
