//! The hosts of a cluster that starts all at once: from a list, a file, or the batch scheduler's environment; and which of
//! them a process is. Pure: what the environment and the system say comes in as arguments.

mod expand;
mod place;

pub use expand::{HOSTS_MAX, HostsError, ListedHost, expand};
pub use place::{Scheduler, SchedulerHosts, find_self, of_scheduler};

/// The port of managers where a list names none.
pub const PORT_DEFAULT: u16 = 7400;
