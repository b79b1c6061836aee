//! Bounds of what an instance says to others, each with its reason.

use zerohop_partition::limits::{SESSION_IDLE_MS, SESSIONS_MAX, SNAPSHOTS_MAX};

use crate::reactor::limits::UNSENT_BYTES_END;

/// Bytes on their way to one instance from which no more entries are added: a tenth of a second of a slow network, a
/// quarter of a lease. What is let lie is sent again, 60 ms later.
pub(crate) const LINK_UNSENT_BYTES_MAX: usize = 8 << 20;

/// The same for leases and acknowledgements, which take next to nothing.
pub(crate) const LINK_UNSENT_SMALL_MAX: usize = LINK_UNSENT_BYTES_MAX + (4 << 20);

/// Bytes that wait for an instance to greet: what a partition sends at first.
pub(crate) const LINK_HELD_BYTES_MAX: usize = 1 << 20;

/// Pause before an instance is called again that did not answer, at first and at most. Short, as a process that starts
/// again is back within it and its groups wait for it.
pub(crate) const LINK_RETRY_MS_MIN: u64 = 5;
/// See [`LINK_RETRY_MS_MIN`].
pub(crate) const LINK_RETRY_MS_MAX: u64 = 500;

/// Starts that an instance's disk remembers to have lived through. A group that names an older one takes the instance for
/// a new one: its log is compared with the primary's, and nothing is lost by it.
pub(crate) const STARTS_MAX: usize = 64;

/// Snapshots of one partition that one token may have open: a quarter of what a partition keeps.
pub(crate) const TOKEN_SNAPSHOTS_MAX: usize = SNAPSHOTS_MAX / 4;

/// Those of all tokens together: the others are for who knows the secret, such as backups.
pub(crate) const TOKENS_SNAPSHOTS_MAX: usize = SNAPSHOTS_MAX / 4 * 3;

/// Sessions in which one token writes at one instance: a quarter of what a partition remembers. A client has one.
pub(crate) const TOKEN_SESSIONS_MAX: usize = SESSIONS_MAX / 4;

/// A session in which nothing was written for so long counts no more: partitions forget it too.
pub(crate) const TOKEN_SESSION_IDLE_MS: u64 = SESSION_IDLE_MS;

/// What a request that waits for a record takes, beside its key, twice, and the value that it compares.
pub(crate) const WAIT_BYTES: usize = 200;

// A message of the longest kind on top does not end the connection.
const _: () = assert!(LINK_UNSENT_SMALL_MAX + zerohop_wire::limits::BODY_BYTES_MAX < UNSENT_BYTES_END);
