//! Limits that the benchmarks share, with their reasons.

use std::time::Duration;

/// How long the generator waits for an answer; then the server counts as failed.
pub const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// How often the driver checks whether a run has ended; both share the machine.
pub const POLL: Duration = Duration::from_millis(20);

/// Events of one turn of a loop: more connections than any case has.
pub const EVENTS_MAX: usize = 256;

/// Receive buffer of a connection: one turn of the deepest case (32 values and their headers).
pub const RECEIVE_BYTES: usize = 64 << 10;

/// Time limit until servers serve; `ceph-osd` creates its store first.
pub const SERVING: Duration = Duration::from_secs(60);

/// Polling interval of that.
pub const STATUS_POLL: Duration = Duration::from_millis(100);

/// Time limit of an administrator's command.
pub const COMMAND: Duration = Duration::from_secs(30);

/// Time limit of a server's clean shutdown.
pub const END: Duration = Duration::from_secs(30);

/// Time limit of `initdb` of PostgreSQL, which writes some 40 MiB.
pub const POSTGRESQL_INIT: Duration = Duration::from_secs(120);
