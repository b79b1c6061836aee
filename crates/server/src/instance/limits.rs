//! Limits of an instance's messages to others and of its tokens, each with its reason.

use zerohop_partition::limits::{SESSION_IDLE_MS, SESSIONS_MAX, SNAPSHOTS_MAX};
use zerohop_reactor::limits::UNSENT_BYTES_END;

/// Number of bytes in flight to one instance from which no more entries are added: a tenth of a second of a slow network, a quarter of a lease.
/// Dropped messages are sent again 60 ms later.
pub(crate) const LINK_UNSENT_BYTES_MAX: usize = 8 << 20;

/// The same for leases and acknowledgements, which need very little.
pub(crate) const LINK_UNSENT_SMALL_MAX: usize = LINK_UNSENT_BYTES_MAX + (4 << 20);

/// Maximum number of bytes that wait for the greeting of an instance: the first messages of a partition.
pub(crate) const LINK_QUEUED_BYTES_MAX: usize = 1 << 20;

/// Minimum and maximum pause before the next connection attempt to an instance that did not answer. It is short, because a restarted process
/// returns within it and its groups wait for it.
pub(crate) const LINK_RETRY_MS_MIN: u64 = 5;
/// See [`LINK_RETRY_MS_MIN`].
pub(crate) const LINK_RETRY_MS_MAX: u64 = 500;

/// How long waits of operations are recorded after the last request for them.
pub(crate) const RECORDING_MS: u64 = 10_000;

/// Number of flushes whose ends are kept while waits are recorded: an answer that waits for other instances is seldom more flushes behind.
pub(crate) const FLUSH_ENDS_MAX: usize = 64;

/// Maximum number of answers whose writing to a socket is recorded at the same time; further ones are not counted.
pub(crate) const UNWRITTEN_MAX: usize = 65_536;

/// Maximum number of snapshots of one partition for one token: a quarter of the partition's limit.
pub(crate) const TOKEN_SNAPSHOTS_MAX: usize = SNAPSHOTS_MAX / 4;

/// Maximum number of snapshots for all tokens together: the others are for clients with the secret, such as backups.
pub(crate) const TOKENS_SNAPSHOTS_MAX: usize = SNAPSHOTS_MAX / 4 * 3;

/// Maximum number of sessions in which one token writes at one instance: a quarter of the limit of a partition. A client has one.
pub(crate) const TOKEN_SESSIONS_MAX: usize = SESSIONS_MAX / 4;

/// A session without a write for this long no longer counts: partitions forget it too.
pub(crate) const TOKEN_SESSION_IDLE_MS: u64 = SESSION_IDLE_MS;

/// Memory of a request that waits for a record or for changes, in addition to its keys, and the value that it compares. The key of a record is kept twice.
pub(crate) const WAIT_BYTES: usize = 200;

// An additional message of maximum length does not end the connection.
const _: () = assert!(LINK_UNSENT_SMALL_MAX + zerohop_wire::limits::BODY_BYTES_MAX < UNSENT_BYTES_END);
