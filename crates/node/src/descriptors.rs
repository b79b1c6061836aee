//! How the descriptors of the process are shared out, so that connections never take those that data needs.
//!
//! The system gives each new descriptor the lowest free number. A socket whose number is not below
//! [`Descriptors::sockets_end`] therefore says that all but the last few are in use: it is closed at once, and what is left goes
//! to data files, journals, checkpoints and the control log. A quarter of all is for files; a disk that would open more closes
//! the file that was used longest ago.

use std::fmt;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors beside data files and connections: listeners, event queues, pipes, the control log, small files that are
/// replaced as a whole.
const OTHERS: u64 = 32;

/// The same of each instance.
const OTHERS_PER_INSTANCE: u64 = 8;

/// Files are given so many of all descriptors: one of this number.
const FILES_ONE_OF: u64 = 4;

/// Files that a disk keeps open at least: a log, a journal, a checkpoint, a compaction, and what is opened to be synced.
const DISK_MIN: u64 = 8;

/// Files that a disk keeps open at most, however many the process may have.
const DISK_MAX: u64 = 4096;

/// Of this process. The limit is the process's, too.
static INSTANCES: AtomicU64 = AtomicU64::new(1);

/// What each use of descriptors may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// How many the process may have; `None`: no limit.
    limit: Option<u64>,
    instances: u64,
}

impl Descriptors {
    /// Of a process that may have so many, with so many instances and their disks.
    #[must_use]
    pub const fn new(limit: Option<u64>, instances: u64) -> Self {
        Descriptors { limit, instances }
    }

    /// Has this process share its descriptors among so many instances, and raises its limit to the highest that it may have: the
    /// usual one is meant for programs that wait on few.
    pub fn share_among(instances: usize) -> Self {
        INSTANCES.fetch_max(instances as u64, Ordering::Relaxed);
        Self::here()
    }

    /// As this process shares them.
    #[must_use]
    pub fn here() -> Self {
        let instances = INSTANCES.load(Ordering::Relaxed);
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // If it is refused, the old limit holds.
        let allowed = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
        Self::new(allowed, instances)
    }

    /// How many the process may have; `None`: no limit.
    #[must_use]
    pub const fn limit(self) -> Option<u64> {
        self.limit
    }

    /// Files that each disk keeps open at most.
    #[must_use]
    pub fn of_disk(self) -> usize {
        let share = self.limit.map_or(DISK_MAX, |limit| limit / FILES_ONE_OF / self.instances.max(1));
        usize::try_from(share.clamp(DISK_MIN, DISK_MAX)).unwrap_or(usize::MAX)
    }

    /// Descriptors that connections never take.
    #[must_use]
    pub fn reserved(self) -> u64 {
        self.of_disk() as u64 * self.instances + OTHERS_PER_INSTANCE * self.instances + OTHERS
    }

    /// Sockets from this number on are closed.
    #[must_use]
    pub fn sockets_end(self) -> RawFd {
        let end = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.reserved()));
        RawFd::try_from(end).unwrap_or(RawFd::MAX)
    }

    /// Whether a socket takes a descriptor that is kept for data.
    #[must_use]
    pub fn refuses(self, socket: &impl AsRawFd) -> bool {
        socket.as_raw_fd() >= self.sockets_end()
    }

    /// Whether there are too few for any connection.
    #[must_use]
    pub fn is_too_few(self) -> bool {
        self.limit.is_some_and(|limit| limit < self.reserved() + OTHERS)
    }
}

impl fmt::Display for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reserved = self.reserved();
        match self.limit {
            Some(limit) => write!(f, "{limit} descriptors, of which connections leave {reserved} to data"),
            None => write!(f, "any number of descriptors, of which data takes {reserved} at most"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_are_told() {
        let told = |limit| Descriptors::new(limit, 2).to_string();
        assert_eq!(told(Some(1024)), "1024 descriptors, of which connections leave 304 to data");
        assert_eq!(told(None), "any number of descriptors, of which data takes 8240 at most");
    }

    #[test]
    fn files_have_a_quarter_and_connections_what_is_left() {
        let usual = Descriptors::new(Some(1024), 2);
        assert_eq!((usual.of_disk(), usual.reserved(), usual.sockets_end()), (128, 304, 720));
        let many = Descriptors::new(Some(1024), 16);
        assert_eq!((many.of_disk(), many.reserved(), many.sockets_end()), (16, 416, 608));
        let large = Descriptors::new(Some(1 << 20), 2);
        assert_eq!((large.of_disk(), large.sockets_end()), (4096, (1 << 20) - 8192 - 16 - 32));
        let unlimited = Descriptors::new(None, 2);
        assert_eq!((unlimited.of_disk(), unlimited.sockets_end()), (4096, RawFd::MAX));
    }

    #[test]
    fn too_few_for_any_connection_is_told() {
        assert!(Descriptors::new(Some(64), 2).is_too_few());
        assert!(!Descriptors::new(Some(256), 2).is_too_few());
    }
}
