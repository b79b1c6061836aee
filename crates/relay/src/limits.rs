//! Every bound of this crate, each with its reason.

/// Units of one instance's clients that are under way: waiting for durability or for a record; and
/// as many that others run. A client has at most 1024 of them; beyond this its commands are
/// refused.
pub(crate) const UNDER_WAY_MAX: usize = 1 << 16;

/// Records that are fetched concurrently for one unit over several partitions.
pub(crate) const FETCHES_MAX: usize = 256;

/// How long to wait for the outcome of a write at an instance that is no longer primary. It knows
/// the outcome at once, if the question reaches it.
pub(crate) const DEPOSED_MS: u64 = 1_000;

/// The same for an instance that the map says is down. One that shuts down cleanly turns units back;
/// one that has failed is silent.
pub(crate) const LEFT_MS: u64 = 500;

/// How long a stopping instance delays new writes for other primaries. After that no instance takes
/// over, and it serves on until it stops.
pub(crate) const YIELD_MS: u64 = 2_000;

/// Longest writing unit of which a copy is kept until commit. It runs again if its primary is
/// deposed and its entry is not in the surviving log.
pub(crate) const RETRY_COPY_BYTES_MAX: usize = 4 << 10;

/// Pause before a unit is retried that could not run. A primary is ready within milliseconds of its
/// promotion.
pub(crate) const RETRY_MS: u64 = 10;

/// Bytes of units that are kept until they are replied to: what a fast network delivers in the two
/// seconds of a failover. Further units are refused.
pub(crate) const RELAYED_BYTES_MAX: usize = 256 << 20;

/// Bytes that wait to be sent on one connection between instances. Beyond it units wait, and units
/// of other instances are refused for retry.
pub(crate) const WIRE_BYTES_MAX: usize = 64 << 20;

/// Longest piece of a unit or reply: half a millisecond of a slow network, which delays a lease.
pub const PIECE_BYTES_MAX: usize = 256 << 10;

/// Unsent bytes of a connection above which no more pieces are added. The reactor then still reads
/// from the other end, and leases and entries have room.
pub const WIRE_UNSENT_BYTES_MAX: usize = 512 << 10;

/// The longest unit or reply: a transaction of the most bytes with the most and longest watched
/// keys.
pub(crate) const UNIT_BYTES_MAX: usize = 128 << 20;

/// Units refused for retry that are remembered per sender. Units that follow a forgotten one are
/// refused too, which costs a retry.
pub(crate) const SENT_BACK_MAX: usize = 1 << 14;

/// Steps of commands over all partitions in one turn of the loop: each reads a thousand keys, in
/// about a millisecond.
pub(crate) const STEPS_PER_TURN_MAX: usize = 4;

/// Such steps that wait. Each command under way has at most 32 of them.
pub(crate) const STEPS_WAITING_MAX: usize = 1 << 14;

/// The longest single wait of a unit for a key: below a day, which is the most that a partition
/// accepts.
pub(crate) const WAIT_MS_MAX: u64 = 60 * 60 * 1000;

/// How long nothing is read from a client that has sent a wrong password. A person does not notice;
/// guessing of passwords becomes too slow.
pub(crate) const WRONG_PASSWORD_DELAY_MS: u64 = 500;

/// The least time between two log lines about wrong passwords.
pub(crate) const WRONG_PASSWORD_LOG_INTERVAL_MS: u64 = 10_000;

/// When to repeat what was refused for lack of room.
pub(crate) const BUSY_RETRY_MS: u32 = 10;

/// Bytes of units for one other instance of the node in one batch; further units wait for the next.
pub(crate) const OUTGOING_BYTES_MAX: usize = 64 << 20;
