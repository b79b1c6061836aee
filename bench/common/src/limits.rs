//! Bounds that the benchmarks share, with their reasons.

use std::time::Duration;

/// How long the generator waits for any answer; a server that is silent for so long is taken as dead.
pub const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// How often the driver looks whether a run has ended; it shares the machine with it.
pub const POLL: Duration = Duration::from_millis(20);

/// Events taken in one turn of a loop: more connections than any case has.
pub const EVENTS_MAX: usize = 256;

/// Receive buffer of a connection: a read takes a turn's worth of the deepest case (32 values and their headers).
pub const RECEIVE_BYTES: usize = 64 << 10;

/// How long servers may take until they serve; `ceph-osd` makes its store first.
pub const SERVING: Duration = Duration::from_secs(60);

/// How often they are asked.
pub const STATUS_POLL: Duration = Duration::from_millis(100);

/// How long an administrator's command may take.
pub const COMMAND: Duration = Duration::from_secs(30);

/// How long a server may take to end when asked to.
pub const END: Duration = Duration::from_secs(30);
