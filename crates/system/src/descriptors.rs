//! The division of the process's descriptors, so that connections never use those that data needs.
//!
//! The system assigns the lowest free number to each new descriptor. If a socket's number is not below [`Descriptors::sockets_end`], all but the
//! last few are in use. Such a socket is closed at once, and the rest remains for data files, journals, checkpoints and the control log. A quarter
//! of all descriptors is for files; a disk that would open more closes the least recently used file.

use std::fmt;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors other than data files and connections: listeners, event queues, pipes, the control log, small files that are replaced atomically.
const OTHERS: u64 = 32;

/// The same for each instance.
const OTHERS_PER_INSTANCE: u64 = 8;

/// The share of files: one of this many descriptors.
const FILES_ONE_OF: u64 = 4;

/// Minimum number of files that a disk keeps open: a log, a journal, a checkpoint, a compaction, and a file that is opened for a sync.
const DISK_MIN: u64 = 8;

/// Maximum number of files that a disk keeps open, however many the process may have.
const DISK_MAX: u64 = 4096;

/// The last descriptors of connections, which serve to tell clients why they are not served.
const REFUSALS: RawFd = 8;

/// Number of instances of this process. The limit belongs to the process, too.
static INSTANCES: AtomicU64 = AtomicU64::new(1);

/// The number of descriptors for each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// The process's limit; `None`: no limit.
    limit: Option<u64>,
    instances: u64,
}

impl Descriptors {
    /// The division for a process with this limit, and this many instances with their disks.
    #[must_use]
    pub const fn new(limit: Option<u64>, instances: u64) -> Self {
        Descriptors { limit, instances }
    }

    /// Divides this process's descriptors among its instances, and raises its limit to the permitted maximum: the usual limit is meant for programs
    /// that need few.
    pub fn share_among(instances: usize) -> Self {
        INSTANCES.fetch_max(instances as u64, Ordering::Relaxed);
        Self::of_process()
    }

    /// The division in this process.
    #[must_use]
    pub fn of_process() -> Self {
        let instances = INSTANCES.load(Ordering::Relaxed);
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // If the system refuses, the old limit stays.
        let allowed = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
        Self::new(allowed, instances)
    }

    /// The process's limit; `None`: no limit.
    #[must_use]
    pub const fn limit(self) -> Option<u64> {
        self.limit
    }

    /// Maximum number of files that each disk keeps open.
    #[must_use]
    pub fn of_disk(self) -> usize {
        let share = self.limit.map_or(DISK_MAX, |limit| limit / FILES_ONE_OF / self.instances.max(1));
        usize::try_from(share.clamp(DISK_MIN, DISK_MAX)).unwrap_or(usize::MAX)
    }

    /// Number of descriptors that connections never use.
    #[must_use]
    pub fn reserved(self) -> u64 {
        self.of_disk() as u64 * self.instances + OTHERS_PER_INSTANCE * self.instances + OTHERS
    }

    /// Sockets with at least this number are closed.
    #[must_use]
    pub fn sockets_end(self) -> RawFd {
        let end = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.reserved()));
        RawFd::try_from(end).unwrap_or(RawFd::MAX)
    }

    /// Whether a socket uses a descriptor that is reserved for data.
    #[must_use]
    pub fn refuses(self, socket: &impl AsRawFd) -> bool {
        socket.as_raw_fd() >= self.sockets_end()
    }

    /// Whether a socket uses one of the last descriptors of connections: it is only told why it is not served.
    #[must_use]
    pub fn are_short_for(self, socket: &impl AsRawFd) -> bool {
        socket.as_raw_fd() >= self.sockets_end() - REFUSALS
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
    fn both_limits_are_reported() {
        let words = |limit| Descriptors::new(limit, 2).to_string();
        assert_eq!(words(Some(1024)), "1024 descriptors, of which connections leave 304 to data");
        assert_eq!(words(None), "any number of descriptors, of which data takes 8240 at most");
    }

    #[test]
    fn files_get_a_quarter_of_descriptors_and_connections_the_rest() {
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
    fn too_few_descriptors_are_reported() {
        assert!(Descriptors::new(Some(64), 2).is_too_few());
        assert!(!Descriptors::new(Some(256), 2).is_too_few());
    }
}
