//! The hosts of a cluster whose nodes start together, from a list, a file, or the batch scheduler's environment; and the position of a process
//! among them. Pure: the environment and the system's data are arguments.

mod expand;
mod place;

pub use expand::{HOSTS_MAX, HostEntry, HostsError, expand};
pub use place::{Scheduler, SchedulerHosts, find_self, of_scheduler};

/// The default port of managers.
pub const PORT_DEFAULT: u16 = 7400;
