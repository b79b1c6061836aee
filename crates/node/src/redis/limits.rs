//! Every bound of this module, each with its reason.

use std::time::Duration;

/// Units of the clients of one instance that are under way: held until they are durable, or waiting; and as many that are to be
/// run by others. A client has at most 1024 of them; beyond this its commands are refused.
pub(crate) const UNDER_WAY_MAX: usize = 1 << 16;

/// For how long a unit waits for its partition to be served, all attempts together, unless the node is told otherwise. Twice the two
/// seconds of a failover, and longer than the three for which a node that stops in order hands over; what does not answer for so long is cut
/// off, or stuck with its disk, and programs want to know.
pub const TIME_OUT_DEFAULT: Duration = Duration::from_secs(4);

/// The shortest such time: below it every restart would be an error.
pub const TIME_OUT_MIN: Duration = Duration::from_millis(500);

/// The longest: for what waits longer a program needs no answer.
pub const TIME_OUT_MAX: Duration = Duration::from_secs(600);

/// For how long what became of a write is waited for at an instance that is not the primary any more. It knows at once, if it
/// hears of the question at all.
pub(crate) const DEPOSED_MS: u64 = 1_000;

/// The same of an instance that the map says is down: one that ends in order turns back what reaches it, and one that has failed
/// says nothing.
pub(crate) const LEFT_MS: u64 = 500;

/// For how long an instance that is about to stop has new writes wait for other primaries. Beyond that nobody takes over, and it
/// serves on until it stops.
pub(crate) const YIELD_MS: u64 = 2_000;

/// Longest unit that writes of which a copy is kept until it is committed: it is run again if its primary is deposed and its entry is
/// not in the log that goes on.
pub(crate) const KEPT_BYTES_MAX: usize = 4 << 10;

/// When a unit that could not be run is tried again: nothing is lost by it, and a primary that has just been promoted is
/// ready within milliseconds.
pub(crate) const RETRY_MS: u64 = 10;

/// Bytes of units that are kept until they are replied to: two seconds of a fast network are waited for in a failover, and who
/// has more under way is refused.
pub(crate) const RELAYED_BYTES_MAX: usize = 256 << 20;

/// Bytes of units for one other instance of the node that are gathered in a batch: beyond it they wait for the next.
pub(crate) const OUTGOING_BYTES_MAX: usize = 64 << 20;

/// Bytes that wait to be sent on one connection between instances: beyond it units wait, and other instances' units are turned
/// back.
pub(crate) const WIRE_BYTES_MAX: usize = 64 << 20;

/// Longest piece of a unit or reply: half a millisecond of a slow network, for which a lease behind it waits.
pub(crate) const PIECE_BYTES_MAX: usize = 256 << 10;

/// Bytes on their way on a connection from which no more pieces are added: so few that the other end is read on, whatever it
/// says, and that leases and entries find room.
pub(crate) const WIRE_UNSENT_BYTES_MAX: usize = 512 << 10;

/// The longest unit or reply: a transaction of the most bytes behind the most and longest watched keys.
pub(crate) const WHOLE_BYTES_MAX: usize = 128 << 20;

/// Units of one sender that are remembered as turned back. Those behind earlier ones are turned back too, which costs them a
/// retry.
pub(crate) const TURNED_MAX: usize = 1 << 14;

/// Steps of commands that ask all partitions in one turn of the loop: each looks at a thousand keys, which takes about a
/// millisecond.
pub(crate) const STEPS_PER_TURN_MAX: usize = 4;

/// Such steps that wait. Each command under way has at most 32 of them.
pub(crate) const STEPS_WAITING_MAX: usize = 1 << 14;

/// How long a unit that waits for a key waits at a time: less than a day, which is the most that a partition takes.
pub(crate) const WAIT_MS_MAX: u64 = 60 * 60 * 1000;

/// For how long nothing is taken up from a client that has shown a wrong password: a person does not notice, and who tries many
/// gets nowhere.
pub(crate) const WRONG_PASSWORD_DELAY_MS: u64 = 500;

/// Wrong passwords are told in the log this often at most.
pub(crate) const WRONG_PASSWORD_TOLD_EVERY_MS: u64 = 10_000;

/// When to ask again what was refused for want of room.
pub(crate) const BUSY_RETRY_MS: u32 = 10;

const _: () = assert!(WIRE_UNSENT_BYTES_MAX + PIECE_BYTES_MAX < crate::reactor::UNSENT_BYTES_MAX);
