//! The division of the process's descriptors, so that connections never use those that data needs.
//!
//! Connections of a process are counted, and one beyond [`Descriptors::connections_max`] is closed at once, so that the rest remains for data files,
//! journals, checkpoints and the control log. The number of a socket does not show how many connections there are: the system assigns the lowest
//! free number, and files that are open use low numbers too. A quarter of all descriptors is for files; a disk that would open more closes the least
//! recently used file.

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
const REFUSALS: u64 = 8;

/// Number of connections of this process, over all its instances.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// Number of instances of this process. The limit belongs to the process, too.
static INSTANCES: AtomicU64 = AtomicU64::new(1);

/// The number of descriptors for each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// The process's limit; `None`: no limit.
    limit: Option<u64>,
    instances: u64,
}

/// What may be done with a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRoom {
    /// It is served.
    Service,
    /// It is one of the last: it only gets the reason why it is not served.
    Refusal,
    /// It is closed at once: data needs the descriptors that are left.
    Closed,
}

/// A connection of this process, which counts until this value is dropped.
#[derive(Debug)]
pub struct CountedConnection {
    /// Number of connections when this one was counted.
    others: u64,
}

impl CountedConnection {
    /// Counts a connection.
    #[must_use]
    pub fn count() -> Self {
        CountedConnection { others: CONNECTIONS.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
    }
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

    /// Maximum number of connections; more are closed.
    #[must_use]
    pub fn connections_max(self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.reserved()))
    }

    /// What may be done with a new connection.
    #[must_use]
    pub fn room_for(self, connection: &CountedConnection, socket: &impl AsRawFd) -> ConnectionRoom {
        self.room_beside(connection.others, socket.as_raw_fd())
    }

    /// The same beside this many connections, for a socket with this number.
    fn room_beside(self, others: u64, socket: RawFd) -> ConnectionRoom {
        // The lowest free number is assigned: a high one shows that others than connections use more than is reserved for them.
        let is_last = self.limit.is_some_and(|limit| u64::from(socket.unsigned_abs()) + REFUSALS >= limit);
        match self.connections_max() {
            max if is_last || others >= max => ConnectionRoom::Closed,
            max if others >= max.saturating_sub(REFUSALS) => ConnectionRoom::Refusal,
            _ => ConnectionRoom::Service,
        }
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
        assert_eq!((usual.of_disk(), usual.reserved(), usual.connections_max()), (128, 304, 720));
        let many = Descriptors::new(Some(1024), 16);
        assert_eq!((many.of_disk(), many.reserved(), many.connections_max()), (16, 416, 608));
        let large = Descriptors::new(Some(1 << 20), 2);
        assert_eq!((large.of_disk(), large.connections_max()), (4096, (1 << 20) - 8192 - 16 - 32));
        let unlimited = Descriptors::new(None, 2);
        assert_eq!((unlimited.of_disk(), unlimited.connections_max()), (4096, u64::MAX));
    }

    #[test]
    fn connections_are_limited_by_their_number_and_not_by_those_of_open_files() {
        let few = Descriptors::new(Some(128), 2);
        assert_eq!((few.reserved(), few.connections_max()), (80, 48));
        // Files that use what is reserved leave high numbers to the first socket.
        assert_eq!(few.room_beside(0, 79), ConnectionRoom::Service);
        assert_eq!(few.room_beside(39, 119), ConnectionRoom::Service);
        assert_eq!(few.room_beside(40, 60), ConnectionRoom::Refusal);
        assert_eq!(few.room_beside(48, 60), ConnectionRoom::Closed);
        // Others use more than is reserved for them.
        assert_eq!(few.room_beside(0, 120), ConnectionRoom::Closed);
        assert_eq!(Descriptors::new(None, 2).room_beside(1 << 20, 1 << 20), ConnectionRoom::Service);
    }

    #[test]
    fn dropped_connections_do_not_count() {
        let counted = [(); 100].map(|()| CountedConnection::count());
        let others = counted.map(|connection| connection.others);
        assert!(others.is_sorted() && others[99] >= 99);
        // Other tests may count at the same time, but not a hundred.
        assert!(CountedConnection::count().others < others[99]);
    }

    #[test]
    fn too_few_descriptors_are_reported() {
        assert!(Descriptors::new(Some(64), 2).is_too_few());
        assert!(!Descriptors::new(Some(256), 2).is_too_few());
    }
}
