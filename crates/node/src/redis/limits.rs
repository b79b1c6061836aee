//! Every bound of this module, each with its reason.

/// Units of the clients of one instance that are under way: at others, held until they are durable, or waiting. A client
/// has at most 1024 of them; beyond this its commands are refused.
pub(crate) const UNDER_WAY_MAX: usize = 1 << 16;

/// For how long a unit may be under way at another instance. One that does not answer for so long is stuck with its disk.
pub(crate) const FORWARD_TIME_OUT_MS: u64 = 10_000;

/// Bytes of units for one other instance that are gathered in a batch: beyond it commands are refused, as their replies would
/// be late anyway.
pub(crate) const OUTGOING_BYTES_MAX: usize = 64 << 20;

/// Steps of commands that ask all partitions in one turn of the loop: each looks at a thousand keys, which takes about a
/// millisecond.
pub(crate) const STEPS_PER_TURN_MAX: usize = 4;

/// Such steps that wait. Each command under way has at most 32 of them.
pub(crate) const STEPS_WAITING_MAX: usize = 1 << 14;

/// How long a unit that waits for a key waits at a time: less than a day, which is the most that a partition takes.
pub(crate) const WAIT_MS_MAX: u64 = 60 * 60 * 1000;

/// When to ask again what was refused for want of room.
pub(crate) const BUSY_RETRY_MS: u32 = 10;
